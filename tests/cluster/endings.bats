# How jobs end, with the very script and program of accel(7).

bats_require_minimum_version 1.5.0

setup() {
    with=$BATS_TEST_DIRNAME/with-cluster
    top_srcdir=${top_srcdir:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
    export top_builddir=${top_builddir:-$PWD} # by hand: from the build tree
    cd "$BATS_TEST_TMPDIR" || return
    unset "${!ACCEL_@}"
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
}

# The literal block of the page in which a line matches, as a reader sees it.
block() {
    awk -v mark="$1" '
        /^\.Bd .*-literal/ { inside = 1; text = ""; next }
        /^\.Ed/ { if (inside && text ~ mark) printf "%s", text; inside = 0 }
        inside {
            gsub(/\\&/, ""); gsub(/\\e/, "\\"); gsub(/\\-/, "-")
            text = text $0 "\n"
        }' "$top_srcdir/man/accel.7"
}

# The page's program, but for its number of epochs: it goes on until told.
make_program() {
    block 'int main' | sed 's/EPOCHS = [0-9]*/EPOCHS = 100000000/' >line.c
    grep -q 100000000 line.c
    "$top_builddir/libtool" --quiet --tag=CC --mode=link "${CC:-cc}" -O1 \
        -std=c11 -D_GNU_SOURCE -I "$top_srcdir/lib" -I "$top_builddir/lib" \
        line.c -o line "$top_builddir/lib/libaccel.la" -lm
}

# One job for each ending, in a folder of its own and on a node of its own.
@test "scancel, a signal, preemption, the time limit: who starts again" {
    block '^#!/bin/bash' >script
    grep -q 'scontrol requeue' script
    make_program
    cat >job <<'END'
submit() { # NAME NODE ARGUMENTS
    local name=$1 node=$2
    shift 2
    mkdir "$name"
    cp -r line .libs "$name" 2>/dev/null
    cp line "$name"
    (cd "$name" && sbatch --parsable -w "$node" --nodes=1 \
        --ntasks-per-node=2 --cpus-per-task=1 -o out "$@" ../script)
}
restarts() {
    scontrol -o show job "$1" | grep -o 'Restarts=[0-9]*'
}
until_told() { # NAME: its ranks have come together and take steps
    for i in $(seq 300); do
        ! grep -q 'precision bf16' "$1/out" 2>/dev/null || return 0
        sleep 0.1
    done
    echo "$1 did not start"
}
until_again() {
    for i in $(seq 600); do
        [ "$(restarts "$1")" != Restarts=1 ] || return 0
        sleep 0.1
    done
}
export ACCEL_LOG=info
limit=$(submit limit n1 --time=10)
margin=$(submit margin n2 --time=1 \
    --accel=bf16,resume=auto,checkpoint=line-state,margin=55)
signal=$(submit signal n3)
preempt=$(submit preempt n4 -p low)
until_told limit
scontrol update jobid="$limit" EndTime=now+1
until_told signal
scancel --signal=USR2 "$signal"
until_told preempt
high=$(sbatch --parsable -p high -w n4 -o /dev/null --wrap 'exit 0')
until_again "$signal"
scancel "$signal"
cancel=$(submit cancel n3)
until_told cancel
scancel "$cancel"
for name in margin preempt limit; do
    until_again "${!name}"
    scancel "${!name}"
done
for i in $(seq 100); do
    [ -n "$(squeue -h -j "$cancel" -o %T)" ] || break
    sleep 0.1
done
for name in limit margin signal preempt cancel; do
    echo "$name $(restarts "${!name}")" \
        "$(scontrol -o show job "${!name}" | grep -o 'JobState=[A-Z]*')"
done >ends
END
    run "$with" -N 4 -C PreemptType=preempt/partition_prio \
        -C PreemptMode=REQUEUE -C 'PartitionName=all Nodes=ALL Default=YES' \
        -C 'PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=20 '\
'OverSubscribe=EXCLUSIVE' -C MinJobAge=300 \
        -C 'PartitionName=high Nodes=ALL PriorityTier=10 '\
'OverSubscribe=EXCLUSIVE' \
        bash job
    echo "$output"
    cat ends
    tail -n 8 ./*/out
    [ "$status" -eq 0 ]
    for name in limit margin signal preempt; do
        grep -q "^$name Restarts=1 " ends
        grep -q ' after [1-9][0-9]* steps$' $name/out
        compgen -G "$name/line-state/step-*"
    done
    grep -q '^cancel Restarts=0 JobState=CANCELLED$' ends
    grep -q ' after [1-9][0-9]* steps$' cancel/out
    grep -q 'the time limit is near' margin/out
    grep -q 'got signal 15' limit/out
    grep -q 'got signal 12' signal/out
    grep -q 'got signal 15' preempt/out
}

# The time limit that counts is also that of a step, which may be shorter than its job's.
@test "a step ends at its own limit, a job that cannot go on is not requeued" {
    block '^#!/bin/bash' >script
    make_program
    cat >job <<'END'
salloc -Q -N1 -n2 -t 60 srun -t 1 --accel=bf16,margin=55 ./line 2>step
echo "step $?"
sbatch -W -N1 --ntasks-per-node=2 --cpus-per-task=1 --time=1 -o out \
    --accel=margin=60 script
echo "job $?"
END
    run "$with" -N 1 bash job
    cat step out
    grep -qx 'step 75' <<<"$output"
    grep -q 'of the time limit of 60 s' step
    grep -qx 'job 1' <<<"$output"
    grep -q 'no start would make progress' out
}
