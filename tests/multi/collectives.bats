# A sample of all operations between real processes, and the bits of sums on
# every instruction set: mp_comm.c does it, this says where.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    comm=$top_builddir/tests/multi/mp_comm
    product=${ACCEL_TEST_PRODUCT-}
    unset "${!ACCEL_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
    [[ -z $product ]] || export ACCEL_TEST_PRODUCT=$product
}

# ranks nodes program...
on() {
    local ranks=$1 nodes=$2
    shift 2
    # all of the product takes hours
    timeout "$([[ $product ]] && echo 36000 || echo 120)" accel launch -n "$ranks" \
        --nodes "$nodes" "$@"
}

@test "a sample of all operations, on the world and on parts of it" {
    local shape
    for shape in "4 1" "7 3" "6 4"; do
        # shellcheck disable=SC2086
        run on $shape "$comm" product 40
        [[ $status -eq 0 && $output == *"tried: "*"${shape/ / ranks on }"* ]] ||
            { echo "$shape: $output"; return 1; }
    done
}

# The levels that this machine lacks run as the next lower one, and say so.
@test "sums have the same bits on every instruction set, and in every run" {
    local shape isa first
    for shape in "3 1" "5 3"; do
        first=
        for isa in scalar avx2 avx512 avx512; do
            # shellcheck disable=SC2086
            run env ACCEL_ISA=$isa timeout 120 accel launch -n ${shape% *} \
                --nodes ${shape#* } "$comm" bits
            [[ $status -eq 0 && $output =~ bits:\ ([0-9a-f]{16}) ]] || {
                echo "$shape $isa: $output"
                return 1
            }
            : "${first:=${BASH_REMATCH[1]}}"
            [[ ${BASH_REMATCH[1]} == "$first" ]] || {
                echo "$shape: $isa gives ${BASH_REMATCH[1]}, scalar $first"
                return 1
            }
        done
    done
}
