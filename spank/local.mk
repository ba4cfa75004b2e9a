# The Slurm plugin: links nothing but libc, shares base/spec.c with the library
if HAVE_SLURM
spank_LTLIBRARIES = spank/spank_accel.la
endif

spank_sources = \
	spank/spank_priv.h \
	spank/spank_accel.c \
	spank/options.c \
	spank/cmdline.c \
	spank/tasks.c \
	lib/base/spec.h \
	lib/base/spec.c

spank_spank_accel_la_SOURCES = $(spank_sources)
spank_spank_accel_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
spank_spank_accel_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden \
	-fstack-protector-strong
# spank_* are srun's and slurmstepd's own: they stay undefined. Not "-z now":
# a symbol that this Slurm lacks would then make the plugin unloadable.
spank_spank_accel_la_LDFLAGS = -module -avoid-version -shared \
	-Wl,--as-needed -Wl,-z,relro -Wl,-z,noexecstack \
	-Wl,--version-script=$(srcdir)/spank/spank_accel.map
EXTRA_spank_spank_accel_la_DEPENDENCIES = spank/spank_accel.map
EXTRA_DIST += spank/spank_accel.map

if HAVE_SLURM
unit_tests += tests/unit/test_spank tests/unit/test_spank_tasks
endif
tests_unit_test_spank_SOURCES = tests/unit/test_spank.c \
	tests/unit/spank_rig.h $(spank_sources)
tests_unit_test_spank_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS) \
	$(CMOCKA_CFLAGS) -I$(top_srcdir)/tests -I$(top_srcdir)
tests_unit_test_spank_LDADD = $(CMOCKA_LIBS)
tests_unit_test_spank_tasks_SOURCES = tests/unit/test_spank_tasks.c \
	tests/unit/spank_rig.h $(spank_sources)
tests_unit_test_spank_tasks_CPPFLAGS = $(tests_unit_test_spank_CPPFLAGS)
tests_unit_test_spank_tasks_LDADD = $(CMOCKA_LIBS)

# srun itself loads no instrumented plugin
if HAVE_SLURM
cluster_tests += tests/cluster/spank.bats
if !SANITIZER
local_tests += tests/unit/spank.bats
endif
endif
EXTRA_DIST += tests/unit/spank.bats tests/cluster/spank.bats

dist_man_MANS += man/spank_accel.8
