# format: clang-format 14 would change nothing (`make format` does it).
. "$(dirname "$0")/lint.bash"
CLANG_FORMAT=${CLANG_FORMAT:-clang-format-14}
need_program "$CLANG_FORMAT" clang-format-14
if ! "$CLANG_FORMAT" --version | grep -q 'version 14\.'; then
    echo "format.sh: wants version 14: other versions format differently"
    exit 99
fi
while IFS= read -r file; do
    "$CLANG_FORMAT" "$file" | cmp -s - "$file" ||
        complain "$file: run make format"
done < <(c_files)
verdict
