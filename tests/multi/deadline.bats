# The time limit of a job whose nodes do not agree on what time it is.

bats_require_minimum_version 1.5.0

setup() {
    load ../digits.bash
    cd "$BATS_TEST_TMPDIR" || return
    unset "${!ACCEL_@}" "${!SLURM_@}" "${!CLOCK_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
    clock=$top_builddir/tests/harness/.libs/clock.so
    [ -e "$clock" ]
    now=$EPOCHSECONDS
    read -r up _ </proc/uptime
    up=${up%.*}
}

# ranks, the clock's error in seconds, from when on in ms, what digits gets;
# it is rank 1 whose clock is wrong, or the only one
train() {
    local ranks=$1 ahead=$2 after=$3 wrong=1
    shift 3
    [ "$ranks" -gt 1 ] || wrong=0
    rm -rf ck
    LD_PRELOAD=$clock CLOCK_RANK=$wrong CLOCK_AHEAD=$ahead CLOCK_AFTER=$after \
        timeout 60 accel launch -n "$ranks" "$digits" --checkpoint ck "$@"
}

@test "the clock that the tests set wrong is wrong" {
    run bash -c 'LD_PRELOAD='"$clock"' CLOCK_RANK=- CLOCK_AHEAD=600 date +%s'
    [ "$output" -ge $((now + 600)) ]
    run bash -c 'LD_PRELOAD='"$clock"' CLOCK_RANK=0 CLOCK_AHEAD=600 date +%s'
    [ "$output" -lt $((now + 600)) ]
}

# Ten minutes, and one of three ranks is ten minutes ahead or behind.
@test "a wrong clock on one node does not end a job" {
    local ahead after
    export SLURM_JOB_START_TIME=$((now - 1)) SLURM_JOB_END_TIME=$((now + 599))
    for ahead in 600 -600; do
        for after in 0 300; do
            run train 3 $ahead $after --epochs 20
            [ "$status" -eq 0 ]
            run ! grep -i 'time limit' <<<"$output"
        done
    done
}

@test "nor does it keep one from ending in time" {
    local ahead after
    for ahead in 600 -600; do
        for after in 0 300; do
            SLURM_JOB_START_TIME=$((EPOCHSECONDS - 1)) \
                SLURM_JOB_END_TIME=$((EPOCHSECONDS + 4)) \
                run train 3 $ahead $after --epochs 1000000
            [ "$status" -eq 75 ]
            grep -q 'the time limit is near' <<<"$output"
        done
    done
}

# What the plugin hands over is of the monotonic clock: also a single rank, or
# all of them, may have any date.
@test "with the plugin's answer no wall clock matters" {
    local ahead
    for ahead in 600 -600; do
        export ACCEL_END_TIME=0:$((up + 600))/600
        run train 1 $ahead 0 --epochs 20
        [ "$status" -eq 0 ]
        read -r up _ </proc/uptime
        export ACCEL_END_TIME=0:$((${up%.*} + 4))/600
        run train 1 $ahead 100 --epochs 1000000
        [ "$status" -eq 75 ]
        read -r up _ </proc/uptime
        up=${up%.*}
    done
}

# What was kept free was a fixed part, and as long as the job.
@test "a job of a minute trains for most of it, or says that it cannot" {
    export ACCEL_END_TIME=0:$((up + 60))/60
    run timeout 60 accel launch -n 2 "$digits" --epochs 40
    [ "$status" -eq 0 ]
    run ! grep -i 'time limit' <<<"$output"
    # A margin that each start runs into: not the status that asks for more.
    export ACCEL_END_TIME=0:$((up + 60))/60
    run timeout 60 accel launch -n 2 --accel margin=60 "$digits" --checkpoint ck
    [ "$status" -ne 0 ]
    [ "$status" -ne 75 ]
    grep -q 'time limit is 60 s, of which margin= keeps 60 s free.*no start' \
        <<<"$output"
    # Late in a long job it is the start that is short, and not all of them.
    export ACCEL_END_TIME=0:$((up + 30))/3600
    run timeout 60 accel launch -n 2 --accel margin=60 "$digits" --checkpoint ck
    [ "$status" -eq 75 ]
    grep -q 'left of the time limit of 3600 s.*margin= keeps 60.0 s free' \
        <<<"$output"
}
