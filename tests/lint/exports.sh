# exports: the version script, the library, the headers and the manual name
# the same functions.
. "$(dirname "$0")/lint.bash"

difference() {
    comm -23 "$scratch/$1" "$scratch/$2" |
        awk -v why="$3" '{ print $0 ": " why }' >"$scratch/out"
    complain_lines <"$scratch/out"
}

mapped >"$scratch/map"
declared >"$scratch/headers"
# Sanitizers add symbols of their own.
nm -D --defined-only "$top_builddir/lib/.libs/libaccel.so" |
    sed 's/@.*//' | awk '$2 ~ /[TDBRVW]/ && $3 !~ /^__|^ACCEL_[0-9]/ {
        print $3 }' | sort -u >"$scratch/library"
pages3 | while IFS= read -r page; do
    bash man/names "$page"
done | sort -u >"$scratch/pages"

{ mapped && inlined; } | sort -u >"$scratch/all"

difference map library "in libaccel.map, but no code defines it"
difference library map "exported, but not in libaccel.map"
difference headers map "declared in a public header, not in libaccel.map"
difference map headers "in libaccel.map, declared in no public header"
difference all pages "has no manual page (.Fn or .Nm in a man/*.3)"
difference pages all "has a manual page, but is not exported"
verdict
