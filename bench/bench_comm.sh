# One round of bench_comm: accel, Open MPI where it is installed, and plain
# loops, each case in turn. BENCH_COMM names the cases to take (a pattern).
set -u -o pipefail

bench=$top_builddir/bench/bench_comm
peer=$top_builddir/bench/peer_mpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

status=0
mpi="MPI"
case $(mpirun --version 2>/dev/null) in
*"Open MPI"*) mpi="Open MPI" ;;
*HYDRA*) mpi="MPICH" ;;
esac

# Runs a side and prints its line; one that fails is told at the end.
say() { # case who program...
    local name=$1 who=$2 line
    shift 2
    if line=$("$@") && [[ $line == *$'\t'* ]]; then
        printf '%s\t%s\t%s\t%s\n' "$name" "${line%%$'\t'*}" "$who" \
            "${line#*$'\t'}"
    else
        echo "bench_comm: $name: $who failed" >&2
        status=1
    fi
}

one() { # op dtype memory bytes ranks
    local name="$1 $2 $3 $5 ranks $4 B"
    # The pattern is the user's.
    # shellcheck disable=SC2053
    [[ $name == ${BENCH_COMM:-*} ]] || return 0
    say "$name" accel accel launch -n "$5" "$bench" "$1" "$2" "$3" "$4"
    if [[ -x $peer && $2 == f[36]* ]] && command -v mpirun >/dev/null; then
        say "$name" "$mpi" mpirun --oversubscribe -n "$5" "$peer" \
            "$1" "$2" "$3" "$4"
    fi
    if [[ $1 == all-reduce && $5 == 2 ]]; then
        say "$name" limit "$bench" --limit "$1" f32 "$3" "$4"
    fi
}

# What it costs that ranks compare their calls: the limit goes without.
signature() { # bytes
    local name="signature f32 private 2 ranks $1 B"
    # The pattern is the user's.
    # shellcheck disable=SC2053
    [[ $name == ${BENCH_COMM:-*} ]] || return 0
    accel launch -n 2 "$top_builddir/bench/comm_signs" "$1" || status=1
}

# Between two pretended nodes: rails against one rank of each node, and Open
# MPI over TCP as well, since through memory it would not cross a network. The
# limit: so many bytes both ways over one TCP connection.
between() { # bytes ranks
    local name="all-reduce f32 private $1 B 2 nodes $2 ranks, tcp on loopback"
    # shellcheck disable=SC2053
    [[ $name == ${BENCH_COMM:-*} ]] || return 0
    local accel=(accel launch -n "$2" --nodes 2
        "$bench" all-reduce f32 private "$1")
    if (($2 > 2)); then
        say "$name" accel env ACCEL_RAILS=always "${accel[@]}"
        say "$name" "by leaders" env ACCEL_RAILS=never "${accel[@]}"
    else
        say "$name" accel "${accel[@]}"
    fi
    if [[ -x $peer && $mpi == "Open MPI" ]]; then
        say "$name" "$mpi over TCP" mpirun --oversubscribe -n "$2" \
            --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo \
            "$peer" all-reduce f32 private "$1"
    fi
    say "$name" limit "$top_builddir/bench/wire" "$1"
}

signature 4
signature 64

for bytes in 4 64 4096 65536 1048576 67108864; do
    one all-reduce f32 heap $bytes 2
    one all-reduce f32 private $bytes 2
done
for type in f16 bf16; do
    one all-reduce $type heap 1048576 2
    one all-reduce $type heap 67108864 2
    one all-reduce $type private 67108864 2
done
for op in reduce-scatter all-gather broadcast; do
    one $op f32 private 64 2
    one $op f32 heap 1048576 2
    one $op f32 private 1048576 2
    one $op f32 heap 67108864 2
done
# more ranks than cores: for information
one all-reduce f32 heap 64 4
one all-reduce f32 heap 1048576 4
for bytes in 1048576 67108864; do
    between $bytes 2
    between $bytes 4
done
exit $status
