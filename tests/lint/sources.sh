# sources: nothing lies about unbuilt, unrun or unshipped.
. "$(dirname "$0")/lint.bash"

# Of this folder alone: instrumented trees lie in it, with copies of all.
makefiles() {
    find lib src spank man etc examples bench tests -name local.mk
}

cat Makefile.am $(makefiles) |
    tr ' \t\\' '\n\n\n' | sort -u >"$scratch/words"

# A source is named by its path, or, in tests, by the program made of it.
listed() {
    local file=$1
    grep -qxF "$file" "$scratch/words" ||
        grep -qxF "${file%.c}" "$scratch/words"
}

while IFS= read -r file; do
    listed "$file" || complain "$file: in no local.mk"
done < <(
    c_files | grep -v 'lib/accel/version\.h$'
    find man -name '*.[1-8]'
    find tests -name '*.bats' -o -name '*.sh' -o -name '*.bash'
    find bench -name '*.sh'
)
# What is made from configure.ac by hand must be there too.
for file in $(makefiles); do
    [[ $file == lib/*/local.mk ]] && in=lib/local.mk || in=Makefile.am
    grep -qx "include $file" "$in" || complain "$file: not included by $in"
done
verdict
