# cases: every test that tests/CASES names exists, and is run.
. "$(dirname "$0")/lint.bash"

while IFS= read -r line; do
    file=${line%%: *} name=${line#*: }
    file=${file// /}
    if [[ ! -e $file ]]; then
        complain "tests/CASES: no file $file"
    elif [[ $file == *.bats ]]; then
        grep -qxF "@test \"$name\" {" "$file" ||
            complain "tests/CASES: $file has no test \"$name\""
    else
        grep -qF "$name" "$file" ||
            complain "tests/CASES: $file does not mention $name"
    fi
done < <(grep -E '^    tests/' tests/CASES)
(($(grep -cE '^    tests/' tests/CASES) > 0)) ||
    complain "tests/CASES: names no test"
for number in $(grep -oE '^case [0-9]+[a-z]?' tests/CASES | cut -d' ' -f2); do
    awk -v n="$number" '$0 ~ "^case " n ":" { inside = 1; next }
        /^case / { inside = 0 } inside && /^    tests\// { found = 1 }
        END { exit !found }' tests/CASES ||
        complain "tests/CASES: case $number has no test"
done
verdict
