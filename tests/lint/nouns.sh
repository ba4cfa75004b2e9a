# nouns: a room's name is its folder, its header, its page and its test.
. "$(dirname "$0")/lint.bash"

# net and mod have no public face.
for room in base topo job comm optim loader ckpt train; do
    [[ -d lib/$room ]] || complain "lib/$room/ is missing"
    [[ -e lib/accel/$room.h ]] || complain "lib/accel/$room.h is missing"
    [[ -e man/accel_$room.3 ]] || complain "man/accel_$room.3 is missing"
    compgen -G "tests/unit/test_$room*.c" >/dev/null ||
        compgen -G "tests/multi/mp_$room*.c" >/dev/null ||
        complain "room $room has neither tests/unit/test_$room.c" \
            "nor tests/multi/mp_$room.c"
    grep -q "<accel/$room.h>" lib/accel.h ||
        complain "lib/accel.h does not include <accel/$room.h>"
done
for dir in lib/*/; do
    room=${dir#lib/} room=${room%/}
    case $room in
    accel | base | topo | job | net | comm | optim | loader | ckpt | train | \
        mod) ;;
    *) complain "$dir is no room that HACKING.md knows" ;;
    esac
done
# A header's functions carry its noun. base and train own the bare prefix.
for header in lib/accel/*.h; do
    noun=${header#lib/accel/} noun=${noun%.h}
    case $noun in
    base | train | version) continue ;;
    comm) nouns='comm|request|alloc|free' ;;
    optim) nouns='optim|optimizer|schedule|scaler' ;;
    loader) nouns='loader|split|shard|shuffle' ;;
    model) nouns='model|param' ;;
    settings) nouns='settings|origin' ;;
    *) nouns=$noun ;;
    esac
    tr '\n' ' ' <"$header" | grep -oE 'ACCEL_API [^;{]*' |
        grep -oE '\baccel_[a-z0-9_]+ *\(' | tr -d '( ' |
        grep -vE "^accel_($nouns)(_|\$)" |
        sed "s|^|$header: not named after its noun: |" >"$scratch/out"
    complain_lines <"$scratch/out"
done
verdict
