# loader: who gets which sample, in which order, batch by batch
lib_libaccel_core_la_SOURCES += \
	lib/loader/loader.h \
	lib/loader/loader_priv.h \
	lib/loader/split.c \
	lib/loader/shard.c \
	lib/loader/shuffle.c \
	lib/loader/blocks.c \
	lib/loader/weights.c \
	lib/loader/order.c \
	lib/loader/ring.c \
	lib/loader/fill.c \
	lib/loader/place.c \
	lib/loader/stream.c \
	lib/loader/deal.c \
	lib/loader/dataset.c \
	lib/loader/dataset_priv.h \
	lib/loader/compose.c \
	lib/loader/file.c \
	lib/loader/cache.c \
	lib/loader/table.c \
	lib/loader/entries.c \
	lib/loader/format.c \
	lib/loader/npy.c \
	lib/loader/npz.c \
	lib/loader/hdf5_priv.h \
	lib/loader/hdf5.c \
	lib/loader/hdf5_layout.c \
	lib/loader/hdf5_index.c \
	lib/loader/tokens.c \
	lib/loader/lines.c \
	lib/loader/list.c \
	lib/loader/tar.c \
	lib/loader/loader.c

unit_tests += tests/unit/test_shard tests/unit/test_dataset \
	tests/unit/test_loader
tests_unit_test_dataset_CPPFLAGS = $(unit_cppflags)
tests_unit_test_dataset_LDADD = $(unit_ldadd)
tests_unit_test_loader_CPPFLAGS = $(unit_cppflags)
tests_unit_test_loader_LDADD = $(unit_ldadd)
tests_unit_test_shard_CPPFLAGS = $(unit_cppflags)
tests_unit_test_shard_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_numpy
tests_unit_test_numpy_CPPFLAGS = $(unit_cppflags)
tests_unit_test_numpy_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_tokens
tests_unit_test_tokens_CPPFLAGS = $(unit_cppflags)
tests_unit_test_tokens_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_tar
tests_unit_test_tar_CPPFLAGS = $(unit_cppflags)
tests_unit_test_tar_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_compose
tests_unit_test_compose_CPPFLAGS = $(unit_cppflags)
tests_unit_test_compose_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_hdf5
tests_unit_test_hdf5_CPPFLAGS = $(unit_cppflags)
tests_unit_test_hdf5_LDADD = $(unit_ldadd) $(HDF5_LIBS)
unit_tests += tests/unit/test_hdf5_threads
tests_unit_test_hdf5_threads_CPPFLAGS = $(unit_cppflags)
tests_unit_test_hdf5_threads_LDADD = $(unit_ldadd) $(HDF5_LIBS)
EXTRA_DIST += tests/unit/files.h tests/unit/hdf5_rig.h
unit_tests += tests/unit/test_cache
tests_unit_test_cache_CPPFLAGS = $(unit_cppflags)
tests_unit_test_cache_LDADD = $(unit_ldadd) $(HDF5_LIBS)
dist_man_MANS += man/accel_loader.3 man/accel_dataset.3
unit_tests += tests/unit/test_ring
tests_unit_test_ring_SOURCES = tests/unit/test_ring.c tests/unit/loader_rig.h
tests_unit_test_ring_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ring_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_order
tests_unit_test_order_SOURCES = tests/unit/test_order.c tests/unit/loader_rig.h
tests_unit_test_order_CPPFLAGS = $(unit_cppflags)
tests_unit_test_order_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_resume
tests_unit_test_resume_CPPFLAGS = $(unit_cppflags)
tests_unit_test_resume_LDADD = $(unit_ldadd) $(HDF5_LIBS)

unit_tests += tests/unit/test_portable
tests_unit_test_portable_CPPFLAGS = $(unit_cppflags)
tests_unit_test_portable_LDADD = $(unit_ldadd)
