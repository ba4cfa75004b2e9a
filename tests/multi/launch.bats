# accel launch: worlds, statuses, signals, lines, and nothing left behind.

bats_require_minimum_version 1.5.0

setup() {
    : "${top_builddir:?use make check-multi}"
    job=$top_builddir/tests/multi/mp_job
    dir=$(mktemp -d /tmp/al.XXXXXX)
    export TMPDIR=$dir
    # For this process and what it starts only: nothing of another launcher.
    unset PMIX_NAMESPACE PMIX_RANK SLURM_STEP_ID SLURM_STEP_NUM_TASKS
}

teardown() {
    [ -z "${pid-}" ] || kill -KILL "$pid" 2>/dev/null || true
    rm -rf "$dir"
}

# No test waits for ever, and each says so when it would.
launch() {
    timeout -k 5 60 accel launch "$@"
}

# Runs a command line at a terminal; what is shown there goes to $dir/out.
on_terminal() {
    timeout -k 5 120 script -qec "$1" /dev/null >"$dir/out" 2>&1 3>&-
}

# Processes that carry $dir in their environment: those of this test.
mine() {
    grep -lzsxF "TMPDIR=$dir" /proc/[0-9]*/environ | cut -d/ -f3 |
        while read -r pid; do
            [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] ||
                tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null
            echo
        done | grep -- "$1"
}

gone() {
    local i
    for i in $(seq 100); do
        mine "$1" || return 0
        sleep 0.1
    done
    return 1
}

wait_for() {
    local i
    for i in $(seq 300); do
        [ ! -s "$1" ] || return 0
        sleep 0.1
    done
    return 1
}

@test "worlds of 1, 2, 3 and 8 ranks" {
    for n in 1 2 3 8; do
        run launch -n $n "$job"
        [ "$status" -eq 0 ]
        for r in $(seq 0 $((n - 1))); do
            grep -q "^world $n rank $r local $r of $n node 0 of 1 .* pmix$" \
                <<<"$output"
        done
        [ "$(grep -c ^world <<<"$output")" -eq "$n" ]
    done
}

@test "7 ranks on 3 pretended nodes" {
    run launch -n 7 --nodes 3 "$job"
    [ "$status" -eq 0 ]
    want='world 7 rank 0 local 0 of 3 node 0 of 3 n0 provider pmix
world 7 rank 1 local 1 of 3 node 0 of 3 n0 provider pmix
world 7 rank 2 local 2 of 3 node 0 of 3 n0 provider pmix
world 7 rank 3 local 0 of 2 node 1 of 3 n1 provider pmix
world 7 rank 4 local 1 of 2 node 1 of 3 n1 provider pmix
world 7 rank 5 local 0 of 2 node 2 of 3 n2 provider pmix
world 7 rank 6 local 1 of 2 node 2 of 3 n2 provider pmix'
    [ "$(sort <<<"$output")" = "$want" ]
}

@test "a rank may run one program after the other" {
    # all of them must have ended the first
    run launch -n 3 --nodes 2 sh -c "'$job'; sleep 1; '$job'"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 3' <<<"$output")" -eq 6 ]
    [ "$(sort -u <<<"$output" | grep -c '^world 3')" -eq 3 ]
}

@test "either data store of PMIx" {
    for gds in hash ds21,ds12,hash; do
        run env PMIX_MCA_gds=$gds timeout 60 accel launch -n 5 --nodes 3 "$job"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^world 5' <<<"$output")" -eq 5 ]
    done
}

@test "the status is that of the first rank to fail" {
    run launch -n 3 --grace 0 sh -c \
        'sleep 0.$PMIX_RANK; exit $((PMIX_RANK ? 10 - PMIX_RANK : 0))'
    [ "$status" -eq 9 ]
    grep -q 'rank 1 on .* exited with status 9' <<<"$output"
    run launch -n 2 --grace 0 sh -c '[ $PMIX_RANK = 0 ] || kill -9 $$; sleep 60'
    [ "$status" -eq 137 ]
    grep -q 'rank 1 on .* was killed by signal 9' <<<"$output"
    run launch -n 2 true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "the others may end by themselves" {
    run launch -n 2 sh -c '[ $PMIX_RANK = 1 ] && exit 3; sleep 1; echo so long'
    [ "$status" -eq 3 ]
    grep -qx 'so long' <<<"$output"
    grep -q 'the others have 10 s to end' <<<"$output"
}

@test "and are ended when they do not" {
    run launch -n 3 --grace 1 sh -c '[ $PMIX_RANK = 1 ] && exit 3; sleep 300'
    [ "$status" -eq 3 ]
    run launch -n 2 --grace 0 bash -c \
        'trap "" TERM; [ $PMIX_RANK = 1 ] && sleep 1 && exit 3; while :; do sleep 1; done'
    [ "$status" -eq 3 ]
    grep -q 'killing 1 rank that did not end' <<<"$output"
    gone 'sleep'
}

@test "PMIx_Abort ends all at once with its status" {
    run launch -n 3 "$top_builddir/tests/multi/mp_abort" 2 9
    [ "$status" -eq 9 ]
    grep -q 'rank 2 on .* asked for an abort with status 9' <<<"$output"
    run launch -n 2 "$top_builddir/tests/multi/mp_abort" 0 256
    [ "$status" -eq 1 ]
}

@test "lines are whole" {
    # Each line in three pieces, so that ranks would mix if they could.
    cat >"$dir/talk" <<'TALK'
for i in $(seq 100); do
    printf 'rank %s ' "$PMIX_RANK"
    printf 'line %s of ' "$i"
    printf '100\n'
done
TALK
    launch -n 4 bash "$dir/talk" >"$dir/out"
    for r in 0 1 2 3; do
        # each rank's own lines are in order
        diff <(grep "^rank $r " "$dir/out") \
            <(for i in $(seq 100); do echo "rank $r line $i of 100"; done)
    done
    [ "$(wc -l <"$dir/out")" -eq 400 ]
    launch -n 4 --tag-output bash "$dir/talk" >"$dir/out"
    [ "$(grep -cE '^\[([0-3])\] rank \1 line [0-9]+ of 100$' "$dir/out")" \
        -eq 400 ]
}

@test "a last line without its end shares no line" {
    run launch -n 3 sh -c 'printf "from $PMIX_RANK"'
    [ "$(sort <<<"$output")" = "$(printf 'from %s\n' 0 1 2)" ]
    # and nothing is added at the very end
    launch -n 1 printf 'no end' >"$dir/out"
    printf 'no end' | cmp - "$dir/out"
    launch -n 1 --tag-output printf 'a\nb' >"$dir/out"
    printf '[0] a\n[0] b' | cmp - "$dir/out"
}

@test "long lines and any bytes come through" {
    head -c 3000000 /dev/urandom >"$dir/bytes"
    head -c 2000000 /dev/zero >>"$dir/bytes"
    launch -n 1 cat "$dir/bytes" | cmp - "$dir/bytes"
    launch -n 2 sh -c 'echo out; echo err >&2' >"$dir/out" 2>"$dir/err"
    [ "$(sort -u "$dir/out") $(sort -u "$dir/err")" = 'out err' ]
}

@test "who writes where nobody reads is told so" {
    run bash -c 'set -o pipefail
        timeout 30 accel launch -n 2 --grace 0 yes | head -n 1'
    [ "$status" -eq 141 ]
}

@test "arguments, folder and environment byte for byte" {
    odd="$dir/a b'c\"d"
    mkdir "$odd"
    cd "$odd"
    value=$'two\nlines'
    set -- 'two  spaces' "it's" 'a "b"' $'new\nline' '' '*' '$HOME' '\n' -n --
    printf '%s\0' "$@" "$value" "$odd" >"$dir/want"
    for r in 0 1 2; do
        VALUE=$value launch -n 3 sh -c '
            [ "$PMIX_RANK" = "$1" ] || exit 0
            shift
            printf "%s\0" "$@" "$VALUE" "$PWD"' sh $r "$@" >"$dir/got"
        cmp "$dir/want" "$dir/got"
    done
}

@test "only rank 0 has the standard input" {
    printf 'hello\nworld' >"$dir/in"
    launch -n 3 sh -c 'cat >"$TMPDIR/got.$PMIX_RANK"' <"$dir/in"
    cmp "$dir/in" "$dir/got.0"
    [ ! -s "$dir/got.1" ]
    [ ! -s "$dir/got.2" ]
    # from a terminal, which ranks may not read themselves
    { sleep 0.5; printf 'typed\n\4'; } |
        on_terminal "timeout --foreground 60 accel launch -n 2 cat"
    grep -q typed "$dir/out"
    # closed descriptors do not become pipes
    launch -n 2 sh -c 'echo fine >&2' <&- >&- 2>"$dir/err"
    [ "$(grep -cx fine "$dir/err")" -eq 2 ]
    # and what is written where nothing is open is not lost in silence
    rc=0
    launch -n 2 echo lost >&- 2>"$dir/err" || rc=$?
    [ "$rc" -eq 1 ]
    grep -q "cannot write the ranks' output: Bad file descriptor" "$dir/err"
}

# Each kind of shell: one runs the last command in its own place, the other
# beside itself, and there timeout(1) puts it into the background.
@test "in the background of a terminal nothing is read, and nothing stops" {
    for SHELL in /bin/sh /bin/bash; do
        export SHELL
        { sleep 0.5; printf 'typed\n'; sleep 1; } | on_terminal \
            "timeout 60 accel launch -n 2 sh -c 'sleep 2; echo last words'; true"
        [ "$(grep -c 'last words' "$dir/out")" -eq 2 ]
        # and it can be ended
        rc=0
        { sleep 0.5; printf 'typed\n'; sleep 4; } |
            on_terminal "timeout 3 accel launch -n 2 cat; exit \$?" || rc=$?
        [ "$rc" -eq 124 ]
    done
}

@test "in front again, a terminal is read" {
    # job control: the shell stops it, and fg puts it in front
    cat >"$dir/jobs" <<'JOBS'
set -m
accel launch -n 2 sh -c '[ $PMIX_RANK = 1 ] || { read -r line; echo "got $line"; }' &
sleep 2
fg
JOBS
    { sleep 3; printf 'typed\n'; } | on_terminal "timeout -k 5 --foreground 60 bash '$dir/jobs'"
    grep -q 'got typed' "$dir/out"
}

@test "a program that cannot be started" {
    run -127 launch -n 4 "$dir/no such program"
    [ "$(wc -l <<<"$output")" -eq 1 ]
    grep -q "no such program: No such file" <<<"$output"
    touch "$dir/plain"
    run -127 launch -n 2 "$dir/plain"
    grep -q 'plain: Permission denied' <<<"$output"
}

@test "too few open files: told at once, with the limit and the need" {
    for limit in 8 12 16 24 32; do
        rc=0
        # a file: bats' own pipes take numbers that may be above the limit
        (
            for fd in $(seq 3 40); do eval "exec $fd>&-"; done
            ulimit -n $limit
            exec timeout 30 accel launch -n 3 "$job"
        ) >"$dir/out" 2>&1 || rc=$?
        [ "$rc" -eq 1 ]
        [ "$(wc -l <"$dir/out")" -eq 1 ]
        grep -qE "3 ranks need (3[6-9]|[4-9][0-9]) open files, but the limit is $limit: .*ulimit -n" "$dir/out"
    done
    # a limit that may be raised is
    rc=0
    (
        ulimit -Sn 8
        exec timeout 30 accel launch -n 3 "$job"
    ) >"$dir/out" 2>&1 || rc=$?
    [ "$rc" -eq 0 ]
    [ "$(grep -c '^world 3' "$dir/out")" -eq 3 ]
    [ "$(wc -l <"$dir/out")" -eq 3 ]
}

# Where PMIx could not start its threads, ranks would wait for the server.
@test "little address space: it works, or is told before a rank starts" {
    local kib told=0
    for kib in 30000 45000 60000 72000 76000 80000 84000 88000 92000 100000; do
        rc=0
        (
            ulimit -v $kib
            exec timeout 60 accel launch -n 2 "$job"
        ) >"$dir/out" 2>&1 || rc=$?
        [ "$rc" -ne 124 ]
        [ "$rc" -ne 139 ]
        [ "$rc" -eq 0 ] || [ -s "$dir/out" ]
        run ! grep -q hangs "$dir/out"
        if grep -q 'launch: .*address space' "$dir/out"; then
            told=$((told + 1))
            [ "$(wc -l <"$dir/out")" -eq 1 ]
            grep -qE "needs [0-9]+ KiB of address space, but the limit is \
$kib: raise it with ulimit -v" "$dir/out"
            # and that much does
            need=$(grep -oE 'needs [0-9]+' "$dir/out")
            bash -c "ulimit -v ${need#* } && timeout 60 accel launch -n 1 true"
        fi
    done
    [ "$told" -gt 0 ]
}

@test "a small stack is told, by the launcher and by ranks" {
    run bash -c "ulimit -s 128 && timeout 60 accel launch -n 2 '$job'"
    [ "$status" -eq 1 ]
    [[ $output == "accel: launch: PMIx needs a stack of 256 KiB, but the limit \
is 128: raise it with ulimit -s" ]]
    run launch -n 2 sh -c "ulimit -s 128; exec '$job'"
    [ "$status" -eq 1 ]
    [ "$(grep -c 'job: PMIx needs a stack of 256 KiB, .* 128; raise' <<<"$output")" -eq 2 ]
}

@test "signals are passed on" {
    cat >"$dir/listen" <<'LISTEN'
for s in HUP INT TERM USR1 USR2 QUIT; do
    trap "echo $PMIX_RANK got $s" $s
done
trap 'exit 5' CONT
echo ready >"$TMPDIR/ready.$PMIX_RANK"
while :; do sleep 0.1; done 2>/dev/null
LISTEN
    # a shell starts what it does not wait for without these two signals
    env --default-signal=INT,QUIT accel launch -n 2 bash "$dir/listen" >"$dir/out" 2>&1 3>&- &
    pid=$!
    wait_for "$dir/ready.0"
    wait_for "$dir/ready.1"
    for s in HUP INT TERM USR1 USR2 QUIT; do
        kill -$s "$pid"
        for i in $(seq 100); do
            [ "$(grep -c "got $s" "$dir/out")" -lt 2 ] || break
            sleep 0.1
        done
        [ "$(grep -c "got $s" "$dir/out")" -eq 2 ]
    done
    kill -CONT "$pid"
    rc=0
    wait "$pid" || rc=$?
    [ "$rc" -eq 5 ]
}

@test "a second interrupt kills" {
    env --default-signal=INT accel launch -n 2 bash -c 'trap "" INT; echo ready >"$TMPDIR/r.$PMIX_RANK"
        while :; do sleep 0.1; done' >"$dir/out" 2>&1 3>&- &
    pid=$!
    wait_for "$dir/r.0"
    wait_for "$dir/r.1"
    kill -INT "$pid"
    sleep 1
    kill -INT "$pid"
    rc=0
    wait "$pid" || rc=$?
    [ "$rc" -eq 137 ]
}

# Starts two ranks that do nothing about the signals named.
start_deaf() {
    rm -f "$dir"/r.*
    env --default-signal=INT,HUP accel launch -n 2 --grace "$1" bash -c \
        "trap '' $2"'; echo ready >"$TMPDIR/r.$PMIX_RANK"
        while :; do sleep 0.1; done' >"$dir/out" 2>&1 3>&- &
    pid=$!
    wait_for "$dir/r.0"
    wait_for "$dir/r.1"
}

# The end of $pid within 60 s, with status $1.
ends_with() {
    local i rc=0
    for i in $(seq 600); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    ! kill -0 "$pid" 2>/dev/null || return 1
    wait "$pid" || rc=$?
    [ "$rc" -eq "$1" ] || { cat "$dir/out"; return 1; }
}

@test "ranks that do not act on a signal are killed" {
    for s in TERM INT HUP; do
        start_deaf 1 'TERM INT HUP'
        kill -$s "$pid"
        ends_with 137
        grep -q 'killing 2 ranks that did not end' "$dir/out"
    done
    # what ignores Ctrl-C may yet act on SIGTERM
    start_deaf 1 INT
    kill -INT "$pid"
    ends_with 143
    ! grep killing "$dir/out" || return 1
    gone 'sleep 0.1'
}

@test "a second SIGTERM kills, but not that of timeout(1)" {
    start_deaf 1000 TERM
    kill -TERM "$pid"
    sleep 1
    kill -TERM "$pid"
    ends_with 137
    # it signals its child and then the whole group
    run timeout -k 30 2 accel launch -n 2 bash -c \
        'trap "sleep 1; echo saved; exit 0" TERM; while :; do sleep 0.1; done'
    [ "$(grep -cx saved <<<"$output")" -eq 2 ]
}

@test "one rank's end by SIGTERM leaves the other its time to save" {
    accel launch -n 2 bash -c \
        '[ $PMIX_RANK = 0 ] || { echo up >"$TMPDIR/r.1"; exec sleep 316; }
        trap "sleep 3; echo saved; exit 0" TERM; echo up >"$TMPDIR/r.0"
        while :; do sleep 0.1; done' >"$dir/out" 2>&1 3>&- &
    pid=$!
    wait_for "$dir/r.0"
    wait_for "$dir/r.1"
    kill -TERM "$pid"
    ends_with 143
    grep -qx saved "$dir/out"
}

@test "a reader that stops does not stop the launcher" {
    mkfifo "$dir/pipe"
    exec 8<>"$dir/pipe" # nobody reads it
    accel launch -n 2 --grace 1 bash -c 'trap "" TERM
        echo up >"$TMPDIR/r.$PMIX_RANK"; yes' >"$dir/pipe" 2>&1 3>&- 8>&- &
    pid=$!
    wait_for "$dir/r.0"
    wait_for "$dir/r.1"
    kill -TERM "$pid"
    ends_with 137
    exec 8>&-
}

@test "output that cannot be written is told, once" {
    rc=0
    launch -n 2 sh -c 'echo hi; sleep 0.1; echo on' >/dev/full 2>"$dir/err" ||
        rc=$?
    [ "$rc" -eq 1 ]
    [ "$(wc -l <"$dir/err")" -eq 1 ]
    grep -q "cannot write the ranks' output: No space left" "$dir/err"
    # the ranks go on, and the first failure of a rank has the word
    rc=0
    launch -n 2 sh -c "echo hi; sleep 0.5; echo >'$dir/end'; exit 7" \
        >/dev/full 2>/dev/null || rc=$?
    [ "$rc" -eq 7 ]
    [ -e "$dir/end" ]
    rc=0
    launch -n 2 sh -c 'echo hi >&2' 2>/dev/full || rc=$?
    [ "$rc" -eq 1 ]
    # no reader: quietly
    run bash -c 'set -o pipefail
        timeout 30 accel launch -n 2 sh -c "sleep 1; echo hi" | true'
    [ "$status" -eq 141 ]
    [ -z "$output" ]
}

@test "nothing is left, however it ends" {
    launch -n 3 "$job" >/dev/null
    [ -z "$(ls "$dir")" ]
    run launch -n 2 --grace 0 sh -c 'sleep 311 & [ $PMIX_RANK = 0 ] || exit 1
        sleep 312'
    gone 'sleep 31'
    [ -z "$(ls "$dir")" ]
    # what a rank leaves in the background ends with it
    launch -n 2 sh -c 'sleep 313 >/dev/null & exit 0'
    gone 'sleep 313'
}

@test "nothing is left after SIGKILL of the launcher itself" {
    accel launch -n 2 sh -c 'echo >"$TMPDIR/up.$PMIX_RANK" up
        sleep 314 & sleep 315' >/dev/null 2>&1 3>&- &
    pid=$!
    wait_for "$dir/up.0"
    wait_for "$dir/up.1"
    kill -KILL "$pid"
    rc=0
    wait "$pid" || rc=$?
    [ "$rc" -eq 137 ]
    gone 'sleep 31'
    gone 'accel launch'
    rm "$dir"/up.*
    for i in $(seq 50); do
        [ -n "$(ls "$dir")" ] || break
        sleep 0.1
    done
    [ -z "$(ls "$dir")" ]
}

@test "several at once do not meet" {
    for i in 1 2 3 4 5; do
        launch -n $((i % 3 + 1)) "$job" >"$dir/out.$i" 2>&1 3>&- &
    done
    wait
    for i in 1 2 3 4 5; do
        n=$((i % 3 + 1))
        [ "$(sort "$dir/out.$i" | grep -c "^world $n rank . local . of $n ")" \
            -eq "$n" ]
        [ "$(wc -l <"$dir/out.$i")" -eq "$n" ]
    done
}

@test "a TMPDIR of 150 bytes" {
    long=$dir/$(printf 'x%.0s' $(seq 130))
    mkdir "$long"
    run env TMPDIR="$long" timeout 60 accel launch -n 2 "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 2' <<<"$output")" -eq 2 ]
    [ -z "$(ls "$long")" ]
    [ "$(ls "$dir")" = "${long##*/}" ] # no path that was cut
}

@test "what another launcher said about this process is not passed on" {
    run env PMIX_NAMESPACE=slurm.pmix.9.9 PMIX_RANK=5 PMIX_SERVER_URI4=junk \
        SLURM_JOB_ID=9 SLURM_STEP_ID=3 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 \
        SLURM_NTASKS=4 PMI_SIZE=7 PMI_RANK=6 \
        timeout 60 accel launch -n 2 "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 2' <<<"$output")" -eq 2 ]
    run env SLURM_JOB_ID=9 SLURM_STEP_ID=3 SLURM_PROCID=2 SLURM_LOCALID=1 \
        SLURM_CPUS_PER_TASK=1 timeout 60 accel launch -n 1 sh -c \
        'echo ${SLURM_JOB_ID-no} ${SLURM_STEP_ID-no} ${SLURM_PROCID-no} \
        ${SLURM_LOCALID-no} ${SLURM_CPUS_PER_TASK-no}'
    [ "$output" = '9 no no no 1' ]
    # a launch inside a rank of another one
    run launch -n 1 timeout 30 accel launch -n 3 "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 3' <<<"$output")" -eq 3 ]
}

@test "threads are shared out unless the user has a say" {
    cpus=$(nproc)
    run env -u OMP_NUM_THREADS timeout 30 accel launch -n 2 sh -c \
        'echo $OMP_NUM_THREADS'
    want=$((cpus / 2 > 1 ? cpus / 2 : 1))
    [ "$(sort -u <<<"$output")" = "$want" ]
    run env OMP_NUM_THREADS=5 timeout 30 accel launch -n 2 sh -c \
        'echo $OMP_NUM_THREADS'
    [ "$(sort -u <<<"$output")" = 5 ]
}

@test "--accel reaches the ranks, a bad one is refused first" {
    run launch -n 2 --accel fp16,accumulate=4 sh -c 'echo "$ACCEL_SPEC"'
    [ "$status" -eq 0 ]
    [ "$(sort -u <<<"$output")" = '0:fp16,accumulate=4' ]
    # whose it is comes first, since a rank may submit a job
    SLURM_JOB_ID=7 run launch -n 2 --accel fp16 sh -c 'echo "$ACCEL_SPEC"'
    [ "$(sort -u <<<"$output")" = '7:fp16' ]
    SLURM_JOB_ID=7 run env -u OMP_NUM_THREADS timeout 30 accel launch -n 2 \
        sh -c '[ "$ACCEL_OMP_NUM_THREADS" = "7:$OMP_NUM_THREADS" ]'
    [ "$status" -eq 0 ]
    # what its step was given holds for the ranks, which are in no step
    export SLURM_JOB_ID=7 SLURM_STEP_ID=3 ACCEL_END_TIME=7.3:5/60
    ACCEL_SPEC=7.3:bf16 run launch -n 2 sh -c \
        'echo "$ACCEL_SPEC" "$ACCEL_END_TIME"'
    [ "$(sort -u <<<"$output")" = '7:bf16 7:5/60' ]
    ACCEL_SPEC=7.2:bf16 run launch -n 2 sh -c 'echo "$ACCEL_SPEC"'
    [ "$(sort -u <<<"$output")" = '7.2:bf16' ]
    unset SLURM_JOB_ID SLURM_STEP_ID ACCEL_END_TIME
    run launch -n 2 --accel=fp17 touch "$dir/started"
    [ "$status" -eq 2 ]
    grep -q 'fp17.*no fp32 fp16 bf16' <<<"$output"
    [ ! -e "$dir/started" ]
    # nothing in it begins a line of its own, or is for a terminal to obey
    run launch -n 2 --accel=$'fp17\nforged\e[2J' touch "$dir/started"
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    run ! grep -q '[[:cntrl:]]' <<<"$output"
}

@test "wrong usage: status 2 and how it is written" {
    run launch -n 2 ''
    [ "$status" -eq 2 ]
    grep -q 'which program' <<<"$output"
    while read -r line; do
        # Word splitting wanted: these are command lines.
        run launch $line
        [ "$status" -eq 2 ]
        grep -q '^usage: accel launch -n N' <<<"$output"
    done <<'LINES'

true
-n
-n 0 true
-n -1 true
-n 1x true
-n 99999999999999999999 true
-n 2
-n 2 --
-n 2 --help
-n 2 --nodes 3 true
-n 2 --nodes 0 true
-n 2 --grace -1 true
-n 2 --grace soon true
-n 2 --no-such-option true
LINES
    # "--n" is no short form of --nodes
    run launch --n 2 true
    [ "$status" -eq 2 ]
    grep -q 'launch: --n: no such option; -n (--ntasks) is' <<<"$output"
    run launch --np 2 true
    [ "$status" -eq 2 ]
    grep -q 'launch: --np: no such option; -n (--ntasks) is' <<<"$output"
    run launch --ntasks 2 --nodes=2 sh -c 'echo $PMIX_RANK'
    [ "$status" -eq 0 ]
    [ "$(sort <<<"$output")" = $'0\n1' ]
    # what is repeated is no command for the terminal
    run launch -n $'\e[31m1\xc2\x9b' true
    [ "$status" -eq 2 ]
    [[ $output == *'-n \x1B[31m1\xC2\x9B: want a number'* ]]
}

@test "from a terminal, rank 0 may end before its input and the others" {
    mkfifo "$dir/keys"
    exec 8<>"$dir/keys" # a terminal at which nobody types
    rc=0
    # shellcheck disable=SC2016
    timeout -k 5 60 script -qec "accel launch -n 2 sh -c '
        [ \$PMIX_RANK = 0 ] || { sleep 1; echo last words; }'" /dev/null \
        <"$dir/keys" >"$dir/out" 2>&1 3>&- 8>&- || rc=$?
    exec 8>&-
    [ "$rc" -eq 0 ] || { cat "$dir/out"; return 1; }
    grep -q 'last words' "$dir/out"
}

@test "ranks have no descriptors but the standard three" {
    (
        for fd in $(seq 3 40); do eval "exec $fd>&-"; done
        # shellcheck disable=SC2016
        exec timeout 60 accel launch -n 2 bash -c 'readlink /proc/$$/fd/*; :' \
            </dev/null
    ) >"$dir/out" 2>"$dir/err"
    [ "$(grep -cx /dev/null "$dir/out")" -eq 2 ] # the standard input
    ! grep -E 'socket|anon_inode' "$dir/out" || return 1
}

@test "a full disk, and what else is wrong with the directories, is told" {
    preload=$top_builddir/tests/harness/.libs/lie.so
    case ${SANITIZER-} in
    *address*) preload="$($CC -print-file-name=libasan.so) $preload" ;;
    *thread*) preload="$($CC -print-file-name=libtsan.so) $preload" ;;
    esac
    run env LD_PRELOAD="$preload" LIE_FULL=1 TMPDIR=here \
        timeout 60 accel launch -n 2 true
    [ "$status" -eq 1 ]
    [ "$(wc -l <<<"$output")" -eq 1 ]
    grep -q 'here: Invalid argument; /tmp: No space left on device; ' <<<"$output"
    grep -q 'set TMPDIR to one with 4 MiB' <<<"$output"
    # one that will not do is no harm while another does
    for where in /proc /nonexistent here ''; do
        run env TMPDIR="$where" timeout 60 accel launch -n 2 "$job"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^world 2' <<<"$output")" -eq 2 ]
    done
}
