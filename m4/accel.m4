# ACCEL_REQUIRE(VAR, PKG-CONFIG SPEC, NAME, DEBIAN PACKAGE, RPM PACKAGE)
# A library without which nothing works: its absence is an error that says
# what to install.
AC_DEFUN([ACCEL_REQUIRE], [
PKG_CHECK_MODULES([$1], [$2],
  [$1_VERSION=`$PKG_CONFIG --modversion "$2"`],
  [AC_MSG_ERROR([$3 was not found ($2).
  Debian, Ubuntu:  apt-get install $4
  RPM systems:     dnf install $5
  Elsewhere: set PKG_CONFIG_PATH to the folder that holds its .pc file.])])
AC_SUBST([$1_VERSION])
])

# ACCEL_WITH(X, HELP, [DEFAULT])
# --with-X=auto|yes|no|DIR: $with_X, and in $accel_X_dir the DIR if it is one.
AC_DEFUN([ACCEL_WITH], [
AC_ARG_WITH([$1],
  [AS_HELP_STRING([--with-$1=auto|yes|no|DIR], [$2])],
  [], [with_$1=m4_default([$3], [auto])])
AS_CASE([$with_$1], [auto|yes|no], [accel_$1_dir=],
  [/*], [accel_$1_dir=$with_$1],
  [AC_MSG_ERROR([--with-$1=$with_$1: want auto, yes, no or an absolute folder])])
])

# The serial flavour of HDF5, where there are two: each rank has files of its
# own, and the MPI flavour would bring an MPI into every program.
AC_DEFUN([ACCEL_WITH_HDF5], [
ACCEL_WITH([hdf5], [where the serial HDF5 library is])
AS_IF([test "x$with_hdf5" = xno],
  [AC_MSG_ERROR([HDF5 is required: checkpoints are HDF5 files])])
AS_IF([test -n "$accel_hdf5_dir"],
  [HDF5_CFLAGS="-I$accel_hdf5_dir/include"
   HDF5_LIBS="-L$accel_hdf5_dir/lib -lhdf5"],
  [PKG_CHECK_MODULES([HDF5], [hdf5-serial], [],
    [PKG_CHECK_MODULES([HDF5], [hdf5], [],
      [AC_MSG_ERROR([HDF5 (serial flavour) was not found.
  Debian, Ubuntu:  apt-get install libhdf5-dev
  RPM systems:     dnf install hdf5-devel
  Elsewhere: --with-hdf5=DIR, where DIR/include/hdf5.h is.])])])])
# Later releases keep the functions of 1.10 under their names for who asks.
HDF5_CFLAGS="$HDF5_CFLAGS -DH5_USE_110_API"
accel_save_CPPFLAGS=$CPPFLAGS
accel_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $HDF5_CFLAGS"
LIBS="$HDF5_LIBS $LIBS"
AC_CHECK_HEADER([hdf5.h], [],
  [AC_MSG_ERROR([hdf5.h was not found with "$HDF5_CFLAGS"])])
AC_CHECK_FUNC([H5Dget_offset], [],
  [AC_MSG_ERROR([the HDF5 library does not link with "$HDF5_LIBS"])])
AC_COMPUTE_INT([accel_hdf5_major], [H5_VERS_MAJOR], [#include <hdf5.h>])
AC_COMPUTE_INT([accel_hdf5_minor], [H5_VERS_MINOR], [#include <hdf5.h>])
AC_COMPUTE_INT([accel_hdf5_micro], [H5_VERS_RELEASE], [#include <hdf5.h>])
CPPFLAGS=$accel_save_CPPFLAGS
LIBS=$accel_save_LIBS
accel_hdf5_summary="$accel_hdf5_major.$accel_hdf5_minor.$accel_hdf5_micro"
AC_SUBST([HDF5_CFLAGS])
AC_SUBST([HDF5_LIBS])
])

# The SPANK plugin needs one header and links nothing.
AC_DEFUN([ACCEL_WITH_SLURM], [
ACCEL_WITH([slurm], [build the Slurm plugin; where Slurm is])
have_slurm=no
SLURM_CPPFLAGS=
AS_IF([test -n "$accel_slurm_dir"],
  [SLURM_CPPFLAGS="-I$accel_slurm_dir/include"])
AS_IF([test "x$with_slurm" != xno], [
  accel_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
  AC_CHECK_HEADER([slurm/spank.h], [have_slurm=yes])
  AS_IF([test "x$have_slurm" = xyes], [
    AC_COMPUTE_INT([accel_slurm_number], [SLURM_VERSION_NUMBER],
      [#include <slurm/slurm.h>], [accel_slurm_number=0])
    accel_slurm_summary="yes, for Slurm $((accel_slurm_number >> 16)).`printf %02d $(((accel_slurm_number >> 8) & 255))`"])
  CPPFLAGS=$accel_save_CPPFLAGS])
AS_IF([test "x$with_slurm" != xno && test "x$with_slurm" != xauto &&
       test "x$have_slurm" = xno],
  [AC_MSG_ERROR([slurm/spank.h was not found.
  Debian, Ubuntu:  apt-get install libslurm-dev
  RPM systems:     dnf install slurm-devel
  Elsewhere: --with-slurm=DIR, where DIR/include/slurm/spank.h is.])])
AS_IF([test "x$have_slurm" = xno], [accel_slurm_summary=no])
AC_SUBST([SLURM_CPPFLAGS])
AM_CONDITIONAL([HAVE_SLURM], [test "x$have_slurm" = xyes])
AC_ARG_VAR([SLURM_PLUGIN_DIR],
  [where the Slurm plugin is installed (default: LIBDIR/slurm)])
AS_IF([test -z "$SLURM_PLUGIN_DIR"], [SLURM_PLUGIN_DIR='${libdir}/slurm'])
AC_SUBST([spankdir], [$SLURM_PLUGIN_DIR])
])

AC_DEFUN([ACCEL_WITH_UCX], [
ACCEL_WITH([ucx], [build the transport between nodes; where UCX is])
have_ucx=no
AS_IF([test -n "$accel_ucx_dir"],
  [UCX_CFLAGS="-I$accel_ucx_dir/include"
   UCX_LIBS="-L$accel_ucx_dir/lib -lucp -lucs"
   have_ucx=yes; UCX_VERSION=$accel_ucx_dir],
  [test "x$with_ucx" != xno],
  [PKG_CHECK_MODULES([UCX], [ucx >= 1.9],
    [have_ucx=yes; UCX_VERSION=`$PKG_CONFIG --modversion ucx`], [:])])
AS_IF([test "x$with_ucx" = xyes && test "x$have_ucx" = xno],
  [AC_MSG_ERROR([UCX was not found.
  Debian, Ubuntu:  apt-get install libucx-dev
  RPM systems:     dnf install ucx-devel
  Elsewhere: --with-ucx=DIR, where DIR/include/ucp/api/ucp.h is.])])
AS_IF([test "x$have_ucx" = xyes], [accel_ucx_summary="yes, $UCX_VERSION"],
  [accel_ucx_summary="no: programs run on one node only, check-multi is left out"])
AC_SUBST([UCX_CFLAGS])
AC_SUBST([UCX_LIBS])
AM_CONDITIONAL([HAVE_UCX], [test "x$have_ucx" = xyes])
AM_COND_IF([HAVE_UCX], [AC_DEFINE([HAVE_UCX], [1], [UCX is there])])
])

# MPI is never linked by the library: it is for the transport over MPI, which
# is a module, for the programs that test life beside MPI, and for measuring
# against it.
AC_DEFUN([ACCEL_WITH_MPI], [
ACCEL_WITH([mpi],
  [build the transport over MPI, and what tests it; where MPI is])
have_mpi=no
AS_IF([test "x$with_mpi" != xno], [
  AS_IF([test -n "$accel_mpi_dir"],
    [AC_PATH_PROG([MPICC], [mpicc], [no], [$accel_mpi_dir/bin])],
    [AC_PATH_PROG([MPICC], [mpicc], [no])])
  AS_IF([test "x$MPICC" != xno], [have_mpi=yes])])
AS_IF([test "x$with_mpi" != xno && test "x$with_mpi" != xauto &&
       test "x$have_mpi" = xno],
  [AC_MSG_ERROR([mpicc was not found.
  Debian, Ubuntu:  apt-get install libopenmpi-dev
  RPM systems:     dnf install openmpi-devel
  Elsewhere: --with-mpi=DIR, where DIR/bin/mpicc is.])])
AS_IF([test "x$have_mpi" = xyes],
  [MPI_CFLAGS=`$MPICC -showme:compile 2>/dev/null ||
     $MPICC -compile_info 2>/dev/null | sed 's/^@<:@^ @:>@* //'`
   MPI_LIBS=`$MPICC -showme:link 2>/dev/null ||
     $MPICC -link_info 2>/dev/null | sed 's/^@<:@^ @:>@* //'`
   accel_mpi_summary="yes, $MPICC"],
  [accel_mpi_summary="no: the tests that need MPI are left out"])
AS_IF([test "x$have_mpi" = xyes && test "x$have_ucx" = xno],
  [accel_ucx_summary="no: only MPI joins nodes, check-multi is left out"])
AC_SUBST([have_mpi])
AC_SUBST([MPI_CFLAGS])
AC_SUBST([MPI_LIBS])
AM_CONDITIONAL([HAVE_MPI], [test "x$have_mpi" = xyes])
])

# No part of this release runs on a GPU. The switch exists so that a site's
# recipe does not change when one does; asking for it is refused, not ignored.
AC_DEFUN([ACCEL_WITH_CUDA], [
ACCEL_WITH([cuda], [GPU memory: not in this release])
AS_IF([test "x$with_cuda" != xno && test "x$with_cuda" != xauto],
  [AC_MSG_ERROR([--with-cuda: this release has no CUDA part; leave it out])])
accel_cuda_summary="no: not in this release"
])
