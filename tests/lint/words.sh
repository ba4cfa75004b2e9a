# words: nothing unfinished, nobody's own paths, no stray whitespace.
. "$(dirname "$0")/lint.bash"

texts() {
    find README.md HACKING.md CONTRIBUTING.md NEWS quickstart configure.ac \
        Makefile.am autogen.sh m4/accel.m4 lib src spank man etc examples \
        bench tests -type f -not -path 'tests/lint/words.sh' \
        -not -path 'examples/data/*' -not -path 'tests/data/*' \
        -not -name 'Makefile*.in' -not -path 'etc/accel*' \
        -not -path 'etc/[0-9]*' -not -path 'etc/plugstack.conf.d/*.conf' \
        -print0 | xargs -0 grep -lI '' | sort
}

texts >"$scratch/files"
search() {
    xargs -d '\n' grep -nE "$1" <"$scratch/files" | head -20 |
        sed "s/^/$2: /" >"$scratch/out"
    complain_lines <"$scratch/out"
}

search '\b(TODO|FIXME|XXX)\b' 'unfinished'
search '(/home/[a-z]+/|/root/)' 'a path of one machine'
search '^(<<<<<<<|>>>>>>>)' 'merge marker'
search '[ 	]+$' 'white space at the end'
c_files | xargs -d '\n' grep -nP '\t' | sed 's/^/tab: /' >"$scratch/out"
complain_lines <"$scratch/out"
verdict
