# the net room
