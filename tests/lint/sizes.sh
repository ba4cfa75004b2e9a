# sizes: files of at most 700 lines, functions of at most 80 lines and 6
# parameters, lines of at most 80 columns, labels out: and fail: only.
. "$(dirname "$0")/lint.bash"

# clang-format puts the braces of a function into the first column.
while IFS= read -r file; do
    awk -v file="$file" '
        function report(text) { print file ":" FNR ": " text }
        length($0) > 80 { report("line of " length($0) " columns") }
        /^[a-z].*\(/ && !/;/ { head = "" }
        /^[A-Za-z]/ || /^ / { head = head " " $0 }
        /^[a-zA-Z_].*;$/ || /^}/ || /^$/ { if (!body) head = "" }
        /^{/ {
            body = FNR
            args = head
            sub(/^[^(]*\(/, "", args)
            n = gsub(/,/, ",", args) + 1
            # PMIx and UCX prescribe the parameters of what they call.
            # A collective has as many as its data needs, and a request.
            if (head ~ /accel_comm_/) n -= 2
            if (head ~ /\(/ && head !~ /pmix_|ucs_log_func/ && n > 6)
                report("function of " n " parameters")
        }
        /^}/ {
            if (body && FNR - body - 1 > 80)
                report("function of " FNR - body - 1 " lines")
            body = 0
        }
        body && /^[a-z_]+:$/ && !/^(out|fail):$/ {
            report("label " $1 " (out: and fail: only)")
        }
        END { if (FNR > 700) report("file of " FNR " lines") }
    ' "$file"
done < <(c_files) >"$scratch/out"
complain_lines <"$scratch/out"
verdict
