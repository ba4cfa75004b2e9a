# the examples folder
