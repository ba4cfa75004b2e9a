/*
 * The mark of accel launch: what it has said of this process when it started
 * it. PMIx and MPI write over their own variables in mid-run (MPI_Init() of a
 * process that no mpirun has started makes a world of one of it), so what this
 * process was started with is read, not what its environment is now. A mark
 * whose namespace is not that of PMIX_NAMESPACE there belongs to an ancestor:
 * an mpirun, srun or another launcher has come in between.
 */
#include "job_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of a variable in such a block; NULL: there is none. */
static const char *find(const char *block, size_t bytes, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = block; at < block + bytes; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

bool ax_mark_read(const char *block, size_t bytes, ax_mark_t *mark)
{
    const char *text = find(block, bytes, AX_MARK_ENV);
    const char *nspace = find(block, bytes, "PMIX_NAMESPACE");
    char end;

    return text && nspace &&
           sscanf(text, "%d %d %u %127s%c", &mark->rank, &mark->size,
                  &mark->uid, mark->nspace, &end) == 4 &&
           mark->rank >= 0 && mark->rank < mark->size &&
           strcmp(mark->nspace, nspace) == 0;
}

/* All of a file; it ends with a NUL that is not counted. */
static char *slurp(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t room = 0;
    char *data = NULL;
    ssize_t n = 1;

    for (*bytes = 0; fd >= 0 && n > 0; *bytes += n > 0 ? (size_t)n : 0) {
        if (room - *bytes < 2) {
            char *more = realloc(data, room = room * 2 + 16384);
            if (!more)
                break;
            data = more;
        }
        n = read(fd, data + *bytes, room - *bytes - 1);
    }
    if (fd >= 0)
        close(fd);
    if (data)
        data[*bytes] = '\0';
    return data;
}

/* Where the kernel does not tell, there is no mark. */
static bool find_mark(ax_mark_t *mark)
{
    size_t bytes;
    char *block = slurp("/proc/self/environ", &bytes);
    bool found = block && ax_mark_read(block, bytes, mark);

    free(block);
    return found;
}

accel_status_t ax_mark_check_user(void)
{
    ax_mark_t mark;

    if (!find_mark(&mark) || mark.uid == (unsigned)geteuid())
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_UNSUPPORTED,
                   "job: accel launch runs as user %u and this rank %d as user "
                   "%u, whom its PMIx server refuses; change the user before "
                   "accel launch, not in what it starts",
                   mark.uid, mark.rank, (unsigned)geteuid());
}

accel_status_t ax_mark_check(int rank, int size, const char *nspace)
{
    ax_mark_t mark;

    if (!find_mark(&mark) || (mark.rank == rank && mark.size == size &&
                              (!nspace || strcmp(mark.nspace, nspace) == 0)))
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_STATE,
                   "job: accel launch has started this process as rank %d of "
                   "%d, but %s says rank %d of %d: MPI_Init() joins nobody "
                   "below accel launch; start the program with mpirun or srun, "
                   "or call accel_open() before MPI_Init()",
                   mark.rank, mark.size, nspace ? "PMIx now" : "MPI", rank,
                   size);
}
