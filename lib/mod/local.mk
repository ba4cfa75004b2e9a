# the mod room
