# comm: bytes among all ranks
lib_libaccel_core_la_SOURCES += \
	lib/comm/comm.c \
	lib/comm/comm.h \
	lib/comm/comm_priv.h \
	lib/comm/enter.c \
	lib/comm/fault.c \
	lib/comm/heap.c \
	lib/comm/inter.c \
	lib/comm/inter_priv.h \
	lib/comm/news.c \
	lib/comm/node.c \
	lib/comm/ops.c \
	lib/comm/wait.c

check_PROGRAMS += tests/multi/mp_comm
tests_multi_mp_comm_CPPFLAGS = $(core_cppflags)
tests_multi_mp_comm_LDADD = lib/libaccel_core.la
