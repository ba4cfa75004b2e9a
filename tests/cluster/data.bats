# Data under Slurm: fewer samples than ranks, on nodes of their own.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    with=$BATS_TEST_DIRNAME/with-cluster
    export top_builddir=${top_builddir:-$PWD}
    export data=$top_builddir/tests/multi/mp_data
    export results=$top_builddir/tests/multi/mp_results
    unset "${!ACCEL_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
}

# The case's samples are 3 for 7 ranks and 4 for 9.
@test "case 3: fewer samples than ranks, and none at all" {
    run timeout 280 "$with" -N 4 -m pmix bash -c '
        srun -N4 -n7 --overcommit "$data" 3 &&
        srun -N4 -n9 --overcommit "$data" 3'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok 3$' <<<"$output")" -eq 2 ]
    # without a sample: the same error on each of the 7 and of the 9
    [ "$(grep -c '^rank [0-8]: .*: the dataset has no samples$' <<<"$output")" \
        -eq 16 ]
    [ "$(grep -c '^rank [78]: ' <<<"$output")" -eq 2 ]
}

@test "each sample once on uneven nodes; results of all ranks" {
    run timeout 280 "$with" -N 3 -m pmix bash -c '
        srun -N3 -n5 -m cyclic "$data" 1 &&
        srun -N3 -n4 "$results" moved &&
        srun -N3 -n4 "$results" unlike_reduce'
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^ok 1$' <<<"$output"
    grep -q '^ok moved$' <<<"$output"
    [ "$(grep -c '^rank [0-3]: .*PROTO' <<<"$output")" -eq 4 ]
}
