# The plugin in the real srun, sbatch and salloc, with a slurm.conf behind
# which nobody answers: all that is settled before a job is asked for.

setup_file() {
    # By hand: from the build tree.
    export plugin=${top_builddir:-$PWD}/spank/.libs/spank_accel.so
    [ -e "$plugin" ] || return
    cd "$BATS_FILE_TMPDIR" || return
    cat >slurm.conf <<END
ClusterName=dead
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
AuthType=auth/munge
PlugStackConfig=$PWD/plugstack.conf
MessageTimeout=2
SlurmctldTimeout=2
NodeName=n1 CPUs=1
PartitionName=all Nodes=ALL Default=YES
END
    export SLURM_CONF=$PWD/slurm.conf
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    echo "required $plugin" >plugstack.conf
    export COLUMNS=200
}

# Got past the options: there is no controller.
past_the_options() {
    [ "$status" -ne 0 ]
    grep -q "Unable to contact slurm controller" <<<"$output"
    ! grep -q "^accel:" <<<"$output" || return 1
}

refused() {
    [ "$status" -eq 255 ]
    grep -qxF "$1" <<<"$output"
    ! grep -q "Unable to contact" <<<"$output" || return 1
}

words="no fp32 fp16 bf16"

@test "good values pass in srun, sbatch and salloc" {
    for value in "" =fp16 =bf16,clip=1.5,checkpoint=/a,,b =off =,seed=1; do
        run timeout 20 srun "--accel$value" ./train
        past_the_options
    done
    run timeout 20 salloc --accel=accumulate=4 true
    past_the_options
    run timeout 20 sbatch --accel --wrap true
    past_the_options
}

@test "a wrong precision is refused at once with the right ones" {
    run timeout 20 srun -N2 --accel=fp17 ./train
    refused "accel: srun: --accel=fp17: no such precision; one of: $words"
    run timeout 20 salloc --accel=fp17 true
    refused "accel: salloc: --accel=fp17: no such precision; one of: $words"
    printf '#!/bin/sh\n#SBATCH --accel=fp17\ntrue\n' >job.sh
    run timeout 20 sbatch job.sh
    refused "accel: sbatch: --accel=fp17: no such precision; one of: $words"
}

@test "a wrong key or value is named, and the right ones are listed" {
    run timeout 20 srun --accel=fp16,clop=1 ./train
    [ "$status" -eq 255 ]
    grep -q "fp16,clop=1: clop: no such setting; one of: precision accumulate" \
        <<<"$output"
    run timeout 20 srun --accel=timeout=0 ./train
    refused "accel: srun: --accel=timeout=0: want a whole number of seconds from 1 to 2147483647"
    run timeout 20 srun --accel=signal=USR1 ./train
    [ "$status" -eq 255 ]
    grep -q "NCCL takes it" <<<"$output"
    run timeout 20 srun --accel=zero=1 ./train
    [ "$status" -eq 255 ]
    grep -q "this release does not shard" <<<"$output"
}

@test "a value behind a blank would be a program" {
    run timeout 20 srun -n 4 --accel fp16 ./train
    refused "accel: srun: \"--accel fp16\" would run a program called fp16; \
write --accel=fp16"
    run timeout 20 salloc --accel off
    refused "accel: salloc: \"--accel off\" would run a program called off; \
write --accel=off"
    run timeout 20 sbatch --accel bf16,clip=1 job.sh
    [ "$status" -ne 0 ]
    # A program of that name behind "--" or a path is the user's business.
    run timeout 20 srun --accel ./fp16
    past_the_options
}

@test "the last of several values counts" {
    run timeout 20 srun --accel=fp16 --accel=bf16 ./train
    past_the_options
    run timeout 20 srun --accel=fp16 --accel=fp17 ./train
    [ "$status" -eq 255 ]
}

@test "a value that sbatch handed down is checked too" {
    export SLURM_SPANK__SLURM_SPANK_OPTION_accel_accel=fp17
    run timeout 20 srun ./train
    [ "$status" -ne 0 ]
    grep -q -- "--accel=fp17: no such precision" <<<"$output"
    for value in fp16 "(null)" off ""; do
        SLURM_SPANK__SLURM_SPANK_OPTION_accel_accel=$value \
            run timeout 20 srun ./train
        past_the_options
    done
}

@test "--accel=help lists every setting, and no job starts" {
    for command in "srun --accel=help ./train" "salloc --accel=help true" \
        "sbatch --accel=help --wrap true"; do
        run timeout 20 $command
        [ "$status" -eq 0 ]
        for word in $words off help accumulate clip seed checkpoint resume; do
            grep -q -w -- "$word" <<<"$output"
        done
        ! grep -q "Unable to contact" <<<"$output" || return 1
    done
}

@test "--help names the option and what it takes" {
    run srun --help
    [ "$status" -eq 0 ]
    grep -q -- '--accel=SPEC' <<<"$output"
    grep -q "off, or help" <<<"$output"
}

@test "an unknown argument in plugstack.conf is named" {
    echo "required $plugin pmi=x" >plugstack.conf
    run timeout 20 srun ./train
    [ "$status" -ne 0 ]
    grep -q 'accel: plugstack.conf: "pmi=x": no such argument' <<<"$output"
    echo "required $plugin mpi=keep" >plugstack.conf
    run timeout 20 srun ./train
    past_the_options
}

@test "an optional plugin refuses as a required one does" {
    echo "optional $plugin" >plugstack.conf
    run timeout 20 srun --accel=fp17 ./train
    [ "$status" -eq 255 ]
    run timeout 20 srun --accel fp16 ./train
    [ "$status" -eq 255 ]
}

@test "only libc is needed, only Slurm's names are exported" {
    run readelf -d "$plugin"
    [ "$status" -eq 0 ]
    [ "$(grep -c NEEDED <<<"$output")" -eq 1 ]
    grep -q 'NEEDED.*\[libc\.' <<<"$output"
    run nm -D --defined-only "$plugin"
    [ "$status" -eq 0 ]
    [ -z "$(awk '{print $3}' <<<"$output" |
        grep -vE '^(slurm_spank_|plugin_|spank_plugin_version$)')" ]
    [ "$(grep -c slurm_spank_ <<<"$output")" -ge 3 ]
    # slurmstepd does not know this one, so it may not be needed.
    ! nm -D --undefined-only "$plugin" | grep -q 'U slurm_get_end_time' ||
        return 1
}
