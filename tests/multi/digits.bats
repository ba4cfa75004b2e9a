# The digits example as a user runs it: alone, under accel launch and mpirun.
bats_require_minimum_version 1.5.0

setup() {
    load ../digits.bash
    cd "$BATS_TEST_TMPDIR" || return # far from the data
    unset ACCEL_SPEC ACCEL_PRECISION ACCEL_CHECKPOINT
}

@test "one process, no launcher" {
    run --separate-stderr "$digits"
    check_result 1 no
    [ -z "$stderr" ]
}

@test "any number of ranks, any precision, one accuracy" {
    local all=() n p
    for n in 1 3 4 7; do
        for p in no fp16 bf16; do
            run --separate-stderr accel launch -n $n --accel $p "$digits"
            echo "$n ranks, $p: $output $stderr"
            check_result $n $p
            all+=("$accuracy")
        done
    done
    all_near "${all[@]}"
}

@test "on several nodes" {
    run --separate-stderr accel launch -n 5 --nodes 2 --accel fp16 "$digits"
    echo "$output $stderr"
    check_result 5 fp16
}

@test "under mpirun" {
    run --separate-stderr mpirun -n 2 --oversubscribe "$digits"
    echo "$output $stderr"
    check_result 2 no
}

@test "fp16 skips steps that overflow, the others never do" {
    run --separate-stderr accel launch -n 4 --accel fp16 "$digits"
    check_result 4 fp16
    [ "$skipped" -ge 1 ]
    grep -q 'loss scale 32768' <<<"$output"
}

@test "4 ranks learn what 1 rank learns from the same global batch" {
    "$digits" --batch-size 64 --dump one
    accel launch -n 4 "$digits" --batch-size 16 --dump four
    same_within one four 1e-5
}

@test "the same run gives the same bits" {
    run accel launch -n 3 --accel bf16 "$digits" --epochs 3
    first=$(weights)
    run accel launch -n 3 --accel bf16 "$digits" --epochs 3
    [ -n "$first" ]
    [ "$(weights)" = "$first" ]
    run accel launch -n 3 --accel bf16 "$digits" --epochs 3 --seed 5
    [ "$(weights)" != "$first" ]
    five=$(weights)
    run accel launch -n 3 --accel bf16,seed=5 "$digits" --epochs 3
    [ "$(weights)" = "$five" ]
}

@test "2 epochs, then resumed up to 4: the bits of 4 without a break" {
    for p in no fp16 bf16; do
        run --separate-stderr accel launch -n 4 --accel $p "$digits" --epochs 4
        whole=$(weights)
        run --separate-stderr accel launch -n 4 --accel $p "$digits" \
            --epochs 2 --checkpoint ck-$p
        [ "$(weights)" != "$whole" ]
        run --separate-stderr accel launch -n 4 --accel $p "$digits" \
            --epochs 4 --checkpoint ck-$p --resume
        echo "$p: $output $stderr"
        [ "$status" -eq 0 ]
        grep -q '^resumed after 44 steps, in epoch 3$' <<<"$output"
        [ "$(grep -c '^epoch' <<<"$output")" -eq 2 ]
        [ "$(weights)" = "$whole" ]
    done
}

@test "what 4 ranks saved goes on on 1, 2, 3 and 6 ranks" {
    accel launch -n 4 --accel fp16 "$digits" --epochs 15 --checkpoint ck
    for n in 1 2 3 6; do
        cp -r ck ck-$n
        run --separate-stderr accel launch -n $n --accel fp16 "$digits" \
            --checkpoint ck-$n --resume
        echo "$n: $output $stderr"
        grep -q '^resumed after 330 steps, in epoch 16$' <<<"$output"
        check_result $n fp16
    done
}

@test "told to stop: saved in mid-epoch, resumed to the bits of a whole run" {
    run --separate-stderr accel launch -n 2 "$digits" --epochs 120
    whole=$(weights)

    accel launch -n 2 "$digits" --epochs 120 --checkpoint ck >log 2>&1 &
    wait_for_line log '^epoch 5/'
    kill -TERM $!
    status=0
    wait $! || status=$?
    cat log
    [ "$status" -eq 75 ]
    grep -q '^stopped after [0-9]* steps, state saved' log
    ! grep -q '^test accuracy' log || return 1

    run --separate-stderr accel launch -n 2 "$digits" --epochs 120 \
        --checkpoint ck --resume
    echo "$output $stderr"
    [ "$status" -eq 0 ]
    grep -q '^resumed after' <<<"$output"
    [ "$(weights)" = "$whole" ]
}

@test "nothing to resume from yet: from the start" {
    run --separate-stderr accel launch -n 2 "$digits" --epochs 2 \
        --checkpoint new --resume
    echo "$output $stderr"
    [ "$status" -eq 0 ]
    grep -q '^no checkpoint in new yet' <<<"$output"
    [ -d new ]
}

@test "the settings checkpoint and resume do what the options do" {
    run accel launch -n 2 --accel checkpoint=here,resume=auto "$digits" \
        --epochs 2
    [ "$status" -eq 0 ]
    ! grep -q '^resumed' <<<"$output" || return 1
    run accel launch -n 2 --accel checkpoint=here,resume=auto "$digits" \
        --epochs 3
    [ "$status" -eq 0 ]
    grep -q '^resumed after 88 steps, in epoch 3$' <<<"$output"
    run accel launch -n 2 --accel resume=here/step-00000044 "$digits" --epochs 3
    [ "$status" -eq 0 ]
    grep -q '^resumed after 44 steps, in epoch 2$' <<<"$output"
    [ ! -e checkpoints/step-00000044 ]
    [ -e checkpoints/step-00000132 ]
}

@test "wrong usage is told, with status 2" {
    for wrong in --epoch=0 --epochs=x --batch-size=0 --batch-size=-1 --lr=0 \
        --lr=nan --seed=-1 --seed=1x --what extra; do
        run --separate-stderr "$digits" $wrong
        echo "$wrong: $output $stderr"
        [ "$status" -eq 2 ]
        [ -z "$output" ]
        [[ $stderr == *digits* ]]
    done
    run --separate-stderr "$digits" --what
    [[ $stderr == *'digits --help'* ]]
    run --separate-stderr "$digits" --help
    [ "$status" -eq 0 ]
    [[ $output == *--batch-size* ]]
    [ -z "$stderr" ]
}

@test "no data, or too little for a step: all ranks end" {
    run accel launch -n 3 "$digits" --data nowhere.csv
    [ "$status" -eq 1 ]
    [[ $output == *'nowhere.csv: No such file'* ]]
    run accel launch -n 3 "$digits" --batch-size 500
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *'no batch'* ]]
}

@test "a progress bar on a terminal, from one process" {
    run script -qec "accel launch -n 2 $digits --epochs 2" /dev/null
    [ "$status" -eq 0 ]
    [[ $output != *'===='* ]] # the launcher's pipe is none
    run script -qec "$digits --epochs 2" /dev/null
    [[ $output == *'epoch 1/2 [='* ]]
    [[ $output == *'test accuracy'* ]]
}

@test "minimal finds the line on any number of ranks" {
    for n in 1 2 5; do
        run --separate-stderr accel launch -n $n "$top_builddir/examples/minimal"
        echo "$n: $output $stderr"
        [ "$status" -eq 0 ]
        [ "$output" = "y = 3.000 x + 2.000" ]
    done
    run "$top_builddir/examples/minimal"
    [ "$output" = "y = 3.000 x + 2.000" ]
}

@test "wrong options are told before anything is learnt" {
    run accel launch -n 2 "$digits" --epochs 1 --dump /nonexistent/weights
    echo "$output"
    [[ $status -ne 0 ]]
    [[ $output == *'digits: /nonexistent/weights: No such file or directory'* ]]
    [[ $output != *'epoch 1/1'* ]]
    run "$digits" --epochs 0
    [[ $status -eq 2 ]]
    [[ $output == *'--epochs 0: want a whole number from 1 to 1000000'* ]]
}
