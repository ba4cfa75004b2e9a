# Floating-point modes and weights of ranks: mp_mode.c holds the cases.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=$top_builddir/tests/multi/mp_mode
    unset "${!ACCEL_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
}

# ranks nodes case [spec]
on() {
    local ranks=$1 nodes=$2
    shift 2
    timeout 120 accel launch -n "$ranks" --nodes "$nodes" "$program" "$@"
}

@test "ranks that round and flush otherwise keep the same weights" {
    local shape spec
    # shellcheck disable=SC2086
    for shape in "2 1" "4 1" "4 2"; do
        for spec in no,check=1,clip=0.1 fp16,clip=0.1 bf16 no,wire=f16; do
            run on $shape modes "$spec"
            [[ $status -eq 0 && $output == *"ok modes"* ]] || {
                echo "$shape $spec: status $status: $output"
                return 1
            }
        done
    done
}

@test "check= names the first parameter and rank that are not alike" {
    run on 3 1 weights check=1
    [[ $status -eq 0 ]]
    [[ $(grep -c ': 3: .*weights of b are.* rank 2' <<<"$output") -eq 3 ]]
    run on 4 2 weights check=3
    [[ $(grep -c ': 4: .*weights of b are.* rank 3' <<<"$output") -eq 4 ]]
    run on 3 1 weights # nobody asked
    [[ $(grep -c ': 10: ok' <<<"$output") -eq 3 ]]
}
