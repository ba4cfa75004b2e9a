# settings: accel.conf(5) and the sample of accel.conf list exactly the settings
# of the table, each with its default; the sample names all words that a
# setting may have, and the completion all precisions.
. "$(dirname "$0")/lint.bash"
CC=${CC:-cc}
page=man/accel.conf.5

cat >"$scratch/dump.c" <<'END'
#include "base/spec.h"
int main(void)
{
    size_t n;
    const ax_key_t *table = ax_spec_table(&n);
    for (size_t i = 0; i < n; i++)
        printf("%s %s\t%s\n", table[i].name, table[i].fallback,
               table[i].kind == AX_KIND_WORD ? table[i].values : "");
    return 0;
}
END
$CC -std=c11 -D_GNU_SOURCE -I lib "$scratch/dump.c" lib/base/spec.c \
    -o "$scratch/dump" -lm || complain "the table does not compile"
"$scratch/dump" >"$scratch/words"
cut -f1 "$scratch/words" | sort >"$scratch/table"
[[ -s $scratch/table ]] || complain "the table is empty"

# The sample has "# name = default" below its comments.
sample=etc/accel.conf.in
sed -nE 's/^# ([a-z]+) = (.*)/\1 \2/p' "$sample" | sort >"$scratch/sample"
comm -3 "$scratch/table" "$scratch/sample" | tr -d '\t' |
    sed "s|^|$sample: missing, another default, or no such setting: |" \
        >"$scratch/out"
complain_lines <"$scratch/out"
while IFS=$'\t' read -r setting words; do
    [[ -z $words ]] || grep -B 3 "^# ${setting% *} = " "$sample" |
        grep -q "^# .*: $words\$" ||
        complain "$sample: ${setting% *} can be: $words"
done <"$scratch/words"
words=$(sed -n 's/^precision .*\t//p' "$scratch/words")
grep -q "words='$words'" etc/bash_completion ||
    complain "etc/bash_completion: the precisions are: $words"

# In the page a setting is an item ".It Cm name" whose text says
# "Default: value." or "Default: .Cm value".
if [[ -e $page ]]; then
    awk '
        function flush() { if (name) print name, value; name = ""; value = "" }
        /^\.It (Cm|Ic|Va) [a-z]+/ { flush(); name = $3; next }
        /^\.El/ || /^\.Sh/ { flush() }
        name && !value && /Default:/ {
            line = $0
            sub(/.*Default:[ ]*/, "", line)
            if (line == "") { getline line }
            gsub(/^\.[A-Z][a-z] |\\&|"/, "", line)
            split(line, word, /[ ,;]/)
            value = word[1]
            sub(/\.$/, "", value)
        }' "$page" | sort >"$scratch/page"
    comm -23 "$scratch/table" "$scratch/page" |
        sed "s|^|$page: missing, or another default: |" >"$scratch/out"
    complain_lines <"$scratch/out"
    cut -d' ' -f1 "$scratch/table" >"$scratch/names"
    cut -d' ' -f1 "$scratch/page" | comm -13 "$scratch/names" - |
        sed "s|^|$page: no such setting: |" >"$scratch/out"
    complain_lines <"$scratch/out"
else
    complain "$page is missing"
fi
verdict
