# net: memory shared inside a node; bytes between two nodes
lib_libaccel_core_la_SOURCES += \
	lib/net/map.c \
	lib/net/meet.c \
	lib/net/net.c \
	lib/net/net.h \
	lib/net/seg.c \
	lib/net/seg.h
