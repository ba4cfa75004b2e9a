# the spank folder
