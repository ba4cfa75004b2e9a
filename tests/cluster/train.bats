# Training under Slurm: the allocation is tested, and the tutorial's job is
# stopped, requeued and goes on, with the program and the script of the page.

bats_require_minimum_version 1.5.0

setup() {
    with=$BATS_TEST_DIRNAME/with-cluster
    top_srcdir=${top_srcdir:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
    export top_srcdir
    export top_builddir=${top_builddir:-$PWD} # by hand: from the build tree
    cd "$BATS_TEST_TMPDIR" || return
    unset "${!ACCEL_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
}

@test "accel test finds nothing wrong on four nodes" {
    run "$with" -N 4 srun -N4 -n4 --accel accel test
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^all 17 checks ok$' <<<"$output")" -eq 1 ]
    [ "$(grep -c '^ok ' <<<"$output")" -eq 17 ]
    grep -q "n1: 1 from rank 0, n2: 1 from rank 1, n3" <<<"$output"
}

@test "accel test without PMIx fails at once, and says what to type" {
    run "$with" -N 2 srun -N2 -n4 --mpi=none accel test
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c '^FAIL  start' <<<"$output")" -eq 1 ]
    grep -q -- "--mpi=pmix" <<<"$output"
}

# The blocks of accel(7), as a reader copies them.
from_manual() {
    awk -v wanted="$1" '
        /^\.Bd -literal/ { inside = 1; text = ""; next }
        /^\.Ed/ {
            if (inside && text ~ wanted) printf "%s", text
            inside = 0
        }
        inside { gsub(/\\en/, "\\n"); text = text $0 "\n" }
    ' "$top_srcdir/man/accel.7"
}

make_line() {
    from_manual 'int main' >line.c
    # It is to be stopped, not to finish.
    sed -i 's/EPOCHS = 200,/EPOCHS = 2000000,/' line.c
    "$top_builddir/libtool" --quiet --tag=CC --mode=link "${CC:-cc}" -O2 \
        -std=c11 ${TEST_CFLAGS-} -I "$top_srcdir/lib" -I "$top_builddir/lib" \
        line.c "$top_builddir/lib/libaccel.la" -o line
    from_manual '#SBATCH' >line.sh
}

@test "the tutorial's job stops, is requeued, and goes on" {
    make_line
    grep -q EPOCHS.=.2000000 line.c
    grep -q 'scontrol requeue' line.sh
    cat >drive <<'END'
# The n-th time that all ranks have started, as the log says.
started() {
    for ((i = 0; i < 600; i++)); do
        [ "$(grep -c 'train: 8 ranks on 2 nodes' log)" -ge "$1" ] && return
        sleep 0.1
    done
    return 1
}
ended() {
    for ((i = 0; i < 600; i++)); do
        [ "$(grep -c 'after .* steps' log)" -ge "$1" ] && return
        sleep 0.1
    done
    return 1
}
touch log
export ACCEL_LOG=info
job=$(sbatch --parsable -o log --time=5 line.sh) || exit
for start in 1 2; do
    started $((8 * start)) || exit
    sleep 1
    scancel --signal=USR2 "$job" || exit
    ended $start || exit
done
# By now the second start has ended with 75, too, and waits for a third.
for ((i = 0; i < 600; i++)); do
    squeue -h -j "$job" -o '%t %r' | grep -q '^PD' && break
    sleep 0.1
done
scancel "$job"
END
    run "$with" -N 2 bash drive
    cat log
    echo "$output"
    [ "$status" -eq 0 ]
    local first second
    first=$(sed -n 's/.* after \([0-9]*\) steps$/\1/p' log | sed -n 1p)
    second=$(sed -n 's/.* after \([0-9]*\) steps$/\1/p' log | sed -n 2p)
    [ "$first" -gt 0 ]
    [ "$second" -gt "$first" ]
    # Nothing to load at the first start, the newest at the second.
    [ "$(grep -c "going on from .*: after step $first, .* by 8 ranks" log)" -eq 1 ]
    [ -e "line-state/step-$(printf %08d "$second")/manifest" ]
    grep -q 'precision bf16' log
}
