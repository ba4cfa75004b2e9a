# accel launch where something is wrong around it: the program, the signals
# that it was started with, other users, PMIx; and output without lines.

bats_require_minimum_version 1.5.0

setup() {
    : "${top_builddir:?use make check-multi}"
    job=$top_builddir/tests/multi/mp_job
    dir=$(mktemp -d /tmp/al.XXXXXX)
    export TMPDIR=$dir
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

# Until a command is true, at most 30 s.
await() {
    local i
    for i in $(seq 300); do
        ! "$@" || return 0
        sleep 0.1
    done
    return 1
}

# The program that is named in the first word cannot be started, and the one
# line that says so has the words of the second.
refused() {
    run -127 launch -n 2 "$1"
    [ "$(wc -l <<<"$output")" -eq 1 ]
    [[ $output == *"cannot start rank 0: $1: "$2 ]] || {
        echo "$output"
        return 1
    }
}

@test "why a script cannot be started" {
    cd "$dir"
    printf '#!/bin/bash\r\necho hi\r\n' >crlf
    printf '#! /nonexistent/python -u\n' >missing
    printf '#!/tmp\n' >folder
    printf 'echo\n' >plain
    printf '#!%s/plain\n' "$dir" >plain_too
    chmod +x crlf missing folder plain_too
    refused ./crlf '*: its first line ends with CR LF, so its interpreter is sought as "/bin/bash*x0D"; take the CRs out with sed*'
    refused ./missing 'No such file or directory: its interpreter /nonexistent/python is not on this machine'
    refused ./folder '*: its interpreter /tmp is a directory'
    refused ./plain '*: it is not executable; chmod +x makes it so'
    refused ./plain_too "*: its interpreter $dir/plain is not executable"
    refused "$dir" '*: it is a directory'
    refused plain '*: it is not in PATH; for the one in this directory write ./ before it'
    PATH=$dir:$PATH refused plain '*: it is not executable; chmod +x makes it so'
    # without a first line of its kind it is the shell's, as in a shell
    printf 'echo "$0" "$@"\n' >shell
    chmod +x shell
    PATH=$dir:$PATH run launch -n 1 shell 'a  b' c
    [ "$output" = "$dir/shell a  b c" ]
}

@test "why a binary cannot be started" {
    cd "$dir"
    cp "$(type -P true)" other
    printf '\363\0' | dd of=other bs=1 seek=18 conv=notrunc status=none
    cp "$(type -P true)" loader
    sed -i 's#/ld-linux#/ld-lunix#' loader
    printf '\177ELF' >cut
    printf 'a\0b\n' >bytes
    chmod +x cut bytes
    refused ./other 'Exec format error: it was built for RISC-V and this machine is *; build it here'
    refused ./loader 'No such file or directory: its loader *ld-lunix* is not on this machine'
    refused ./cut '*: it is neither a program of this machine nor a script'
    refused ./bytes '*: it is neither a program of this machine nor a script'
}

@test "signals that were blocked where it was started reach the ranks" {
    cat >"$dir/blocked" <<'BLOCKED'
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK,
                       [signal.SIGTERM, signal.SIGUSR2, signal.SIGALRM])
os.execvp(sys.argv[1], sys.argv[1:])
BLOCKED
    # what is not passed on stays as it was
    run timeout 60 python3 "$dir/blocked" accel launch -n 2 \
        grep SigBlk /proc/self/status
    [ "$status" -eq 0 ]
    [ "$(grep -c '0000000000002000$' <<<"$output")" -eq 2 ]
    python3 "$dir/blocked" accel launch -n 2 sh -c \
        'trap "echo told; exit 3" TERM; echo up >"$TMPDIR/up.$PMIX_RANK"
        while :; do sleep 0.1; done' >"$dir/out" 2>&1 3>&- &
    pid=$!
    await test -s "$dir/up.0"
    await test -s "$dir/up.1"
    kill -TERM "$pid"
    rc=0
    wait "$pid" || rc=$?
    [ "$rc" -eq 3 ]
    [ "$(grep -c told "$dir/out")" -eq 2 ]
}

@test "progress without a line's end is passed on while it is drawn" {
    mkfifo "$dir/more"
    exec 8<>"$dir/more"
    # shellcheck disable=SC2016
    accel launch -n 1 sh -c 'printf "\r 10%%"; read -r line <"$TMPDIR/more"
        printf "\r 20%%"; read -r line <"$TMPDIR/more"; echo " done"' \
        >"$dir/out" 2>&1 3>&- 8>&- &
    pid=$!
    await grep -q '10%$' "$dir/out"
    echo >&8
    await grep -q '20%$' "$dir/out"
    echo >&8
    exec 8>&-
    wait "$pid"
    printf '\r 10%%\r 20%% done\n' | cmp - "$dir/out"
}

@test "a line that was begun is not another rank's" {
    # shellcheck disable=SC2016
    launch -n 2 --tag-output sh -c '
        if [ $PMIX_RANK = 0 ]; then
            printf begun
            until [ -e "$TMPDIR/seen" ]; do sleep 0.1; done
            echo " and ended"
        else
            until grep -q begun "$TMPDIR/out"; do sleep 0.1; done
            echo whole
            until grep -q whole "$TMPDIR/out"; do sleep 0.1; done
            echo >"$TMPDIR/seen"
        fi' >"$dir/out"
    diff - "$dir/out" <<'WANT'
[0] begun
[1] whole
[0]  and ended
WANT
    # nor on standard error, where both are one file
    # shellcheck disable=SC2016
    launch -n 2 sh -c '
        if [ $PMIX_RANK = 0 ]; then
            printf begun
            sleep 1
        else
            until grep -q begun "$TMPDIR/out"; do sleep 0.1; done
            echo whole >&2
        fi' >"$dir/out" 2>&1
    printf 'begun\nwhole\n' | cmp - "$dir/out"
}

@test "endless lines take no memory" {
    # A reader that stops; what a rank writes is kept for none.
    # shellcheck disable=SC2016
    launch -n 2 sh -c 'head -c 60000000 /dev/zero | tr "\0" "x"
        grep VmHWM "/proc/$PPID/status" >"$TMPDIR/peak.$PMIX_RANK"' |
        tr -d '\n' >"$dir/bytes"
    [ "$(stat -c %s "$dir/bytes")" -eq 120000000 ]
    for r in 0 1; do
        kib=$(tr -dc 0-9 <"$dir/peak.$r")
        [ "$kib" -gt 0 ]
        [ "$kib" -lt "${LAUNCHER_KIB:-60000}" ]
    done
}

# A user that is nobody, with a home of its own.
stranger() {
    setpriv --reuid=54321 --regid=54321 --clear-groups env HOME=/ "$@"
}

@test "ranks of another user are told at once" {
    export -f stranger
    run launch -n 2 bash -c "stranger '$job'"
    [ "$status" -eq 1 ]
    [ "$(grep -c "job: accel launch runs as user $(id -u) and this rank [01] as \
user 54321, whom its PMIx server refuses; change the user before" <<<"$output")" -eq 2 ]
    # and where the user is changed before
    mkdir -m 700 "$dir/theirs"
    chown 54321 "$dir" "$dir/theirs"
    TMPDIR=$dir/theirs run stranger timeout -k 5 60 accel launch -n 2 "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 2' <<<"$output")" -eq 2 ]
}

@test "a connection that the server refused does not spoil the status" {
    export -f stranger
    abort=$top_builddir/tests/multi/mp_abort
    run launch -n 2 bash -c "[ \$PMIX_RANK = 1 ] || stranger '$abort' 0 9; exit 0"
    [ "$status" -eq 0 ]
    run ! grep -q hangs <<<"$output"
    run -7 launch -n 2 --grace 0 bash -c \
        "[ \$PMIX_RANK = 1 ] || { stranger '$abort' 0 9; exit 7; }; sleep 300"
    # a stranger who does not know the job's name, and one who knows nothing
    cat >"$dir/garbage" <<'GARBAGE'
import os, re, socket
uri = next(v for k, v in os.environ.items() if k.startswith("PMIX_SERVER_URI"))
host, port = re.search(r"//([0-9.]+):([0-9]+)", uri).groups()
for i in range(3):
    s = socket.create_connection((host, int(port)))
    s.send(bytes(range(200)))
    s.close()
silent = socket.create_connection((host, int(port)))
GARBAGE
    run launch -n 2 bash -c "
        [ \$PMIX_RANK = 1 ] || {
            PMIX_NAMESPACE=accel.launch.1.1 stranger '$abort' 0 9
            python3 '$dir/garbage'
        }
        exec '$job'"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 2' <<<"$output")" -eq 2 ]
}

@test "the name of a job is 128 random bits that no other user sees" {
    for i in 1 2; do
        launch -n 2 bash -c 'echo "$PMIX_NAMESPACE"; tr "\0" " " </proc/$PPID/cmdline
            find "$TMPDIR"/accel-launch-* -maxdepth 0 -printf "\n%m %f\n"' >"$dir/out.$i"
        grep -xE 'accel\.launch\.[0-9]+\.[0-9a-f]{32}' "$dir/out.$i" |
            sort -u >"$dir/name.$i"
        [ "$(wc -l <"$dir/name.$i")" -eq 1 ]
        secret=$(sed 's/.*\.//' "$dir/name.$i")
        [ "$(grep -c "$secret" "$dir/out.$i")" -eq 2 ] # not in what all may see
        [ "$(grep -cE '^700 accel-launch-.{6}$' "$dir/out.$i")" -eq 2 ]
    done
    [ "$(sed 's/.*\.//' "$dir/name.1")" != "$(sed 's/.*\.//' "$dir/name.2")" ]
}

@test "no network at all: told with what to type" {
    run timeout 60 unshare -n accel launch -n 2 "$job"
    [ "$status" -eq 1 ]
    [[ $output == 'accel: launch: the PMIx server does not start (INIT): no network interface is up here'*'"ip link set lo up" does' ]]
    [ "$(wc -l <<<"$output")" -eq 1 ]
    run timeout 60 unshare -n sh -c "ip link set lo up && accel launch -n 2 '$job'"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^world 2' <<<"$output")" -eq 2 ]
}

@test "a wrong PMIX_MCA_ variable is named, by the launcher and by ranks" {
    for name in gds psec ptl_base_if_include; do
        run env PMIX_MCA_$name=nonsense timeout 60 accel launch -n 2 "$job"
        [ "$status" -eq 1 ]
        [ "$(wc -l <<<"$output")" -eq 1 ]
        grep -q "PMIX_MCA_$name is set in the environment; try without it" \
            <<<"$output"
    done
    mkdir "$dir/.pmix"
    echo 'psec = nonsense' >"$dir/.pmix/mca-params.conf"
    HOME=$dir run launch -n 2 "$job"
    [ "$status" -eq 1 ]
    grep -q "$dir/.pmix/mca-params.conf tunes PMIx; try without it" <<<"$output"
    run launch -n 2 env PMIX_MCA_psec=nonsense "$job"
    [ "$status" -eq 1 ]
    [ "$(grep -c 'PMIx_Init says .*; set are PMIX_MCA_psec: try without' \
        <<<"$output")" -eq 2 ]
}

@test "what a launcher killed with its guard has left is swept by the next" {
    mkdir -m 700 "$dir/accel-launch-backup"
    echo mine >"$dir/accel-launch-backup/thesis"
    accel launch -n 1 sh -c 'echo up >"$TMPDIR/up"; exec sleep 318' 2>&1 3>&- &
    pid=$!
    await test -s "$dir/up"
    left=$(ls -d "$dir"/accel-launch-* | grep -v backup)
    # in use: left alone
    launch -n 1 true
    [ -d "$left" ]
    guard=$(pgrep -P "$pid" -x accel-guard)
    kill -STOP "$guard" # it would tidy up in the moment between
    kill -KILL "$pid" "$guard"
    wait "$pid" || true
    gone_guard() { ! kill -0 "$guard" 2>/dev/null; }
    await gone_guard
    [ -d "$left" ]
    mkdir "$dir/elsewhere"
    echo keep >"$dir/elsewhere/keep"
    ln -s "$dir/elsewhere" "$left/link"
    launch -n 1 true
    [ ! -e "$left" ]
    [ "$(cat "$dir/elsewhere/keep" "$dir/accel-launch-backup/thesis")" = $'keep\nmine' ]
    [ "$(ls -d "$dir"/accel-launch-*)" = "$dir/accel-launch-backup" ]
}
