# mandoc: the manual is valid mdoc, down to warnings, and every function has its
# parentheses.
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
verdict
