# commands: the dispatch table of accel, its manual pages and its completion
# name the same subcommands with the same options; each manual page that any
# text of ours names is there.
. "$(dirname "$0")/lint.bash"
completion=etc/bash_completion

# What the completion offers behind a command ('': behind accel), one a line.
offered() {
    sed -n "s/^ *$1) words='\(.*\)' ;;\$/\1/p" "$completion" | tr ' ' '\n' |
        grep . | sort -u
}

# differ LIST-OF-ACCEL LIST-OF-THE-COMPLETION WHERE
differ() {
    comm -23 "$1" "$2" | sed "s|^|$completion: $3: does not offer |" \
        >"$scratch/out"
    complain_lines <"$scratch/out"
    comm -13 "$1" "$2" | sed "s|^|$completion: $3: there is no |" \
        >"$scratch/out"
    complain_lines <"$scratch/out"
}

# Rows look like {"launch", cmd_launch, "USAGE" "MORE USAGE", "what it does",
# NULL or "page"}.
tr '\n' ' ' <src/accel.c | grep -oE '\{"[a-z]+", *cmd_[a-z]+,[^}]*\}' \
    >"$scratch/rows"
[[ -s $scratch/rows ]] || complain "src/accel.c: no table of commands found"
while IFS= read -r row; do
    name=$(sed 's/^{"\([a-z]*\)".*/\1/' <<<"$row")
    file=src/cmd_$name.c page=man/accel-$name.1
    # Two are explained in accel(1) itself.
    case $name in help | version) page=man/accel.1 file=src/accel.c ;; esac
    [[ -e $file ]] || complain "$file is missing (command $name)"
    echo "$name" >>"$scratch/names"
    # Options and, of accel data, words: not "N" nor "FILE...". What help
    # takes is the commands.
    usage=$(sed 's/, *"[a-z]*"}$/}/' <<<"${row#*cmd_}") # without its page
    grep -oE '"[^"]*"' <<<"$usage" | sed '$d; s/\\n *accel data//' |
        tr '"[] ' '\n' | grep -xE -- '--?[a-z][a-z-]*|[a-z]{4,}' | sort -u \
        >"$scratch/usage"
    offered "$name" >"$scratch/offered"
    [[ $name == help ]] || differ "$scratch/usage" "$scratch/offered" "$name"
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
sort -o "$scratch/names" "$scratch/names"
for where in "''" help; do
    offered "$where" >"$scratch/offered"
    differ "$scratch/names" "$scratch/offered" "$where"
done

# In C, shell and Markdown a page is "accel-env(1)", in mdoc ".Xr accel-env 1".
# That of a function is a link to one: exports.sh looks whether it has one.
{
    grep -rhoE '\b(accel|spank_accel)[a-z_.-]*\([1-9]\)' \
        src lib spank etc examples bench ./*.md
    sed -nE 's/^\.Xr ((accel|spank_accel)[a-z_.-]*) ([1-9]).*/\1(\3)/p' man/*.[1-9]
} | sort -u | tr '()' '. ' | while read -r page; do
    [[ -e man/$page ]] || { mapped && inlined; } | grep -qx "${page%.3}" || echo "man/$page is named, but is not there"
done >"$scratch/out"
complain_lines <"$scratch/out"
verdict
