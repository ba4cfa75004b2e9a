# Tests. A room's own local.mk names its programs in unit_tests (run as they
# are) or multi_tests (scripts that start several processes); cluster_tests
# need a Slurm of their own and are bats files; local_tests are scripts that
# need neither. A script's name ends in .sh (bash) or .bats.
unit_tests =
local_tests =
lint_tests =
multi_tests =
cluster_tests =

unit_cppflags = $(core_cppflags) $(CMOCKA_CFLAGS) -I$(top_srcdir)/tests
unit_ldadd = lib/libaccel_core.la $(CMOCKA_LIBS)
EXTRA_DIST += tests/unit/unit.h

# What every test finds in its environment. Open MPI refuses to run as root
# and on more ranks than cores unless told so twice.
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; \
	top_builddir='$(abs_top_builddir)'; \
	PATH="$(abs_top_builddir)/src:$$PATH"; \
	CC='$(CC)'; CXX='$(CXX)'; \
	OMPI_ALLOW_RUN_AS_ROOT=1; OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; \
	OMPI_MCA_rmaps_base_oversubscribe=1; \
	ACCEL_MODULE_DIR='$(abs_top_builddir)/lib/.libs'; \
	CLANG_FORMAT='$(CLANG_FORMAT)'; CPPCHECK='$(CPPCHECK)'; \
	MANDOC='$(MANDOC)'; WARN_CFLAGS='$(WARN_CFLAGS)'; \
	SANITIZER='$(SANITIZER)'; TEST_CFLAGS='$(CFLAGS)'; \
	HAVE_MPI='$(have_mpi)'; \
	MPI_CFLAGS='$(MPI_CFLAGS)'; MPI_LIBS='$(MPI_LIBS)'; \
	export top_srcdir top_builddir PATH CC CXX ACCEL_MODULE_DIR \
		OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM \
		OMPI_MCA_rmaps_base_oversubscribe CLANG_FORMAT CPPCHECK \
		MANDOC WARN_CFLAGS SANITIZER TEST_CFLAGS \
		HAVE_MPI MPI_CFLAGS MPI_LIBS; \
	$(sanitizer_environment)

# Leaks of others, each with its reason; everything else is ours.
sanitizer_environment = \
	ASAN_OPTIONS="fast_unwind_on_malloc=0:$$ASAN_OPTIONS"; \
	LSAN_OPTIONS="suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0"; \
	UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"; \
	TSAN_OPTIONS="suppressions=$(abs_top_srcdir)/tests/tsan.supp:halt_on_error=1"; \
	export ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS;
EXTRA_DIST += tests/lsan.supp tests/tsan.supp tests/valgrind.supp

# No test may hang: each is stopped after a while, and that is a failure.
TEST_TIMEOUT = 600
bounded = timeout -k 10 $(TEST_TIMEOUT)
LOG_COMPILER = $(bounded)
SH_LOG_COMPILER = $(bounded) bash
BATS_LOG_COMPILER = $(bounded) $(BATS)

EXTRA_DIST += $(local_tests) $(lint_tests) $(multi_tests) $(cluster_tests)
dist_noinst_SCRIPTS += tests/count

check_targets = check-unit check-lint check-multi check-cluster
.PHONY: $(check_targets) check-asan check-tsan check-valgrind check-clang

# One make after the other: `all` is a make of its own, and two of them must
# not build the same object at once.
.PHONY: built check-programs
check-programs: $(check_PROGRAMS) $(check_LTLIBRARIES)
built:
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) check-programs

# Each keeps its own summary, so that one does not delete another's.
run_tests = $(MAKE) $(AM_MAKEFLAGS) check-TESTS
check-unit: built
	$(run_tests) TESTS='$(unit_tests) $(local_tests)' \
	    TEST_SUITE_LOG=tests/unit.log
if HAVE_UCX
check-multi: built
	$(run_tests) TESTS='$(multi_tests)' TEST_SUITE_LOG=tests/multi.log
else
check-multi:
	@echo "check-multi: left out: configured without UCX, so there is no" \
	    "way between the nodes that these tests play"
endif
check-cluster: built
	$(run_tests) TESTS='$(cluster_tests)' TEST_SUITE_LOG=tests/cluster.log
check-lint: built
	$(run_tests) TESTS='$(lint_tests)' TEST_SUITE_LOG=tests/lint.log
lint: check-lint

# The instrumented trees are built from a copy of what `make dist` would ship:
# a tree that was configured in place allows no second build beside it, and
# so the copy is also proved complete. They stay, for the next run.
checked_tree = \
	mkdir -p $(checked)/build && \
	$(MAKE) $(AM_MAKEFLAGS) distdir distdir=$(checked)/src \
	    top_distdir=$(checked)/src && \
	cd $(checked)/build && \
	{ test -e Makefile || { eval "set x $(configure_flags)" && shift && \
	    ../src/configure --quiet "$$@" $(checked_flags); }; }
# Instrumented code draws warnings about paths that cannot be: no -Werror.
configure_flags = `$(abs_top_builddir)/config.status --config` \
	--disable-werror

check-asan: checked = instrumented/asan
check-asan: checked_flags = --enable-sanitizer=address,undefined
check-asan:
	$(AM_V_at)$(checked_tree) && \
	    $(MAKE) $(AM_MAKEFLAGS) -k check-unit check-multi

check-tsan: checked = instrumented/tsan
# Of the tests with several processes only those whose processes have several
# threads: this sanitizer sees nothing of what processes share.
threaded_tests = tests/multi/data.bats tests/multi/state.bats \
	tests/multi/train.bats tests/multi/launch.bats tests/multi/job.bats
check-tsan: checked_flags = --enable-sanitizer=thread
check-tsan:
	$(AM_V_at)$(checked_tree) && \
	    $(MAKE) $(AM_MAKEFLAGS) -k check-unit check-multi \
	    multi_tests='$(threaded_tests)'

check-valgrind: checked = instrumented/valgrind
check-valgrind: checked_flags = CFLAGS='-g -O1'
check-valgrind:
	$(AM_V_at)$(checked_tree) && \
	    $(MAKE) $(AM_MAKEFLAGS) check-unit local_tests= TEST_TIMEOUT=900 \
	    LOG_COMPILER='$(valgrind)'
valgrind = $$(bounded) $$(LIBTOOL) --mode=execute $(VALGRIND) --quiet \
	--error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
	--suppressions=$$(abs_top_srcdir)/tests/valgrind.supp

check-clang: checked = instrumented/clang
check-clang: checked_flags = CC=$(CLANG) --enable-werror
check-clang:
	$(AM_V_at)$(checked_tree) && \
	    $(MAKE) $(AM_MAKEFLAGS) check-unit local_tests=

clean-local: clean-instrumented
.PHONY: clean-instrumented
clean-instrumented:
	-test ! -d instrumented || chmod -R u+w instrumented
	-rm -rf instrumented

# cluster: Slurm daemons of its own, for any test that needs them
dist_noinst_SCRIPTS += tests/cluster/with-cluster
cluster_tests += tests/cluster/with_cluster.bats

# lint: what a reader would otherwise have to check by eye
lint_tests += \
	tests/lint/asserts.sh \
	tests/lint/cases.sh \
	tests/lint/commands.sh \
	tests/lint/cppcheck.sh \
	tests/lint/exports.sh \
	tests/lint/format.sh \
	tests/lint/headers.sh \
	tests/lint/layers.sh \
	tests/lint/mandoc.sh \
	tests/lint/manual_examples.sh \
	tests/lint/nouns.sh \
	tests/lint/readme.sh \
	tests/lint/scripts.sh \
	tests/lint/settings.sh \
	tests/lint/sizes.sh \
	tests/lint/sources.sh \
	tests/lint/words.sh
EXTRA_DIST += tests/CASES tests/lint/lint.bash tests/lint/cplusplus.cc tests/lint/options.c tests/lint/cppcheck.supp man/names
