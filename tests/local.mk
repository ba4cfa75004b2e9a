# Tests. A room's own local.mk names its programs in unit_tests (run as they
# are) or multi_tests (scripts that start several processes); cluster_tests
# need a Slurm of their own and are bats files.
unit_tests =
multi_tests =
lint_tests =
cluster_tests =

unit_cppflags = $(core_cppflags) $(CMOCKA_CFLAGS) -I$(top_srcdir)/tests
unit_ldadd = lib/libaccel_core.la $(CMOCKA_LIBS)
EXTRA_DIST += tests/unit/unit.h

# cluster: Slurm daemons of its own, for any test that needs them
dist_noinst_SCRIPTS += tests/cluster/with-cluster
cluster_tests += tests/cluster/with_cluster.bats
