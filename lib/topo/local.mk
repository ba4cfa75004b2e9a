# the topo room
