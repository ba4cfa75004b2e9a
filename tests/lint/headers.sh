# headers: each compiles alone, a public one as C11 and as C++17 too.
. "$(dirname "$0")/lint.bash"
CC=${CC:-cc} CXX=${CXX:-c++}
include=(-I"$top_srcdir/lib" -I"$top_builddir/lib" -D_GNU_SOURCE)
strict=(-Wall -Wextra -Wshadow -Wpedantic -Werror)

# accel/mpi.h is for programs that mpicc compiles. What MPI's own headers draw
# in warnings is theirs.
mpi=()
read -ra mpi <<<"${MPI_CFLAGS-}"
mpi=("${mpi[@]/#-I/-isystem}")

compile() {
    local file=$1
    shift
    if ! "$@" "${strict[@]}" "${include[@]}" "${mpi[@]}" -fsyntax-only \
        >"$scratch/out" 2>&1; then
        cat "$scratch/out"
        complain "$file: does not compile alone ($1)"
    fi
}

for file in lib/accel.h lib/accel/*.h; do
    [[ $file != */mpi.h || ${HAVE_MPI-yes} == yes ]] || {
        echo "$file: left out, there is no MPI"
        continue
    }
    printf '#include <%s>\nextern int x;\n' "${file#lib/}" >"$scratch/one.c"
    cp "$scratch/one.c" "$scratch/one.cc"
    compile "$file" $CC -std=c11 "$scratch/one.c"
    compile "$file" $CXX -std=c++17 "$scratch/one.cc"
done
# Internal headers that see no foreign library, not even through the door of
# HDF5, as C only. One without a guard
# is a piece of code that is meant to be included several times.
for file in lib/*/*.h; do
    [[ $file != lib/accel/* ]] || continue
    grep -q '^#ifndef AX_' "$file" || continue
    ! grep -qE '#include (<(pmix|hwloc|hdf5|ucp|ucs|mpi)|"base/hdf5.h)' "$file" ||
        continue
    printf '#include "%s"\nextern int x;\n' "${file#lib/}" >"$scratch/one.c"
    compile "$file" $CC -std=c11 "$scratch/one.c"
done
for cc in "$CC" clang; do
    command -v "${cc%% *}" >/dev/null || continue
    compile tests/lint/options.c $cc -std=c11 tests/lint/options.c
done
# A program in C++ that makes options, also with the compilers that users have.
use=tests/lint/cplusplus.cc
for cxx in "$CXX" clang++; do
    command -v "${cxx%% *}" >/dev/null || continue
    for standard in 17 20; do
        if ! "$top_builddir/libtool" --quiet --tag=CXX --mode=link $cxx \
            -std=c++$standard -Wall -Wextra -Wshadow -Werror \
            ${TEST_CFLAGS-} "${include[@]}" "$use" -o "$scratch/use" \
            "$top_builddir/lib/libaccel.la" >"$scratch/out" 2>&1 ||
            ! timeout 60 "$scratch/use" >>"$scratch/out" 2>&1; then
            cat "$scratch/out"
            complain "$use: C++$standard with $cxx"
        fi
    done
done
verdict
