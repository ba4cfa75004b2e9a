# One copy between the ranks of a node: mp_cma.c does it, this says where, and
# what the kernel has against it.

bats_require_minimum_version 1.5.0
load launched.bash

setup() {
    cma=$top_builddir/tests/multi/mp_cma
    launched_setup
    # Where this machine refuses it to all, what is tested is that; a test that
    # wants it asks.
    run on 2 1 "$cma" values
    works=$([[ $output == *"; cma from "* ]] && echo yes || echo no)
}

fine() { # what is said...
    [[ $status -eq 0 && $output == *"ok: "*"$1"* ]] || {
        echo "$output"
        return 1
    }
}

@test "one copy gives what slots give, on any number of ranks" {
    local ranks
    for ranks in 2 5; do
        run on $ranks 1 "$cma" values
        fine "none: one node; "
        ACCEL_CMA=off run on $ranks 1 "$cma" values
        fine "none: one node; no cma: rank 0 on $(hostname): switched off"
    done
}

@test "no rank writes into the memory of another" {
    local ranks
    for ranks in 2 4; do
        run on $ranks 1 "$cma" reads
        fine "none: one node; "
    done
}

@test "several nodes need none of it" {
    run on 4 2 "$cma" values
    fine ""
    [[ $output != *cma* ]]
}

@test "one rank that is refused speaks for its node" {
    run on 3 1 "$cma" refused
    if [[ $works == yes ]]; then
        fine "no cma: rank 2 on $(hostname): Operation not permitted"
    else
        fine "no cma: "
    fi
}

@test "debug=tuning says whether it is used, and why not" {
    ACCEL_DEBUG=tuning run on 2 1 "$cma" refused
    [[ $status -eq 0 && $output == *"tuning: one node: gather and scatter of \
private memory: no cma: rank "*": Operation not permitted"* ]] || {
        echo "$output"
        return 1
    }
}

@test "debug=tuning says it in groups as well, and once for each node" {
    local nodes
    for nodes in 1 2; do
        ACCEL_DEBUG=tuning ACCEL_GROUPS=aabb run on 4 $nodes "$cma" parts
        [[ $status -eq 0 && $output != *": alone"* &&
            $(grep -c "tuning: one node: .*cma" <<<"$output") -eq $nodes ]] || {
            echo "$output"
            return 1
        }
    done
}

@test "who is refused later goes on through the slots" {
    [[ $works == yes ]] || skip "this kernel refuses it from the start"
    run on 3 1 "$cma" late
    fine ""
    [[ $(grep -c "warning: comm: no cma: rank 2 on $(hostname): Operation not \
permitted" <<<"$output") -eq 1 ]] || {
        echo "$output"
        return 1
    }
}

@test "who has no memory for it at one call tries it at the next" {
    [[ $works == yes ]] || skip "this kernel refuses it from the start"
    run on 3 1 "$cma" nomem
    fine ""
    [[ $output != *"no cma"* ]]
}

@test "a pointer that is bad is an error of all, not a crash" {
    local how ranks
    [[ $works == yes ]] || skip "this kernel refuses it from the start"
    for how in short readonly; do
        for ranks in 2 3; do
            run on $ranks 1 "$cma" $how
            fine ""
        done
    done
}

@test "a rank that is killed amid a large message is named by the others" {
    local r
    for _ in 1 2 3; do
        run on 3 1 "$cma" killed
        for r in 0 1; do
            grep -q "^survivor $r ACCEL_ERR_PEER: comm: rank 2 on $(hostname) \
is gone" <<<"$output" || {
                echo "$output"
                return 1
            }
        done
    done
}
