# commands: the dispatch table of accel, its manual pages and its completion
# name the same subcommands; each option of a usage line is in the page.
. "$(dirname "$0")/lint.bash"

# Rows look like {"launch", cmd_launch, "USAGE" "MORE USAGE", "what it does"}.
tr '\n' ' ' <src/accel.c | grep -oE '\{"[a-z]+", *cmd_[a-z]+,[^}]*\}' \
    >"$scratch/rows"
[[ -s $scratch/rows ]] || complain "src/accel.c: no table of commands found"
while IFS= read -r row; do
    name=$(sed 's/^{"\([a-z]*\)".*/\1/' <<<"$row")
    file=src/cmd_$name.c page=man/accel-$name.1
    # Two are explained in accel(1) itself.
    case $name in help | version) page=man/accel.1 file=src/accel.c ;; esac
    [[ -e $file ]] || complain "$file is missing (command $name)"
    grep -qE "[' ]$name[' ]" etc/bash_completion ||
        complain "etc/bash_completion does not know the command $name"
    if [[ ! -e $page ]]; then
        complain "$page is missing (command $name)"
        continue
    fi
    for option in $(grep -oE -- '--?[a-z][a-z-]*' <<<"${row#*cmd_}"); do
        # mdoc writes options without their first dash.
        grep -qE -- "Fl (Fl )?${option#-}|\\\\-${option#-}" "$page" ||
            complain "$page: does not explain $option"
    done
done <"$scratch/rows"
verdict
