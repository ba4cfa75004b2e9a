# What the tests of collectives share: programs under accel launch that leave
# nothing for others to map. A file's setup() calls launched_setup.

launched_setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    unset "${!ACCEL_@}"
    export ACCEL_MODULE_DIR=$top_builddir/lib/.libs
    export ACCEL_SITE_CONF=/dev/null XDG_CONFIG_HOME=$BATS_TEST_TMPDIR
    shared_files >shm.before
}

# Files that somebody left for others to map; folders are other tests'.
shared_files() {
    find /dev/shm -maxdepth 1 -type f | sort
}

# Nothing is left behind, whatever happened.
teardown() {
    shared_files >shm.after
    diff shm.before shm.after
}

# ranks nodes program...
on() {
    local ranks=$1 nodes=$2
    shift 2
    timeout 120 accel launch -n "$ranks" --nodes "$nodes" "$@"
}
