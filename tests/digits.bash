# What the tests of examples/digits share: multi/digits.bats, cluster/digits.bats.
digits=$top_builddir/examples/digits

# The one result in $output: sets accuracy, samples, ranks, precision, skipped.
read_result() {
    local line
    line=$(grep '^test accuracy' <<<"$output")
    [ "$(wc -l <<<"$line")" -eq 1 ]
    [ "$line" = "$(tail -n 1 <<<"$output")" ]
    [[ $line =~ ^test\ accuracy\ ([01]\.[0-9]{4}),\ ([0-9]+)\ samples,\ ([0-9]+)\ ranks,\ ([a-z0-9]+),\ ([0-9]+)\ skipped$ ]]
    accuracy=${BASH_REMATCH[1]} samples=${BASH_REMATCH[2]}
    ranks=${BASH_REMATCH[3]} precision=${BASH_REMATCH[4]}
    skipped=${BASH_REMATCH[5]}
}

# check_result RANKS PRECISION: the right line, and something was learnt.
check_result() {
    [ "$status" -eq 0 ]
    read_result
    [ "$samples" -eq 360 ]
    [ "$ranks" -eq "$1" ]
    [ "$precision" = "$2" ]
    at_least "$accuracy" 0.95
    # The first fp16 steps overflow at the initial loss scale, or the scale
    # is not in use; too many skips, and it does not adapt.
    if [ "$precision" = fp16 ]; then
        [ "$skipped" -le 5 ]
    else
        [ "$skipped" -eq 0 ]
    fi
}

at_least() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'
}

# All accuracies given are within 0.02 of each other.
all_near() {
    printf '%s\n' "$@" | sort -g | awk '
        NR == 1 { low = $1 }
        { high = $1 }
        END { exit !(NR > 0 && high - low <= 0.0200001) }'
}

weights() {
    sed -n 's/^weights //p' <<<"$output"
}

# same_within FILE FILE LIMIT: raw f32 files of one size.
same_within() {
    [ "$(stat -c %s "$1")" -eq "$(stat -c %s "$2")" ]
    paste <(od -An -v -w4 -t f4 "$1") <(od -An -v -w4 -t f4 "$2") |
        awk -v limit="$3" '
            $1 !~ /^[-+0-9.e]+$/ || $2 !~ /^[-+0-9.e]+$/ { bad = 1 }
            { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d }
            END { print "largest difference " most; exit bad || most > limit }'
}

# Waits until a line of the file matches; it is an error if none comes.
wait_for_line() {
    local i
    for i in $(seq 300); do
        ! grep -q "$2" "$1" || return 0
        sleep 0.1
    done
    echo "no line \"$2\" in:"
    cat "$1"
    return 1
}
