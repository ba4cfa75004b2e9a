# asserts: lines of bats files that look like assertions but cannot fail. The
# shell ends a test at a command that fails, but not at one behind "!", nor at
# one left of "&&", so these say nothing unless they come last.
. "$(dirname "$0")/lint.bash"

# Findings in the files named, one a line.
find_idle() {
    awk '
    FNR == 1 { line = "" }
    line == "" { start = FNR }
    sub(/\\$/, "") || /(&&|\|\|)$/ { line = line $0; next }
    { line = line $0 }
    line ~ /^[ \t]*! / && line !~ /\|\|/ {
        printf "%s:%d: \"! command\" never fails a test: write \"run !\" or" \
               " add \"|| return 1\"\n", FILENAME, start
    }
    line ~ /^[ \t]*\[.*\] && (\[|!|grep|test|cmp)/ && line !~ /\|\|/ {
        printf "%s:%d: left of \"&&\" nothing fails a test: write two lines\n",
               FILENAME, start
    }
    { line = "" }
    ' "$@"
}

# A lint that finds nothing anywhere is none.
cat >"$scratch/probe.bats" <<'PROBE'
@test "probe" {
    ! grep -q bad file
    ! grep -q \
        bad file
    [ "$a" -gt 0 ] && [ "$b" -gt 0 ]
    [[ $a -gt 0 ]] && ! cmp a b
    ! grep -q fine file || return 1
    ! grep -q fine file ||
        complain
    [ -e there ] && break
    [ -e there ] && [ -s there ] || return 1
    if ! grep -q fine file; then :; fi
}
PROBE
[[ $(find_idle "$scratch/probe.bats" | wc -l) -eq 4 ]] ||
    complain "asserts.sh does not find what it is for"

mapfile -t files < <(find tests -name '*.bats' | sort)
find_idle "${files[@]}" >"$scratch/out"
complain_lines <"$scratch/out"
verdict
