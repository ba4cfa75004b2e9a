# Messages from rank to rank between real processes: mp_pair.c.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    pair=$top_builddir/tests/multi/mp_pair
    unset "${!ACCEL_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
}

# ranks nodes program...
on() {
    local ranks=$1 nodes=$2
    shift 2
    timeout 120 accel launch -n "$ranks" --nodes "$nodes" "$@"
}

@test "a ring of messages of all sizes" {
    local shape
    for shape in "1 1" "2 1" "4 1" "2 2" "5 3"; do
        # shellcheck disable=SC2086
        run on $shape "$pair" ring 2
        [[ $status -eq 0 && $output == *"ok: ${shape% *} ranks"* ]] || {
            echo "$shape: $output"
            return 1
        }
    done
}

@test "tags in another order, and a message that does not fit" {
    local shape
    for shape in "3 1" "2 2" "5 3"; do
        # shellcheck disable=SC2086
        run on $shape "$pair" tags
        [[ $status -eq 0 && $output == "ok: ${shape% *} ranks" ]] || {
            echo "$shape: $output"
            return 1
        }
    done
}

# Rank 2 of 4 ends; the others wait for it, and nobody else does anything.
all_say() { # nodes how status words
    local r
    run on 4 "$1" "$pair" "$2" 2
    for r in 0 1 3; do
        grep -qE "^survivor $r $3 seconds [0-9]+: comm: $4" <<<"$output" || {
            echo "$1 nodes: rank $r: $output"
            return 1
        }
    done
}

@test "a rank that is killed is named by all that wait for it" {
    local nodes
    for nodes in 1 2 4; do
        all_say $nodes kill ACCEL_ERR_PEER "rank 2 on [^ ]+ is gone"
    done
}

# The timeout is none that could have ended the wait. Who waits for one that has
# ended since looks for the first that went.
@test "and one that is killed amid a message of 64 MiB" {
    local nodes ms r
    for nodes in 1 2 4; do
        for ms in 0 90 400; do
            ACCEL_TIMEOUT=600 run on 4 $nodes "$pair" amid 2 $ms
            [[ $output != *"signal "[!9]* ]] || {
                echo "$nodes nodes, $ms ms: $output"
                return 1
            }
            for r in 0 1 3; do
                grep -qE "^survivor $r ACCEL_ERR_PEER: comm: rank 2 on [^ ]+ \
is gone" <<<"$output" || {
                    echo "$nodes nodes, $ms ms: rank $r: $output"
                    return 1
                }
            done
        done
    done
}

@test "so is one that leaves" {
    local nodes
    for nodes in 1 2 4; do
        all_say $nodes close ACCEL_ERR_PEER \
            "rank 2 on [^ ]+ (has left|is gone)"
    done
}

@test "and one that does nothing for too long" {
    local nodes
    for nodes in 1 4; do
        ACCEL_TIMEOUT=2 run on 4 $nodes "$pair" stop 2 10
        for r in 0 1 3; do
            grep -qE "^survivor $r ACCEL_ERR_TIMEOUT .*waited 2 s in \
(send|receive) for rank 2 on " <<<"$output" || {
                echo "$nodes nodes: rank $r: $output"
                return 1
            }
        done
    done
}
