# ckpt: checkpoints as HDF5 files with a manifest, published by a rename
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
	lib/ckpt/plan.c \
	lib/ckpt/read.c \
	lib/ckpt/save.c \
	lib/ckpt/shard.c \
	lib/ckpt/table.c \
	lib/ckpt/text.c

unit_tests += tests/unit/test_ckpt
tests_unit_test_ckpt_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ckpt_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_ckpt_disk
tests_unit_test_ckpt_disk_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ckpt_disk_LDADD = $(unit_ldadd)
EXTRA_DIST += tests/unit/ckpt_dir.h
