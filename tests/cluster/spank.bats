# The plugin in a whole Slurm: what reaches the tasks, and what does not.

bats_require_minimum_version 1.5.0

setup() {
    with=$BATS_TEST_DIRNAME/with-cluster
    top_srcdir=${top_srcdir:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
    export top_srcdir
    export top_builddir=${top_builddir:-$PWD} # by hand: from the build tree
    plugin=$top_builddir/spank/.libs/spank_accel.so
    export job=$top_builddir/tests/multi/mp_job
    [ -e "$plugin" ]
    cd "$BATS_TEST_TMPDIR" || return
    # What a caller has set must not look like what the plugin sets.
    unset OMP_NUM_THREADS SLURM_MPI_TYPE "${!ACCEL_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    # A task's variables that are ours, one line a task.
    cat >mine <<'END'
#!/bin/sh
spec=${ACCEL_SPEC-unset} spec=${spec#"$SLURM_JOB_ID.$SLURM_STEP_ID:"}
echo "task$SLURM_PROCID spec=${spec#"$SLURM_JOB_ID:"} mpi=${SLURM_MPI_TYPE-unset}" \
    "pmix=${PMIX_NAMESPACE+set} omp=${OMP_NUM_THREADS-unset}" \
    "end=${ACCEL_END_TIME+set}" \
    "sent=${SLURM_ACCEL_TIME_LIMIT-}${SLURM_ACCEL_MPI-}"
END
    chmod +x mine
}

@test "every task gets the SPEC, PMIx, threads and the job's end" {
    run "$with" -N 3 srun -t 5 -N3 -n3 --accel=fp16,clip=1 ./mine
    [ "$status" -eq 0 ]
    for i in 0 1 2; do
        grep -qE "^task$i spec=fp16,clip=1 mpi=unset pmix=set omp=[1-9][0-9]* \
end=set sent=\$" <<<"$output"
    done
}

@test "--accel alone means the site's defaults" {
    run "$with" -N 1 sh -c 'srun --accel ./mine; srun --accel= ./mine'
    [ "$status" -eq 0 ]
    [ "$(grep -c "^task0 spec= mpi=unset pmix=set" <<<"$output")" -eq 2 ]
}

@test "the user's choice of MPI wins, in an option or a variable" {
    run "$with" -N 1 sh -c 'srun --mpi=none --accel ./mine
        srun --accel --mpi=none ./mine
        SLURM_MPI_TYPE=pmi2 srun --accel ./mine'
    [ "$status" -eq 0 ]
    [ "$(grep -c "pmix= " <<<"$output")" -eq 3 ]
    grep -q "mpi=pmi2" <<<"$output"
    echo "required $plugin mpi=keep" >stack
    ACCEL_PLUGSTACK=$PWD/stack run "$with" -N 1 srun --accel ./mine
    grep -q "pmix= " <<<"$output"
}

@test "other limits on what a job inherits do not lose the SPEC" {
    run "$with" -N 1 sh -c "srun -t 5 --export=NONE --accel=fp16 $PWD/mine
        srun -t 5 --export=HOME --accel=fp16 $PWD/mine"
    [ "$status" -eq 0 ]
    [ "$(grep -c "spec=fp16 mpi=unset pmix=set .*end=set" <<<"$output")" -eq 2 ]
}

# The names of all variables of a task, and the values of those that do not
# change from one job to the next.
task_variables() {
    ACCEL_PLUGSTACK=$1 "$with" -N 1 sh -c 'srun -n1 env ||
        exit; srun -n1 ./ignored --accel=fp16' |
        grep -v 'acl\.\|_PORT=\|JOB_START_TIME\|JOB_END_TIME\|ACCEL_PLUGSTACK' |
        sed -E 's/^(SLURM_(JOB_ID|JOBID|STEP_ID|STEPID|TASK_PID|SRUN_COMM[^=]*|'\
'STEP_LAUNCHER_PORT|WORKING_CLUSTER|TOPOLOGY[^=]*)|_|BASH[^=]*|SHLVL)=.*/\1/' |
        sort
}

@test "a job without --accel has no variable more than without the plugin" {
    printf '#!/bin/sh\nenv\n' >ignored
    chmod +x ignored
    echo "required $plugin" >with
    : >without
    task_variables "$PWD/with" >a
    task_variables "$PWD/without" >b
    grep -q SLURM_PROCID a
    diff a b
}

@test "srun hostname is as it was" {
    run "$with" -N 2 srun -N2 hostname
    [ "$status" -eq 0 ]
    [ "$output" = "$(uname -n; uname -n)" ]
}

@test "sruns in a script inherit, override and switch off" {
    cat >job.sh <<'END'
#!/bin/sh
#SBATCH --accel=bf16
#SBATCH -N2
spec=${ACCEL_SPEC-unset}
echo batch ${spec#$SLURM_JOB_ID:} ${OMP_NUM_THREADS-unset}
srun -N2 ./mine | sed 's/^/plain /'
srun -N2 --accel=fp16 ./mine | sed 's/^/fp16 /'
srun -N2 --accel ./mine | sed 's/^/alone /'
srun -N2 --accel=off ./mine | sed 's/^/off /'
srun -N1 --accel=fp16 sh -c 'srun --overlap -N1 ./mine' | sed 's/^/nested /'
srun -N1 sh -c 'srun --overlap -N1 --accel=off ./mine' | sed 's/^/nooff /'
END
    run "$with" -N 2 sh -c 'sbatch -W -o out job.sh; cat out'
    [ "$status" -eq 0 ]
    grep -qx "batch bf16 unset" <<<"$output"
    [ "$(grep -c "^plain task. spec=bf16 mpi=unset pmix=set" \
        <<<"$output")" -eq 2 ]
    [ "$(grep -c "^fp16 task. spec=fp16 mpi=unset pmix=set" \
        <<<"$output")" -eq 2 ]
    [ "$(grep -c "^alone task. spec= mpi=unset pmix=set" \
        <<<"$output")" -eq 2 ]
    [ "$(grep -cE "^off task. spec=unset mpi=unset pmix= omp=unset end= sent=$" \
        <<<"$output")" -eq 2 ]
    grep -q "^nested task0 spec=bf16 mpi=unset pmix=set" <<<"$output"
    # What Slurm itself hands from the outer step to the inner one stays.
    grep -q "^nooff task0 spec=unset .*end= " <<<"$output"
}

@test "salloc hands down what it was given, with a value or without" {
    run "$with" -N 2 sh -c 'salloc -N2 --accel=fp16,,x=1 true
        salloc -N2 --accel=fp16 srun -N2 ./mine
        salloc -N2 --accel srun -N2 ./mine'
    [ "$status" -eq 0 ]
    grep -q "^accel: salloc: --accel=fp16,,x=1: " <<<"$output"
    [ "$(grep -c "spec=fp16 mpi=unset pmix=set" <<<"$output")" -eq 2 ]
    [ "$(grep -c "spec= mpi=unset pmix=set" <<<"$output")" -eq 2 ]
}

@test "salloc's shell on a node has the SPEC, its steps PMIx" {
    echo './mine; srun -n2 ./mine; srun -n2 --accel=off ./mine; exit' >typed
    SHELL=/bin/sh run "$with" -N 1 -C LaunchParameters=use_interactive_step \
        script -qc "salloc -n2 --accel=fp16" /dev/null <typed
    grep -q "^task0 spec=fp16 mpi=none pmix= omp=unset" <<<"$output"
    [ "$(grep -c "^task. spec=fp16 mpi=unset pmix=set" <<<"$output")" -eq 2 ]
    [ "$(grep -c "^task. spec=unset mpi=unset pmix= " <<<"$output")" -eq 2 ]
}

@test "help comes first, whoever is asked" {
    run "$with" -N 1 sh -c 'for c in srun sbatch salloc; do
        $c --accel=help </dev/null || echo "$c ended with $?"; done'
    [ "$status" -eq 0 ]
    [ "$(grep -c '^--accel=\[PRECISION\]' <<<"$output")" -eq 3 ]
    run ! grep 'ended with' <<<"$output"
    # that of a script's program is its own
    printf '#!/bin/sh\necho "got $1"\n' >job.sh
    run "$with" -N 1 sh -c 'sbatch -W -o out job.sh --accel=help; cat out'
    grep -qx 'got --accel=help' <<<"$output"
}

@test "a wrong value creates no job" {
    printf '#!/bin/sh\n#SBATCH --accel=fp17\ntouch ran\n' >job.sh
    run "$with" -N 1 sh -c 'sbatch job.sh; srun --accel=fp17 touch ran
        srun --accel fp16 touch ran; scontrol show job'
    [ "$(grep -c 'no fp32 fp16 bf16' <<<"$output")" -eq 2 ]
    grep -q 'write --accel=fp16' <<<"$output"
    grep -q 'No jobs in the system' <<<"$output"
    [ ! -e ran ]
}

@test "threads follow the task's mask; OMP_NUM_THREADS is the user's" {
    run "$with" -N 1 -c 2 -C TaskPlugin=task/affinity sh -c '
        srun -n1 -c1 --accel ./mine
        OMP_NUM_THREADS=8 srun -n1 -c1 --accel ./mine'
    [ "$status" -eq 0 ]
    grep -q "omp=1 " <<<"$output"
    grep -q "omp=8 " <<<"$output"
    # One CPU for the inner step of a job with four: what is left is one.
    cat >job.sh <<'END'
#!/bin/sh
#SBATCH -c 2 --accel=fp16
srun -n1 -c1 ./mine
END
    run "$with" -N 1 -c 2 -C TaskPlugin=task/affinity \
        sh -c 'sbatch -W -o out job.sh; cat out'
    grep -q "omp=1 " <<<"$output"
}

@test "one world, or none: never as many as there are tasks" {
    run "$with" -N 2 srun -N2 -n4 --accel=fp16 "$job"
    [ "$status" -eq 0 ]
    [ "$(grep -c "^world 4 " <<<"$output")" -eq 4 ]
    run "$with" -N 2 srun -N2 -n4 "$job"
    [ "$status" -ne 0 ]
    [ "$(grep -c -- "--mpi=pmix" <<<"$output")" -ge 4 ]
    ! grep -q "^world " <<<"$output" || return 1
    run "$with" -N 2 srun -N2 -n4 --mpi=none --accel=fp16 "$job"
    [ "$status" -ne 0 ]
    [ "$(grep -c -- "--mpi=pmix" <<<"$output")" -ge 4 ]
    ! grep -q "^world " <<<"$output" || return 1
}

@test "a node without the plugin is named by all ranks" {
    : >none
    ACCEL_PLUGSTACK_n3=$PWD/none run "$with" -N 4 \
        srun -N4 -n4 --accel=fp16 "$job"
    [ "$status" -ne 0 ]
    ! grep -q "^world " <<<"$output" || return 1
    [ "$(grep -c "ACCEL_ERR_PROTO.*n3" <<<"$output")" -eq 4 ]
}

# The plugin as it is, but for another Slurm.
foreign_plugin() {
    cat >foreign.c <<'END'
#include <slurm/slurm.h>
#include <slurm/spank.h>
#undef SLURM_VERSION_NUMBER
#define SLURM_VERSION_NUMBER SLURM_VERSION_NUM(20, 2, 7)
#include "spank/spank_accel.c"
#include "spank/options.c"
#include "spank/cmdline.c"
#include "spank/tasks.c"
#define COUNT COUNT_OF_SPEC
#define table table_of_spec
#include "base/spec.c"
END
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -w -fPIC -shared -I "$top_srcdir" \
        -I "$top_srcdir/spank" -I "$top_srcdir/lib" foreign.c -o foreign.so
}

@test "a plugin for another Slurm breaks nothing when it is optional" {
    foreign_plugin
    echo "optional $PWD/foreign.so" >stack
    ACCEL_PLUGSTACK=$PWD/stack run "$with" -N 2 sh -c 'srun -N2 ./mine'
    [ "$status" -eq 0 ]
    [ "$(grep -c "spec=unset mpi=unset pmix= omp=unset end= " \
        <<<"$output")" -eq 2 ]
    ACCEL_PLUGSTACK=$PWD/stack run "$with" -N 1 srun --accel=fp16 ./mine
    [ "$status" -ne 0 ] # srun takes it for its own --accel-bind
    ! grep -q "^task" <<<"$output" || return 1
}

# An update removes the plugin for a while, or for ever.
@test "the line that is shipped keeps a node up without its plugin" {
    grep -v '^#' "$top_builddir/etc/plugstack.conf.d/accel.conf" >line
    [ "$(wc -l <line)" -eq 1 ]
    cp "$plugin" mine.so
    sed "s|/.*|$PWD/mine.so|" line >stack
    printf '#!/bin/sh\nhostname\n' >script
    ACCEL_PLUGSTACK_n1=$PWD/stack run timeout 100 "$with" -N 1 sh -c '
        srun --accel env | grep ACCEL_SPEC= && rm mine.so &&
        srun true && sbatch -W script && sinfo -h -N -o "%N %T"'
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q "^n1 idle$" <<<"$output"
}

@test "an optional plugin works as a required one" {
    echo "optional $plugin" >stack
    ACCEL_PLUGSTACK=$PWD/stack run "$with" -N 2 \
        sh -c 'srun -N2 --accel=fp16 ./mine; srun --accel=fp17 ./mine'
    [ "$(grep -c "spec=fp16 mpi=unset pmix=set" <<<"$output")" -eq 2 ]
    grep -q "no fp32 fp16 bf16" <<<"$output"
}

@test "the time limit is the nearer one of job and step, as Slurm says" {
    cat >told <<'END'
#!/bin/sh
read -r now rest </proc/uptime
echo "limit ${ACCEL_END_TIME#"$SLURM_JOB_ID.$SLURM_STEP_ID:"} ${now%.*}"
END
    chmod +x told
    run "$with" -N 1 sh -c 'salloc -t 17 --accel sh -c "srun ./told
        srun -t 3 ./told; srun -t 30 ./told"; srun --accel ./told'
    [ "$status" -eq 0 ]
    mapfile -t limits < <(sed -n 's/^limit //p' <<<"$output")
    local i whole end now want=(1020 180 1020)
    for i in 0 1 2; do
        read -r end now <<<"${limits[i]}"
        [[ $end == */${want[i]} ]]
        [ $((${end%/*} - now)) -gt $((want[i] - 120)) ]
        [ $((${end%/*} - now)) -le "${want[i]}" ]
    done
    [ "${limits[3]% *}" = "" ] # no limit at all
}

# Jobs that a task and a script with --accel submit.
@test "a follow-up job inherits nothing" {
    cat >next.sh <<'END'
#!/bin/sh
#SBATCH -t 60
env | sed -n 's/^\(.*ACCEL_SPEC\|.*ACCEL_END_TIME\|OMP_NUM_THREADS\|.*accel_accel\|SLURM_MPI_TYPE\)=/batch &/p'
srun ./mine
srun accel env | grep -E 'precision|ignored'
END
    cat >first.sh <<'END'
#!/bin/sh
#SBATCH --accel=bf16
sbatch -W -o of_script next.sh >/dev/null
srun sh -c 'sbatch -W -o of_task next.sh >/dev/null'
salloc -Q srun --overlap ./mine >of_salloc
END
    run "$with" -N 3 sh -c 'srun --accel=fp16 sh -c "sbatch -W -o of_step next.sh"
        sbatch -W -o first first.sh'
    cat first of_* >&2
    [ "$status" -eq 0 ]
    for i in step script task; do
        # A namespace of PMIx is its step's, and the library looks at whose.
        grep -qE '^task0 spec=unset mpi=unset pmix=(set)? omp=unset end= sent=$' \
            of_$i
        grep -qE '^  precision +no +default' of_$i
        run ! grep -E '^batch|ignored' of_$i
    done
    grep -q '^task0 spec=unset mpi=unset pmix= omp=unset end= sent=$' of_salloc
}

# Where sbatch has no plugin to remove anything the program knows whose it is.
@test "where the plugin is missing, what a job has inherited is ignored" {
    : >none
    cat >next.sh <<'END'
#!/bin/sh
#SBATCH -w n2
accel env | grep -E 'precision|ignored'
srun accel env | grep -E 'precision|ignored'
END
    ACCEL_PLUGSTACK=$PWD/none run "$with" -N 2 sh -c '
        export ACCEL_SPEC=1.0:fp16 ACCEL_END_TIME=1.0:1/60
        srun true; sbatch -W -o out next.sh; cat out'
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^  precision +no +default' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^  ignored .*ACCEL_SPEC=1.0:fp16 is of step 1.0' \
        <<<"$output")" -eq 2 ]
}

# A user's own SLURM_CONF has no plugin that would refuse it at submission, and
# a variable carries the value to the node all the same.
@test "an option's text forges no line in slurmd's log" {
    : >none
    echo "optional $plugin" >stack
    ACCEL_PLUGSTACK=$PWD/none ACCEL_PLUGSTACK_n1=$PWD/stack run "$with" -N 1 \
        bash -c 'export _SLURM_SPANK_OPTION_accel_accel=$'"'"'fp17
forged\e[2J'"'"'
            srun true; cat "$ACCEL_CLUSTER_DIR/log/n1"'
    echo "$output"
    ! grep -q -e '^forged' -e $'\e' <<<"$output" || return 1
    [ "$(grep -c "accel: --accel=fp17.*forged" <<<"$output")" -eq 2 ]
}
