# accel env, accel version, accel help: what people ask first.

bats_require_minimum_version 1.5.0

setup() {
    : "${top_builddir:?use make check-multi}"
    unset PMIX_NAMESPACE SLURM_STEP_ID SLURM_STEP_NUM_TASKS SLURM_PROCID
    unset "${!ACCEL_@}"
    export XDG_CONFIG_HOME=$BATS_TEST_TMPDIR ACCEL_SITE_CONF=/dev/null
}

# The value at a path such as job.size of the JSON in $output.
at() {
    python3 -c 'import json, sys
d = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    d = d[int(key)] if isinstance(d, list) else d[key]
print(d)' "$1" <<<"$output"
}

@test "every part is told" {
    run timeout 30 accel env
    [ "$status" -eq 0 ]
    for part in versions job hardware transports settings; do
        grep -qx "$part" <<<"$output"
    done
    grep -qE '^  provider +single \(no launcher' <<<"$output"
    grep -qE '^  rank +0 of 1$' <<<"$output"
    grep -qE '^  PMIx +[0-9]' <<<"$output"
    grep -qE '^  hwloc +[0-9]' <<<"$output"
    grep -qE '^  my cores +[0-9]+ of [0-9]+' <<<"$output"
}

@test "transports: which release, or why one is refused" {
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    run timeout 30 accel env --json
    [ "$status" -eq 0 ]
    [ "$(at transports.0.name)" = ucx ]
    [ "$(at transports.1.name)" = mpi ]
    if [ -e "$ACCEL_MODULE_DIR/accel_mpi.so" ]; then
        [ "$(at transports.1.usable)" = True ]
        [[ $(at transports.1.text) == *MPI* ]]
        # what carries nothing says why
        run timeout 30 accel launch -n 1 accel env
        [ "$status" -eq 0 ]
        grep -qE '^  mpi +refused: accel launch starts no MPI' <<<"$output"
    fi
    mkdir "$BATS_TEST_TMPDIR/none"
    run env ACCEL_MODULE_DIR="$BATS_TEST_TMPDIR/none" timeout 30 accel env
    [ "$status" -eq 0 ]
    grep -qE '^  ucx +refused: mod: accel_ucx.so is not in ' <<<"$output"
    grep -qE '^  mpi +refused: mod: accel_mpi.so is not in ' <<<"$output"
}

# UCX is not there when the module looks for it: the program itself starts.
@test "without UCX at run time one node works, several say what is missing" {
    local words ucx
    ucx=$top_builddir/lib/.libs/accel_ucx.so
    [ -e "$ucx" ] || skip "configured without UCX: there is no module"
    mkdir "$BATS_TEST_TMPDIR/lost"
    # as long as the name that it takes the place of
    sed 's/libucp\.so\.0\x00/libnou.so.9\x00/' "$ucx" \
        >"$BATS_TEST_TMPDIR/lost/accel_ucx.so"
    export ACCEL_MODULE_DIR=$BATS_TEST_TMPDIR/lost
    words="libnou.so.9: cannot open shared object file"
    run timeout 30 accel env
    [ "$status" -eq 0 ]
    grep -qE "^  ucx +refused: mod: $words" <<<"$output"
    run timeout 60 accel launch -n 2 "$top_builddir/tests/multi/mp_comm" rounds 3
    [[ $status -eq 0 && $output == "ok: 2 ranks on 1 nodes, none: "* ]]
    run timeout 60 accel launch -n 2 --nodes 2 \
        "$top_builddir/tests/multi/mp_comm" rounds 3
    [ "$status" -ne 0 ]
    [ "$(grep -c "$words.*; install UCX, configure accel with it" \
        <<<"$output")" -eq 2 ]
}

@test "where each setting comes from" {
    mkdir -p "$XDG_CONFIG_HOME/accel"
    echo 'keep = 3' >"$XDG_CONFIG_HOME/accel/accel.conf"
    run env ACCEL_SPEC=fp16,clip=2 ACCEL_ACCUMULATE=4 timeout 30 accel env
    [ "$status" -eq 0 ]
    grep -qE '^  precision +fp16 +--accel: ACCEL_SPEC' <<<"$output"
    grep -qE '^  accumulate +4 +environment: ACCEL_ACCUMULATE' <<<"$output"
    grep -qE '^  keep +3 +user file: .*accel.conf:1' <<<"$output"
    grep -qE '^  seed +0 +default$' <<<"$output"
}

@test "what was inherited from another job is ignored, and told" {
    export ACCEL_SPEC=7.0:fp16 ACCEL_END_TIME=7.0:5/60
    run timeout 30 accel env
    [ "$status" -eq 0 ]
    grep -qE '^  precision +no +default' <<<"$output"
    grep -qE '^  ignored +ACCEL_SPEC=7.0:fp16 is of step 7.0, and this is no' \
        <<<"$output"
    grep -qE '^  ignored +ACCEL_END_TIME=7.0:5/60 is of step 7.0' <<<"$output"
    run timeout 30 accel env --json
    grep -q '^ACCEL_SPEC=7.0:fp16 is of step' <<<"$(at ignored.0)"
    ACCEL_SPEC=0:fp16 run timeout 30 accel env
    grep -qE '^  precision +fp16 +--accel: ACCEL_SPEC' <<<"$output"
}

@test "wrong settings: said there, and the rest is told all the same" {
    run env ACCEL_ACCUMULATE=none timeout 30 accel env
    [ "$status" -eq 1 ]
    grep -q '^accel: env: settings: ACCEL_ACCUMULATE' <<<"$output"
    grep -qE '^  error +settings: ACCEL_ACCUMULATE' <<<"$output"
    grep -qE '^  error +not looked at: the settings are wrong' <<<"$output"
    grep -qE '^  my cores +[0-9]+ of [0-9]+' <<<"$output"
    mkdir -p "$XDG_CONFIG_HOME/accel"
    printf 'keep = 3\nseed: 4\n' >"$XDG_CONFIG_HOME/accel/accel.conf"
    run bash -c 'timeout 30 accel env --json 2>/dev/null'
    [ "$status" -eq 1 ]
    grep -q 'accel.conf:2: ' <<<"$(at settings.error)"
    [ "$(at hardware.cores)" -ge 1 ]
    # one of several tasks says it
    export SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4
    SLURM_PROCID=2 run timeout 30 accel env
    [ "$status" -eq 1 ]
    [ -z "$output" ]
}

@test "any bytes in a path: JSON stays whole, the terminal unharmed" {
    export LC_ALL=C.UTF-8
    run env ACCEL_CHECKPOINT=$'/d\xe9j\xc3\xa0\n\xff' timeout 30 accel env --json
    [ "$status" -eq 0 ]
    want='/d\xE9jà
\xFF'
    [ "$(at settings.5.value)" = "$want" ]
    [ "$(at settings.5.name)" = checkpoint ]
    [[ $output == *'"name": "debug"'* ]]
    run env ACCEL_CHECKPOINT=$'/d\xe9j\xc3\xa0\n\e[2J' timeout 30 accel env
    [ "$status" -eq 0 ]
    grep -qF '/d\xE9jà\x0A\x1B[2J environment: ACCEL_CHECKPOINT' <<<"$output"
    # in an error too
    run env ACCEL_CLIP=$'\xe9' bash -c 'accel env --json 2>/dev/null'
    [ "$status" -eq 1 ]
    grep -qF 'clip=\xE9: want' <<<"$(at settings.error)"
}

@test "JSON says the same" {
    run env ACCEL_PRECISION=bf16 timeout 30 accel env --json
    [ "$status" -eq 0 ]
    [ "$(at versions.accel)" = "$(accel version | cut -d' ' -f2)" ]
    [ "$(at job.size)" = 1 ]
    [ "$(at job.nodes.0.ranks.0)" = 0 ]
    [ "$(at settings.0.name)" = precision ]
    [ "$(at settings.0.value)" = bf16 ]
    [ "$(at settings.0.source)" = ACCEL_PRECISION ]
    [ "$(at hardware.cores)" -ge 1 ]
}

@test "of several ranks the first one speaks, and none waits" {
    run timeout 60 accel launch -n 4 --nodes 2 accel env --json
    [ "$status" -eq 0 ]
    [ "$(at job.size)" = 4 ]
    [ "$(at job.nodes.1.name)" = n1 ]
    [ "$(at job.nodes.1.ranks)" = '[2, 3]' ]
    # alone among four: it must not wait for the others
    run timeout 60 accel launch -n 4 sh -c '[ $PMIX_RANK != 0 ] || accel env'
    [ "$status" -eq 0 ]
    grep -qE '^  rank +0 of 4$' <<<"$output"
    # tasks that nothing joins
    export SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4
    SLURM_PROCID=0 run timeout 30 accel env
    [ "$status" -eq 1 ]
    grep -q 'error  *job: 4 tasks but no PMIx' <<<"$output"
    SLURM_PROCID=2 run timeout 30 accel env
    [ "$status" -eq 1 ]
    [ -z "$output" ]
    # what a step around this one has left does not silence all
    PMIX_RANK=3 SLURM_PROCID=0 run timeout 30 accel env
    [ "$status" -eq 1 ]
    [ -n "$output" ]
}

@test "version and help" {
    run accel version
    [ "$status" -eq 0 ]
    grep -qE '^accel [0-9]+\.[0-9]+\.[0-9]+$' <<<"$output"
    [ "$(accel --version)" = "$output" ]
    run accel help
    [ "$status" -eq 0 ]
    for command in $(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$output"); do
        run accel help $command
        [ "$status" -eq 0 ]
        grep -q "usage: accel $command" <<<"$output"
        [ "$output" = "$(accel $command --help)" ]
        [ "$output" = "$(accel $command -h)" ]
        # the page that it sends people to is there
        page=$(sed -n 's/^See \(accel[a-z-]*\)(\([0-9]\))\.$/\1.\2/p' <<<"$output")
        [ -n "$page" ]
        [ -e "$top_srcdir/man/$page" ]
        known+=" $command"
    done
    [ "$known" = ' launch env test data version help' ]
    run accel help
    [ "$(accel --help)" = "$output" ]
}

@test "wrong usage: status 2 and one hint" {
    for words in '' no-such-command 'help no-such-command' 'help env env' \
        'version now' 'env --xml' 'env json'; do
        # Word splitting wanted: these are command lines.
        run accel $words
        [ "$status" -eq 2 ]
        [ -n "$output" ]
        [ "$(wc -l <<<"$output")" -le 2 ]
    done
}

@test "a standard output that is full is no success" {
    run bash -c 'accel env >/dev/full'
    [ "$status" -eq 1 ]
    grep -q 'No space left' <<<"$output"
    run bash -c 'accel test >/dev/full'
    [ "$status" -eq 1 ]
    grep -q 'could not be written' <<<"$output"
}

@test "closed descriptors: nothing is printed into what took their place" {
    accel env >"$BATS_TEST_TMPDIR/want"
    accel env 2>&- <&- >"$BATS_TEST_TMPDIR/got"
    diff "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"
    run bash -c 'accel env --json 2>&- | python3 -m json.tool'
    [ "$status" -eq 0 ]
    run bash -c 'accel env >&-'
    [ "$status" -eq 1 ]
    [ "$output" = 'accel: standard output: Bad file descriptor' ]
    run bash -c 'ACCEL_CLIP=x accel env >&- 2>&-'
    [ "$status" -eq 1 ]
}

@test "after su the file of the one before does not stop programs" {
    local dir # one that others can reach
    dir=$(mktemp -d)
    export XDG_CONFIG_HOME=$dir
    mkdir -m 700 "$dir/accel"
    echo "clip = 2" >"$dir/accel/accel.conf"
    chmod 755 "$dir"
    # the folder is closed to others
    run setpriv --reuid=54321 --regid=54321 --clear-groups timeout 30 accel env
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q "accel.conf: cannot be read and is another user's" <<<"$output"
    # then the file alone
    chmod 755 "$dir/accel"
    chmod 600 "$dir/accel/accel.conf"
    run setpriv --reuid=54321 --regid=54321 --clear-groups timeout 30 accel env
    [ "$status" -eq 0 ]
    grep -q "accel.conf: cannot be read and is another user's" <<<"$output"
    # one's own is an error as before
    chown 54321 "$dir/accel/accel.conf"
    chmod 000 "$dir/accel/accel.conf"
    run setpriv --reuid=54321 --regid=54321 --clear-groups timeout 30 accel env
    echo "$output"
    rm -r "$dir"
    grep -q "accel.conf: .*make it readable" <<<"$output"
}
