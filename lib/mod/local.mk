# mod: optional parts of the library, loaded when they are needed
lib_libaccel_core_la_SOURCES += \
	lib/mod/mod.h \
	lib/mod/mod.c
