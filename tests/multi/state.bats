# The state of several ranks, and stopping them: mp_state.c holds the cases.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    program=$top_builddir/tests/multi/mp_state
    unset "${!ACCEL_@}" SLURM_JOB_END_TIME
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
}

# ranks nodes case [dir [number [spec]]]
on() {
    local ranks=$1 nodes=$2
    shift 2
    timeout 120 accel launch -n "$ranks" --nodes "$nodes" "$program" "$@"
}

same_bits() {
    cmp "$1" "$2" || { cat "$1" "$2"; return 1; }
}

close_enough() {
    paste "$1" "$2" | awk '{
        for (i = 1; i <= NF / 2; i++)
            if (($i - $(i + NF / 2)) ^ 2 > 1e-10 * (1 + $i ^ 2)) exit 1
    }' || { cat "$1" "$2"; return 1; }
}

weights() {
    grep -E '^-?[0-9]' "$1"
}

@test "a broken run goes on bit for bit" {
    on 4 1 run . 11 | grep -v ^ok | sort >through
    on 4 1 save ckpt 6
    on 4 1 load ckpt 11 2>err | grep -v ^ok | sort >resumed
    same_bits through resumed
    # One line, of rank 0, and nothing else.
    [[ $(grep -c . err) == 1 ]]
    grep -q 'note: going on from ckpt/step-.*, saved by 4 ranks' err
}

@test "the same over two nodes, in fp16" {
    on 4 2 run . 9 fp16,accumulate=2 | grep -v ^ok | sort >through
    on 4 2 save ckpt 3 fp16,accumulate=2
    on 4 2 load ckpt 9 fp16,accumulate=2 | grep -v ^ok | sort >resumed
    same_bits through resumed
}

@test "any number of ranks loads what four saved" {
    local ranks
    on 4 1 run . 11 >through
    on 4 1 save ckpt 6 >saved
    for ranks in 1 2 3 6; do
        on "$ranks" 1 load ckpt 6 2>err >loaded
        same_bits <(weights saved) <(weights loaded)
        [[ $(grep -c "step 6 rate 0.03500000" loaded) -eq $ranks ]]
        # New streams, all of them different, and one warning.
        [[ $(grep -o 'random .*' loaded | sort -u | wc -l) -eq $ranks ]]
        [[ $(grep -c 'new streams' err) -eq 1 ]]
        on "$ranks" 1 load ckpt 11 >finished
        close_enough <(weights through) <(weights finished)
    done
}

@test "damage that only reading finds: the step before is used" {
    on 4 1 save ckpt 3 >three
    on 4 1 save ckpt 6
    # A byte of the first segment: "segment NAME FIRST COUNT FILE OFFSET SUMS".
    read -r file at < <(awk '/^segment/ { print $5, $6; exit }' \
        ckpt/step-00000006/manifest)
    printf '\245\132\245' |
        dd of="ckpt/step-00000006/$file" bs=1 seek="$at" conv=notrunc
    on 3 1 load ckpt 3 2>err >loaded
    same_bits <(weights three) <(weights loaded)
    grep 'step-00000006: shard-.* is damaged: .*; using step-00000003 inst' err
    # Who names it gets it or an error.
    run on 3 1 load ckpt/step-00000006 6
    [[ $status -ne 0 && $output == *"is damaged: wrong checksum"* ]]
}

@test "each rank keeps its own registered state" {
    on 4 1 keep ckpt
    on 4 1 kept ckpt 4
    on 2 1 kept ckpt 4
    on 6 2 kept ckpt 4
}

@test "one rank's refusal is everybody's error" {
    run on 3 1 refuse ckpt
    [[ $status -eq 0 ]]
    [[ $(grep -c 'ACCEL_ERR_IO.*save function returned 1' <<<"$output") -eq 3 ]]
    [[ $(grep -c 'ACCEL_ERR_IO.*load function returned 1' <<<"$output") -eq 3 ]]
    [[ $(grep -c 'rank 2 on ' <<<"$output") -eq 4 ]]
    run on 3 1 other_states ckpt2
    [[ $status -eq 0 ]]
    [[ $(grep -c 'ACCEL_ERR_PROTO.*different states' <<<"$output") -eq 3 ]]
    [[ ! -e ckpt2 ]]
}

@test "save_state on rank 0 alone ends all, and says who did what" {
    run on 4 1 alone ckpt
    [[ $status -eq 3 ]]
    [[ $(grep -c 'rank 0: .*accel_save_state; ranks 1-3: .*accel_backward_end' \
        <<<"$output") -eq 4 ]] || { echo "$output"; return 1; }
    [[ ! -e ckpt ]]
}

@test "a signal to one rank stops all after the same step" {
    on 3 1 signal . 15 2>err
    [[ $(grep -c 'stopping after step 3' err) -eq 1 ]]
    on 3 1 signal . 12
    on 4 2 signal . 15
    on 3 1 signal . 23 signal=URG
}

# The first step is done, as the output in this file says, within 60 s.
is_under_way() {
    local i
    for ((i = 0; i < 1200; i++)); do
        ! grep -q '^under way' "$1" || return 0
        sleep 0.05
    done
    return 1
}

@test "SIGTERM to the launcher: save, end, and resume" {
    local spec="checkpoint=$PWD/ckpt,resume=auto" step
    on 3 1 until_told . 0 "$spec" >first 2>err &
    is_under_way first
    # The process group of a job in the background of a script is the
    # script's: the launcher is the child of timeout.
    kill -TERM "$(pgrep -P "$!" timeout || echo "$!")"
    wait "$!"
    grep -qx 'from step 0' first
    grep -q '^ok until_told' first
    step=$(sed -n 's/stopped after step //p' first)
    [[ $step -ge 1 && -e ckpt/step-$(printf '%08d' "$step") ]]
    on 3 1 until_told . 0 "$spec" >second
    grep -qx "from step $step" second
    grep -qx "stopped after step $((step + 4))" second
}

@test "SIGTERM to mpirun: the same" {
    local spec="checkpoint=$PWD/ckpt,resume=auto"
    # It kills after a second or so what has not ended, and a save takes longer
    # where much else is going on. It sleeps for all of this time, twice.
    timeout 120 mpirun --mca odls_base_sigkill_timeout 6 -n 2 "$program" \
        until_told . 0 "$spec" >first 2>err &
    is_under_way first
    kill -TERM "$!" # timeout passes it on
    wait "$!" || true # mpirun's own status
    cat first err
    grep -q '^stopped after step' first
    grep -q 'got signal 15' err
    timeout 120 mpirun -n 2 "$program" until_told . 0 "$spec" >second
    grep -qx "from step $(sed -n 's/stopped after step //p' first)" second
}
