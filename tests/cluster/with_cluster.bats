# with-cluster itself: a tool that other tests trust must be tested first.

bats_require_minimum_version 1.5.0

setup() {
    with=$BATS_TEST_DIRNAME/with-cluster
    cd "$BATS_TEST_TMPDIR" || return
    # Where a cluster of ours writes its folder's name, to look for it later.
    mark=$BATS_TEST_TMPDIR/mark
}

# Runs as somebody who is not root, whoever runs the tests.
as_user() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid nobody --regid nogroup --clear-groups \
            env HOME=/tmp USER=nobody "$@"
    else
        "$@"
    fi
}

# Nothing of the cluster whose folder is in $mark: no folder, no process with
# its mark. Zombies that init has not yet fetched have no environment left.
gone() {
    local dir i
    dir=$(cat "$mark")
    [ -n "$dir" ]
    for i in $(seq 100); do
        if [ ! -e "$dir" ] &&
            ! grep -lzsxF "ACCEL_CLUSTER_DIR=$dir" /proc/[0-9]*/environ; then
            return 0
        fi
        sleep 0.1
    done
    ls -la "$dir" >&2
    return 1
}

wait_for_file() {
    local i
    for i in $(seq 300); do
        [ ! -s "$1" ] || return 0
        sleep 0.1
    done
    return 1
}

@test "every node runs a task; the folder is gone afterwards" {
    run "$with" -N 4 sh -c "echo \$ACCEL_CLUSTER_DIR >$mark
        srun -N4 -n4 printenv SLURMD_NODENAME"
    [ "$status" -eq 0 ]
    for n in n1 n2 n3 n4; do
        grep -qx "$n" <<<"$output"
    done
    gone
}

# A checkout in a home folder is closed to others, so a copy runs.
@test "wholly as an ordinary user" {
    open=$(mktemp -d /tmp/acl-open.XXXXXX)
    chmod 777 "$open"
    cp "$with" "$open/with-cluster"
    mark=$open/mark
    cd "$open"
    run as_user "$open/with-cluster" -N 3 sh -c "
        echo \$ACCEL_CLUSTER_DIR >$mark
        srun -N3 id -un
        ps -o user= -p \$(cat \$ACCEL_CLUSTER_DIR/*.pid | paste -sd,)"
    [ "$status" -eq 0 ]
    # Three tasks, and munged, slurmctld and three slurmds.
    [ "$(grep -cx "$(as_user id -un)" <<<"$output")" -eq 8 ]
    gone
    rm -r "$open"
}

@test "the command's status, input and output pass through" {
    run "$with" -N 1 sh -c 'cat; echo oops >&2; exit 7' <<<"from outside"
    [ "$status" -eq 7 ]
    grep -qx "from outside" <<<"$output"
    run -127 "$with" -N 1 no-such-command
}

@test "a failing task is the command's failure" {
    run "$with" -N 2 srun -N2 sh -c '[ $SLURM_PROCID = 0 ] || exit 3'
    [ "$status" -eq 3 ]
}

@test "usage errors and a cluster that cannot start exit 125" {
    run "$with"
    [ "$status" -eq 125 ]
    grep -q ^usage: <<<"$output"
    run "$with" -N 0 true
    [ "$status" -eq 125 ]
    run "$with" -C SelectType=select/nonesuch true
    [ "$status" -eq 125 ]
    grep -q "select/nonesuch" <<<"$output"
}

@test "two callers at once do not meet" {
    "$with" -N 3 sh -c 'srun -N3 true && scontrol show config |
        grep -c "$SLURM_CONF"' >a 3>&- &
    a=$!
    "$with" -N 3 sh -c 'srun -N3 true && scontrol show config |
        grep -c "$SLURM_CONF"' >b 3>&- &
    b=$!
    wait $a
    wait $b
    [ "$(cat a)" = 1 ]
    [ "$(cat b)" = 1 ]
}

@test "lines of slurm.conf can be added and replaced" {
    run "$with" -N 2 -c 3 -m pmix -C KillWait=77 \
        -C 'PartitionName=low Nodes=ALL Default=YES' sh -c '
        scontrol show config; sinfo -h -o "%P %c"'
    [ "$status" -eq 0 ]
    grep -qE '^KillWait += 77 sec' <<<"$output"
    grep -qE '^MpiDefault += pmix' <<<"$output"
    grep -qx 'low\* 3' <<<"$output"
}

@test "one node can have a plugstack of its own" {
    echo "optional /nonexistent-on-n2.so" >stack
    ACCEL_PLUGSTACK_n2=$PWD/stack run "$with" -N 2 \
        sh -c 'srun -N2 true; grep -l nonexistent-on $ACCEL_CLUSTER_DIR/log/n*'
    [ "$status" -eq 0 ]
    grep -q '/log/n2$' <<<"$output"
    ! grep -q '/log/n1$' <<<"$output" || return 1
}

signal_leaves_nothing() {
    env --default-signal=INT "$with" -N 2 srun -N2 sh -c \
        "echo \$ACCEL_CLUSTER_DIR >$mark; exec sleep 300" 3>&- &
    pid=$!
    wait_for_file "$mark"
    kill "-$1" "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -ne 0 ]
    gone
}

@test "SIGINT leaves nothing behind" {
    signal_leaves_nothing INT
}

@test "SIGTERM leaves nothing behind" {
    signal_leaves_nothing TERM
}

@test "SIGKILL leaves nothing behind" {
    signal_leaves_nothing KILL
}

@test "a background process of the command is stopped too" {
    run "$with" -N 1 sh -c "echo \$ACCEL_CLUSTER_DIR >$mark
        setsid sleep 300 >/dev/null 2>&1 3>&- &"
    [ "$status" -eq 0 ]
    gone
}

@test "a requeued batch job starts again within seconds" {
    cat >job <<'END'
#!/bin/sh
echo "${SLURM_RESTART_COUNT:-0}" >>starts
[ -n "$SLURM_RESTART_COUNT" ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }
END
    run timeout 60 "$with" -N 1 sbatch --wait --requeue -o out job
    [ "$status" -eq 0 ]
    [ "$(paste -sd, starts)" = 0,1 ]
}
