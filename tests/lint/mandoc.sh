# mandoc: the manual is valid mdoc, down to warnings, every function has its
# parentheses, and a command is shown as it is to be typed.
. "$(dirname "$0")/lint.bash"
MANDOC=${MANDOC:-mandoc}
need_program "$MANDOC" mandoc
while IFS= read -r page; do
    "$MANDOC" -T lint -W warning "$page" >"$scratch/out" 2>&1
    # A page may refer to one that is installed elsewhere only.
    grep -v 'referenced manual not found' "$scratch/out" >"$scratch/kept"
    complain_lines <"$scratch/kept"
done < <(find man -name '*.[1-8]' | sort)
# Each takes one name: a second one would stand there without parentheses.
complain_lines < <(grep -nE '^\.(Xr|Fn) .* , [a-z]' man/*.[1-8])
# mdoc joins a bracket or a full stop to the word before it: "[ x = 0]".
while IFS= read -r page; do
    "$MANDOC" -T ascii "$page" | sed 's/.\x08//g' | tr -s ' \n' ' ' \
        >"$scratch/flat"
    while IFS= read -r shown; do
        grep -qF -- "$shown" "$scratch/flat" ||
            complain "$page: not shown as written: $shown"
    done < <(sed ':a; /\\$/ { N; s/\\\n//; ba }' "$page" |
        sed -n 's/^\.Dl //p' | sed 's/\\(dq/"/g; s/\\(aq/'"'/g"'
            s/\\-/-/g; s/\\&//g; s/\\e/\\/g; s/^"\(.*\)"$/\1/' | tr -s ' ')
done < <(find man -name '*.[1-8]' | sort)
verdict
