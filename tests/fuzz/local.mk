# fuzz: the parsers of files under libFuzzer. `make fuzz` gives each format
# FUZZ_SECONDS; `make check` only goes through the inputs that were kept.
FUZZ_SECONDS = 120
.PHONY: fuzz
fuzz:
	CLANG='$(CLANG)' top_srcdir='$(abs_top_srcdir)' \
	    top_builddir='$(abs_top_builddir)' \
	    bash $(srcdir)/tests/fuzz/run.sh $(FUZZ_SECONDS)

unit_tests += tests/fuzz/replay
tests_fuzz_replay_SOURCES = tests/fuzz/replay.c tests/fuzz/fuzz.h \
	tests/fuzz/fuzz_dataset.c tests/fuzz/fuzz_hdf5.c
tests_fuzz_replay_CPPFLAGS = $(unit_cppflags)
tests_fuzz_replay_LDADD = $(unit_ldadd) $(HDF5_LIBS)
EXTRA_DIST += tests/fuzz/fuzz_main.c tests/fuzz/run.sh tests/data/fuzz

clean-local: clean-fuzz
.PHONY: clean-fuzz
clean-fuzz:
	-rm -rf tests/fuzz/work
