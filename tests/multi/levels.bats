# Ranks of a node in groups, as between sockets: the same bits, the same words
# when a rank is lost. The setting groups pretends them; mp_comm.c and mp_die.c
# do the work.

bats_require_minimum_version 1.5.0
load launched

setup() {
    launched_setup
    comm=$top_builddir/tests/multi/mp_comm
    die=$top_builddir/tests/multi/mp_die
}

# groups ranks nodes...
in_groups() {
    local groups=$1
    shift
    ACCEL_GROUPS=$groups run on "$@"
}

@test "groups change no bit of any sum" {
    local shape first groups
    for shape in "4 1" "6 1" "7 2"; do
        first=
        for groups in none aabb aab ab aabbcc; do
            # shellcheck disable=SC2086
            in_groups $groups $shape "$comm" bits
            [[ $status -eq 0 && $output =~ bits:\ ([0-9a-f]{16}) ]] || {
                echo "$shape $groups: $output"
                return 1
            }
            : "${first:=${BASH_REMATCH[1]}}"
            [[ ${BASH_REMATCH[1]} == "$first" ]] || {
                echo "$shape: $groups gives ${BASH_REMATCH[1]}, none $first"
                return 1
            }
        done
    done
}

@test "a sample of all operations in groups" {
    local shape
    for shape in "aabb 4 1" "aaabb 5 1" "abc 8 1" "aab 7 3"; do
        # shellcheck disable=SC2086
        in_groups $shape "$comm" product 25
        [[ $status -eq 0 && $output == *"tried: "* ]] ||
            { echo "$shape: $output"; return 1; }
    done
}

# ranks dead pattern: each survivor says that this one is gone, or has left.
all_name() {
    local r
    for ((r = 0; r < $1; r++)); do
        [[ $r -eq $2 ]] || grep -Eq \
            "^survivor $r ACCEL_ERR_PEER .*: comm: rank $2 on .* $3" \
            <<<"$output" || { echo "survivor $r of $2: $output"; return 1; }
    done
}

@test "a rank that is lost in either group is named by all" {
    local groups how
    for groups in aabb ab aaab; do
        for how in "kill 0" "exit0 3" "close 2"; do
            # shellcheck disable=SC2086
            in_groups $groups 4 1 "$die" $how
            all_name 4 "${how#* }" "(is gone|has left)"
        done
    done
    in_groups aab 6 2 "$die" kill 4
    all_name 6 4 "is gone"
}

@test "a rank of a group is killed at any moment" {
    local i dead
    RANDOM=21
    for ((i = 0; i < ${ACCEL_TEST_KILLS:-6}; i++)); do
        dead=$((RANDOM % 4))
        in_groups aabb 4 1 "$die" random "$dead"
        all_name 4 "$dead" "is gone"
    done
}

@test "a rank of a group that is stopped is named, not who waits for it" {
    local i dead
    RANDOM=22
    for i in 1 2 3; do
        dead=$((RANDOM % 4))
        ACCEL_TIMEOUT=2 in_groups aabb 4 1 "$die" hang "$dead" 6
        [[ $(grep -c "^survivor [0-3] ACCEL_ERR_TIMEOUT .* for rank $dead on " \
            <<<"$output") -ge 3 && $output != *", rank "* ]] ||
            { echo "$dead: $output"; return 1; }
    done
    in_groups aabb 4 1 "$die" stop 1 2
    [[ $status -eq 0 && $output == *fine* ]]
}

# Of a machine that has a socket for each of its processors ranks are bound to
# two: with two ranks on each, measuring would say nothing.
@test "debug=tuning says which groups there are, and why they are used" {
    local cpus
    mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' |
        while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)
    export first=${cpus[0]} second=${cpus[1]} comm
    HWLOC_SYNTHETIC="package:1024 core:1 pu:1" ACCEL_DEBUG=tuning \
        run on 4 1 bash -c 'cpu=$first
        (( PMIX_RANK < 2 )) || cpu=$second
        exec taskset -c "$cpu" "$comm" rounds 3'
    [[ $status -eq 0 && $output == *"ok: 4 ranks"* ]]
    [[ $output == *"tuning: 2 groups of ranks on this node: 0 1; 2 3"* ]]
    [[ $output == *"ranks meet flat: ranks are more than their CPUs"* ]]
    ACCEL_DEBUG=tuning in_groups aaabb 5 1 "$comm" rounds 3
    [[ $output == *"2 groups of ranks on this node: 0-2; 3 4"* ]]
    [[ $output == *"ranks meet by groups: the setting groups says so"* ]]
    [[ $output == *"large all-reduces of f32 go by groups"* ]]
    ACCEL_DEBUG=tuning in_groups ab 4 1 "$comm" rounds 3
    [[ $output == *"go flat: groups are mixed in rank order"* ]]
    ACCEL_DEBUG=tuning in_groups none 4 1 "$comm" rounds 3
    [[ $output == *"ok: 4 ranks"* && $output != *"groups of ranks"* ]]
    in_groups "aB" 4 1 "$comm" rounds 3
    [[ $status -ne 0 && $output == *"groups=aB: want auto, none or a letter"* ]]
}
