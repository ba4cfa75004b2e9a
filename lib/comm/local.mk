# the comm room
