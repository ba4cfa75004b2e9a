# Each algorithm between nodes, forced: the same bits, and the same words when
# a rank ends. mp_ways.c and mp_die.c do it.

bats_require_minimum_version 1.5.0
load launched.bash

setup() {
    launched_setup
}

# all_name DEAD RANK...: each rank but the dead one says for whom it waited.
all_name() {
    local dead=$1 r
    shift
    for r; do
        ((r != dead)) || continue
        grep -qE "^survivor $r ACCEL_ERR_TIMEOUT .*for rank $dead on n" \
            <<<"$output" || {
            echo "rank $r of $dead: $output"
            return 1
        }
    done
}

@test "all ways give the same bits on 2 to 5 nodes" {
    local shape
    for shape in "2 2" "3 3" "5 4" "5 5"; do
        # shellcheck disable=SC2086
        run on $shape "$top_builddir/tests/multi/mp_ways"
        [[ $status -eq 0 &&
            $output == *"ok: 9 ways, ${shape/ / ranks on } nodes"* ]] || {
            echo "$shape: $output"
            return 1
        }
    done
}

# Two rails, where a node has three or one as well; three of three.
@test "slices of all ranks give the same bits" {
    local shape
    for shape in "4 2" "5 2" "6 2"; do
        # shellcheck disable=SC2086
        MP_RAILS=1 run on $shape "$top_builddir/tests/multi/mp_ways"
        [[ $status -eq 0 &&
            $output == *"ok: 9 ways, ${shape/ / ranks on } nodes"* ]] || {
            echo "$shape: $output"
            return 1
        }
    done
}

@test "a rank that is killed on a rail is named by all others" {
    local dead r
    for dead in 1 4 5; do
        MP_RAILS=1 run on 6 2 "$top_builddir/tests/multi/mp_die" random $dead
        for r in 0 1 2 3 4 5; do
            ((r != dead)) || continue
            grep -qE "^survivor $r ACCEL_ERR_PEER seconds [0-9]\.[0-9]: comm: \
rank $dead on n$((dead / 3)) is gone" <<<"$output" || {
                echo "rank $r of $dead: $output"
                return 1
            }
        done
    done
}

@test "a rank that is silent on a rail is named by all" {
    local dead
    for dead in 1 4; do
        MP_RAILS=1 ACCEL_TIMEOUT=3 run on 6 2 \
            "$top_builddir/tests/multi/mp_die" hang $dead 10
        all_name "$dead" 0 1 2 3 4 5 || return 1
    done
}

# In all operations, by segments, and where a node has one rank more.
@test "a rank that is silent amid large messages is named by all" {
    local dead
    for dead in 1 3; do
        MP_LARGE=1 MP_RAILS=1 ACCEL_TIMEOUT=3 run on 5 2 \
            "$top_builddir/tests/multi/mp_die" hang $dead 10
        all_name "$dead" 0 1 2 3 4 || return 1
    done
}

@test "a rank that is stopped amid large messages only delays" {
    MP_LARGE=1 MP_RAILS=1 run on 4 2 "$top_builddir/tests/multi/mp_die" stop 3 2
    [[ $status -eq 0 && $output == *fine* ]] || {
        echo "$output"
        return 1
    }
}

@test "operations that differ, between large messages, are told by all" {
    local r
    MP_LARGE=1 MP_RAILS=1 run on 5 2 "$top_builddir/tests/multi/mp_die" differ 4
    for r in 0 1 2 3 4; do
        grep -qE "^survivor $r ACCEL_ERR_PROTO .*the ranks disagree: .*\
reduce-scatter.*all-gather" <<<"$output" || {
            echo "rank $r: $output"
            return 1
        }
    done
}

@test "a rank that is killed on any way is named by all others" {
    local way r
    for way in bruck pairwise chain ring doubling rabenseifner binomial; do
        MP_WAY=$way run on 4 4 "$top_builddir/tests/multi/mp_die" random 2
        for r in 0 1 3; do
            grep -qE "^survivor $r ACCEL_ERR_PEER seconds [0-9]\.[0-9]: comm: \
rank 2 on n2 is gone" <<<"$output" || {
                echo "$way: rank $r: $output"
                return 1
            }
        done
    done
}

@test "a rank that is silent on a chain or a ring is named by all" {
    local way r
    for way in chain ring; do
        MP_WAY=$way ACCEL_TIMEOUT=3 run on 4 4 \
            "$top_builddir/tests/multi/mp_die" hang 2 8
        for r in 0 1 3; do
            grep -qE "^survivor $r ACCEL_ERR_TIMEOUT .*for rank 2 on n2" \
                <<<"$output" || {
                echo "$way: rank $r: $output"
                return 1
            }
        done
    done
}

@test "debug=tuning says once what was measured and chosen" {
    ACCEL_DEBUG=tuning run --separate-stderr on 3 3 \
        "$top_builddir/tests/multi/mp_comm" rounds 3
    [[ $status -eq 0 ]]
    [[ $(grep -c "tuning: 3 nodes: .* us a round" <<<"$stderr") -eq 1 ]]
    [[ $stderr == *"tuning: all-reduce of floats of 64 B: "* ]]
    ACCEL_DEBUG=tuning run --separate-stderr on 2 1 \
        "$top_builddir/tests/multi/mp_comm" rounds 3
    [[ $status -eq 0 && $stderr == *"tuning: one node: "* ]]
    ACCEL_DEBUG=tunning run on 2 1 "$top_builddir/tests/multi/mp_comm" rounds 3
    [[ $status -ne 0 && $output == *"none tuning"* ]]
}

@test "the setting rails: always, never, and what is neither" {
    local comm=$top_builddir/tests/multi/mp_comm
    ACCEL_RAILS=always ACCEL_DEBUG=tuning run --separate-stderr on 4 2 \
        "$comm" quick
    [[ $status -eq 0 &&
        $(grep -c "tuning: 2 rails at once: " <<<"$stderr") -eq 1 ]]
    ACCEL_RAILS=never ACCEL_DEBUG=tuning run --separate-stderr on 4 2 \
        "$comm" quick
    [[ $status -eq 0 && $stderr != *"rails at once"* ]]
    ACCEL_RAILS=some run on 4 2 "$comm" quick
    [[ $status -ne 0 && $output == *"auto always never"* ]]
}

@test "the network between nodes is said, with the reason" {
    UCX_NET_DEVICES=lo run on 2 2 "$top_builddir/tests/multi/mp_comm" rounds 3
    [[ $status -eq 0 && $output == *"ucx: UCX "*" over tcp/lo, as \
UCX_NET_DEVICES says (net=auto)"* ]] || {
        echo "$output"
        return 1
    }
    unset UCX_NET_DEVICES
    ACCEL_NET=ucx run on 2 2 "$top_builddir/tests/multi/mp_comm" rounds 3
    [[ $status -eq 0 && $output == *" over "*", the best it found \
(net=ucx)"* ]] || {
        echo "$output"
        return 1
    }
    # a name that is none ends all at once, with those there are
    local name
    for name in UCX_NET_DEVICES UCX_TLS; do
        run on 2 2 env $name=mlx9_9:1 "$top_builddir/tests/multi/mp_comm" \
            rounds 3
        [[ $status -ne 0 && $(grep -c "UCX says: .*mlx9_9:1.* is not \
available, please use one or more of: .*tcp" <<<"$output") -eq 2 ]] || {
            echo "$output"
            return 1
        }
    done
    ACCEL_NET=uct run on 2 2 "$top_builddir/tests/multi/mp_comm" rounds 3
    [[ $status -ne 0 && $output == *"auto ucx mpi"* ]]
}
