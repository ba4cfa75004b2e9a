# ckpt: checkpoints as HDF5 files with a manifest, published by a rename
dist_man_MANS += man/accel_ckpt.3 man/accel-checkpoint.5
lib_libaccel_core_la_SOURCES += \
	lib/ckpt/ckpt.h \
	lib/ckpt/ckpt_priv.h \
	lib/ckpt/h5.h \
	lib/ckpt/buf.c \
	lib/ckpt/bulk.c \
	lib/ckpt/commit.c \
	lib/ckpt/h5.c \
	lib/ckpt/index.c \
	lib/ckpt/layout.c \
	lib/ckpt/list.c \
	lib/ckpt/manifest.c \
	lib/ckpt/name.c \
	lib/ckpt/open.c \
	lib/ckpt/parse.c \
	lib/ckpt/plan.c \
	lib/ckpt/read.c \
	lib/ckpt/remove.c \
	lib/ckpt/save.c \
	lib/ckpt/shard.c \
	lib/ckpt/table.c

unit_tests += tests/unit/test_ckpt tests/unit/test_ckpt_text
tests_unit_test_ckpt_text_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ckpt_text_LDADD = $(unit_ldadd)
tests_unit_test_ckpt_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ckpt_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_ckpt_disk tests/unit/test_ckpt_damage
tests_unit_test_ckpt_damage_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ckpt_damage_LDADD = $(unit_ldadd)
tests_unit_test_ckpt_disk_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ckpt_disk_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_ckpt_remove
tests_unit_test_ckpt_remove_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ckpt_remove_LDADD = $(unit_ldadd)
EXTRA_DIST += tests/unit/ckpt_dir.h

check_PROGRAMS += tests/multi/mp_ckpt
tests_multi_mp_ckpt_CPPFLAGS = $(core_cppflags)
tests_multi_mp_ckpt_LDADD = lib/libaccel_core.la

# Preloaded by tests: the k-th system call fails. An rpath makes it shared.
check_LTLIBRARIES += tests/harness/fault.la
tests_harness_fault_la_SOURCES = tests/harness/fault.c
tests_harness_fault_la_LDFLAGS = -module -avoid-version -shared \
	-rpath /nowhere

multi_tests += tests/multi/ckpt.bats tests/multi/ckpt_faults.bats
EXTRA_DIST += tests/multi/ckpt_h5py.py
cluster_tests += tests/cluster/ckpt.bats
