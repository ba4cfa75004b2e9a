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
formats=${*:-npy npz tar tokens megatron lines}
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
        -I "$top_srcdir/lib" -I "$top_builddir/lib" \
        $(pkg-config --cflags hdf5-serial libxxhash) \
        "$top_srcdir"/tests/fuzz/fuzz_{dataset,main}.c \
        "$top_srcdir"/lib/base/*.c "$top_srcdir"/lib/loader/*.c \
        $(pkg-config --libs hdf5-serial libxxhash) -lm -lpthread \
        -o "$work/fuzz"
}

build
status=0
for format in $formats; do
    mkdir -p "$work/$format"
    echo "fuzz: $format, $seconds s"
    (cd "$work" && FUZZ_FORMAT=$format ./fuzz -max_total_time="$seconds" \
        -max_len=16384 -timeout=20 -rss_limit_mb=2048 \
        -artifact_prefix="$format-" -print_final_stats=1 \
        "$format" "$corpus/$format" 2>"$format.log") || status=1
    tail -n 7 "$work/$format.log" | grep -E 'number_of_exec|SUMMARY' || true
    ((status == 0)) || tail -n 40 "$work/$format.log"
    [[ -z ${MERGE-} ]] || (cd "$work" && FUZZ_FORMAT=$format ./fuzz -merge=1 \
        -max_len=2048 "$corpus/$format" "$format" 2>"$format.merge")
done
exit $status
