# job: what real processes find out about each other, beside MPI and without.

bats_require_minimum_version 1.5.0

setup() {
    : "${top_builddir:?use make check-multi}"
    job=$top_builddir/tests/multi/mp_job
    mpi=$top_builddir/tests/multi/mp_job_mpi
    unset PMIX_NAMESPACE PMIX_RANK SLURM_STEP_ID SLURM_STEP_NUM_TASKS
}

@test "alone: a world of one, whatever a job long gone has left" {
    run timeout 20 "$job"
    [ "$status" -eq 0 ]
    grep -q '^world 1 rank 0 .* provider single' <<<"$output"
    run env SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NPROCS=4 timeout 20 "$job"
    [ "$status" -eq 0 ]
    grep -q '^world 1 rank 0' <<<"$output"
}

@test "a server that is gone is an error, not a world of one" {
    run env PMIX_NAMESPACE=gone PMIX_RANK=1 PMIX_SERVER_URI4='gone.0;tcp4://127.0.0.1:9' \
        timeout 60 "$job"
    [ "$status" -eq 1 ]
    grep -q 'PMIx_Init says' <<<"$output"
    grep -q 'unset PMIX_NAMESPACE' <<<"$output"
}

@test "a server that does not answer ends the wait for it" {
    # the launcher is stopped until the rank has given up
    # shellcheck disable=SC2016
    run env ACCEL_TIMEOUT=2 timeout 60 accel launch -n 1 sh -c \
        'kill -STOP $PPID; "$0"; s=$?; kill -CONT $PPID; exit $s' "$job"
    [ "$status" -eq 1 ]
    grep -q 'PMIx server has not answered in 2 s (setting "timeout"): it is' <<<"$output"
}

@test "other settings on one rank: all ranks say the same" {
    run timeout 60 accel launch -n 4 --nodes 2 "$job" --settings 2 fp16
    [ "$status" -eq 1 ]
    [ "$(grep -c 'rank 2 on n1 runs with other settings than rank 0 on n0' \
        <<<"$output")" -eq 4 ]
    [ "$(grep -c 'precision is fp16, not no' <<<"$output")" -eq 4 ]
}

@test "a rank that cannot go on: all ranks say why" {
    run timeout 60 accel launch -n 3 "$job" --wrong-rank 1
    [ "$status" -eq 1 ]
    [ "$(grep -c 'rank 1 on .*: net: no memory for a test' <<<"$output")" \
        -eq 3 ]
}

@test "a rank that dies before the exchange ends the others' wait" {
    run timeout 60 accel launch -n 3 "$job" --die 1
    [ "$status" -eq 137 ]
    [ "$(grep -c 'rank 1 on .* ended before the exchange' <<<"$output")" -eq 2 ]
}

@test "one that is killed while it waits in the exchange is named" {
    # shellcheck disable=SC2016
    run timeout 60 accel launch -n 3 --nodes 2 --grace 1000 sh -c '
        case $PMIX_RANK in
        1) exec timeout --foreground -s KILL 1 "$0" ;;
        2) sleep 2 ;;
        esac
        exec "$0"' "$job"
    [ "$status" -eq 137 ]
    [ "$(grep -cE 'job: rank 1 on n0 ended (while it waited in|during) the exchange at start-up' <<<"$output")" -eq 2 ]
}

@test "so does one that ends before it opens the job, however it ends" {
    for end in 'exit 0' 'exit 3' 'sleep 1; exit 0' 'kill -9 $$'; do
        # far less than the timeout, and than the launcher's patience
        run timeout 60 accel launch -n 3 --nodes 2 --grace 1000 sh -c \
            "[ \$PMIX_RANK != 1 ] || { $end; }; exec '$job'"
        [ "$status" -ne 0 ]
        [ "$(grep -c 'rank 1 on n0 ended before the exchange at start-up' \
            <<<"$output")" -eq 2 ]
    done
    # one that opens the job and closes it without the exchange
    run timeout 60 accel launch -n 3 --grace 1000 sh -c \
        "[ \$PMIX_RANK != 1 ] || exec '$job' --no-exchange; exec '$job'"
    [ "$status" -eq 1 ]
    [ "$(grep -c 'rank 1 on .* ended before the exchange at start-up' \
        <<<"$output")" -eq 2 ]
}

@test "one that does not come is named when the time is over" {
    run env ACCEL_TIMEOUT=2 timeout 60 accel launch -n 8 --grace 0 sh -c \
        "[ \$PMIX_RANK -lt 1 ] || exec sleep 317; exec '$job'"
    [ "$status" -eq 1 ]
    grep -q 'start-up in 2 s; missing: rank 1 on [^,]*, rank 2 on .*, rank 4 on [^ ,]* and more (setting' \
        <<<"$output"
    run env ACCEL_TIMEOUT=2 timeout 60 accel launch -n 3 sh -c \
        "[ \$PMIX_RANK != 1 ] || exec sleep 6; exec '$job'"
    [ "$status" -eq 1 ]
    # One whose time is over first ends, which the other may hear of.
    grep -q 'in 2 s; missing: rank 1 on [^ ,]* (setting' <<<"$output"
    [ "$(grep -c 'start-up.*; missing: rank 1 on' <<<"$output")" -eq 2 ]
}

@test "a job may be opened again" {
    run timeout 60 accel launch -n 3 --nodes 2 "$job" --reopen
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 3' <<<"$output")" -eq 6 ]
    [ "$(sort -u <<<"$output" | grep -c '^world 3')" -eq 3 ]
    run timeout 60 accel launch -n 2 "$job" --no-exchange --reopen
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 2' <<<"$output")" -eq 4 ]
    # but not when PMIx was closed early
    run env ACCEL_PMIX=close timeout 60 accel launch -n 2 "$job"
    [ "$status" -eq 0 ]
    run env ACCEL_PMIX=close timeout 60 accel launch -n 2 "$job" --reopen
    [ "$status" -eq 1 ]
    grep -q 'pmix=close' <<<"$output"
}

@test "mpirun: the same world" {
    [ -x "$mpi" ] || skip "no MPI at configure"
    run timeout 60 mpirun -n 3 "$job"
    [ "$status" -eq 0 ]
    for r in 0 1 2; do
        grep -q "^world 3 rank $r local $r of 3 node 0 of 1" <<<"$output"
    done
}

@test "beside MPI under mpirun, in any order" {
    [ -x "$mpi" ] || skip "no MPI at configure"
    # What Open MPI and its unloaded parts keep is not ours to judge.
    export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
    for order in accel mpi accel-close; do
        run timeout 60 mpirun -n 2 "$mpi" $order
        [ "$status" -eq 0 ]
        [ "$(grep -c "^mpi $order rank . of 2" <<<"$output")" -eq 2 ]
        run timeout 60 "$mpi" $order
        [ "$status" -eq 0 ]
        grep -q "^mpi $order rank 0 of 1" <<<"$output"
    done
}

@test "MPI that starts first below accel launch: no worlds of one" {
    [ -x "$mpi" ] || skip "no MPI at configure"
    export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
    run timeout 60 accel launch -n 3 "$mpi" mpi
    [ "$status" -eq 1 ]
    for r in 0 1 2; do
        grep -q "accel launch has started this process as rank $r of 3, but \
PMIx now says rank 0 of 1: MPI_Init() joins nobody below accel launch; start" \
            <<<"$output"
    done
    run ! grep -q '^mpi mpi' <<<"$output"
    # nor by the communicator of MPI
    run timeout 60 accel launch -n 2 "$top_builddir/tests/multi/mp_comm_mpi" barrier
    [ "$status" -ne 0 ]
    [ "$(grep -c 'rank [01] of 2, but MPI says rank 0 of 1' <<<"$output")" -eq 2 ]
}

@test "a launcher inside a rank of accel launch is believed" {
    run timeout 60 accel launch -n 2 accel launch -n 3 "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 3' <<<"$output")" -eq 6 ]
    run timeout 60 accel launch -n 2 env -u PMIX_NAMESPACE "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 1 .* single' <<<"$output")" -eq 2 ]
    [ -x "$mpi" ] || skip "no MPI at configure"
    export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
    run timeout 60 accel launch -n 2 mpirun -n 2 "$mpi" mpi
    [ "$status" -eq 0 ]
    [ "$(grep -c '^mpi mpi rank . of 2' <<<"$output")" -eq 4 ]
    # and accel launch inside a rank of mpirun
    run timeout 60 mpirun -n 2 accel launch -n 3 "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 3' <<<"$output")" -eq 6 ]
}
