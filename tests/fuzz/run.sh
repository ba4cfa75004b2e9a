# run: the parsers of dataset files under libFuzzer.
#
#   bash tests/fuzz/run.sh [SECONDS [FORMAT...]]      (make fuzz)
#
# Builds the fuzzer in the build tree with clang and gives each format that
# long. New inputs stay in the build tree; MERGE=1 adds those that reach new
# code to tests/data/fuzz. A crash is a failure and its input is kept.
set -eu
seconds=${1:-120}
shift $(($# > 0))
formats=${*:-npy npz tar tokens megatron lines hdf5 tree}
here=$(cd "$(dirname "$0")/../.." && pwd)
top_srcdir=${top_srcdir:-$here} top_builddir=${top_builddir:-$PWD}
CLANG=${CLANG:-clang-14}
work=$top_builddir/tests/fuzz/work
corpus=$top_srcdir/tests/data/fuzz
mkdir -p "$work"

build() {
    # shellcheck disable=SC2086
    $CLANG -std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined \
        -fno-sanitize-recover=undefined -DAX_SYSCONF_DIR='"/etc"' \
        -DH5_USE_110_API -DASK_MOST=4 \
        -I "$top_srcdir/lib" -I "$top_builddir/lib" \
        $(pkg-config --cflags hdf5-serial libxxhash) \
        "$top_srcdir"/tests/fuzz/fuzz_{dataset,hdf5,main}.c \
        "$top_srcdir"/lib/base/*.c "$top_srcdir"/lib/loader/*.c \
        $(pkg-config --libs hdf5-serial libxxhash) -lm -lpthread \
        -o "$work/fuzz"
}

# The HDF5 library has faults of its own with files like these, which are not
# ours to mend (accel_dataset(3) says so): it is left behind in a process of its
# own, and what it crashed on is looked at afterwards.
hdf5_options=(-fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1
    -detect_leaks=0)

# Whose is it? The first place of the stack that is no sanitizer's.
ours() {
    (cd "$work" && FUZZ_FORMAT=$1 ./fuzz -detect_leaks=0 "$2" 2>&1) |
        grep -E '^ +#[0-9]+ ' | grep -m 1 -oE 'libhdf5|/(lib|tests)/[a-z]+/' |
        grep -vq libhdf5
}

look_at_crashes() {
    local input theirs=0
    for input in "$work/$1"-crash-*; do
        [[ -s $input ]] || continue
        if ours "$1" "$input"; then
            echo "fuzz: ${input##*/}: in accel"
            status=1
        else
            theirs=$((theirs + 1))
        fi
    done
    echo "fuzz: $1: $theirs inputs crash the HDF5 library"
}

build
status=0
for format in $formats; do
    mkdir -p "$work/$format"
    options=()
    [[ $format != hdf5 ]] || options=("${hdf5_options[@]}")
    echo "fuzz: $format, $seconds s"
    (cd "$work" && FUZZ_FORMAT=$format ./fuzz -max_total_time="$seconds" \
        -max_len=16384 -timeout=20 -rss_limit_mb=2048 "${options[@]}" \
        -artifact_prefix="$format-" -print_final_stats=1 \
        "$format" "$corpus/$format" 2>"$format.log") || status=1
    tail -n 7 "$work/$format.log" | grep -E 'number_of_exec|SUMMARY' || true
    [[ $format != hdf5 ]] || look_at_crashes hdf5
    ((status == 0)) || tail -n 40 "$work/$format.log"
    [[ -z ${MERGE-} ]] || (cd "$work" && FUZZ_FORMAT=$format ./fuzz -merge=1 \
        -max_len=2048 "$corpus/$format" "$format" 2>"$format.merge")
done
exit $status
