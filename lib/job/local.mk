# job: who am I, who are my peers
lib_libaccel_core_la_SOURCES += \
	lib/job/job.h \
	lib/job/job_priv.h \
	lib/job/job.c \
	lib/job/detect.c \
	lib/job/nodes.c \
	lib/job/map.c \
	lib/job/mark.c \
	lib/job/record.c \
	lib/job/compare.c \
	lib/job/exchange.c \
	lib/job/pmix.c \
	lib/job/pmix_init.c \
	lib/job/pmix_priv.h \
	lib/job/single.c \
	lib/job/custom.c \
	lib/job/nodelist.c

check_PROGRAMS += tests/multi/mp_job
tests_multi_mp_job_CPPFLAGS = $(core_cppflags)
tests_multi_mp_job_LDADD = lib/libaccel_core.la

unit_tests += tests/unit/test_job tests/unit/test_job_oob
tests_unit_test_job_CPPFLAGS = $(unit_cppflags)
tests_unit_test_job_LDADD = $(unit_ldadd)
tests_unit_test_job_oob_CPPFLAGS = $(unit_cppflags)
tests_unit_test_job_oob_LDADD = $(unit_ldadd)

multi_tests += tests/multi/job.bats

if HAVE_MPI
check_PROGRAMS += tests/multi/mp_job_mpi
tests_multi_mp_job_mpi_CPPFLAGS = $(core_cppflags) $(MPI_CFLAGS)
tests_multi_mp_job_mpi_LDADD = lib/libaccel_core.la $(MPI_LIBS)
endif

cluster_tests += tests/cluster/job.bats

dist_man_MANS += man/accel_job.3
