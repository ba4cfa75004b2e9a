# src: the accel command, one file a subcommand
bin_PROGRAMS += src/accel
src_accel_SOURCES = \
	src/accel.c \
	src/cmd.c \
	src/cmd.h \
	src/cmd_data.c \
	src/cmd_env.c \
	src/cmd_launch.c \
	src/cmd_test.c \
	src/cmd_version.c \
	src/env.h \
	src/env_collect.c \
	src/env_tell.c \
	src/launch.h \
	src/launch_env.c \
	src/launch_exec.c \
	src/launch_guard.c \
	src/launch_output.c \
	src/launch_pmix.c \
	src/launch_proc.c \
	src/launch_run.c \
	src/launch_stdin.c \
	src/launch_trouble.c \
	src/test.h \
	src/test_comm.c \
	src/test_loader.c \
	src/test_train.c \
	src/test_world.c
# Public headers of accel only; PMIx for the server in accel launch.
src_accel_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS) $(JANSSON_CFLAGS) \
	-DENV_HWLOC_VERSION='"$(HWLOC_VERSION)"'
src_accel_LDADD = lib/libaccel.la $(PMIX_LIBS) $(JANSSON_LIBS)

dist_man_MANS += man/accel.1 man/accel-data.1 man/accel-env.1 \
	man/accel-launch.1 man/accel-test.1
multi_tests += tests/multi/accel_test.bats
multi_tests += tests/multi/launch.bats tests/multi/launch_faults.bats \
	tests/multi/env.bats
check_PROGRAMS += tests/multi/mp_abort
tests_multi_mp_abort_CPPFLAGS = $(core_cppflags)
tests_multi_mp_abort_LDADD = $(PMIX_LIBS)
# Preloaded by tests: one rank gets wrong numbers. An rpath makes it shared.
check_LTLIBRARIES += tests/harness/lie.la
tests_harness_lie_la_SOURCES = tests/harness/lie.c
tests_harness_lie_la_LDFLAGS = -module -avoid-version -shared \
	-rpath /nowhere
local_tests += tests/unit/data.bats
