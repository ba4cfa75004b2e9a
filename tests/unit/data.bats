# accel data: files shown, and who gets which sample.

setup() {
    dir=$(mktemp -d)
    cd "$dir" || return
}

teardown() {
    cd / && rm -rf "$dir"
}

# npy FILE DESCR SHAPE: an array whose elements are the standard input.
npy() {
    local header="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
    printf '\x93NUMPY\x01\x00' >"$1"
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x ${#header})\\x00" >>"$1"
    printf '%s' "$header" >>"$1"
    cat >>"$1"
}

# The worked tables of accel_loader(3).
expect() {
    local want=$1
    shift
    run accel data shards "$@"
    [ "$status" -eq 0 ]
    [ "$(tr '\t\n' ':|' <<<"$output")" = "$want|" ]
}

@test "shards follow the worked tables" {
    expect '0:0:0 1|0:1:4 5|1:0:2 3|1:1:6 0' -n 2 -b 2 7
    expect '0:0:0 1|0:1:4 5|1:0:2 3|1:1:6' -n 2 -b 2 --uneven 7
    expect '0:0:0 1|1:0:2 3' -n 2 -b 2 --drop-last 7
    expect '0:0:0|1:0:1|2:0:0|3:0:1' -n 4 -b 1 2
    expect '0:0:0|1:0:1' -n 4 -b 1 --uneven 2
    expect '' -n 4 -b 3 --drop-last 11
    expect '0:0:0 1|0:1:4 5|0:2:8 0|1:0:2 3|1:1:6 7|1:2:1 2' \
        -n 2 -b 4 --split 9
    expect '0:0:0 1|1:0:0 1' --split -b 4 -n 2 2
    expect '' -n 3 -b 5 0
}

# The rule in one place: the epoch, filled up from its start or cut where it
# must be, in pieces that go round the ranks.
deal() {
    awk -v ranks="$1" -v batch="$2" -v samples="$3" -v flags="$4" 'BEGIN {
        all = flags ~ /split/ ? batch : batch * ranks
        piece = all / ranks
        end = samples
        if (flags ~ /drop/)
            end -= samples % all
        else if (flags !~ /uneven/)
            while (end % all && samples)
                end++
        for (at = 0; at < end; at++)
            lines[int(at / piece) % ranks, int(at / all)] = \
                lines[int(at / piece) % ranks, int(at / all)] \
                (at % piece ? " " : "") at % samples
        for (r = 0; r < ranks; r++)
            for (k = 0; (r, k) in lines; k++)
                printf "%d\t%d\t%s\n", r, k, lines[r, k]
    }'
}

@test "every mode deals as the rule says" {
    for flags in '' --split --drop-last --uneven '--split --drop-last' \
        '--split --uneven' '--drop-last --uneven'; do
        for numbers in '1 3 7' '2 2 7' '2 4 9' '2 4 0' '2 4 1' '3 3 2' \
            '3 3 31' '4 4 5' '4 8 64' '4 8 67' '5 10 11'; do
            read -r ranks batch samples <<<"$numbers"
            [[ $flags != *split* || $((batch % ranks)) -eq 0 ]] || continue
            # shellcheck disable=SC2086
            accel data shards -n "$ranks" -b "$batch" $flags "$samples" >got
            deal "$ranks" "$batch" "$samples" "$flags" | diff - got
        done
    done
}

@test "no sample of an uneven epoch is lost or given twice" {
    for n in 1 17 96 97; do
        run bash -c "accel data shards -n 3 -b 4 --uneven $n |
            cut -f 3 | tr ' ' '\n' | sort -n"
        [ "$output" = "$(seq 0 $((n - 1)))" ]
    done
}

@test "wrong numbers are refused" {
    for args in '' '7' '-n 2 7' '-b 2 7' '-n 2 -b 2' '-n 2 -b 2 7 8' \
        '-n 0 -b 2 7' '-n -1 -b 2 7' '-n 2 -b x 7' '-n 2 -b 2 7x' \
        '-n 2 -b 2 --odd 7' '-n' '-n 2 -b 99999999999999999999 7'; do
        run accel data shards $args
        [ "$status" -eq 2 ]
        [[ $output == *'usage: accel data show'* ]]
    done
    run accel data shards -n 2 -b 3 --split 7
    [ "$status" -eq 1 ]
    [[ $output == 'accel: data: shards: shard: '* ]]
    run accel data
    [ "$status" -eq 2 ]
    run accel data weigh
    [ "$status" -eq 2 ]
}

@test "a file is shown with its fields and its plan" {
    head -c 480 /dev/zero | npy a.npy '<f4' '(10, 4, 3)'
    run accel data show a.npy
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = 'a.npy: npy, 10 samples' ]
    [ "${lines[1]}" = '  data             f32   [4, 3]' ]
    [ "${#lines[@]}" -eq 2 ]
    run accel data show -n 3 -b 2 a.npy
    [ "${lines[2]}" = '  batches of 2 on each of 3 ranks:' ]
    [ "${lines[3]}" = '  even             2' ]
    [ "${lines[4]}" = '  drop_last        1' ]
    [ "${lines[5]}" = '  uneven           2 on rank 0 to 1 on rank 2' ]
    printf 'one\ntwo\n' >b.txt
    run accel data show b.txt
    [ "${lines[1]}" = '  text             u8    [3]' ]
    [ "${lines[2]}" = '  length           u32   []' ]
}

@test "what is wrong with a number is said" {
    run accel data shards -n 2000000 -b 4 9
    [[ $status -eq 2 ]]
    [[ $output == *"-n 2000000: want a whole number from 1 to 1048576"* ]]
    run accel data shards -n 2 -b 0 9
    [[ $output == *"-b 0: want a whole number from 1 to 4294967296"* ]]
    run accel data shards -n 2 -b 4 nine
    [[ $output == *"nine: want a number of samples from 0 to "* ]]
    run accel data shards -n 2 -b 4
    [[ $output == *"how many samples?"* ]]
    run accel data shards -n 2 -b 4 9 9
    [[ $output == *"one number of samples is enough"* ]]
}

@test "folders and patterns are one dataset" {
    mkdir d
    head -c 8 /dev/zero | npy d/a.npy '<f4' '(2,)'
    head -c 12 /dev/zero | npy d/b.npy '<f4' '(3,)'
    run accel data show d 'd/*.npy' d/b.npy
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = 'd: npy, 5 samples' ]
    [ "${lines[2]}" = 'd/*.npy: npy, 5 samples' ]
    [ "${lines[4]}" = 'd/b.npy: npy, 3 samples' ]
}

@test "what names hold does not reach the terminal" {
    head -c 8 /dev/zero | npy $'\e[31m.npy' '<f4' '(2,)'
    run accel data show $'\e[31m.npy' $'no\nsuch\x7f.npy' $'\xc2\x9bm.npy'
    [ "$status" -eq 1 ]
    [[ $output == *'\x1B[31m.npy: npy, 2 samples'* ]]
    [[ $output == *'no\x0Asuch\x7F.npy: no such file'* ]]
    [[ $output == *'\xC2\x9Bm.npy: no such file'* ]]
    [[ $output != *[$'\e\x7f']* ]]
    run accel $'da\eta'
    [[ $status -eq 2 && $output == 'accel: da\x1Bta: no such command;'* ]]
}

@test "a bad file is one error, and the others are shown" {
    head -c 7 /dev/zero | npy bad.npy '<f4' '(2,)'
    head -c 8 /dev/zero | npy good.npy '<f4' '(2,)'
    run accel data show bad.npy absent.npy good.npy
    [ "$status" -eq 1 ]
    [[ ${lines[0]} == 'accel: data: show: dataset: bad.npy: '*'7 bytes'* ]]
    [[ ${lines[1]} == *'absent.npy: no such file'* ]]
    [ "${lines[2]}" = 'good.npy: npy, 2 samples' ]
    run accel data show
    [ "$status" -eq 2 ]
}

@test "what Python writes is read" {
    /usr/bin/python3 -c 'import numpy, h5py' ||
        skip "python3-numpy and python3-h5py are not installed"
    /usr/bin/python3 - <<'END'
import numpy, h5py, tarfile, io
a = numpy.arange(24, dtype="f4").reshape(6, 4)
b = numpy.arange(6, dtype="i8")
numpy.save("a.npy", a)
numpy.savez("both.npz", image=a, label=b)
numpy.savez_compressed("small.npz", image=a)
with h5py.File("f.h5", "w") as f:
    f["plain"] = a
    f.create_dataset("packed", data=a, chunks=(2, 4), compression="gzip",
                     shuffle=True)
    f.create_dataset("half", data=a.astype("f2"), chunks=(4, 4))
with h5py.File("texts.h5", "w") as f:
    f["x"] = ["a", "b"]
for kind, format in ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT):
    with tarfile.open(kind + ".tar", "w", format=format) as t:
        for i in range(3):
            for ext in "jpg", "cls":
                info = tarfile.TarInfo("d" * 120 + "/%d.%s" % (i, ext))
                info.size = 10 + i
                info.mtime = 1.5
                t.addfile(info, io.BytesIO(bytes(10 + i)))
END
    run accel data show a.npy both.npz f.h5 gnu.tar pax.tar
    [ "$status" -eq 0 ]
    [ "${lines[2]}" = 'both.npz: npz, 6 samples' ]
    [ "${lines[3]}" = '  image            f32   [4]' ]
    [ "${lines[4]}" = '  label            i64   []' ]
    [ "${lines[6]}" = '  half             f16   [4]' ]
    [ "${lines[9]}" = 'gnu.tar: tar, 3 samples' ]
    [ "${lines[10]}" = '  jpg              u8    [12]' ]
    [ "${lines[14]}" = 'pax.tar: tar, 3 samples' ]
    run accel data show small.npz
    [[ $output == *'compressed; save with numpy.savez'* ]]
    run accel data show texts.h5
    [[ $output == *'no plain numbers'* ]]
}
