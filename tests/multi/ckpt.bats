# Checkpoints of several ranks, as processes under accel launch.

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
    [[ $BATS_TEST_DESCRIPTION != *"disk fails"* &&
        $BATS_TEST_DESCRIPTION != *"out of inodes"* &&
        $BATS_TEST_DESCRIPTION != *"may not grow"* ]] ||
        export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
}

ranks() {
    local n=$1
    shift
    timeout 60 accel launch -n "$n" "$@"
}

@test "what 4 ranks saved loads on 1, 2, 3, 4 and 6" {
    [ "$(ranks 4 "$program" save "$dir" 100)" = "saved 100 on 4" ]
    for n in 1 2 3 4 6; do
        [ "$(ranks "$n" "$program" load "$dir")" = "loaded 100 of 4 on $n" ]
    done
}

@test "what 1, 3 and 7 ranks saved loads on 2" {
    for n in 1 3 7; do
        [ "$(ranks "$n" "$program" save "$dir" "$n")" = "saved $n on $n" ]
        [ "$(ranks 2 "$program" load "$dir")" = "loaded $n of $n on 2" ]
    done
}

@test "verify finds nothing wrong with what 4 ranks saved" {
    ranks 4 "$program" save "$dir" 100
    "$program" verify "$dir/step-00000100"
}

@test "no rank writes much more than its share" {
    ranks 4 "$program" save "$dir" 100
    [ "$(ls "$dir/step-00000100" | wc -l)" -eq 6 ] # 4 shards, index, manifest
    big=$(stat -c %s "$dir"/step-00000100/shard-* | sort -n | tail -1)
    # 277,288 bytes of weights and moments; rank 3 has 4 of 10 moments.
    [ "$big" -lt $((277288 / 8 + 277288 / 5 + 20000)) ]
}

@test "mistakes of one rank are everybody's error" {
    [ "$(ranks 3 "$program" wrong "$dir")" = "refused all" ]
    [ ! -e "$dir" ]
}

@test "one rank saves alone: nobody waits, all hear of it" {
    for nodes in 1 2; do
        run ranks 4 --nodes $nodes "$program" alone "$dir"
        [ "$status" -eq 0 ]
        for r in 0 1 2 3; do
            [[ $output == *"rank $r: ACCEL_ERR_PROTO "*"rank"* ]]
        done
        [[ $output == *"saving step 1 in $dir: comm: the ranks disagree"* ]]
        [ ! -e "$dir" ]
    done
}

@test "every rank gets the error of the rank whose disk fails" {
    ranks 4 "$program" save "$dir" 1
    run env LD_PRELOAD="$preload" FAULT_PATH="$dir" FAULT_AT=3 \
        FAULT_KIND=EIO FAULT_RANK=2 \
        timeout 60 accel launch -n 4 "$program" save "$dir" 2
    [ "$status" -eq 3 ]
    [[ $output == *"error ACCEL_ERR_IO rank 2 on "*"$dir/.step-00000002."* ]]
    [[ $output == *"nput/output error"* ]]
    [ "$("$program" list "$dir")" = "step-00000001 complete" ]
    [ -z "$(find "$dir" -name '.*' -mindepth 1)" ] # nothing is left behind
    [ "$(ranks 3 "$program" load "$dir")" = "loaded 1 of 4 on 3" ]
}

@test "a rank killed in mid-save leaves the old checkpoint, and no name" {
    ranks 4 "$program" save "$dir" 1
    for k in 1 3 6 9 12; do
        run env LD_PRELOAD="$preload" FAULT_PATH="$dir" FAULT_AT="$k" \
            FAULT_KIND=kill FAULT_RANK=2 \
            timeout 60 accel launch -n 4 "$program" save "$dir" 2
        [ "$status" -ne 0 ]
        [ "$("$program" list "$dir")" = "step-00000001 complete" ]
    done
    [ "$(ranks 4 "$program" save "$dir" 2)" = "saved 2 on 4" ]
    [ -z "$(find "$dir" -name '.*' -mindepth 1)" ] # swept
    [ "$(ranks 3 "$program" load "$dir")" = "loaded 2 of 4 on 3" ]
}

# Whatever moment it is, each run loads, checks and goes on from what the one
# before it left; mp_ckpt train keeps the two newest.
@test "killed again and again while it saves" {
    local start took round ms after
    start=$(date +%s%N)
    ranks 4 "$program" train "$dir" 3
    took=$((($(date +%s%N) - start) / 1000000)) # ms, on this machine, now
    for round in $(seq 15); do
        # From before the first save to after some of them.
        ms=$((took * (RANDOM % 15 + 5) / 10))
        printf -v after '%d.%03d' $((ms / 1000)) $((ms % 1000))
        run timeout -s KILL "$after" \
            accel launch -n 4 "$program" train "$dir" 100000
        [ "$status" -eq 137 ]
        [[ $output != *wrong* && $output != *error* ]]
    done
    last=$(ranks 3 "$program" load "$dir")
    last=${last#loaded } last=${last%% *}
    run ranks 4 "$program" train "$dir" $((last + 3))
    [[ $output == *"loaded $last of 4 on 4"*"saved $((last + 3)) on 4"* ]]
    [ "$(ls -A "$dir" | wc -l)" -eq 3 ] # two steps and latest: all is swept
}

@test "a damaged shard: all ranks go back to the one before, and say so" {
    ranks 3 "$program" save "$dir" 100
    ranks 3 "$program" save "$dir" 200
    truncate -s -4096 "$dir/step-00000200/shard-00002.h5"
    run ranks 4 "$program" load "$dir"
    [ "$status" -eq 0 ]
    [[ $output == *"loaded 100 of 3 on 4"* ]]
    says="$dir/step-00000200: shard-00002.h5 is 4096 bytes short; using"
    [[ $output == *"$says step-00000100 instead"* ]]
}

@test "a checkpoint that shows late on some nodes is waited for" {
    ranks 4 "$program" save "$dir" 1
    for who in 1 2 3; do
        run env LD_PRELOAD="$preload" FAULT_HIDE=shard- FAULT_HIDE_MS=1500 \
            FAULT_RANK=$who \
            timeout 60 accel launch -n 4 --nodes 2 "$program" load "$dir"
        [ "$status" -eq 0 ]
        [[ $output == *"loaded 1 of 4 on 4"* ]]
    done
}

@test "a shard that one node never sees is the same error on all ranks" {
    ranks 4 "$program" save "$dir" 1
    run env LD_PRELOAD="$preload" FAULT_HIDE=shard-00001.h5 FAULT_RANK=3 \
        timeout 60 accel launch -n 4 --nodes 2 "$program" load "$dir"
    [ "$status" -eq 3 ]
    [[ $output == *"rank 3 on "*"shard-00001.h5 is missing"* ]]
}

@test "a directory that only some nodes have is an error that says so" {
    run env LD_PRELOAD="$preload" FAULT_HIDE=.step- FAULT_RANK=2 \
        timeout 60 accel launch -n 4 --nodes 2 "$program" save "$dir" 1
    [ "$status" -eq 3 ]
    [[ $output == *"rank 2 on "*"file system that all nodes share"* ]]
    [ "$("$program" list "$dir")" = "" ]
    [ -z "$(find "$dir" -name '.*' -mindepth 1)" ]
}

@test "refused file locks matter to nobody" {
    for error in ENOLCK EAGAIN; do
        run env LD_PRELOAD="$preload" FAULT_LOCKS=$error \
            timeout 60 accel launch -n 2 "$program" train "$dir/$error" 3
        [ "$status" -eq 0 ]
        [[ $output == *"saved 3 on 2"* ]]
    done
}

@test "a disk that is full: an error on all ranks, and the run goes on" {
    # A file system of 8 MiB, in a name space of its own, whoever we are.
    mkdir "$dir"
    run timeout 60 unshare --mount $([ "$(id -u)" -eq 0 ] || echo -r) sh -c '
        mount -t tmpfs -o size=8m none "$1" && cd "$1" || exit 99
        accel launch -n 4 "$2" full "$1/ckpt" || exit
        "$2" list "$1/ckpt"
        find "$1/ckpt" -mindepth 1 -name ".*"
        ' sh "$dir" "$program"
    # RLIMIT_FSIZE below comes near it.
    [ "$status" -ne 99 ] || skip "no tmpfs can be mounted here: $output"
    [ "$status" -eq 0 ]
    [[ $output == *"error ACCEL_ERR_IO "*"$dir/ckpt: "*" bytes wanted, "* ]]
    [[ $output == *"No space left on device"* ]]
    [ "${lines[-1]}" = "step-00000001 complete" ]
}

@test "a file that may not grow: an error, and no crash in HDF5 at exit" {
    run ranks 4 "$program" full "$dir" 1000 # 3 MiB of 4 ranks fit, 6 do not
    [ "$status" -eq 0 ]
    [[ $output == *"error ACCEL_ERR_IO "*"$dir"*"ile too large"* ]]
    [ "$("$program" list "$dir")" = "step-00000001 complete" ]
    [ -z "$(find "$dir" -mindepth 1 -name '.*')" ]
    for limit in 20 1; do # not even the first
        "$program" save "$dir-$limit" 0
        run ranks 4 "$program" full "$dir-$limit" $limit
        [ "$status" -eq 3 ]
        [[ $output == *"error ACCEL_ERR_IO "*"$dir"*"ile too large"* ]]
        [ "$("$program" list "$dir-$limit")" = "step-00000000 complete" ]
    done
}

@test "no directory can be made: the path and the cause, on all ranks" {
    touch "$dir"
    run ranks 3 "$program" save "$dir" 1
    [ "$status" -eq 3 ]
    [[ $output == *"error ACCEL_ERR_IO ckpt: $dir: "*"Not a directory"* ]]
    run ranks 3 "$program" save "$dir/below" 1
    [ "$status" -eq 3 ]
    [[ $output == *"$dir"*"ot a directory"* ]]
    run ranks 3 "$program" save "/proc/accel" 1
    [ "$status" -eq 3 ]
    [[ $output == *"/proc/accel: cannot make directory: "* ]]
    run ranks 3 "$program" load "$dir/absent"
    [ "$status" -eq 3 ]
}

@test "a directory that may not be written to" {
    mkdir "$dir"
    chmod 0555 "$dir"
    if [ "$(id -u)" -eq 0 ]; then # root may write anywhere
        chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR"
        run setpriv --reuid 65534 --regid 65534 --clear-groups \
            env HOME=/nonexistent "$program" save "$dir" 1
    else
        run "$program" save "$dir" 1
    fi
    [ "$status" -eq 3 ]
    [[ $output == *"error ACCEL_ERR_IO ckpt: $dir/.step-00000001."* ]]
    [[ $output == *"Permission denied"* ]]
}

@test "h5py sees whole arrays, bf16 and f16 included" {
    python=/usr/bin/python3
    "$python" -c 'import h5py' || {
        echo "h5py is missing: apt-get install python3-h5py"
        false
    }
    for n in 1 2 3 5; do
        ranks "$n" "$program" save "$dir" "$n"
        "$python" "$top_srcdir/tests/multi/ckpt_h5py.py" "$dir" "$n" "$n"
    done
    # Wherever it is moved, and from any directory.
    mv "$dir" "$dir-moved"
    cd /
    "$python" "$top_srcdir/tests/multi/ckpt_h5py.py" "$dir-moved" 5 5
}

@test "a reader in h5py does not disturb the next save" {
    ranks 2 "$program" save "$dir" 1
    /usr/bin/python3 - "$dir" <<'EOF' 3>&- &
import glob, h5py, sys, time
files = [h5py.File(p, "r") for p in glob.glob(sys.argv[1] + "/step-*/*.h5")]
open(sys.argv[1] + "/ready", "w")
time.sleep(60)
EOF
    reader=$!
    for _ in $(seq 300); do
        [ -e "$dir/ready" ] && break
        sleep 0.1
    done
    run ranks 2 "$program" save "$dir" 2 1 # and prunes what is being read
    kill "$reader"
    [ "$status" -eq 0 ]
    [ "$("$program" list "$dir")" = "step-00000002 complete" ]
}

@test "a pipe in place of a manifest hangs nobody" {
    ranks 2 "$program" save "$dir" 2
    ranks 2 "$program" save "$dir" 3
    rm "$dir/step-00000003/manifest"
    mkfifo "$dir/step-00000003/manifest"
    run ranks 2 "$program" load "$dir"
    [ "$status" -eq 0 ]
    [[ $output == *"no regular file; using step-00000002 instead"* ]]
    run ranks 2 "$program" save "$dir" 3
    [ "$status" -eq 0 ]
    [ -d "$(echo "$dir"/.damaged-step-00000003.*)" ]
    [ "$("$program" list "$dir" | grep -c ' complete$')" -eq 2 ]
}

@test "out of inodes is said as anything else" {
    mkdir "$dir"
    "$program" save "$dir" 1
    run env LD_PRELOAD="$preload" FAULT_PATH="$dir" FAULT_KIND=full \
        FAULT_AT=4 timeout 60 "$program" save "$dir" 2 # HDF5's open(2)
    [ "$status" -eq 3 ]
    [[ $output == *"shard-00000.h5: cannot create: No space left"* ]]
    [[ $output != *"errno"* ]]
}

@test "a limit of files stops the start with an error, not a signal" {
    for k in 1 64; do
        run bash -c "ulimit -f $k; trap - XFSZ
            timeout 60 accel launch -n 2 '$program' save '$dir' 2 2>&1 | cat
            exit \${PIPESTATUS[0]}"
        [ "$status" -eq 1 ]
        [[ $output == *"shared memory wanted: File too large (see ulimit"* ]]
        [[ $output != *"signal"* ]]
    done
}
