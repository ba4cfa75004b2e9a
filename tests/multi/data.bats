# Data and results on several ranks: mp_data.c, mp_trouble.c and mp_results.c
# hold the cases.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=$top_builddir/tests/multi/mp_data
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

# case "ranks nodes"...
in_shapes() {
    local case=$1 shape
    shift
    for shape in "$@"; do
        # shellcheck disable=SC2086
        run on $shape "$case"
        [[ $status -eq 0 && $output == *"ok $case"* ]] || {
            echo "shape $shape: status $status: $output"
            return 1
        }
    done
}

@test "each sample once, however dealt and read" {
    in_shapes once "1 1" "2 1" "3 3"
}

@test "rows of an epoch are its samples" {
    in_shapes rows "1 1" "2 1" "3 3"
}

@test "after a seek, and with a loop inside a loop" {
    in_shapes seek "1 1" "2 1" "3 1"
}

@test "case 1: metrics count no repeats" {
    in_shapes 1 "1 1" "2 1" "3 1" "4 2"
}

@test "case 3: fewer samples than ranks" {
    in_shapes 3 "7 1" "9 1"
}

@test "an epoch without a batch: no rounds, and one warning a loader" {
    for shape in "1 1" "3 1" "4 2"; do
        # shellcheck disable=SC2086
        run on $shape nothing
        echo "$output"
        [[ $status -eq 0 ]]
        [[ $(grep -c 'epoch 0 has no batch of 4 .*drop_last' <<<"$output") -eq 6 ]]
        [[ $(grep -c 'has no batch' <<<"$output") -eq 6 ]]
    done
}

@test "case 4: unequal numbers of batches" {
    in_shapes 4a "8 1"
    in_shapes 4b "4 1" "4 2"
    in_shapes 4c "4 1"
    # off: on all ranks the one that ran out is to blame, in the fifth
    local left='after 4 batches .*: comm: rank 3 on .* has left '
    for nodes in 1 2 4; do
        run on 4 $nodes 4off
        echo "$nodes nodes: $output"
        [[ $status -eq 0 ]]
        for rank in 0 1 2; do
            [[ $(grep -c "^rank $rank: $left" <<<"$output") -eq 1 ]]
        done
    done
}

@test "case 4: a loader's short last group counts" {
    in_shapes join_loader "1 1" "2 1" "3 1"
}

@test "case 5: one order for all ranks, another one each epoch" {
    run --separate-stderr on 4 1 5
    [[ $status -eq 0 && $output == *"the loader's seed"* ]]
    grep -v ^rank <<<"$output" >first
    on 4 1 5 | grep -v ^rank >second
    cmp first second
}

@test "what ranks give unlike is named on all" {
    program=$top_builddir/tests/multi/mp_trouble
    run on 3 1 unlike
    echo "$output"
    [[ $status -eq 0 ]]
    sed -n 's/^rank 2: .* differs from rank 0 in \(the .*\); give .*/\1/p' \
        <<<"$output" >got
    cmp got - <<'EOF'
the dataset: memory with 99 samples, not memory with 100 samples
the loader's seed: 2, not 1
the loader's seed: 2, not 1
the values of the loader's weights
the loader's shuffle: true, not false
the loader's block: 5, not 4
the loader's batch_size: 6, not 5
the loader's drop_last: true, not false
the loader's uneven: true, not false
the loader's elastic: true, not false
the loader's static_shape: true, not false
the loader's dispatch: true, not false
the loader's epoch: 1, not 0
the dataset: field x of 1 u64, not field id of 1 u64
the dataset: other samples of the same files
the dataset: file b.txt of 4 bytes, not file a.txt of 4 bytes
EOF
    [[ $(grep -c '^rank [01]: ACCEL_ERR_PROTO: prepare: rank 1 ' \
        <<<"$output") -eq 32 ]]
}

@test "case 7: broken off in a later epoch, to the bits of a whole run" {
    on 2 1 7 | grep ^step | sort >whole
    on 2 1 7_begin | grep ^step >parts
    on 2 1 7_end | grep ^step >>parts
    sort parts | cmp - whole
    [[ $(wc -l <whole) -eq 30 ]]
    # each id once an epoch, in another order in each
    for epoch in 0 1 2; do
        grep " epoch $epoch " whole | sed 's/.*ids \(.*\) noise.*/\1/' |
            tr ' ' '\n' >order$epoch
        sort -n order$epoch | cmp - <(seq 0 19)
    done
    run ! cmp -s order0 order1
    run ! cmp -s order1 order2
}

@test "dispatch deals the last round as the table says" {
    run on 2 1 dispatch
    [[ ${lines[0]} == "9: 8 | 0" ]]
    [[ ${lines[1]} == "10: 8 | 9" ]]
    [[ ${lines[2]} == "11: 8 9 | 10 0" ]]
    run on 4 2 dispatch
    [[ ${lines[0]} == "1: 0 | 0 | 0 | 0" ]]
    [[ ${lines[1]} == "2: 0 | 1 | 0 | 1" ]]
}

@test "dispatch: what rank 0 cannot read is an error on all ranks" {
    run on 2 1 dispatch_error
    [[ $status -eq 0 ]]
    [[ $(grep -c 'batch 2 of epoch 0' <<<"$output") -eq 2 ]]
}

# kind rank threads nodes file's name: all four ranks have the error of RANK
trouble() {
    local kind=$1 rank=$2 threads=$3 nodes=$4 what=$5
    mkdir -p 0 1 2 3
    [[ ! -e whole.$kind ]] || for r in 0 1 2 3; do
        cp "whole.$kind" "$r/x.$kind"
    done
    program=$top_builddir/tests/multi/mp_trouble
    run on 4 "$nodes" "$kind" "$rank" "$threads"
    echo "$kind, rank $rank, $threads threads, $nodes nodes: $status: $output"
    [[ $status -eq 0 ]]
    [[ $(grep -c "^rank [0-3]: .*dataset: .*$what" <<<"$output") -eq 4 ]]
    for r in 0 1 2 3; do
        local by="rank $rank on "
        [[ $r -ne $rank ]] || by="loader: "
        grep -q "^rank $r: $by" <<<"$output"
    done
}

@test "what one rank cannot read is an error on all, the same" {
    /usr/bin/python3 - <<'EOF'
import h5py, numpy
x = numpy.arange(64, dtype="u8")
numpy.save("whole.npy", x)
with h5py.File("whole.h5", "w") as f:
    f["x"] = x
with h5py.File("whole.packed", "w") as f:
    f.create_dataset("x", data=x, chunks=(5,), compression="gzip")
EOF
    trouble npy 3 0 1 "3/x.npy: had 640 bytes"
    trouble npy 0 2 2 "0/x.npy: had 640 bytes"
    trouble h5 2 2 1 "2/x.h5: had "
    trouble packed 1 1 2 "1/x.packed: had "
    trouble callback 1 0 1 "reading 2 samples"
    trouble callback 3 2 2 "reading 2 samples"
    trouble stream 0 0 1 "reading the stream"
    trouble stream 3 2 2 "reading the stream"
}

@test "rows of unequal number, bytes, means" {
    program=$top_builddir/tests/multi/mp_results
    in_shapes pad "1 1" "2 1" "4 2"
    in_shapes bytes "1 1" "3 1" "4 2"
}

@test "numbers of each rank are moved, reduced and padded" {
    program=$top_builddir/tests/multi/mp_results
    in_shapes moved "1 1" "2 1" "3 3"
    in_shapes reduced "1 1" "2 1" "3 3"
    in_shapes pad_one "1 1" "2 1" "4 2"
    in_shapes copied "1 1" "3 1"
}

@test "shapes that differ are the same error on all ranks" {
    program=$top_builddir/tests/multi/mp_results
    for what in pad reduce broadcast; do
        run on 3 1 unlike_$what
        echo "$output"
        [[ $status -eq 0 ]]
        [[ $(grep -c '^rank [012]: .*PROTO' <<<"$output") -eq 3 ]]
    done
}
