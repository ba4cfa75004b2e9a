# Measurements; bench/README says how one is made. Built by `make check` so
# that they cannot rot, run only by `make bench` and bench/compare.
bench_programs =
bench_ldadd = lib/libaccel.la
# No wrapper script of libtool in front: it would be measured too.
bench_ldflags = -no-install

dist_noinst_SCRIPTS += bench/compare
EXTRA_DIST += bench/README
local_tests += tests/unit/bench.bats
check_PROGRAMS += $(bench_programs)

# optim, convert and loader: one process, PyTorch as the peer. "omp simd" is
# obeyed so that the raw loop is as vectorised as what it is compared with.
bench_programs += bench/bench_optim bench/bench_convert bench/bench_loader
bench_bench_optim_SOURCES = bench/bench_optim.c bench/bench.h
bench_bench_optim_CFLAGS = $(AM_CFLAGS) -fopenmp-simd
bench_bench_optim_LDADD = $(bench_ldadd)
bench_bench_convert_SOURCES = bench/bench_convert.c bench/bench.h
bench_bench_convert_LDADD = $(bench_ldadd)
bench_bench_loader_SOURCES = bench/bench_loader.c bench/bench.h
bench_bench_loader_LDADD = $(bench_ldadd)
bench_programs += bench/loader_files
bench_loader_files_SOURCES = bench/loader_files.c bench/bench.h
bench_loader_files_CPPFLAGS = $(AM_CPPFLAGS) $(HDF5_CFLAGS)
bench_loader_files_LDADD = $(bench_ldadd) $(HDF5_LIBS)
dist_noinst_SCRIPTS += bench/bench_optim.sh bench/bench_convert.sh \
	bench/bench_loader.sh
EXTRA_DIST += bench/peer_torch.py

# startup: srun to the first collective
dist_noinst_SCRIPTS += bench/bench_startup.sh
bench_programs += bench/startup_accel bench/startup_pmix
bench_startup_accel_LDADD = $(bench_ldadd)
bench_startup_accel_LDFLAGS = $(bench_ldflags)
bench_startup_pmix_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
bench_startup_pmix_LDADD = $(PMIX_LIBS)
if HAVE_MPI
bench_programs += bench/startup_mpi
bench_startup_mpi_CPPFLAGS = $(MPI_CFLAGS)
bench_startup_mpi_LDADD = $(MPI_LIBS)
endif

# ckpt: files and ranks, h5py as the peer
bench_programs += bench/bench_ckpt
bench_bench_ckpt_SOURCES = bench/bench_ckpt.c bench/bench.h
bench_bench_ckpt_LDADD = $(bench_ldadd)
dist_noinst_SCRIPTS += bench/bench_ckpt.sh
EXTRA_DIST += bench/peer_h5py.py

# comm: two ranks against Open MPI and against plain loops
dist_noinst_SCRIPTS += bench/bench_comm.sh
bench_programs += bench/bench_comm
bench_bench_comm_CFLAGS = $(AM_CFLAGS) -O3
bench_bench_comm_LDADD = $(bench_ldadd)
bench_bench_comm_LDFLAGS = $(bench_ldflags)
bench_bench_comm_SOURCES = bench/bench_comm.c bench/bench.h bench/pin.h
# The library with an enter.c of its own, so that the archive's is not taken.
bench_programs += bench/comm_signs
bench_comm_signs_SOURCES = bench/comm_signs.c bench/bench.h bench/pin.h \
	lib/comm/enter.c
bench_comm_signs_CPPFLAGS = $(core_cppflags) -DAX_SIGNS_SWITCH
bench_comm_signs_LDADD = lib/libaccel_core.la
bench_comm_signs_LDFLAGS = $(bench_ldflags)
bench_programs += bench/wire
bench_wire_SOURCES = bench/wire.c bench/bench.h bench/pin.h
if HAVE_MPI
bench_programs += bench/peer_mpi
bench_peer_mpi_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
bench_peer_mpi_LDADD = $(MPI_LIBS)
endif

# step: what the library adds to a step of one process
bench_programs += bench/bench_step
bench_bench_step_SOURCES = bench/bench_step.c bench/bench.h
bench_bench_step_LDADD = $(bench_ldadd)
