# comm: bytes among all ranks
lib_libaccel_core_la_SOURCES += \
	lib/comm/alltoall.c \
	lib/comm/args.c \
	lib/comm/call.c \
	lib/comm/chain.c \
	lib/comm/cma.c \
	lib/comm/cma_priv.h \
	lib/comm/comm.c \
	lib/comm/comm.h \
	lib/comm/comm_priv.h \
	lib/comm/direct.c \
	lib/comm/direct.h \
	lib/comm/enter.c \
	lib/comm/exec.c \
	lib/comm/fault.c \
	lib/comm/gatherv.c \
	lib/comm/guard.c \
	lib/comm/heap.c \
	lib/comm/inter.c \
	lib/comm/inter_priv.h \
	lib/comm/letter.c \
	lib/comm/levels.c \
	lib/comm/levels.h \
	lib/comm/measure.c \
	lib/comm/model.c \
	lib/comm/model.h \
	lib/comm/news.c \
	lib/comm/node.c \
	lib/comm/nodes.c \
	lib/comm/op.h \
	lib/comm/open.c \
	lib/comm/ops.c \
	lib/comm/parts.c \
	lib/comm/pipe.c \
	lib/comm/pipe.h \
	lib/comm/pair.c \
	lib/comm/pair_priv.h \
	lib/comm/plan.c \
	lib/comm/plan.h \
	lib/comm/plan_add.c \
	lib/comm/plan_move.c \
	lib/comm/plan_priv.h \
	lib/comm/rail.c \
	lib/comm/reduce.c \
	lib/comm/request.c \
	lib/comm/share.c \
	lib/comm/single.c \
	lib/comm/scatter.c \
	lib/comm/split.c \
	lib/comm/start.c \
	lib/comm/transport.c \
	lib/comm/wait.c

unit_tests += tests/unit/test_plan
tests_unit_test_plan_SOURCES = tests/unit/test_plan.c tests/unit/plan_world.h
tests_unit_test_plan_CPPFLAGS = $(unit_cppflags)
tests_unit_test_plan_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_plan_cost
tests_unit_test_plan_cost_SOURCES = tests/unit/test_plan_cost.c \
	tests/unit/plan_world.h
tests_unit_test_plan_cost_CPPFLAGS = $(unit_cppflags)
tests_unit_test_plan_cost_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_comm
tests_unit_test_comm_SOURCES = tests/unit/test_comm.c tests/unit/ranks.h \
	tests/multi/sweep.c tests/multi/sweep.h tests/multi/element.h
tests_unit_test_comm_CPPFLAGS = $(unit_cppflags)
tests_unit_test_comm_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_product
tests_unit_test_product_SOURCES = tests/unit/test_product.c \
	tests/unit/ranks.h tests/multi/product.c tests/multi/product.h \
	tests/multi/product_space.c tests/multi/product_priv.h \
	tests/multi/element.h
tests_unit_test_product_CPPFLAGS = $(unit_cppflags)
tests_unit_test_product_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_cma
tests_unit_test_cma_SOURCES = tests/unit/test_cma.c \
	tests/unit/ranks.h tests/multi/product.c tests/multi/product.h \
	tests/multi/product_space.c tests/multi/product_priv.h \
	tests/multi/element.h
tests_unit_test_cma_CPPFLAGS = $(unit_cppflags)
tests_unit_test_cma_LDADD = $(unit_ldadd)
unit_tests += tests/unit/test_scarce
tests_unit_test_scarce_SOURCES = tests/unit/test_scarce.c tests/unit/ranks.h
tests_unit_test_scarce_CPPFLAGS = $(unit_cppflags)
tests_unit_test_scarce_LDADD = $(unit_ldadd)
tests_unit_test_scarce_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc \
	-Wl,--wrap=realloc,--wrap=strdup

unit_tests += tests/unit/test_ops
tests_unit_test_ops_SOURCES = tests/unit/test_ops.c tests/unit/ranks.h
tests_unit_test_ops_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ops_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_beyond
tests_unit_test_beyond_SOURCES = tests/unit/test_beyond.c tests/unit/ranks.h
tests_unit_test_beyond_CPPFLAGS = $(unit_cppflags)
tests_unit_test_beyond_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_request
tests_unit_test_request_SOURCES = tests/unit/test_request.c tests/unit/ranks.h
tests_unit_test_request_CPPFLAGS = $(unit_cppflags)
tests_unit_test_request_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_levels
tests_unit_test_levels_SOURCES = tests/unit/test_levels.c tests/unit/ranks.h \
	tests/multi/sweep.c tests/multi/sweep.h tests/multi/element.h
tests_unit_test_levels_CPPFLAGS = $(unit_cppflags)
tests_unit_test_levels_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_split
tests_unit_test_split_SOURCES = tests/unit/test_split.c tests/unit/ranks.h \
	tests/multi/sweep.c tests/multi/sweep.h tests/multi/element.h
tests_unit_test_split_CPPFLAGS = $(unit_cppflags)
tests_unit_test_split_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_comm_ends
tests_unit_test_comm_ends_SOURCES = tests/unit/test_comm_ends.c \
	tests/unit/ranks.h
tests_unit_test_comm_ends_CPPFLAGS = $(unit_cppflags)
tests_unit_test_comm_ends_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_rounding
tests_unit_test_rounding_SOURCES = tests/unit/test_rounding.c \
	tests/unit/ranks.h
tests_unit_test_rounding_CPPFLAGS = $(unit_cppflags)
tests_unit_test_rounding_LDADD = $(unit_ldadd) -lm

unit_tests += tests/unit/test_pair
tests_unit_test_pair_SOURCES = tests/unit/test_pair.c tests/unit/ranks.h
tests_unit_test_pair_CPPFLAGS = $(unit_cppflags)
tests_unit_test_pair_LDADD = $(unit_ldadd)

unit_tests += tests/unit/test_kinds
tests_unit_test_kinds_SOURCES = tests/unit/test_kinds.c tests/unit/ranks.h
tests_unit_test_kinds_CPPFLAGS = $(unit_cppflags)
tests_unit_test_kinds_LDADD = $(unit_ldadd)

dist_man_MANS += man/accel_comm_send.3
dist_man_MANS += man/accel_comm.3 man/accel_comm_allgatherv.3 \
	man/accel_comm_reduce.3 man/accel_comm_split.3 man/accel_request.3

multi_tests += tests/multi/comm.bats tests/multi/collectives.bats
cluster_tests += tests/cluster/comm.bats tests/cluster/limits.bats
multi_tests += tests/multi/ways.bats tests/multi/pair.bats
multi_tests += tests/multi/levels.bats
check_PROGRAMS += tests/multi/mp_pair
tests_multi_mp_pair_SOURCES = tests/multi/mp_pair.c tests/multi/mp_start.h
tests_multi_mp_pair_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_multi_mp_pair_LDADD = lib/libaccel.la
check_PROGRAMS += tests/multi/mp_comm tests/multi/mp_die tests/multi/mp_ways
tests_multi_mp_ways_CPPFLAGS = $(core_cppflags)
tests_multi_mp_ways_LDADD = lib/libaccel_core.la
tests_multi_mp_comm_SOURCES = tests/multi/mp_comm.c tests/multi/sweep.c \
	tests/multi/bits.c tests/multi/bits.h tests/multi/product.c \
	tests/multi/product_space.c tests/multi/product_priv.h \
	tests/multi/product.h \
	tests/multi/sweep.h tests/multi/element.h tests/multi/mp_start.h
tests_multi_mp_comm_CPPFLAGS = $(core_cppflags) -I$(top_srcdir)/tests
tests_multi_mp_comm_LDADD = lib/libaccel_core.la
tests_multi_mp_die_CPPFLAGS = $(core_cppflags) -I$(top_srcdir)/tests
tests_multi_mp_die_LDADD = lib/libaccel_core.la

# The same programs as MPI programs, which adopt accel.
if HAVE_MPI
check_PROGRAMS += tests/multi/mp_comm_mpi tests/multi/mp_die_mpi
check_PROGRAMS += tests/multi/mp_pair_mpi
tests_multi_mp_pair_mpi_SOURCES = $(tests_multi_mp_pair_SOURCES)
tests_multi_mp_pair_mpi_CPPFLAGS = $(tests_multi_mp_pair_CPPFLAGS) \
	-DWITH_MPI $(MPI_CFLAGS)
tests_multi_mp_pair_mpi_LDADD = lib/libaccel.la $(MPI_LIBS)
tests_multi_mp_comm_mpi_SOURCES = $(tests_multi_mp_comm_SOURCES)
tests_multi_mp_comm_mpi_CPPFLAGS = $(tests_multi_mp_comm_CPPFLAGS) \
	-DWITH_MPI $(MPI_CFLAGS)
tests_multi_mp_comm_mpi_LDADD = lib/libaccel_core.la $(MPI_LIBS)
tests_multi_mp_die_mpi_SOURCES = tests/multi/mp_die.c tests/multi/mp_start.h
tests_multi_mp_die_mpi_CPPFLAGS = $(tests_multi_mp_die_CPPFLAGS) \
	-DWITH_MPI $(MPI_CFLAGS)
tests_multi_mp_die_mpi_LDADD = lib/libaccel_core.la $(MPI_LIBS)
endif

multi_tests += tests/multi/cma.bats
check_PROGRAMS += tests/multi/mp_cma
tests_multi_mp_cma_CPPFLAGS = $(core_cppflags) -I$(top_srcdir)/tests
tests_multi_mp_cma_LDADD = lib/libaccel_core.la

EXTRA_DIST += tests/multi/launched.bash
multi_tests += tests/multi/limits.bats
check_PROGRAMS += tests/multi/mp_limits
tests_multi_mp_limits_CPPFLAGS = $(core_cppflags)
tests_multi_mp_limits_LDADD = lib/libaccel_core.la

multi_tests += tests/multi/kinds.bats
check_PROGRAMS += tests/multi/mp_kinds
tests_multi_mp_kinds_LDADD = lib/libaccel.la
