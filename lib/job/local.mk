# the job room
