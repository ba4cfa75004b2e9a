# Checkpoints on several nodes: nobody kills the ranks that a dead one leaves.
bats_require_minimum_version 1.5.0

setup() {
    with=$BATS_TEST_DIRNAME/with-cluster
    program=$top_builddir/tests/multi/mp_ckpt
    preload=$top_builddir/tests/harness/.libs/fault.so
    # A sanitizer wants to be first.
    case $SANITIZER in
    *address*) preload="$($CC -print-file-name=libasan.so) $preload" ;;
    *thread*) preload="$($CC -print-file-name=libtsan.so) $preload" ;;
    esac
    cd "$BATS_TEST_TMPDIR" || return
    unset ACCEL_SPEC ACCEL_CHECKPOINT
}

@test "what 4 nodes saved loads on 1, 2, 3 and 6 ranks" {
    cat >job <<END
srun -N4 -n4 --accel $program save "a b'c" 100 >>out
for n in 1 2 3 6; do
    srun -N\$((n < 4 ? n : 4)) -n\$n --accel $program load "a b'c" >>out
done
END
    "$with" -N 4 bash -e job
    cat out
    [ "$(cat out)" = "saved 100 on 4
loaded 100 of 4 on 1
loaded 100 of 4 on 2
loaded 100 of 4 on 3
loaded 100 of 4 on 6" ]
}

# Rank 2's death is told by the three others; then rank 0's, which leaves a
# temporary directory that nobody else may remove. Both are made good later.
@test "a rank dies in mid-save: the others say so, the old one stays" {
    cat >job <<END
srun -N4 -n4 --accel $program save ck 1 >out
for dead in 2 0; do
    status=0
    srun -K0 -N4 -n4 --accel env LD_PRELOAD="$preload" FAULT_PATH=ck/. \
        FAULT_AT=6 FAULT_KIND=kill FAULT_RANK=\$dead \
        $program save ck 2 >out-\$dead 2>err-\$dead || status=\$?
    echo \$status >status-\$dead
    $program list ck >list-\$dead
    ls -A ck >left-\$dead
done
srun -N4 -n4 --accel $program save ck 2 >>out
srun -N3 -n3 --accel $program load ck >>out
END
    run timeout 120 "$with" -N 4 bash -e job
    echo "$output"
    tail -n 50 out* err* status* list* left*
    [ "$status" -eq 0 ]
    for dead in 2 0; do
        [ "$(cat status-$dead)" -ne 0 ]
        [ "$(cat list-$dead)" = "step-00000001 complete" ]
        for r in 0 1 2 3; do
            [ $r -eq $dead ] ||
                grep -q "^rank $r: .*rank $dead on n$((dead + 1)) " err-$dead
        done
    done
    ! grep '^\.' left-2 || return 1
    grep -q '^\.step-00000002\..*\.tmp$' left-0
    [ "$(cat out)" = "saved 1 on 4
saved 2 on 4
loaded 2 of 4 on 3" ]
    [ -z "$(find ck -mindepth 1 -name '.*')" ]
}
