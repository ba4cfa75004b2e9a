# the train room
