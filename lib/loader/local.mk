# the loader room
