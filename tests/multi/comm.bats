# Collectives between real processes, and what they say when one of them ends
# or goes silent: mp_comm.c and mp_die.c do it, this says where.

bats_require_minimum_version 1.5.0
load launched.bash

setup() {
    comm=$top_builddir/tests/multi/mp_comm
    die=$top_builddir/tests/multi/mp_die
    kills=${ACCEL_TEST_KILLS:-10}
    launched_setup
}

node_of() { # rank ranks nodes: launch fills nodes one after the other
    [[ $3 -gt 1 ]] || { hostname; return; }
    echo "n$(($1 / (($2 + $3 - 1) / $3)))"
}

# Ranks 0..$1-1 but $2 have all said: rank $2 on its node is STATUS, in time.
all_name() {
    local ranks=$1 dead=$2 nodes=$3 words=$4 r
    for ((r = 0; r < ranks; r++)); do
        ((r != dead)) || continue
        grep -qE "^survivor $r ACCEL_ERR_PEER seconds [0-9]{1,2}\.[0-9]: comm: \
rank $dead on $(node_of "$dead" "$ranks" "$nodes") $words" <<<"$output" || {
            echo "rank $r of $ranks on $nodes does not name $dead: $output"
            return 1
        }
    done
}

@test "every operation, type, operator and size on one node" {
    local ranks
    run on 3 1 "$comm"
    [[ $status -eq 0 && $output == *"ok: 3 ranks on 1 nodes"* ]] || {
        echo "$output"
        return 1
    }
    for ranks in 1 2 5 8; do
        run on $ranks 1 "$comm" quick
        [[ $status -eq 0 && $output == *"ok: $ranks ranks on 1 nodes"* ]] || {
            echo "$ranks: $output"
            return 1
        }
    done
}

@test "the same between nodes, also uneven ones" {
    local shape
    run on 3 2 "$comm"
    [[ $status -eq 0 && $output == *"ok: 3 ranks on 2 nodes"* ]] || {
        echo "$output"
        return 1
    }
    for shape in "2 2" "5 3" "8 3"; do
        # shellcheck disable=SC2086
        run on $shape "$comm" quick
        [[ $status -eq 0 && $output == *"ok: ${shape/ / ranks on } nodes"* &&
            $output == *ucx* ]] || {
            echo "$shape: $output"
            return 1
        }
    done
}

@test "Open MPI starts it as well" {
    command -v mpirun || skip "mpirun is not installed"
    run timeout 120 mpirun -n 3 "$comm" quick
    [[ $status -eq 0 && $output == *"ok: 3 ranks"* ]]
}

@test "eight ranks do a thousand small all-reduces within 30 s" {
    run timeout 30 accel launch -n 8 "$comm" rounds 1000
    [[ $status -eq 0 && $output == *ok* ]]
}

# Rank 1 has no network that another node could reach.
@test "a rank that cannot be reached ends the start of all" {
    local r
    # shellcheck disable=SC2016
    run on 3 3 bash -c '[[ $PMIX_RANK != 1 ]] || export UCX_TLS=self
        exec "$0" quick' "$comm"
    [[ $status -ne 0 && $(grep -c "job: rank 1 on n1: .* UCX_TLS self; " \
        <<<"$output") -eq 3 && $output != *[Ss]"ignal"* ]] || {
        echo "$output"
        return 1
    }
}

@test "sixteen ranks on few cores make progress" {
    run on 16 1 "$comm" rounds 200
    [[ $status -eq 0 && $output == *"ok: 16 ranks"* ]]
}

@test "a rank that is killed is named by all others" {
    local nodes dead
    for nodes in 1 2 4; do
        for dead in 0 3; do
            run on 4 "$nodes" "$die" kill "$dead"
            all_name 4 "$dead" "$nodes" "is gone"
        done
    done
    run on 4 1 "$die" kill 2
    [[ $output == *"(killed by signal 9)"* ||
        $output == *"(its process ended)"* ]]
    [[ $output == *"ranks 0 1 3 were waiting in it"* ]]
}

# Ranks 2 and 3 of six, or rank 3 that is alone on its node.
@test "a node whose ranks are all killed at once" {
    local shape r
    for shape in "6 3" "4 4"; do
        # shellcheck disable=SC2086
        ACCEL_TIMEOUT=600 run on $shape "$die" node 3
        for ((r = 0; r < ${shape% *}; r++)); do
            ((r == 3 || (r == 2 && ${shape% *} == 6))) && continue
            grep -qE "^survivor $r ACCEL_ERR_PEER .*rank [23] on \
n$((${shape% *} == 6 ? 1 : 3)) is gone" <<<"$output" || {
                echo "$shape: rank $r: $output"
                return 1
            }
        done
    done
}

@test "between nodes the end of a rank is told in words of the user" {
    local how
    for how in kill exit0; do
        run on 4 4 "$die" $how 2
        all_name 4 2 4 "is gone \\(the connection to it was lost: it died, \
or its node did\\)"
        [[ $output != *ndpoint* ]]
    done
    # what the transport says is there for who wants it
    MP_DEBUG=1 run on 4 4 "$die" kill 2
    [[ $output == *"debug"*"comm: the connection to rank 2 on n2: "* ]]
}

@test "so is one that crashes, and one that ends without closing" {
    local nodes how
    for nodes in 1 2 4; do
        for how in segv exit0; do
            run on 4 "$nodes" "$die" $how 2
            all_name 4 2 "$nodes" "is gone"
        done
    done
}

@test "a rank that closes while others wait has left" {
    local nodes
    for nodes in 1 2 4; do
        run on 4 "$nodes" "$die" close 2
        all_name 4 2 "$nodes" "has left"
    done
}

@test "any rank is killed at any moment" {
    local shapes=("2 1" "2 2" "3 1" "3 3" "4 1" "4 2" "4 4" "5 1" "6 2" "6 3")
    local i ranks nodes dead
    RANDOM=20
    for ((i = 0; i < kills; i++)); do
        read -r ranks nodes <<<"${shapes[i % 10]}"
        dead=$((RANDOM % ranks))
        run on "$ranks" "$nodes" "$die" random "$dead"
        all_name "$ranks" "$dead" "$nodes" "is gone"
    done
}

# Two rails or three, where a node has one rank more than another as well.
@test "any rank is killed amid large messages of all operations, on rails" {
    local shapes=("4 2" "5 2" "6 2" "6 3" "8 4") i ranks nodes dead
    RANDOM=21
    for ((i = 0; i < (kills + 1) / 2; i++)); do
        read -r ranks nodes <<<"${shapes[i % 5]}"
        dead=$((RANDOM % ranks))
        MP_LARGE=1 MP_RAILS=1 run on "$ranks" "$nodes" "$die" random "$dead"
        all_name "$ranks" "$dead" "$nodes" "is gone"
    done
}

@test "started operations and those of a part end as well" {
    local nodes how
    for nodes in 1 2 4; do
        for how in kill exit0 close; do
            MP_START=1 run on 4 "$nodes" "$die" $how 2
            all_name 4 2 "$nodes" "(is gone|has left)"
        done
        MP_PART=1 run on 4 "$nodes" "$die" segv 1
        all_name 4 1 "$nodes" "is gone"
        MP_START=1 MP_PART=1 run on 4 "$nodes" "$die" random 2
        all_name 4 2 "$nodes" "is gone"
    done
    # one that is stopped only delays
    MP_START=1 run on 4 2 "$die" stop 1 2
    [[ $status -eq 0 && $output == *fine* ]]
}

@test "a child that keeps the descriptors does not hide a death" {
    local nodes
    for nodes in 1 2 4; do
        run on 4 $nodes "$die" fork 2
        all_name 4 2 $nodes "is gone"
        run on 4 $nodes "$die" spawn 2
        all_name 4 2 $nodes "is gone"
    done
}

@test "a stopped rank only delays" {
    local nodes
    for nodes in 1 4; do
        run on 4 $nodes "$die" stop 2 3
        [[ $status -eq 0 && $output == *fine* ]]
    done
}

@test "a rank that is silent for too long is named, with its last call" {
    local nodes
    for nodes in 1 2 4; do
        ACCEL_TIMEOUT=2 run on 4 $nodes "$die" sleep 2 6
        [[ $output == *"survivor 0 ACCEL_ERR_TIMEOUT seconds 2."* ]]
        [[ $output == *"waited 2 s in all-reduce #202 for rank 2 on "* ]]
        [[ $output == *"last: barrier #201"* && $output == *"timeout=2"* ]]
        # it hears of it as well, when it comes
        [[ $output == *"survivor 2 ACCEL_ERR_TIMEOUT"* ]]
    done
}

@test "waiting takes little processor time" {
    local nodes
    for nodes in 1 4; do
        run on 4 $nodes "$die" before 0 6
        [[ $status -eq 0 && $output == *fine* ]]
        # under half a core each, and the work itself is in it
        awk '/^rank . cpu/ { n++; if ($4 > 3) bad = 1 }
            END { exit n != 4 || bad }' <<<"$output" || {
            echo "$output"
            return 1
        }
    done
}

@test "few open files and little locked memory suffice" {
    run bash -c "ulimit -l 64 && ulimit -Sn 48 && \
        timeout 120 accel launch -n 8 --nodes 2 $comm quick"
    [[ $status -eq 0 && $output == *"ok: 8 ranks"* ]]
}

@test "ten jobs side by side keep to themselves" {
    local i
    for ((i = 0; i < 10; i++)); do
        on 2 $((1 + i % 2)) "$comm" rounds 300 >out.$i 2>&1 &
    done
    wait
    grep -c "ok: 2 ranks" out.* | tee counts
    [[ $(grep -c ':1$' counts) -eq 10 ]]
}
