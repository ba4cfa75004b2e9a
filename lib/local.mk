# libaccel_core.la holds every room, with internal symbols reachable for the
# unit tests; libaccel.la is the same with only accel_* exported.
noinst_LTLIBRARIES += lib/libaccel_core.la
lib_LTLIBRARIES += lib/libaccel.la

core_cppflags = $(AM_CPPFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS) \
	$(XXHASH_CFLAGS) $(HDF5_CFLAGS) $(JANSSON_CFLAGS) \
	-DAX_MODULE_DIR='"$(moduledir)"' -DAX_SYSCONF_DIR='"$(sysconfdir)"'

lib_libaccel_core_la_CPPFLAGS = $(core_cppflags)
lib_libaccel_core_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
lib_libaccel_core_la_LIBADD = $(PMIX_LIBS) $(HWLOC_LIBS) $(XXHASH_LIBS) \
	$(HDF5_LIBS)
lib_libaccel_core_la_SOURCES =

include lib/base/local.mk
include lib/topo/local.mk
include lib/job/local.mk
include lib/mod/local.mk
include lib/net/local.mk
include lib/comm/local.mk
include lib/optim/local.mk
include lib/loader/local.mk
include lib/ckpt/local.mk
include lib/train/local.mk

include_HEADERS = lib/accel.h
accelincludedir = $(includedir)/accel
accelinclude_HEADERS = \
	lib/accel/base.h \
	lib/accel/settings.h \
	lib/accel/job.h \
	lib/accel/mpi.h \
	lib/accel/topo.h \
	lib/accel/comm.h \
	lib/accel/optim.h \
	lib/accel/dataset.h \
	lib/accel/loader.h \
	lib/accel/ckpt.h \
	lib/accel/train.h \
	lib/accel/model.h \
	lib/accel/progress.h \
	lib/accel/rng.h
nodist_accelinclude_HEADERS = lib/accel/version.h

lib_libaccel_la_SOURCES =
lib_libaccel_la_LIBADD = lib/libaccel_core.la
lib_libaccel_la_LDFLAGS = -version-info $(ACCEL_LT_VERSION) \
	-Wl,--version-script=$(srcdir)/lib/libaccel.map
if !SANITIZER
lib_libaccel_la_LDFLAGS += -Wl,-z,defs
endif
EXTRA_lib_libaccel_la_DEPENDENCIES = lib/libaccel.map
EXTRA_DIST += lib/libaccel.map
