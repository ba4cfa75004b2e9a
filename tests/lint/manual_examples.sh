# manual_examples: each complete program in a manual page compiles and links.
. "$(dirname "$0")/lint.bash"
CC=${CC:-cc}
MANDOC=${MANDOC:-mandoc}

# Writes every literal block with a main() to scratch/N.c, as a reader sees it.
extract() {
    awk -v dir="$scratch" -v page="${1##*/}" '
        /^\.Bd .*-literal/ { inside = 1; text = ""; next }
        /^\.Ed/ {
            if (inside && text ~ /int main\(|int\nmain\(/)
                printf "%s", text >(dir "/" page "-" ++n ".c")
            inside = 0
            next
        }
        inside {
            gsub(/\\&/, ""); gsub(/\\e/, "\\"); gsub(/\\-/, "-")
            gsub(/\\\(aq/, "\047"); gsub(/\\\(dq/, "\"")
            gsub(/\\\\/, "\\")
            text = text $0 "\n"
        }' "$1"
}

while IFS= read -r page; do
    extract "$page"
done < <(find man -name '*.[1-8]' | sort)
for program in "$scratch"/*.c; do
    [[ -e $program ]] || continue
    mpi=() mpi_libs=()
    if grep -q 'mpi\.h>' "$program"; then
        if [[ ${HAVE_MPI-yes} != yes ]]; then
            echo "${program##*/}: left out, there is no MPI"
            continue
        fi
        read -ra mpi <<<"${MPI_CFLAGS-}"
        read -ra mpi_libs <<<"${MPI_LIBS--lmpi}"
    fi
    if ! "$top_builddir/libtool" --quiet --tag=CC --mode=link $CC -std=c11 \
        -D_GNU_SOURCE -Wall -Wextra -Werror ${TEST_CFLAGS-} -I lib \
        -I "$top_builddir/lib" "${mpi[@]}" "$program" -o "${program%.c}" \
        "$top_builddir/lib/libaccel.la" "${mpi_libs[@]}" -lm \
        >"$scratch/out" 2>&1; then
        cat "$scratch/out"
        complain "${program##*/}: the program in the page does not compile"
    fi
done
# Every page of section 3 shows a whole program.
while IFS= read -r page; do
    compgen -G "$scratch/${page##*/}-*.c" >/dev/null ||
        complain "$page: no complete program under EXAMPLES"
done < <(pages3)
verdict
