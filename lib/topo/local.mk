# topo: the hardware of this node
lib_libaccel_core_la_SOURCES += \
	lib/topo/topo.h \
	lib/topo/topo_priv.h \
	lib/topo/topo.c \
	lib/topo/devices.c \
	lib/topo/binding.c

unit_tests += tests/unit/test_topo
tests_unit_test_topo_CPPFLAGS = $(unit_cppflags)
tests_unit_test_topo_LDADD = $(unit_ldadd)

dist_noinst_DATA += \
	tests/data/topo/cgroup.xml \
	tests/data/topo/two_sockets_gpus.xml

dist_man_MANS += man/accel_topo.3
