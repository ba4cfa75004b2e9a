# cppcheck: what it finds is mended, or excused in cppcheck.supp with a reason.
. "$(dirname "$0")/lint.bash"
CPPCHECK=${CPPCHECK:-cppcheck}
need_program "$CPPCHECK" cppcheck
"$CPPCHECK" --quiet --std=c11 --language=c -j 2 \
    --enable=warning,performance,portability --inline-suppr \
    --suppressions-list=tests/lint/cppcheck.supp \
    --template='{file}:{line}: {id}: {message}' \
    --error-exitcode=0 -D__GNUC__=12 -D__x86_64__ -DACCEL_API= \
    '-DSPANK_PLUGIN(name,version)=' \
    -I lib -I "$top_builddir/lib" lib src spank examples bench \
    2>"$scratch/out"
complain_lines <"$scratch/out"
verdict
