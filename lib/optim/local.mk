# optim: update rules on flat buffers, schedules, the loss scaler
lib_libaccel_core_la_SOURCES += \
	lib/optim/optim.h \
	lib/optim/optim_priv.h \
	lib/optim/update.c \
	lib/optim/optimizer.c \
	lib/optim/schedule.c \
	lib/optim/scaler.c

# The kernels want flags of their own: "omp simd" obeyed, which vectorises at
# -O2 too; square roots without errno; and no fused multiply-add, so that every
# instruction set gives the same bits.
noinst_LTLIBRARIES += lib/optim/libax_optim_kernels.la
lib_optim_libax_optim_kernels_la_SOURCES = lib/optim/kernels.c
lib_optim_libax_optim_kernels_la_CPPFLAGS = $(core_cppflags)
lib_optim_libax_optim_kernels_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden \
	-fopenmp-simd -fno-math-errno -ffp-contract=off
lib_libaccel_core_la_LIBADD += lib/optim/libax_optim_kernels.la

unit_tests += tests/unit/test_optim tests/unit/test_optimizer
tests_unit_test_optim_CPPFLAGS = $(unit_cppflags)
tests_unit_test_optim_LDADD = $(unit_ldadd)
tests_unit_test_optimizer_CPPFLAGS = $(unit_cppflags)
tests_unit_test_optimizer_LDADD = $(unit_ldadd)
dist_man_MANS += man/accel_optim.3
