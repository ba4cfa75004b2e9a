# the src folder
