# What the lints share: source it, call complain for each finding, end with
# verdict. Run by `make check`, or by hand: bash tests/lint/layers.sh
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
top_srcdir=${top_srcdir:-$here}
if [[ -z ${top_builddir-} ]]; then
    top_builddir=$top_srcdir
    [[ ! -e $PWD/config.status ]] || top_builddir=$PWD
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$top_srcdir" || exit 99
findings=0

complain() {
    echo "$*"
    ((findings += 1))
}

# All findings that come on standard input, one a line.
complain_lines() {
    local line
    while IFS= read -r line; do
        complain "$line"
    done
}

verdict() {
    ((findings == 0)) && exit 0
    echo "${0##*/}: $findings findings"
    exit 1
}

need_program() {
    command -v "$1" >/dev/null && return
    echo "${0##*/}: $1 is not installed (Debian: apt-get install $2)"
    exit 99
}

c_files() {
    find lib src spank examples bench tests -name '*.[ch]' | sort
}

# Names of all functions that the public headers declare.
declared() {
    cat lib/accel/*.h | tr '\n' ' ' | grep -oE 'ACCEL_API [^;{]*' |
        grep -oE '\baccel_[a-z0-9_]+ *\(' | tr -d '( ' | sort -u
}

mapped() {
    grep -oE '\baccel_[a-z0-9_]+;' lib/libaccel.map | tr -d ';' | sort -u
}

# Functions that a public header brings along with their code.
inlined() {
    cat lib/accel/*.h | grep -oE '^static inline .*\baccel_[a-z0-9_]+\(' |
        grep -oE '\baccel_[a-z0-9_]*[a-z0-9]\(' | tr -d '(' | sort -u
}

pages3() {
    find man -name '*.3' | sort
}
