# startup: srun to the end of the first collective, 4 ranks on 4 nodes of a
# private Slurm; the limit is what srun takes to run `true`. All are steps of
# one job, so that no time goes into scheduling.
set -u

if [[ ${1-} != inside ]]; then
    exec "$top_srcdir/tests/cluster/with-cluster" -N 4 -m pmix \
        salloc -Q -N4 -n4 bash "$0" inside
fi

# Seconds that a command takes; nothing when it fails.
seconds() {
    local start=$EPOCHREALTIME end
    "$@" >/dev/null || return
    end=$EPOCHREALTIME
    awk -v a="$start" -v b="$end" 'BEGIN { printf "%.4f", b - a }'
}

report() {
    local who=$1 value
    shift
    value=$(seconds timeout 60 srun -N4 -n4 "$@") || {
        echo "# startup: $who failed"
        return 1
    }
    printf 'startup-4x1\ts\t%s\t%s\n' "$who" "$value"
}

bench=$top_builddir/bench
# The first step of a cluster starts slower than the following ones.
srun -N4 -n4 true
report limit true
report accel --accel=no "$bench/startup_accel"
report pmix "$bench/startup_pmix"
[[ ! -x $bench/startup_mpi ]] || report openmpi "$bench/startup_mpi"
