# layers: who may include whom. HACKING.md draws the graph.
. "$(dirname "$0")/lint.bash"

# Rooms that a room may use besides itself and base.
allowed() {
    case $1 in
    base | topo | job | optim | loader | mod) ;;
    net) echo "topo job mod" ;;
    comm) echo "net job mod topo" ;;
    ckpt) echo "comm job" ;;
    train) echo "comm optim loader ckpt job topo" ;;
    *) return 1 ;;
    esac
}

# The room of a public header that is not named after it.
room_of() {
    case $1 in
    version | settings | rng) echo base ;;
    model | progress) echo train ;;
    dataset) echo loader ;;
    mpi) echo job ;;
    *) echo "$1" ;;
    esac
}

# The one place where a foreign library may be seen.
owner_of() {
    case $1 in
    pmix*.h) echo "lib/job/ src/ bench/ tests/" ;;
    hwloc.h | hwloc/*) echo "lib/topo/" ;;
    hdf5.h) echo "lib/base/hdf5 tests/ bench/" ;;
    ucp/* | ucs/* | uct/*) echo "lib/net/" ;;
    mpi.h) echo "lib/net/mpi lib/accel/mpi.h bench/ tests/ examples/" ;;
    slurm/*) echo "spank/ tests/" ;;
    jansson.h) echo "src/ tests/" ;;
    *) return 1 ;;
    esac
}

room_may_include() {
    local file=$1 room=$2 what=$3 other
    case $what in
    \<accel.h\>)
        complain "$file: a room includes its own subject, not accel.h"
        return
        ;;
    \<accel/*) other=${what#<accel/} other=$(room_of "${other%.h>}") ;;
    \"*/*) other=${what#\"} other=${other%%/*} ;;
    *) return ;;
    esac
    [[ $what != *_priv.h* || $other == "$room" || $what != */* ]] ||
        complain "$file: $what is private to $other"
    [[ " $room base $(allowed "$room") " == *" $other "* ]] ||
        complain "$file: $room may not use $other (includes $what)"
}

# Programs see what a user sees.
program_may_include() {
    local file=$1 what=$2
    case $what in
    \<accel.h\> | \<accel/*) ;;
    \"*)
        local name=${what#\"}
        [[ -e ${file%/*}/${name%\"} ]] ||
            complain "$file: only public headers of accel (includes $what)"
        ;;
    esac
}

plugin_may_include() {
    local file=$1 what=$2
    case $what in
    \"base/spec.h\") ;;
    \<accel*) complain "$file: the plugin uses nothing of accel but spec.h" ;;
    \"*/*) complain "$file: the plugin uses only base/spec.h (not $what)" ;;
    esac
}

check_owner() {
    local file=$1 name=${2#<} owners owner
    owners=$(owner_of "${name%>}") || return
    for owner in $owners; do
        [[ $file != "$owner"* ]] || return
    done
    complain "$file: $2 belongs to $owners"
}

includes() {
    grep -oE '^ *# *include *[<"][^>"]*[>"]' "$1" | sed 's/.*include *//'
}

while IFS= read -r file; do
    while IFS= read -r what; do
        check_owner "$file" "$what"
        case $file in
        lib/accel/*)
            room=${file#lib/accel/}
            room_may_include "$file" "$(room_of "${room%.h}")" "$what"
            ;;
        lib/*/*)
            room=${file#lib/}
            room_may_include "$file" "${room%%/*}" "$what"
            ;;
        src/* | examples/* | bench/*) program_may_include "$file" "$what" ;;
        spank/*) plugin_may_include "$file" "$what" ;;
        esac
    done < <(includes "$file")
done < <(c_files)

# spec.h is what root's slurmd loads: libc only.
for file in lib/base/spec*.[ch]; do
    [[ -e $file ]] || continue
    includes "$file" | grep -E '"|accel' | grep -vE '"(base/)?spec' |
        sed "s|^|$file: shared with the plugin, so libc only: |" \
            >"$scratch/out"
    complain_lines <"$scratch/out"
done
verdict
