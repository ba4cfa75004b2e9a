# Collectives under Slurm: nodes that share one hostname, a rank that is
# killed, stopped or slow, and many jobs at once on one node.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    with=$top_srcdir/tests/cluster/with-cluster
    die=$top_builddir/tests/multi/mp_die
    comm=$top_builddir/tests/multi/mp_comm
    product=${ACCEL_TEST_PRODUCT-}
    export slow=${ACCEL_TEST_SLOW-12}
    unset "${!ACCEL_@}"
    [[ -z $product ]] || export ACCEL_TEST_PRODUCT=$product
    export top_builddir ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
    pair=$top_builddir/tests/multi/mp_pair
    export die comm pair
    shared_files >shm.before
}

# Files that somebody left for others to map; folders are other tests'.
shared_files() {
    find /dev/shm -maxdepth 1 -type f | sort
}

teardown() {
    shared_files >shm.after
    diff shm.before shm.after
}

# The script on standard input, inside a cluster of $1 nodes.
inside() {
    local nodes=$1
    cat >script
    # all of the product of operations takes hours
    run timeout "$([[ $product ]] && echo 36000 || echo 300)" "$with" -N "$nodes" -m pmix bash -eu script
}

@test "nodes of one hostname are several nodes" {
    inside 4 <<'END'
srun -N4 -n8 "$comm" quick
END
    [[ $status -eq 0 && $output == *"ok: 8 ranks on 4 nodes, ucx"* ]] || {
        echo "$output"
        return 1
    }
}

@test "ranks dealt out in turn, and unevenly" {
    inside 3 <<'END'
srun -N3 -n7 -m cyclic "$comm" quick
printf 'n1\nn1\nn2\nn3\nn3\nn3\n' >hosts
SLURM_HOSTFILE=hosts srun -N3 -n6 -m arbitrary "$comm" quick
END
    [[ $status -eq 0 && $output == *"ok: 7 ranks on 3 nodes"* &&
        $output == *"ok: 6 ranks on 3 nodes"* ]] || {
        echo "$output"
        return 1
    }
}

# In a third of the cases all ranks carry large messages, whatever the model
# says; in another, only leaders do.
@test "a sample of all operations, however ranks are dealt out" {
    inside 3 <<'END'
srun -N3 -n7 -m cyclic "$comm" product 40
srun -N3 -n8 -m plane=2 "$comm" product 40
printf 'n3\nn1\nn2\nn1\nn3\nn2\nn1\n' >hosts
SLURM_HOSTFILE=hosts srun -N3 -n7 -m arbitrary "$comm" product 40
END
    [[ $status -eq 0 && $(grep -c "ok: 7 ranks on 3 nodes" <<<"$output") -eq 2 &&
        $output == *"ok: 8 ranks on 3 nodes"* ]] || {
        echo "$output"
        return 1
    }
}

# srun lets the others live when a task is killed; they must end themselves.
@test "four ranks on four nodes all name the one that is killed" {
    inside 4 <<'END'
for how in kill segv exit0; do
    start=$SECONDS
    if srun -N4 -n4 -K0 "$die" $how 2 >out.$how 2>err.$how; then
        echo "srun said all was well"
        exit 1
    fi
    echo "$how took $((SECONDS - start)) s"
    for r in 0 1 3; do
        grep "^survivor $r ACCEL_ERR_PEER seconds [0-9][.].* rank 2 on n3 \
is gone" out.$how || { cat out.$how err.$how; exit 1; }
    done
done
END
    [[ $status -eq 0 ]] || {
        echo "$output"
        return 1
    }
    run pgrep -f "^$die"
    [[ $status -ne 0 ]]
}

@test "one that is stopped only delays" {
    inside 4 <<'END'
srun -N4 -n4 -K0 "$die" stop 2 4
END
    [[ $status -eq 0 && $output == *fine* ]] || {
        echo "$output"
        return 1
    }
}

@test "a slow rank is waited for, cheaply, until the timeout" {
    inside 4 <<'END'
srun -N4 -n4 -K0 "$die" before 0 "$slow"
ACCEL_TIMEOUT=5 srun -N4 -n4 -K0 "$die" before 0 9 && exit 1
true
END
    [[ $status -eq 0 && $output == *fine* ]]
    # while it waits, under half a core
    awk -v most=$((slow / 2)) '/^rank . cpu/ { n++; if ($4 > most) bad = 1 }
        END { exit n != 4 || bad }' <<<"$output"
    local r
    for r in 1 2 3; do
        [[ $output =~ survivor\ $r\ ACCEL_ERR_TIMEOUT\ seconds\ [5-9] ]]
    done
    [[ $output == *"waited 5 s in all-reduce #2 for rank 0 on n1"* &&
        $output == *"timeout=5"* ]]
}

@test "a rank that is stopped for good ends with its step" {
    inside 3 <<'END'
status=0
ACCEL_TIMEOUT=3 timeout 60 srun -N3 -n3 "$die" stop 1 600 || status=$?
echo "srun $status"
END
    echo "$output"
    [[ $output =~ srun\ ([0-9]+) ]]
    [[ ${BASH_REMATCH[1]} -ne 0 && ${BASH_REMATCH[1]} -ne 124 ]]
    [[ $(grep -c '^survivor [02] ACCEL_ERR_TIMEOUT .*rank 1 on n2' \
        <<<"$output") -eq 2 ]]
}

@test "twenty jobs on one node at once, one of them killed and begun again" {
    inside 1 <<'END'
for i in $(seq 20); do
    srun -N1 -n2 --overlap --overcommit "$comm" rounds 100 >out.$i 2>&1 &
done
srun -N1 -n2 --overlap --overcommit "$die" random 1 >out.killed 2>&1 || true
srun -N1 -n2 --overlap --overcommit "$comm" rounds 100 >out.again 2>&1
wait
grep "ok: 2 ranks" out.again
grep -h "ok: 2 ranks" out.[0-9]* | wc -l
END
    [[ $status -eq 0 && ${lines[0]} == "ok: 2 ranks"* && ${lines[-1]} == 20 ]] || {
        echo "$output"
        return 1
    }
}

# By blocks, in turn, in planes and as one wishes; the last with nodes of three,
# one, two and one rank.
@test "a sample of all operations, wherever the ranks are" {
    inside 4 <<'END'
srun -N4 -n8 "$comm" product 12
srun -N3 -n5 -m cyclic "$comm" product 20
srun -N4 -n9 -m plane=2 "$comm" product 8
printf 'n3\nn1\nn2\nn3\nn4\nn2\nn3\n' >hosts
SLURM_HOSTFILE=hosts srun -N4 -n7 -m arbitrary "$comm" product 12
END
    local ranks
    for ranks in "8 ranks on 4" "5 ranks on 3" "9 ranks on 4" "7 ranks on 4"; do
        [[ $status -eq 0 && $output == *"ok: $ranks nodes, ucx"* ]] || {
            echo "$ranks: $output"
            return 1
        }
    done
    [[ $(grep -c '^tried: ' <<<"$output") -eq 4 ]]
}

@test "messages from rank to rank, wherever the ranks are" {
    inside 4 <<'END'
srun -N4 -n8 "$pair" ring 1
srun -N3 -n5 -m cyclic "$pair" tags
printf 'n3\nn1\nn2\nn3\nn4\nn2\nn3\n' >hosts
SLURM_HOSTFILE=hosts srun -N4 -n7 -m arbitrary "$pair" tags
END
    [[ $status -eq 0 && $(grep -c '^ok: [857] ranks$' <<<"$output") -eq 3 ]] || {
        echo "$output"
        return 1
    }
}
