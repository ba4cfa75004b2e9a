# The step on several ranks: mp_train.c holds the cases.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=$top_builddir/tests/multi/mp_train
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

# In worlds of several shapes.
everywhere() {
    local shape
    for shape in "1 1" "2 1" "4 1" "4 2" "3 3"; do
        # shellcheck disable=SC2086
        run on $shape "$@"
        [[ $status -eq 0 && $output == *"ok ${1-}"* ]] || {
            echo "shape $shape: status $status: $output"
            return 1
        }
    done
}

@test "all ranks get rank 0's weights, in every precision" {
    everywhere weights no
    everywhere weights fp16
    everywhere weights bf16
}

@test "ranks times batch equal one rank with the whole batch" {
    local shape
    on 1 1 equal >one
    for shape in "2 1" "4 1" "3 1" "4 2" "3 3" "6 2"; do
        # shellcheck disable=SC2086
        on $shape equal >many
        paste one many | head -1 | awk '{
            for (i = 1; i <= NF / 2; i++)
                if (($i - $(i + NF / 2)) ^ 2 > 1e-10 * (1 + $i ^ 2)) exit 1
        }' || { cat one many; return 1; }
    done
    # In 16 bits the same, as far as these reach.
    on 4 1 equal fp16 >many
    paste one many | head -1 | awk '{
        for (i = 1; i <= NF / 2; i++)
            if (($i - $(i + NF / 2)) ^ 2 > 1e-8 * (1 + $i ^ 2)) exit 1
    }'
}

@test "gradients that leave early have the same bits" {
    program=$top_builddir/tests/multi/mp_ready
    everywhere
    on 3 2 wire=bf16
}

@test "no memory on one rank is one error on all, and no end" {
    # What a sanitizer puts in place of malloc() fails for nobody.
    [[ ${SANITIZER-no} == no ]] || skip "not with a sanitizer's own malloc()"
    program=$top_builddir/tests/multi/mp_memory
    # rank 0 has most to do
    run --separate-stderr on 3 2 "$BATS_TEST_TMPDIR/ckpt" 0
    [[ $status -eq 0 ]] || { echo "$output"; return 1; }
    [[ $output =~ ^([0-9]+)" allocations failed"$ ]]
    [[ ${BASH_REMATCH[1]} -ge 60 ]]
}

@test "a prepare that fails leaves nothing behind" {
    everywhere no_memory
}

@test "16 bits on the wire come close, and all ranks stay alike" {
    local wire
    on 4 2 equal >exact
    for wire in f16 bf16; do
        on 4 2 equal "no,wire=$wire" >rounded
        paste exact rounded | head -1 | awk '{
            for (i = 1; i <= NF / 2; i++) {
                d = ($i - $(i + NF / 2)) ^ 2
                if (d > 4e-4 * (1 + $i ^ 2)) exit 1
                any = any || d > 0
            }
            if (!any) exit 1
        }' || { cat exact rounded; return 1; }
    done
}

@test "groups end alike, and a short one divides by what it has" {
    on 1 1 groups
    on 2 1 groups
    on 4 2 groups
}

@test "the rate follows the updates on any number of ranks" {
    on 1 1 schedule
    on 2 1 schedule
    on 4 1 schedule
    on 4 2 schedule accumulate=4
}

@test "an infinity on one rank skips one step on all" {
    everywhere overflow fp16
}

@test "a NaN that one rank alone has is seen by all" {
    everywhere late_nan bf16
}

@test "clipping sees one norm" {
    everywhere clip no
    everywhere clip fp16
}

@test "gradients of many sizes average exactly" {
    on 2 1 buckets
    on 3 3 buckets
    on 2 1 buckets wire=f16
}

@test "a second model may be larger than the first" {
    on 3 1 second_model
    on 4 2 second_model wire=f16
}

@test "rank 0 goes first, triggers and sums reach all" {
    run on 4 1 together
    [[ $status -eq 0 ]]
    [[ ${lines[0]} == "first 0" ]]
    [[ $(grep -c '^first' <<<"$output") -eq 4 ]]
    everywhere together
}

@test "metrics see each sample once, in order" {
    everywhere metrics
    on 7 1 metrics
}

@test "an optimizer of the program's own: one verdict, stopped alike" {
    everywhere own no
    everywhere own fp16
}

# Every rank prints its errors; with quiet only rank 0 is heard.
@test "ranks other than 0 can be quiet" {
    run --separate-stderr on 3 1 other_model
    [[ $(grep -c '^rank 2: ' <<<"$output") -eq 2 ]]
    run --separate-stderr on 3 1 other_model quiet=yes
    [[ $status -eq 0 && $output == *"ok other_model"* ]]
    [[ $(grep -c '^rank 0: ' <<<"$output") -eq 2 ]]
    [[ $(grep -c '^rank [12]: ' <<<"$output") -eq 0 ]]
    # Who has none is quiet already.
    timeout 120 accel launch -n 2 bash -c 'exec "$0" own quiet=yes >&-' \
        "$program"
}

@test "rows need a loader that is prepared" {
    run on 2 1 unprepared_loader
    [[ $status -eq 0 && $output == *"deals for 1 rank;"* ]]
}

# The program checks the status on each rank; here the text.
differ() {
    local text=$1
    shift
    run on 3 1 "$@"
    [[ $status -eq 0 ]]
    [[ $(grep -c 'ACCEL_ERR_PROTO' <<<"$output") -ge 3 ]]
    [[ $output == *"$text"* ]] || { echo "$output"; return 1; }
}

@test "models that differ: the parameter is named" {
    differ "parameter 1: rank 0 has differs [4, 2], rank 2" other_model
    differ "has no more" other_model
}

@test "loaders that differ: the field is named" {
    differ "batch_size: 3, not 2" other_loader
    differ "seed" other_loader
}

@test "prepared objects that differ are named" {
    differ "prepares nothing, rank 0 a loader" other_objects
}

@test "gradients that differ after the exchange are noticed" {
    differ "gradients differ between ranks" other_gradients
}

@test "groups that differ are noticed" {
    differ "accumulated 1 to 2 batches" other_groups
}
