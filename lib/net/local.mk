# net: memory shared inside a node; bytes between two nodes
lib_libaccel_core_la_SOURCES += \
	lib/net/map.c \
	lib/net/meet.c \
	lib/net/net.c \
	lib/net/net.h \
	lib/net/seg.c \
	lib/net/seg.h

if HAVE_UCX
module_LTLIBRARIES += lib/accel_ucx.la
lib_accel_ucx_la_SOURCES = lib/net/ucx.c lib/net/hide.c lib/net/hide.h \
	lib/net/spare.c lib/net/spare.h lib/net/ucx_move.c lib/net/ucx_priv.h
# Headers of UCX 1.18 say "asm", which -std=c11 does not know.
lib_accel_ucx_la_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_CFLAGS) -Dasm=__asm__
lib_accel_ucx_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
lib_accel_ucx_la_LIBADD = $(UCX_LIBS)
lib_accel_ucx_la_LDFLAGS = -module -avoid-version -shared
endif

if HAVE_MPI
module_LTLIBRARIES += lib/accel_mpi.la
lib_accel_mpi_la_SOURCES = \
	lib/net/life.c \
	lib/net/life.h \
	lib/net/match.c \
	lib/net/match.h \
	lib/net/mpi.c \
	lib/net/mpi_engine.c \
	lib/net/mpi_engine.h \
	lib/net/mpi_start.c
lib_accel_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
lib_accel_mpi_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
lib_accel_mpi_la_LIBADD = $(MPI_LIBS)
lib_accel_mpi_la_LDFLAGS = -module -avoid-version -shared
endif

# The transport over UCX, looked at by a test.
if HAVE_UCX
check_LTLIBRARIES += tests/harness/accel_ucx.la
tests_harness_accel_ucx_la_SOURCES = tests/harness/watched.c \
	tests/harness/watched.h
tests_harness_accel_ucx_la_CPPFLAGS = $(unit_cppflags)
tests_harness_accel_ucx_la_LDFLAGS = -module -avoid-version -shared \
	-rpath /nowhere
unit_tests += tests/unit/test_lent
tests_unit_test_lent_SOURCES = tests/unit/test_lent.c tests/unit/ranks.h \
	tests/harness/watched.h
tests_unit_test_lent_CPPFLAGS = $(unit_cppflags)
tests_unit_test_lent_LDADD = $(unit_ldadd)
endif

unit_tests += tests/unit/test_net
tests_unit_test_net_SOURCES = tests/unit/test_net.c tests/unit/ranks.h
tests_unit_test_net_CPPFLAGS = $(unit_cppflags)
tests_unit_test_net_LDADD = $(unit_ldadd)

dist_man_MANS += man/accel_mpi.3

unit_tests += tests/unit/test_spare
tests_unit_test_spare_SOURCES = tests/unit/test_spare.c lib/net/spare.c
tests_unit_test_spare_CPPFLAGS = $(unit_cppflags)
tests_unit_test_spare_LDADD = $(unit_ldadd)

# Of the transport over MPI what needs no MPI.
unit_tests += tests/unit/test_match tests/unit/test_life
tests_unit_test_match_SOURCES = tests/unit/test_match.c lib/net/match.c
tests_unit_test_match_CPPFLAGS = $(unit_cppflags)
tests_unit_test_match_LDADD = $(unit_ldadd)
tests_unit_test_life_SOURCES = tests/unit/test_life.c lib/net/life.c
tests_unit_test_life_CPPFLAGS = $(unit_cppflags)
tests_unit_test_life_LDADD = $(unit_ldadd)

if HAVE_MPI
check_PROGRAMS += tests/multi/mp_mpi
tests_multi_mp_mpi_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_multi_mp_mpi_LDADD = lib/libaccel.la $(MPI_LIBS)
unit_tests += tests/unit/test_mpi_other
tests_unit_test_mpi_other_CPPFLAGS = $(unit_cppflags) $(MPI_CFLAGS)
tests_unit_test_mpi_other_LDFLAGS = -export-dynamic
tests_unit_test_mpi_other_LDADD = $(unit_ldadd)
endif

# Without MPI configure says that these are left out.
EXTRA_DIST += tests/multi/mpi.bats tests/cluster/mpi.bats
if HAVE_MPI
multi_tests += tests/multi/mpi.bats
cluster_tests += tests/cluster/mpi.bats
endif
