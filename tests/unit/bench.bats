# bench/compare, with measurements that are made up.

setup() {
    : "${top_srcdir:?use make check-unit}"
    mkdir -p "$BATS_TEST_TMPDIR/bench"
    cd "$BATS_TEST_TMPDIR" || return
    cp "$top_srcdir/bench/compare" bench
    touch config.status
    printf 'bench-programs:\n\ttouch built\n' >Makefile
    cat >bench/bench_good.sh <<'END'
printf 'a\tGB/s\taccel\t2\na\tGB/s\tlimit\t4\na\tGB/s\tpeer\t1\n'
END
    cat >bench/bench_half.sh <<'END'
printf 'b\ts\tpeer\t1\nb\ts\tlimit\t0.5\n'
END
    unset top_builddir
    head=$(printf 'case\tunit\taccel\tpeer\tpeer_name\tratio\tlimit\tlimit_ratio')
}

@test "options stand before or behind the words" {
    for words in "-r 2 good half" "good -r 2 half" "good half -r2"; do
        # shellcheck disable=SC2086
        run bash bench/compare $words
        echo "$output"
        [ "$status" -eq 0 ]
        [ "${lines[0]}" = "$head" ]
        [ "${lines[1]}" = "$(printf 'a\tGB/s\t2\t1\tpeer\t2.00\t4\t0.50')" ]
    done
}

@test "a side that failed has no figure" {
    run bash bench/compare -r 1 half
    [ "$status" -eq 0 ]
    [ "${lines[1]}" = "$(printf 'b\ts\t-\t1\tpeer\t-\t0.5\t-')" ]
}

@test "what is measured is built first" {
    run bash bench/compare -r 1 good
    [ -e built ]
    printf 'bench-programs:\n\tfalse\n' >Makefile
    run bash bench/compare -r 1 good
    [ "$status" -eq 1 ]
    ! grep -q '^a' <<<"$output" || return 1
}

@test "wrong words are told" {
    for words in "" "-r" "-r x good" "-x good" "none" "good -- -y"; do
        # shellcheck disable=SC2086
        run bash bench/compare $words
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ $output == usage:* && $output == *"WHAT: good half"* ]]
    done
}
