# readme: the code in README.md is examples/minimal.c, word for word, and the
# files that it names exist. And no loop that people may copy takes an error of
# accel_loader_next() for the end of the data.
. "$(dirname "$0")/lint.bash"

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md \
    >"$scratch/readme.c"
[[ -s $scratch/readme.c ]] || complain "README.md: no block of C"
# The example may open with a comment of its own that the README leaves out.
awk 'inside || /^#include/ { inside = 1; print }' examples/minimal.c \
    >"$scratch/minimal.c"
diff -u "$scratch/minimal.c" "$scratch/readme.c" >"$scratch/out" ||
    complain "README.md differs from examples/minimal.c:
$(cat "$scratch/out")"
(($(wc -l <examples/minimal.c) < 60)) ||
    complain "examples/minimal.c: $(wc -l <examples/minimal.c) lines (want < 60)"
while IFS= read -r page; do
    compgen -G "man/$page" >/dev/null || complain "README.md: no man/$page"
done < <(grep -oE '\b[a-z_.-]+\([1-8]\)' README.md HACKING.md -h |
    sed 's/(\(.\))/.\1/' | sort -u)
complain_lines < <(grep -nE 'accel_loader_next\([^)]*,' README.md \
    examples/*.c man/*.[1-8] |
    grep -vE '= accel_loader_next\(' |
    sed 's/$/  (keep the status: ACCEL_END or an error?)/')
verdict
