# the man folder
