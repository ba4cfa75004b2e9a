# MPI's messages between nodes, and accel in programs of MPI: mp_mpi.c and the
# programs of comm.bats, compiled for MPI, over pretended nodes under mpirun.

bats_require_minimum_version 1.5.0

setup() {
    mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
        skip "written for mpirun of Open MPI"
    cd "$BATS_TEST_TMPDIR"
    mpi=$top_builddir/tests/multi/mp_mpi
    comm=$top_builddir/tests/multi/mp_comm_mpi
    die=$top_builddir/tests/multi/mp_die_mpi
    pair=$top_builddir/tests/multi/mp_pair_mpi
    product=${ACCEL_TEST_PRODUCT-}
    unset "${!ACCEL_@}" "${!MP_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs ACCEL_NET=mpi
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
    # What Open MPI leaves of a process that was killed stays in here.
    export OMPI_MCA_btl_vader_backing_directory=$BATS_TEST_TMPDIR
    export OMPI_MCA_btl_sm_backing_directory=$BATS_TEST_TMPDIR
    # All ranks are to tell their error, not only the first that ends; then
    # mpirun's own status says nothing.
    export OMPI_MCA_orte_abort_on_non_zero_status=0
    # What Open MPI and its unloaded parts keep is not ours to judge.
    export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
}

# ranks program...
on() {
    local ranks=$1
    shift
    timeout 120 mpirun -q -n "$ranks" "$@"
}

# Ranks 0..$1-1 but $2, which is -1 for none, have said what follows.
all_say() {
    local ranks=$1 but=$2 words=$3 r
    for ((r = 0; r < ranks; r++)); do
        ((r != but)) || continue
        grep -qE "$(printf "$words" $r)" <<<"$output" || {
            echo "rank $r of $ranks does not say \"$words\": $output"
            return 1
        }
    done
}

all_are_ok() {
    [[ $status -eq 0 ]] || {
        echo "status $status: $output"
        return 1
    }
    all_say "$1" -1 '^rank %d: ok$'
}

@test "every operation between uneven nodes" {
    MP_NODES=3 run on 5 "$comm" quick
    [[ $status -eq 0 && $output == *"ok: 5 ranks on 3 nodes, mpi: "* ]] || {
        echo "$output"
        return 1
    }
}

@test "a sample of all operations, on parts as well, started or called" {
    MP_NODES=2 run on 4 "$comm" product 25
    [[ $status -eq 0 && $output == *"tried: 50"* &&
        $output == *"ok: 4 ranks on 2 nodes, mpi: "* ]] || {
        echo "$output"
        return 1
    }
}

@test "sums have the bits of UCX's" {
    MP_NODES=3 run on 5 "$comm" bits
    [[ $status -eq 0 && $output =~ bits:\ ([0-9a-f]{16}) ]]
    local bits=${BASH_REMATCH[1]}
    ACCEL_NET=ucx run timeout 120 accel launch -n 5 --nodes 3 \
        "$top_builddir/tests/multi/mp_comm" bits
    [[ $status -eq 0 && $output == *"bits: $bits"* ]]
}

@test "messages of 0 bytes to 16 MiB, and of more bytes than an int counts" {
    run on 3 "$mpi" sizes
    all_are_ok 3
    # the last takes 9 GB of memory
    if [[ $product ]]; then
        run timeout 300 mpirun -q -n 2 "$mpi" big
        all_are_ok 2
    fi
}

@test "messages from rank to rank: rings, tags, one that does not fit" {
    MP_NODES=3 run on 5 "$pair" ring 2
    [[ $status -eq 0 && $output == "ok: 5 ranks" ]]
    MP_NODES=3 run on 5 "$pair" tags
    [[ $status -eq 0 && $output == "ok: 5 ranks" ]]
}

# Rank 2 of 4 ends while the others send to it and receive from it.
@test "who ends is named by all that wait for its messages" {
    local how words="rank 2 on [^ ]+ (is gone|has left)"
    for how in kill close; do
        MP_NODES=4 run on 4 --enable-recovery "$pair" $how 2
        all_say 4 2 "^survivor %d ACCEL_ERR_PEER .*$words"
    done
    ACCEL_TIMEOUT=2 MP_NODES=4 run on 4 --enable-recovery "$pair" stop 2 10
    all_say 4 2 "^survivor %d ACCEL_ERR_TIMEOUT .*waited 2 s in (send|receive) \
for rank 2 on "
}

@test "messages and collectives of the program among accel's" {
    run on 3 "$mpi" interleaved
    all_are_ok 3
}

@test "parts of MPI_COMM_WORLD train, each by itself, or some only" {
    run on 5 "$mpi" halves
    all_are_ok 5
    run on 4 "$mpi" some
    all_say 2 -1 '^rank %d: ok$'
    [[ $status -eq 0 && $(grep -c ok <<<"$output") -eq 2 ]]
}

@test "communicators split off a communicator" {
    run on 5 "$mpi" split
    all_are_ok 5
}

@test "two at once over the same processes, and again" {
    run on 3 "$mpi" twice
    all_are_ok 3
}

@test "what shares memory is one node, and needs no transport" {
    MP_NODES=1 run on 3 "$mpi" nodes
    all_are_ok 3
    [[ $(grep -c "^node 0 of 1 is " <<<"$output") -eq 3 ]]
}

@test "a communicator that cannot be adopted" {
    run on 3 "$mpi" wrong
    all_are_ok 3
}

@test "threads: as MPI was started" {
    run on 2 "$mpi" serialized
    all_are_ok 2
    run on 2 "$mpi" funneled
    all_say 2 -1 \
        '^rank %d: ACCEL_ERR_UNSUPPORTED .*MPI_THREAD_FUNNELED.*SERIALIZED'
    run on 2 "$mpi" single
    all_say 2 -1 '^rank %d: ACCEL_ERR_UNSUPPORTED .*MPI_THREAD_SINGLE.*start it'
    # where MPI carries nothing its level does not matter
    MP_NODES=1 run on 2 "$mpi" single
    all_are_ok 2
}

@test "started operations, on several communicators at once" {
    run on 4 "$mpi" started
    all_are_ok 4
    run on 4 "$mpi" beside-started
    all_are_ok 4
}

@test "MPI_Finalize before the close, and before the start" {
    run on 2 "$mpi" finalize
    all_say 2 -1 '^rank %d: ACCEL_ERR_STATE .*MPI_Finalize.*close accel first'
    run on 2 "$mpi" forget
    all_are_ok 2
    run on 2 "$mpi" finalized
    all_are_ok 2
}

@test "MPI_Abort in one rank ends all" {
    run on 3 "$mpi" abort
    [[ $status -eq 7 ]]
}

@test "ranks that disagree are told, and MPI goes on" {
    run on 3 "$mpi" disagree
    all_say 3 -1 '^rank %d: ACCEL_ERR_PROTO .*ranks 0 2: all-reduce.*rank 1: barrier'
}

@test "more processes than ranks are refused" {
    run on 4 "$mpi" fewer
    all_say 4 -1 '^rank %d: ACCEL_ERR_UNSUPPORTED .*has 4 processes, the job 2'
}

@test "auto: UCX first, MPI when the program has started it" {
    ACCEL_NET=auto MP_NODES=2 run on 2 "$comm" rounds 10
    [[ $status -eq 0 && $output != *", mpi: "* ]]
    mkdir only
    ln -s "$ACCEL_MODULE_DIR/accel_mpi.so" only/
    export ACCEL_MODULE_DIR=$PWD/only ACCEL_NET=auto
    MP_NODES=2 run on 2 "$comm" rounds 10
    [[ $status -eq 0 && $output == *", mpi: "*"(net=auto)"* ]]
    # where ranks find different ones all end, and say so
    run timeout 60 mpirun -q -n 2 "$mpi" nodes : \
        -n 1 env ACCEL_MODULE_DIR="$top_builddir/lib/.libs" "$mpi" nodes
    all_say 3 -1 '^rank %d: ACCEL_ERR_PROTO .*its transport is .*net=auto found'
    # launch knows nothing of MPI
    run timeout 60 accel launch -n 2 --nodes 2 \
        "$top_builddir/tests/multi/mp_comm" rounds 10
    [[ $status -ne 0 && $output == *"mpi: the program has not started MPI"* ]]
    ACCEL_NET=mpi run timeout 60 accel launch -n 2 --nodes 2 \
        "$top_builddir/tests/multi/mp_comm" rounds 10
    [[ $status -ne 0 && $output == *"use mpirun or srun --mpi=pmix"* ]]
}

@test "a rank that ends is named by all others" {
    local how
    for how in kill exit0; do
        MP_NODES=3 run on 3 --enable-recovery "$die" $how 2
        all_say 3 2 "^survivor %d ACCEL_ERR_PEER .*rank 2 on n2 is gone"
    done
    # two ranks a node: each of them has others to hear it from
    MP_NODES=2 run on 4 --enable-recovery "$die" kill 3
    all_say 4 3 "^survivor %d ACCEL_ERR_PEER .*rank 3 on n1 is gone"
    MP_NODES=3 run on 3 --enable-recovery "$die" close 0
    all_say 3 0 "^survivor %d ACCEL_ERR_PEER .*rank 0 on n0 has left"
}

@test "so is one that is killed while messages are under way" {
    local i
    for ((i = 0; i < 3; i++)); do
        MP_NODES=3 run on 3 --enable-recovery "$die" random $((i % 3))
        all_say 3 $((i % 3)) \
            "^survivor %d ACCEL_ERR_PEER .*rank $((i % 3)) on n$((i % 3)) is gone"
    done
}

@test "a child that keeps the descriptors does not hide a death" {
    MP_NODES=3 run on 3 --enable-recovery "$die" fork 1
    all_say 3 1 "^survivor %d ACCEL_ERR_PEER .*rank 1 on n1 is gone"
}

@test "a stopped rank only delays; one that is silent is named" {
    MP_NODES=3 run on 3 "$die" stop 1 2
    [[ $status -eq 0 && $output == *fine* ]]
    ACCEL_TIMEOUT=2 MP_NODES=3 run on 3 --enable-recovery "$die" sleep 1 4
    all_say 3 1 "^survivor %d ACCEL_ERR_TIMEOUT .*rank 1 on n1"
}
