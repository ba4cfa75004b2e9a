# the optim room
