# job: who the ranks are under Slurm, and when it is refused.

bats_require_minimum_version 1.5.0

setup() {
    : "${top_builddir:?use make check-cluster}"
    with=$BATS_TEST_DIRNAME/with-cluster
    export job=$top_builddir/tests/multi/mp_job
    export both=$top_builddir/tests/multi/mp_job_mpi
    dir=$(mktemp -d /tmp/aj.XXXXXX)
    cd "$dir"
}

teardown() {
    cd /
    rm -rf "$dir"
}

# "in FILTER COUNT": so many lines of the output match.
lines() {
    [ "$(grep -cE "$1" <<<"$output")" -eq "$2" ] || {
        echo "not $2 times: $1" >&2
        echo "$output" >&2
        return 1
    }
}

@test "several tasks without PMIx are refused with what to type" {
    run timeout 100 "$with" -N 2 bash -c '
        for opts in --mpi=none "" "--mpi=none --accel=fp16"; do
            timeout 15 srun -N2 -n4 $opts "$job"
            echo "ended with $?"
        done'
    lines '^ended with 1$' 3
    lines '4 tasks but no PMIx: run "srun --mpi=pmix ...", or set MpiDefault=pmix' 12
    lines '^world' 0
}

@test "--accel alone chooses PMIx; so does MpiDefault" {
    run timeout 100 "$with" -N 2 srun -N2 -n4 --accel=fp16 "$job"
    [ "$status" -eq 0 ]
    lines '^world 4 ' 4
    run timeout 100 "$with" -N 2 -m pmix srun -N2 -n4 "$job"
    [ "$status" -eq 0 ]
    lines '^world 4 ' 4
}

@test "inside an allocation: plain starts are worlds of one" {
    run timeout 100 "$with" -N 2 salloc -Q -N2 -n4 bash -c '
        timeout 15 "$job"
        timeout 15 srun --mpi=none -n1 -N1 "$job"
        timeout 15 srun --mpi=pmix -n1 -N1 bash -c "\$job; \$job"
        timeout 15 srun --mpi=pmix -n4 "$job"'
    [ "$status" -eq 0 ]
    lines '^world 1 rank 0 local 0 of 1 node 0 of 1' 4
    lines '^world 1 .* single$' 2
    lines '^world 4 ' 4
}

@test "a step that holds all CPUs still runs accel launch" {
    for kind in none pmix; do
        run timeout 100 "$with" -N 1 -c 4 srun --mpi=$kind -n1 -c4 --exclusive \
            timeout 15 accel launch -n 2 "$job"
        [ "$status" -eq 0 ]
        lines '^world 2 rank [01] local [01] of 2 node 0 of 1 n1 ' 2
    done
}

@test "a step inside a step does not take the outer one for its own" {
    run timeout 100 "$with" -N 1 salloc -Q -N1 -n4 \
        srun --mpi=pmix -n1 bash -c '
            timeout 15 srun --overlap --mpi=none -n1 "$job"
            timeout 15 srun --overlap --mpi=none -n3 "$job"'
    [ "$status" -ne 0 ]
    lines '^world 1 rank 0 .* single$' 1
    lines '3 tasks but no PMIx' 3
    lines '^world 3' 0
}

@test "a task may run one program after the other" {
    run timeout 100 "$with" -N 2 bash -c '
        timeout 30 srun --mpi=pmix -N2 -n3 -m cyclic sh -c \
            "\$job; sleep 1; \$job --sum"
        timeout 30 srun --mpi=pmix -N2 -n4 sh -c \
            "\$job; sleep 1; \$job; sleep 1; \$job"'
    [ "$status" -eq 0 ]
    lines '^world 3 rank 0 local 0 of 2 node 0 of 2 n1 ' 2
    lines '^world 3 rank 1 local 0 of 1 node 1 of 2 n2 ' 2
    lines '^world 3 rank 2 local 1 of 2 node 0 of 2 n1 ' 2
    lines '^sum 6$' 3
    lines '^world 4 ' 12
}

@test "the size is the step's, not the job's" {
    cat >"$dir/a.sh" <<'SCRIPT'
#!/bin/bash
timeout 10 "$job"
timeout 10 srun --mpi=pmix -n3 "$job"
timeout 10 srun --mpi=pmix -N1 -n1 "$job"
SCRIPT
    cat >"$dir/b.sh" <<'SCRIPT'
#!/bin/bash
timeout 10 srun --mpi=pmix "$job"
SCRIPT
    run timeout 100 "$with" -N 2 bash -c '
        sbatch -W -Q -o a.out -N2 -n4 --ntasks-per-node=2 a.sh
        sbatch -W -Q -o b.out -n2 --ntasks-per-node=4 b.sh
        echo == a; cat a.out; echo == b; cat b.out'
    a=$(awk '/^== a/ { p = 1 } /^== b/ { p = 0 } p' <<<"$output")
    b=$(awk '/^== b/ { p = 1 } p' <<<"$output")
    echo "$output" # for who reads about a failure
    [ "$(grep -c '^world 3 ' <<<"$a")" -eq 3 ]
    [ "$(grep -c '^world 1 .* pmix$' <<<"$a")" -eq 1 ]
    [ "$(grep -c '^world 1 .* single$' <<<"$a")" -eq 1 ]
    [ "$(grep -c '^world' <<<"$a")" -eq 5 ]
    [ "$(grep -c '^world 2 ' <<<"$b")" -eq 2 ]
}

# Tasks on hosts as listed; ranks go through the list.
arbitrary() {
    printf '%s\n' "$@" >"$dir/hosts"
    run timeout 100 "$with" -N 3 env SLURM_HOSTFILE="$dir/hosts" \
        srun --mpi=pmix -m arbitrary -n $# "$job" --sum
    [ "$status" -eq 0 ]
}

@test "unequal numbers of tasks on the nodes" {
    arbitrary n1 n1 n2
    lines '^sum 6$' 3
    lines 'rank [01] local [01] of 2 node 0 of 2 n1 ' 2
    lines 'rank 2 local 0 of 1 node 1 of 2 n2 ' 1
    arbitrary n1 n1 n2 n2 n3
    lines '^sum 15$' 5
    lines 'rank 3 local 1 of 2 node 1 of 3 n2 ' 1
    lines 'rank 4 local 0 of 1 node 2 of 3 n3 ' 1
    arbitrary n1 n2 n2 n2
    lines '^sum 10$' 4
    lines 'rank 0 local 0 of 1 node 0 of 2 n1 ' 1
    lines 'rank 3 local 2 of 3 node 1 of 2 n2 ' 1
}

@test "ranks dealt out like cards" {
    run timeout 100 "$with" -N 3 srun --mpi=pmix -N3 -n6 -m cyclic \
        --ntasks-per-node=2 "$job" --sum
    [ "$status" -eq 0 ]
    lines '^sum 21$' 6
    lines 'rank 3 local 1 of 2 node 0 of 3 n1 ' 1
    lines 'rank 4 local 1 of 2 node 1 of 3 n2 ' 1
    lines 'rank 2 local 0 of 2 node 2 of 3 n3 ' 1
}

@test "nodes with gaps" {
    run timeout 100 "$with" -N 4 srun --mpi=pmix -w 'n[1,3-4]' -N3 -n3 "$job"
    [ "$status" -eq 0 ]
    lines 'rank 0 .* node 0 of 3 n1 ' 1
    lines 'rank 1 .* node 1 of 3 n3 ' 1
    lines 'rank 2 .* node 2 of 3 n4 ' 1
}

@test "nodes that share a hostname are several" {
    run timeout 100 "$with" -N 4 srun --mpi=pmix -N4 -n8 \
        --ntasks-per-node=2 "$job" --sum
    [ "$status" -eq 0 ]
    lines 'local [01] of 2 node [0-3] of 4 n[1-4] ' 8
    lines '^sum 36$' 8
}

@test "hostnames that are equal up to the dot" {
    cat >"$dir/renamed" <<'SCRIPT'
hostname "gpu.$SLURMD_NODENAME"
exec "$job" --sum
SCRIPT
    flags=-u
    [ "$(id -u)" = 0 ] || flags=-ru
    run timeout 100 "$with" -N 2 srun --mpi=pmix -N2 -n4 \
        --ntasks-per-node=2 unshare $flags bash "$dir/renamed"
    [ "$status" -eq 0 ]
    lines 'local [01] of 2 node [01] of 2 n[12] ' 4
    lines '^sum 10$' 4
    # without Slurm the hostname is the node's name: whole
    run unshare $flags bash -c 'hostname gpu.a; exec accel launch -n 2 "$job"'
    [ "$status" -eq 0 ]
    lines ' node 0 of 1 gpu.a ' 2
}

@test "mpirun: inside an allocation the same table as srun" {
    [ -x "$both" ] || skip "no MPI at configure"
    run timeout 100 "$with" -N 4 salloc -Q -N4 -n8 bash -c '
        timeout 30 srun --mpi=pmix -n8 "$job" --sum | sort >srun.out
        timeout 30 mpirun "$job" --sum | sort >mpirun.out
        cat srun.out; diff srun.out mpirun.out && echo same'
    lines '^world 8 ' 8
    lines '^sum 36$' 8
    lines '^same$' 1
}

@test "beside MPI under srun, in any order" {
    [ -x "$both" ] || skip "no MPI at configure"
    # Its shared files are named after host and local rank, so those of two
    # nodes of one hostname would be the same.
    export OMPI_MCA_btl=tcp,self
    run timeout 100 "$with" -N 2 bash -c '
        for order in accel mpi accel-close; do
            timeout 30 srun --mpi=pmix -N2 -n4 "$both" $order || echo bad
        done'
    for order in accel mpi accel-close; do
        lines "^mpi $order rank [0-3] of 4" 4
    done
    lines '^bad' 0
}

@test "a task that ends before the exchange is named, with what to do" {
    # one that has not started PMIx: nobody hears of its end
    early='sh -c "[ \$SLURM_PROCID != 1 ] || exit 3; exec $job"'
    ACCEL_TIMEOUT=6 run timeout 100 "$with" -N 2 bash -c \
        "srun --mpi=pmix -N2 -n4 $early"
    [ "$status" -ne 0 ]
    lines 'job: .*exchange at start-up.*; missing: rank 1 on n1 \(.*kill-on-bad-exit' 2
    lines 'job: .*exchange at start-up.*; missing: none of this node.*kill-on-bad-exit' 1
    # one that has: the fence fails on its node, or its record is missing on all
    ACCEL_TIMEOUT=6 run timeout 100 "$with" -N 2 bash -c \
        'srun --mpi=pmix -N2 -n4 $job --die 1'
    [ "$status" -ne 0 ]
    [ "$(grep -cE 'job: (.*missing: )?rank 1 on n1 ' <<<"$output")" -ge 2 ]
    # what the error says is so: all end long before the time is over
    for die in "$early" '$job --die 1'; do
        ACCEL_TIMEOUT=1000 run timeout 100 "$with" -N 2 bash -c \
            "srun -K --mpi=pmix -N2 -n4 $die"
        [ "$status" -ne 0 ]
        [ "$status" -ne 124 ]
    done
}

@test "arguments byte for byte; long names do not overflow a path" {
    odd="$dir/a b'c\"d"
    mkdir "$odd"
    cd "$odd"
    cat >"$dir/show" <<'SCRIPT'
printf '%s\0' "$@" "$VALUE" "$PWD" >"$OUT.$SLURM_PROCID"
SCRIPT
    export OUT=$dir/got VALUE=$'two\nlines'
    printf '%s\0' 'two  spaces' "it's" $'new\nline' '' '*' "$VALUE" "$odd" \
        >"$dir/want"
    long=$(printf 'x%.0s' $(seq 200))
    mkdir -p "$dir/${long:0:130}"
    timeout 100 "$with" -N 2 srun --mpi=pmix -N2 -n2 bash "$dir/show" \
        'two  spaces' "it's" $'new\nline' '' '*'
    cmp "$dir/want" "$OUT.0"
    cmp "$dir/want" "$OUT.1"
    run timeout 100 "$with" -N 2 env TMPDIR="$dir/${long:0:130}" \
        timeout 15 srun -J "$long" --mpi=pmix -N2 -n4 "$job" --sum
    [ "$status" -eq 0 ]
    lines '^sum 10$' 4
}
