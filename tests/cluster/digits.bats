# The main job: digits under srun, on a Slurm of its own with 4 nodes.
bats_require_minimum_version 1.5.0

setup() {
    load ../digits.bash
    with=$BATS_TEST_DIRNAME/with-cluster
    cd "$BATS_TEST_TMPDIR" || return
    unset ACCEL_SPEC ACCEL_PRECISION ACCEL_CHECKPOINT
}

# One cluster for all combinations: each ends in a file of its own.
@test "srun on 1 to 7 ranks, in every precision" {
    cat >job <<END
for n in 1 3 4 7; do
    for p in no fp16 bf16; do
        nodes=\$((n < 4 ? n : 4))
        srun -N\$nodes -n\$n --overcommit --accel=\$p $digits \
            >out-\$n-\$p 2>err-\$n-\$p </dev/null
        echo \$? >status-\$n-\$p
    done
done
END
    "$with" -N 4 bash job
    local all=() n p
    for n in 1 3 4 7; do
        for p in no fp16 bf16; do
            status=$(cat status-$n-$p) output=$(cat out-$n-$p)
            echo "$n ranks, $p: $output $(cat err-$n-$p)"
            check_result $n $p
            all+=("$accuracy")
        done
    done
    all_near "${all[@]}"
}

@test "4 ranks on 4 nodes learn what 1 rank learns" {
    cat >job <<END
srun -n1 --accel=no $digits --batch-size 64 --dump one
srun -N4 -n4 --accel=no $digits --batch-size 16 --dump four
END
    "$with" -N 4 bash -e job
    same_within one four 1e-5
}

@test "save on 4 nodes, resume there bit for bit, load on 1, 2 and 3" {
    cat >job <<END
srun -N4 -n4 --accel=fp16 $digits --epochs 4 >whole
srun -N4 -n4 --accel=fp16 $digits --epochs 2 --checkpoint ck >first
for n in 1 2 3; do
    cp -r ck ck-\$n
    srun -N\$n -n\$n --accel=fp16 $digits --epochs 4 --checkpoint ck-\$n \
        --resume >on-\$n
done
srun -N4 -n4 --accel=fp16 $digits --epochs 4 --checkpoint ck --resume >second
END
    "$with" -N 4 bash -e job
    cat whole first second on-1 on-2 on-3
    grep -q '^resumed after 44 steps, in epoch 3$' second
    [ "$(grep '^weights' whole)" = "$(grep '^weights' second)" ]
    for n in 1 2 3; do
        grep -q '^resumed after 44 steps, in epoch 3$' on-$n
        grep -q "360 samples, $n ranks, fp16" on-$n
    done
}

@test "a signal in mid-run: all ranks save and end with 75, then go on" {
    cat >job <<END
srun -N4 -n4 --accel=bf16 $digits --epochs 100 --checkpoint ck >first &
for i in \$(seq 300); do
    ! grep -q '^epoch 3/' first || break
    sleep 0.1
done
scancel --signal=TERM \$(squeue -h -o %A)
status=0
wait \$! || status=\$?
echo \$status >status
srun -N4 -n4 --accel=bf16 $digits --epochs 100 --checkpoint ck --resume >second
srun -N4 -n4 --accel=bf16 $digits --epochs 100 >whole
END
    "$with" -N 4 bash job
    cat first second status
    [ "$(cat status)" -eq 75 ]
    grep -q '^stopped after [0-9]* steps, state saved' first
    grep -q '^resumed after' second
    [ "$(grep '^weights' whole)" = "$(grep '^weights' second)" ]
}

@test "a rank killed in mid-training: the others end, and name it" {
    cat >task <<END
#!/bin/bash
echo \$\$ >pid-\$SLURM_PROCID
exec $digits --epochs 100000 --checkpoint ck
END
    chmod +x task
    cat >job <<END
srun -K0 -N4 -n4 --accel=bf16 ./task >out 2>err &
for i in \$(seq 300); do
    ! grep -q '^epoch 3/' out || break
    sleep 0.1
done
kill -KILL \$(cat pid-2)
status=0
wait \$! || status=\$?
echo \$status >status
srun -N4 -n4 --accel=bf16 $digits --epochs 4 --checkpoint ck --resume >again
END
    # Far less than the setting "timeout": this must not be waited out.
    run timeout 60 "$with" -N 4 bash job
    echo "$output"
    cat out err status again
    [ "$status" -eq 0 ]
    [ "$(cat status)" -ne 0 ]
    # Each survivor says who is gone and where.
    for r in 0 1 3; do
        grep -q "^digits: rank $r: .*rank 2 on n3 " err
        ! kill -0 "$(cat pid-$r)" 2>/dev/null || return 1
    done
    run ! grep accel_join err # it did not run out of data
    grep -q '^resumed after' again
    grep -q '^test accuracy' again
}
