# Where memory, files or locked pages are scarce, and beside children: it works,
# or all ranks say what is missing. mp_limits.c and mp_comm.c do it.

bats_require_minimum_version 1.5.0
load launched.bash

setup() {
    limits=$top_builddir/tests/multi/mp_limits
    comm=$top_builddir/tests/multi/mp_comm
    launched_setup
}

# /dev with the files that programs want, and nothing else.
bare_dev='mkdir dev && mount -t tmpfs tmpfs dev && mkdir dev/shm &&
    for f in null zero full random urandom; do
        touch dev/$f && mount --bind /dev/$f dev/$f || exit 9
    done && ln -s /proc/self/fd dev/fd && rmdir dev/shm &&
    mount --move dev /dev'

# The sum is right, whatever became of /dev/shm.
with_shm() { # name how
    local nodes
    for nodes in 1 2; do
        rm -rf dev
        run timeout 200 unshare -m bash -c "$2"' || exit 9
            exec timeout 120 accel launch -n 4 --nodes "$@"' - \
            "$nodes" "$limits" big 67108864
        [[ $status -eq 0 && $output == *"ok: 4 ranks"* ]] || {
            echo "$1, $nodes nodes: status $status: $output"
            return 1
        }
    done
}

@test "case 50: a small /dev/shm, one that is read-only, and none" {
    unshare -m true || skip "no mount namespace: unshare -m is refused here"
    with_shm "16 MiB" "mount -t tmpfs -o size=16m tmpfs /dev/shm"
    with_shm "64 MiB" "mount -t tmpfs -o size=64m tmpfs /dev/shm"
    with_shm "read-only" "mount -t tmpfs -o ro tmpfs /dev/shm"
    with_shm "none" "$bare_dev && [[ ! -e /dev/shm ]]"
}

@test "case 52: 64 KiB of locked memory" {
    run bash -c "ulimit -l 64 && timeout 120 accel launch -n 4 --nodes 2 \
        $limits big 1000000"
    [[ $status -eq 0 && $output == *"ok: 4 ranks"* ]] || {
        echo "$output"
        return 1
    }
}

@test "case 52: 64 open files, of 4096 that may be had" {
    local nodes
    for nodes in 1 4; do
        run bash -c "ulimit -Sn 64 && ulimit -Hn 4096 && timeout 120 \
            accel launch -n 16 --nodes $nodes $limits big 100000"
        [[ $status -eq 0 && $output == *"ok: 16 ranks"* ]] || {
            echo "$nodes nodes: $output"
            return 1
        }
    done
}

@test "case 52: 64 open files and no more" {
    # the launcher has none for its ranks, and says how many it needs
    run bash -c "ulimit -n 64 && timeout 120 accel launch -n 16 \
        $limits big 100000"
    [[ $status -eq 1 &&
        $output == *"need "*" open files, but the limit is 64: raise"* ]] || {
        echo "status $status: $output"
        return 1
    }
    # so do the ranks, where only they are short of them
    # shellcheck disable=SC2016
    run on 30 1 bash -c 'ulimit -n 64 && exec "$0" big 100000' "$limits"
    [[ $status -ne 0 && $status -ne 124 &&
        $output == *"open files needed, the hard limit is 64; raise it"* ]] || {
        echo "status $status: $output"
        return 1
    }
}

@test "case 52: too few open files for the connections of a rank" {
    # UCX ends a process that cannot accept one
    local files
    for files in 24 50 66; do
        # shellcheck disable=SC2016
        run on 12 12 bash -c '[[ $PMIX_RANK != 3 ]] || ulimit -n "$2"
            exec "$0" "$1" 1000' "$limits" big $files
        [[ $status -ne 0 && $output != *"signal 6"* && $(grep -c "rank 3 on \
n3: net: .* open files needed, the hard limit is $files; " \
            <<<"$output") -eq 12 ]] || {
            echo "$files files: status $status: $output"
            return 1
        }
    done
}

# Those that may be started are PMIx's, and accel's while it starts PMIx.
@test "a rank that can start no thread for UCX ends the start of all" {
    local threads told=0
    lies=$top_builddir/tests/harness/.libs/lie.so
    for threads in 1 2 3; do
        # shellcheck disable=SC2016
        LIE_RANK=1 LIE_THREADS=$threads run on 3 3 bash -c \
            'LD_PRELOAD=$0 exec "$@"' "$lies" "$limits" big 1000
        [[ $output != *"signal 6"* ]] || {
            echo "$threads threads: status $status: $output"
            return 1
        }
        [[ $status -eq 0 || $(grep -c "rank 1 on n1: net: .*no thread can be \
started: .*; raise ulimit -u" <<<"$output") -ne 3 ]] || told=1
    done
    [[ $told -eq 1 ]] || {
        echo "status $status: $output"
        return 1
    }
}

@test "a part for which one rank has too few open files is an error on all" {
    local nodes rank
    for nodes in 1 2; do
        for rank in 0 1; do
            run on 3 $nodes "$limits" parts $rank
            [[ $status -eq 0 && $output == *"ok: 3 ranks"* ]] || {
                echo "$nodes nodes, rank $rank: $output"
                return 1
            }
        done
    done
}

@test "case 53: children that end, live on, call and write what is not theirs" {
    local nodes
    for nodes in 1 2; do
        run on 4 $nodes "$limits" forks
        [[ $status -eq 0 && $output == *"ok: 4 ranks"* ]] || {
            echo "$nodes nodes: $output"
            return 1
        }
    done
}

@test "case 54: lines before a kill are whole, and all there" {
    local r
    timeout 120 accel launch -n 8 "$limits" lines 40 >out 2>&1 || true
    for ((r = 0; r < 8; r++)); do
        seq -f "accel: rank $r on $(hostname): warning: line %.0f of many \
that are said at once" 0 39
    done >want
    seq -f "said %.0f by the first" 0 39 >>want
    # the launcher's own words on the ranks' end come on top
    grep -E "line|said" out | sort >got
    sort want | diff - got
}
