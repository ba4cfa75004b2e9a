# Deaths of the kinds of case 44 in every operation, and children of the kind
# of case 53: mp_kinds.c does it, this says where.

bats_require_minimum_version 1.5.0
load launched.bash

setup() {
    kinds=$top_builddir/tests/multi/mp_kinds
    launched_setup
}

# RANKS NODES OPERATION DEAD...: these die in it, and all others name one.
end() {
    local ranks=$1 nodes=$2 operation=$3 dead r
    shift 3
    dead="$*"
    run on "$ranks" "$nodes" "$kinds" end "$operation" "$@"
    for ((r = 0; r < ranks; r++)); do
        [[ " $dead " != *" $r "* ]] || continue
        grep -qE "^survivor $r ACCEL_ERR_PEER: .*rank (${dead// /|}) on [^ ]+ \
is gone" <<<"$output" || {
            echo "$operation, $nodes nodes, $dead: rank $r: $output"
            return 1
        }
    done
}

@test "a rank that is killed in any operation is named by all others" {
    local operation nodes
    for operation in $("$kinds" list); do
        for nodes in 1 3; do
            end 4 $nodes "$operation" 2
        done
    done
}

@test "two ranks that are killed at once: all others name one of them" {
    local nodes
    for nodes in 1 2 5; do
        end 5 $nodes all-gather 0 3
        end 5 $nodes scatter 3 4
    done
}

@test "a whole node that is lost is named" {
    end 6 3 reduce 0 1
    end 6 3 all-to-all-v 4 5
}

@test "children that end while operations are under way" {
    local nodes
    for nodes in 1 2; do
        run on 4 $nodes "$kinds" forks
        [[ $status -eq 0 && $output == *"ok: 4 ranks"* ]] || {
            echo "$nodes nodes: status $status: $output"
            return 1
        }
    done
}
