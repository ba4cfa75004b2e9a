# scripts: every shell script parses, and says what it wants from the shell.
. "$(dirname "$0")/lint.bash"

while IFS= read -r file; do
    bash -n "$file" 2>"$scratch/out" || complain "$(cat "$scratch/out")"
done < <(
    find tests bench -name '*.sh' -o -name '*.bash'
    find quickstart autogen.sh tests bench man etc -type f \
        -not -name '*.bats' -not -path 'tests/data/*' \
        -exec awk 'FNR == 1 && /^#!.*sh$/ { print FILENAME }' {} +
)
verdict
