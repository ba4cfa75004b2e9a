# train: the accelerator, the model, the step, the state
lib_libaccel_core_la_SOURCES += \
	lib/train/train_priv.h \
	lib/train/state_priv.h \
	lib/train/open.c \
	lib/train/ranks.c \
	lib/train/results.c \
	lib/train/uneven.c \
	lib/train/progress.c \
	lib/train/model.c \
	lib/train/compare.c \
	lib/train/alike.c \
	lib/train/prepare.c \
	lib/train/bucket.c \
	lib/train/wire.c \
	lib/train/verify.c \
	lib/train/ready.c \
	lib/train/tie.c \
	lib/train/block.c \
	lib/train/quiet.c \
	lib/train/step.c \
	lib/train/state.c \
	lib/train/restore.c \
	lib/train/deadline.c \
	lib/train/stop.c

unit_tests += \
	tests/unit/test_train \
	tests/unit/test_model \
	tests/unit/test_state \
	tests/unit/test_registered \
	tests/unit/test_stop
tests_unit_test_train_SOURCES = tests/unit/test_train.c tests/unit/train_rig.h
tests_unit_test_train_CPPFLAGS = $(unit_cppflags)
tests_unit_test_train_LDADD = $(unit_ldadd)
tests_unit_test_model_SOURCES = tests/unit/test_model.c tests/unit/train_rig.h
tests_unit_test_model_CPPFLAGS = $(unit_cppflags)
tests_unit_test_model_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_ported
tests_unit_test_ported_SOURCES = tests/unit/test_ported.c \
	tests/unit/train_rig.h
tests_unit_test_ported_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ported_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_own
tests_unit_test_own_SOURCES = tests/unit/test_own.c tests/unit/train_rig.h
tests_unit_test_own_CPPFLAGS = $(unit_cppflags)
tests_unit_test_own_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_tie
tests_unit_test_tie_SOURCES = tests/unit/test_tie.c tests/unit/train_rig.h
tests_unit_test_tie_CPPFLAGS = $(unit_cppflags)
tests_unit_test_tie_LDADD = $(unit_ldadd)
tests_unit_test_registered_SOURCES = tests/unit/test_registered.c \
	tests/unit/state_dir.h tests/unit/train_rig.h
tests_unit_test_registered_CPPFLAGS = $(unit_cppflags)
tests_unit_test_registered_LDADD = $(unit_ldadd)
tests_unit_test_state_SOURCES = tests/unit/test_state.c \
	tests/unit/state_dir.h tests/unit/train_rig.h
tests_unit_test_state_CPPFLAGS = $(unit_cppflags)
tests_unit_test_state_LDADD = $(unit_ldadd)
tests_unit_test_stop_SOURCES = tests/unit/test_stop.c tests/unit/train_rig.h
tests_unit_test_stop_CPPFLAGS = $(unit_cppflags)
tests_unit_test_stop_LDADD = $(unit_ldadd)

check_PROGRAMS += tests/multi/mp_train tests/multi/mp_state
tests_multi_mp_train_SOURCES = tests/multi/mp_train.c tests/multi/mp_rig.h
tests_multi_mp_train_LDADD = lib/libaccel.la
check_PROGRAMS += tests/multi/mp_wire
tests_multi_mp_wire_SOURCES = tests/multi/mp_wire.c tests/multi/mp_rig.h
tests_multi_mp_wire_LDADD = lib/libaccel.la
multi_tests += tests/multi/wire.bats
check_PROGRAMS += tests/multi/mp_mode
tests_multi_mp_mode_SOURCES = tests/multi/mp_mode.c tests/multi/mp_rig.h
tests_multi_mp_mode_LDADD = lib/libaccel.la -lm
multi_tests += tests/multi/mode.bats
check_PROGRAMS += tests/multi/mp_memory
tests_multi_mp_memory_SOURCES = tests/multi/mp_memory.c tests/multi/mp_rig.h
tests_multi_mp_memory_LDADD = lib/libaccel.la
check_PROGRAMS += tests/multi/mp_ready
tests_multi_mp_ready_SOURCES = tests/multi/mp_ready.c tests/multi/mp_rig.h
tests_multi_mp_ready_CPPFLAGS = $(core_cppflags)
tests_multi_mp_ready_LDADD = lib/libaccel_core.la
tests_multi_mp_state_SOURCES = tests/multi/mp_state.c tests/multi/mp_rig.h
tests_multi_mp_state_LDADD = lib/libaccel.la
multi_tests += tests/multi/train.bats tests/multi/state.bats

# Preloaded by tests: a wall clock that is wrong. An rpath makes it shared.
check_LTLIBRARIES += tests/harness/clock.la
tests_harness_clock_la_SOURCES = tests/harness/clock.c
tests_harness_clock_la_LDFLAGS = -module -avoid-version -shared \
	-rpath /nowhere
multi_tests += tests/multi/deadline.bats
cluster_tests += tests/cluster/endings.bats

dist_man_MANS += \
	man/accel_model.3 \
	man/accel_state.3 \
	man/accel_step.3 \
	man/accel_train.3

dist_man_MANS += man/accel.7
cluster_tests += tests/cluster/train.bats

check_PROGRAMS += tests/multi/mp_data tests/multi/mp_results
tests_multi_mp_data_SOURCES = tests/multi/mp_data.c tests/multi/mp_rig.h
tests_multi_mp_data_LDADD = lib/libaccel.la
check_PROGRAMS += tests/multi/mp_trouble
tests_multi_mp_trouble_SOURCES = tests/multi/mp_trouble.c \
	tests/multi/mp_rig.h
tests_multi_mp_trouble_LDADD = lib/libaccel.la
tests_multi_mp_results_SOURCES = tests/multi/mp_results.c \
	tests/multi/mp_rig.h
tests_multi_mp_results_LDADD = lib/libaccel.la
multi_tests += tests/multi/data.bats
cluster_tests += tests/cluster/data.bats

unit_tests += tests/unit/test_progress
tests_unit_test_progress_CPPFLAGS = $(unit_cppflags)
tests_unit_test_progress_LDADD = $(unit_ldadd)
dist_man_MANS += man/accel_progress.3 man/accel_join.3

unit_tests += tests/unit/test_null
tests_unit_test_null_CPPFLAGS = $(unit_cppflags)
tests_unit_test_null_LDADD = $(unit_ldadd)
