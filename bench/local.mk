# Measurements; bench/README says how one is made. Built by `make check` so
# that they cannot rot, run only by `make bench` and bench/compare.
bench_programs =
bench_ldadd = lib/libaccel.la

dist_noinst_SCRIPTS += bench/compare
EXTRA_DIST += bench/README
check_PROGRAMS += $(bench_programs)
