# base: errors, log, settings, element types, files, random numbers
lib_libaccel_core_la_SOURCES += \
	lib/base/base.h \
	lib/base/text.c \
	lib/base/error.c \
	lib/base/log.c \
	lib/base/options.c \
	lib/base/spec.h \
	lib/base/spec.c \
	lib/base/settings_priv.h \
	lib/base/settings.c \
	lib/base/settings_env.c \
	lib/base/settings_file.c \
	lib/base/io.c \
	lib/base/clock.c \
	lib/base/hdf5.h \
	lib/base/hdf5.c \
	lib/base/rng_priv.h \
	lib/base/rng.c \
	lib/base/dtype.c \
	lib/base/bits.h \
	lib/base/kernel.h \
	lib/base/kernel_scalar.c \
	lib/base/kernel_types.h \
	lib/base/kernel_lanes.h \
	lib/base/kernel_loops.h \
	lib/base/kernel_avx2.c \
	lib/base/kernel_avx512.c \
	lib/base/reduce.c \
	lib/base/isa.c

unit_tests += tests/unit/test_base
tests_unit_test_base_CPPFLAGS = $(unit_cppflags)
tests_unit_test_base_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_options
tests_unit_test_options_CPPFLAGS = $(unit_cppflags)
tests_unit_test_options_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_settings
tests_unit_test_settings_SOURCES = tests/unit/test_settings.c \
	tests/unit/settings_values.h
tests_unit_test_settings_CPPFLAGS = $(unit_cppflags)
tests_unit_test_settings_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_handed
tests_unit_test_handed_CPPFLAGS = $(unit_cppflags)
tests_unit_test_handed_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_dtype
tests_unit_test_dtype_SOURCES = tests/unit/test_dtype.c tests/unit/noise.h
tests_unit_test_dtype_CPPFLAGS = $(unit_cppflags)
tests_unit_test_dtype_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_reduce
tests_unit_test_reduce_SOURCES = tests/unit/test_reduce.c tests/unit/noise.h
tests_unit_test_reduce_CPPFLAGS = $(unit_cppflags)
tests_unit_test_reduce_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_rng
tests_unit_test_rng_CPPFLAGS = $(unit_cppflags)
tests_unit_test_rng_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_io
tests_unit_test_io_CPPFLAGS = $(unit_cppflags)
tests_unit_test_io_LDADD = $(unit_ldadd)

dist_man_MANS += man/accel_base.3 man/accel_settings.3 man/accel_rng.3 \
	man/accel.conf.5
