# the ckpt room
