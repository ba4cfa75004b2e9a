# accel test: finds nothing where all is well, and says what to do where not.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset "${!ACCEL_@}" "${!SLURM_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
}

# All lines but notes are "ok", and nothing is left in the directory.
all_ok() {
    [[ $status -eq 0 ]] || { echo "$output"; return 1; }
    [[ $(grep -c '^all 17 checks ok$' <<<"$output") -eq 1 ]]
    [[ $(grep -c '^ok ' <<<"$output") -eq 17 ]]
    [[ $output != *FAIL* ]]
    [[ -z $(ls -A) ]]
}

@test "alone it starts ranks of its own" {
    run -0 timeout 120 accel test
    all_ok
    [[ $output == "no launcher: starting "* ]]
    run -0 timeout 120 accel test -n 3
    all_ok
    [[ $output == *"ok    identity: 3 ranks"* ]]
}

@test "inside a launcher it tests that world, and speaks once" {
    run -0 timeout 120 accel launch -n 4 --nodes 2 accel test
    all_ok
    [[ $output == *"placement: n0: 2 from rank 0, n1: 2 from rank 2"* ]]
    # in a batch script there is a task's number, the same for all of them
    SLURM_PROCID=0 run -0 timeout 120 mpirun -n 2 accel test
    all_ok
}

@test "a world of one says so" {
    run -0 timeout 120 accel test --here
    all_ok
    [[ $output == *"note  identity: a world of one"* ]]
}

@test "whatever the environment sets is not what is tested" {
    ACCEL_SPEC=bf16,accumulate=3,clip=0.1,wire=f16 run -0 \
        timeout 120 accel launch -n 2 accel test
    all_ok
    # each group of checks opens the job, which pmix=close allows once
    ACCEL_PMIX=close ACCEL_RESUME=/nonexistent ACCEL_KEEP=1 run -0 \
        timeout 120 accel launch -n 2 accel test
    all_ok
    ACCEL_PMIX=close run -0 timeout 120 accel test -n 2
    all_ok
}

@test "a directory that is not there fails that check alone" {
    run timeout 120 accel test -n 2 --dir "$PWD/absent"
    [[ $status -eq 1 ]]
    [[ $(grep -c '^FAIL ' <<<"$output") -eq 1 ]]
    [[ $output == *"FAIL  checkpoint: rank 0 on "*"/absent: "* ]]
    [[ $output == *"accel test --dir DIR"* ]]
    [[ ${lines[-1]} == "1 of 17 checks FAILED" ]] ||
        [[ $output == *"1 of 17 checks FAILED"* ]]
}

@test "no way between the nodes: said once, and not passed" {
    ACCEL_MODULE_DIR=/nonexistent run timeout 120 \
        accel launch -n 4 --nodes 2 --grace 5 accel test
    [[ $status -eq 1 ]]
    [[ $(grep -c '^FAIL  start: ' <<<"$output") -eq 1 ]]
    [[ $output == *"no transport"* ]]
    [[ $output == *"the others were not tried"* ]]
}

# accel test on four ranks, one of which is spoilt: see tests/harness/lie.c.
spoil() {
    local preload=$top_builddir/tests/harness/.libs/lie.so
    # A sanitizer wants to be first.
    case ${SANITIZER-} in
    *address*) preload="$($CC -print-file-name=libasan.so) $preload" ;;
    *thread*) preload="$($CC -print-file-name=libtsan.so) $preload" ;;
    esac
    run timeout 120 accel launch -n 4 --nodes 2 \
        env LD_PRELOAD="$preload" LIE_RANK=2 "$@" accel test
    [[ $status -eq 1 ]]
}

@test "one rank with wrong numbers is named, and all else is tried" {
    # of 1 element, then of 70000: no rank may leave before the others
    local count
    for count in 17 70000; do
        spoil LIE_REDUCE=$count
        [[ $(grep -c '^FAIL ' <<<"$output") -eq 1 ]]
        grep -q "^FAIL  all-reduce: rank 2 on n1: sum of $count f64: element 0" \
            <<<"$output"
        [[ $(grep -c '^ok ' <<<"$output") -eq 16 ]]
    done
}

@test "one rank without memory is named, and all else is tried" {
    # A sanitizer's calloc() is its own.
    [[ ${SANITIZER-no} == no ]] || skip "no calloc() beside a sanitizer's"
    spoil LIE_ROOM=280008 # the buffers of reduce-scatter and all-gather
    [[ $(grep -c '^FAIL ' <<<"$output") -eq 2 ]]
    grep -q '^FAIL  reduce-scatter: rank 2 on n1: out of memory' <<<"$output"
    grep -q '^FAIL  all-gather: rank 2 on n1: out of memory' <<<"$output"
    [[ $(grep -c '^ok ' <<<"$output") -eq 15 ]]
}

@test "a setting that is wrong is named" {
    ACCEL_PRECISION=fp17 run timeout 60 accel test --here
    [[ $status -eq 1 ]]
    [[ $output == *"FAIL  start: "*"fp17"* ]]
}

@test "a setting that is wrong on one rank ends the start on all" {
    # shellcheck disable=SC2016
    run timeout 60 accel launch -n 4 --nodes 2 --grace 1000 sh -c \
        '[ $PMIX_RANK != 3 ] || export ACCEL_NET=junk; exec accel test'
    [[ $status -eq 1 ]]
    [[ $output == *"FAIL  start: job: rank 3 on n1: settings: ACCEL_NET: "* ]]
}

@test "wrong usage exits with 2" {
    local arguments
    for arguments in "-n 0" "-n 65" "-n x" "-n" "--dir" "--dir=" "--what" "more" \
        "-n 2 --here"; do
        # shellcheck disable=SC2086
        run -2 accel test $arguments
        [[ $output == *"usage: accel test"* ]]
    done
}
