# MPI between the nodes under Slurm, where accel and MPI both ask its PMIx.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    with=$top_srcdir/tests/cluster/with-cluster
    product=${ACCEL_TEST_PRODUCT-}
    unset "${!ACCEL_@}" "${!MP_@}"
    [[ -z $product ]] || export ACCEL_TEST_PRODUCT=$product
    export top_builddir ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
    export ACCEL_NET=mpi programs=$top_builddir/tests/multi
    # Open MPI names its shared files after host and local rank: those of two
    # nodes of one hostname would be the same.
    export OMPI_MCA_btl=tcp,self
}

# The script on standard input, inside a cluster of $1 nodes.
inside() {
    local nodes=$1
    cat >script
    # all of the product of operations takes hours
    run timeout "$([[ $product ]] && echo 36000 || echo 300)" "$with" -N "$nodes" -m pmix bash -eu script
}

@test "accel starts MPI for a program that knows none" {
    inside 3 <<'END'
srun -N2 -n2 --accel=net=mpi accel test
srun -N3 -n5 -m cyclic "$programs/mp_comm" quick
END
    [[ $status -eq 0 && $output == *"transport mpi: "*"checks ok"* &&
        $output == *"ok: 5 ranks on 3 nodes, mpi: "* ]] || {
        echo "$output"
        return 1
    }
}

# Started by accel, for which the job's ranks are MPI's, and in a program of
# MPI that gives accel its communicator.
@test "a sample of all operations and messages over MPI" {
    inside 3 <<'END'
srun -N3 -n5 -m cyclic "$programs/mp_comm" product 10
printf 'n3\nn1\nn2\nn3\nn3\n' >hosts
SLURM_HOSTFILE=hosts srun -N3 -n5 -m arbitrary "$programs/mp_comm_mpi" product 8
srun -N3 -n5 -m plane=2 "$programs/mp_pair" tags
srun -N3 -n5 "$programs/mp_pair_mpi" tags
END
    [[ $status -eq 0 &&
        $(grep -c '^ok: 5 ranks on 3 nodes, mpi' <<<"$output") -eq 2 &&
        $(grep -c '^tried: ' <<<"$output") -eq 2 &&
        $(grep -c '^ok: 5 ranks$' <<<"$output") -eq 2 ]] || {
        echo "$output"
        return 1
    }
}

@test "before, beside and after a program's own use of MPI" {
    inside 2 <<'END'
for mode in starts ends beside interleaved; do
    timeout 60 srun -N2 -n3 "$programs/mp_mpi" $mode
done
for r in 0 1; do # and under mpirun within an allocation
    MP_NODES=2 timeout 60 mpirun -q -n 2 "$programs/mp_comm_mpi" rounds 10
done
END
    [[ $status -eq 0 && $(grep -c '^rank [012]: ok$' <<<"$output") -eq 15 &&
        $(grep -c '^ok: 2 ranks on 2 nodes, mpi: ' <<<"$output") -eq 2 ]] || {
        echo "$output"
        return 1
    }
}

@test "nodes of a communicator are Slurm's" {
    inside 2 <<'END'
MP_NODES=1 srun -N2 -n4 --ntasks-per-node=2 "$programs/mp_mpi" nodes
END
    [[ $status -eq 0 && $(grep -c '^node 0 of 2 is n1$' <<<"$output") -eq 2 &&
        $(grep -c '^node 1 of 2 is n2$' <<<"$output") -eq 2 &&
        $(grep -c '^rank [0-3]: ok$' <<<"$output") -eq 4 ]] || {
        echo "$output"
        return 1
    }
}

@test "all name the one that is killed, also when accel has started MPI" {
    inside 3 <<'END'
for program in mp_die mp_die_mpi; do
    if srun -N3 -n3 -K0 "$programs/$program" kill 1 >out 2>err; then
        echo "srun said all was well"
        exit 1
    fi
    for r in 0 2; do
        grep "^survivor $r ACCEL_ERR_PEER .* rank 1 on n[12] is gone" out || {
            cat out err
            exit 1
        }
    done
done
END
    [[ $status -eq 0 ]] || {
        echo "$output"
        return 1
    }
}
