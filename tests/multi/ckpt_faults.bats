# Each change to files that a save makes, failing in each way: afterwards the
# old checkpoint or the new one loads whole, and what was said is true.

setup() {
    program=$top_builddir/tests/multi/mp_ckpt
    dir=$BATS_TEST_TMPDIR/ckpt
    preload=$top_builddir/tests/harness/.libs/fault.so
    # A sanitizer wants to be first.
    case $SANITIZER in
    *address*) preload="$($CC -print-file-name=libasan.so) $preload" ;;
    *thread*) preload="$($CC -print-file-name=libtsan.so) $preload" ;;
    esac
    # A file that HDF5 failed to write is left to it for ever: see h5.h.
    export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
}

# saves step 2 with the k-th call failing; sets status and output
faulty() {
    run env LD_PRELOAD="$preload" FAULT_PATH="$dir" FAULT_KIND="$1" \
        FAULT_AT="$2" timeout 60 "$program" save "$dir" 2 "${3:-0}"
}

# How many changes a save makes when all goes well.
count() {
    rm -rf "$dir"
    "$program" save "$dir" 1
    LD_PRELOAD=$preload FAULT_PATH=$dir FAULT_LOG=$BATS_TEST_TMPDIR/count \
        "$program" save "$dir" 2 "${1:-0}"
    calls=$(cat "$BATS_TEST_TMPDIR/count")
    [ "$calls" -gt 20 ]
}

complain() {
    echo "$1 at call $2 of $calls: $3"
    echo "status $status, output: $output"
    ls -la "$dir"
    false
}

# What must hold however a save ended: every checkpoint under a final name is
# whole, one of the two loads, and the next save works and leaves no litter.
check_after() {
    local loaded
    "$program" list "$dir" >"$BATS_TEST_TMPDIR/list"
    ! grep -v ' complete$' "$BATS_TEST_TMPDIR/list" ||
        complain "$1" "$2" "a partial checkpoint"
    loaded=$("$program" load "$dir") || complain "$1" "$2" "no load"
    case $loaded in
    "loaded 1 of 1 on 1") last=1 ;;
    "loaded 2 of 1 on 1") last=2 ;;
    *) complain "$1" "$2" "$loaded" ;;
    esac
    "$program" save "$dir" 3 || complain "$1" "$2" "no next save"
    [ -z "$(find "$dir" -mindepth 1 -maxdepth 1 -name '.*')" ] ||
        complain "$1" "$2" "litter"
}

fails_with() {
    local k kind=$1 words=$2
    count
    for k in $(seq "$calls"); do
        rm -rf "$dir"
        "$program" save "$dir" 1
        faulty "$kind" "$k"
        case $status in
        0) ;;
        3) [[ $output == *"error ACCEL_ERR_IO "*"$dir"*"$words"* ]] ||
            complain "$kind" "$k" "other words" ;;
        *) complain "$kind" "$k" "neither success nor an error" ;;
        esac
        said=$status
        [ -z "$(find "$dir" -name '.step-*')" ] ||
            complain "$kind" "$k" "a temporary directory stays"
        check_after "$kind" "$k"
        # Success means the new one, an error the old one.
        [ "$last" -eq $((said == 0 ? 2 : 1)) ] ||
            complain "$kind" "$k" "said $said, but $last is there"
    done
}

dies() {
    local k
    count 1
    for k in $(seq "$calls"); do
        rm -rf "$dir"
        "$program" save "$dir" 1
        faulty "$1" "$k" 1
        [ "$status" -eq 137 ] || complain "$1" "$k" "not killed"
        check_after "$1" "$k"
    done
}

@test "EIO at any call" {
    fails_with EIO "nput/output error"
}

@test "ENOSPC at any call" {
    fails_with ENOSPC "No space left on device"
}

@test "EDQUOT at any call" {
    fails_with EDQUOT "Disk quota exceeded"
}

@test "a disk that is full from any call on" {
    fails_with full "No space left on device"
}

@test "short writes are finished" {
    count
    for k in $(seq "$calls"); do
        rm -rf "$dir"
        "$program" save "$dir" 1
        faulty short "$k"
        [ "$status" -eq 0 ] || complain short "$k" "not finished"
        "$program" verify "$dir/step-00000002" || complain short "$k" damaged
    done
}

@test "killed before any call" {
    dies kill
}

@test "killed after any call" {
    dies killed
}
