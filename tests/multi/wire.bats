# Gradients on their way between ranks: mp_wire.c holds the cases.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=$top_builddir/tests/multi/mp_wire
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

# case spec: in worlds of several shapes.
everywhere() {
    local shape
    for shape in "1 1" "2 1" "3 3" "4 2"; do
        # shellcheck disable=SC2086
        run on $shape "$@"
        [[ $status -eq 0 && $output == *"ok $1"* ]] || {
            echo "shape $shape: status $status: $output"
            return 1
        }
    done
}

@test "f16 on the wire: neither too large nor too small" {
    everywhere range no,wire=f16
}

@test "f16 on the wire: the bits of what it can hold are kept" {
    everywhere bits no,wire=f16
}

@test "16 bits on the wire: fewer ranks with data make nothing infinite" {
    everywhere join no,wire=f16
    everywhere join no,wire=bf16
}

@test "what became infinite in the sum is not called the program's" {
    local wire
    for wire in f32 bf16; do
        run on 2 1 sum "no,wire=$wire"
        [[ $status -eq 0 ]] || { echo "$output"; return 1; }
        [[ $output == *"finite on every rank"*"added up, as $wire"* ]]
        [[ $output != *"from the program"* ]]
    done
}

@test "what a rank's program brought names that rank" {
    local wire
    for wire in f32 f16; do
        run on 3 1 program "no,wire=$wire"
        [[ $status -eq 0 ]] || { echo "$output"; return 1; }
        [[ $(grep -c 'from the program, on rank 2' <<<"$output") -eq 3 ]]
        [[ $output == *"gradient of e "* ]]
    done
}
