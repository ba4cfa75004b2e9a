/*
 * Mappings of shared files. Ranks that are threads of one process get the
 * same mapping of the same part: half the address space, and tools that watch
 * memory see that they share it.
 */
#include "net/seg.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LARGE_PAGE ((size_t)2 << 20) /* of x86-64, and of arm64 as a rule */

struct mapping {
    struct mapping *next;
    dev_t device;
    ino_t inode;
    uint64_t offset;
    size_t bytes;
    void *memory;
    int fd; /* of the file, as long as somebody has it open */
    unsigned users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- children of fork() -----------------------------------------------------
 *
 * What a child writes must not reach the ranks: its mappings become copies on
 * write, as all its other memory is. Where that cannot be, it may only read.
 */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static bool make_own(const struct mapping *m)
{
    struct stat file;

    if (fstat(m->fd, &file) != 0 || file.st_dev != m->device ||
        file.st_ino != m->inode)
        return false;
    return mmap(m->memory, m->bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, m->fd,
                (off_t)m->offset) != MAP_FAILED;
}

static void in_child(void)
{
    for (const struct mapping *m = mappings; m; m = m->next)
        if (!make_own(m))
            (void)mprotect(m->memory, m->bytes, PROT_READ);
    pthread_mutex_unlock(&lock);
}

static void watch(void)
{
    (void)pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- mappings ---------------------------------------------------------------
 */

static struct mapping *find(const struct stat *file, uint64_t offset,
                            size_t bytes)
{
    for (struct mapping *m = mappings; m; m = m->next)
        if (m->device == file->st_dev && m->inode == file->st_ino &&
            m->offset == offset && m->bytes == bytes)
            return m;
    return NULL;
}

/*
 * Large pages can hold a part of a file only where address and place in the
 * file are the same distance from a multiple of their size.
 */
static void *map_file(int fd, uint64_t offset, size_t bytes)
{
    size_t room = bytes + LARGE_PAGE;
    char *start = NULL, *at = NULL;

    if (bytes >= LARGE_PAGE && room > bytes)
        start = mmap(NULL, room, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        start = NULL;
    if (start)
        at = start + (offset - (uintptr_t)start) % LARGE_PAGE;
    void *memory =
        mmap(at, bytes, PROT_READ | PROT_WRITE,
             at ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, (off_t)offset);
    if (start && memory == MAP_FAILED)
        munmap(start, room);
    if (!start || memory == MAP_FAILED)
        return memory;
    /* what is left on both sides, in whole pages */
    char *end = at + (bytes + ax_page() - 1) / ax_page() * ax_page();
    if (at > start)
        munmap(start, (size_t)(at - start));
    if (start + room > end)
        munmap(end, (size_t)(start + room - end));
    return memory;
}

static accel_status_t add(int fd, const struct stat *file, uint64_t offset,
                          size_t bytes, struct mapping **out)
{
    struct mapping *m = malloc(sizeof *m);
    if (!m)
        return ax_fail(ACCEL_ERR_NOMEM, "net: no memory for a mapping");
    void *memory = map_file(fd, offset, bytes);
    if (memory == MAP_FAILED) {
        int err = errno;
        free(m);
        return ax_fail_sys(ACCEL_ERR_NOMEM, err,
                           "net: cannot map %zu bytes of shared memory; "
                           "see ulimit -v",
                           bytes);
    }
    *m = (struct mapping){.next = mappings,
                          .device = file->st_dev,
                          .inode = file->st_ino,
                          .offset = offset,
                          .bytes = bytes,
                          .memory = memory,
                          .fd = fd};
    mappings = m;
    *out = m;
    return ACCEL_OK;
}

accel_status_t ax_map(int fd, uint64_t offset, size_t bytes, void **out)
{
    struct stat file;
    accel_status_t status = ACCEL_OK;

    *out = NULL;
    if (fstat(fd, &file) != 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "net: shared memory");
    if (offset + bytes > (uint64_t)file.st_size)
        return ax_fail(ACCEL_ERR_PROTO,
                       "net: the shared memory is %lld bytes long, expected "
                       "%llu",
                       (long long)file.st_size,
                       (unsigned long long)(offset + bytes));
    (void)pthread_once(&once, watch);
    pthread_mutex_lock(&lock);
    struct mapping *m = find(&file, offset, bytes);
    if (!m)
        status = add(fd, &file, offset, bytes, &m);
    if (status == ACCEL_OK) {
        m->users++;
        *out = m->memory;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void ax_unmap(void *memory, size_t bytes)
{
    if (!memory)
        return;
    pthread_mutex_lock(&lock);
    for (struct mapping **at = &mappings; *at; at = &(*at)->next) {
        struct mapping *m = *at;
        if (m->memory != memory || m->bytes != bytes)
            continue;
        if (--m->users == 0) {
            *at = m->next;
            munmap(m->memory, m->bytes);
            free(m);
        }
        break;
    }
    pthread_mutex_unlock(&lock);
}

void ax_map_large(void *memory, size_t bytes)
{
    uintptr_t start = (uintptr_t)memory, end = start + bytes;

    start = (start + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    end = end / LARGE_PAGE * LARGE_PAGE;
#ifdef MADV_COLLAPSE
    if (end > start && madvise((void *)start, end - start, MADV_COLLAPSE) != 0)
        ax_log(AX_LOG_DEBUG, "net: small pages for %zu bytes: %s",
               (size_t)(end - start), strerror(errno));
#else
    (void)end;
#endif
}
