# Examples: complete programs, each also a test.
noinst_PROGRAMS += examples/minimal examples/digits
examples_minimal_SOURCES = examples/minimal.c
examples_minimal_LDADD = lib/libaccel.la

examples_digits_SOURCES = \
	examples/digits.c \
	examples/digits_data.c \
	examples/digits_data.h \
	examples/digits_net.c \
	examples/digits_net.h \
	examples/digits_options.c \
	examples/digits_options.h
examples_digits_CPPFLAGS = $(AM_CPPFLAGS) \
	-DDIGITS_PLACES='"$(abs_top_srcdir)/examples/data", "$(examplesdir)/data",'
examples_digits_LDADD = lib/libaccel.la

# Installed to be read, and to be built with "pkg-config accel".
examplesdir = $(docdir)/examples
examplesdatadir = $(examplesdir)/data
dist_examples_DATA = $(examples_minimal_SOURCES) $(examples_digits_SOURCES)
dist_examplesdata_DATA = examples/data/README examples/data/digits.csv

unit_tests += tests/unit/test_digits
tests_unit_test_digits_SOURCES = tests/unit/test_digits.c \
	examples/digits_data.c examples/digits_net.c
tests_unit_test_digits_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/examples \
	-DDIGITS_PLACES='"$(abs_top_srcdir)/examples/data",'
tests_unit_test_digits_LDADD = $(unit_ldadd)

multi_tests += tests/multi/digits.bats
cluster_tests += tests/cluster/digits.bats
EXTRA_DIST += tests/digits.bash

unit_tests += tests/unit/test_minimal
tests_unit_test_minimal_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)
tests_unit_test_minimal_LDADD = $(unit_ldadd)
