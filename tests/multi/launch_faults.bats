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
