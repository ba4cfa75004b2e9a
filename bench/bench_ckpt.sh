# ckpt: accel and the limit on one rank and on two, then h5py where it is
# installed. BENCH_DIR: the file system to measure, default the temporary one.
dir=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/accel-bench-XXXXXX") || exit
trap 'rm -rf "$dir"' EXIT
"$top_builddir/bench/bench_ckpt" "$dir" || exit
accel launch -n 2 "$top_builddir/bench/bench_ckpt" "$dir" || exit
! /usr/bin/python3 -c 'import h5py' 2>/dev/null ||
    /usr/bin/python3 "$top_srcdir/bench/peer_h5py.py" "$dir"
