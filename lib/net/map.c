/*
 * Mappings of shared files. Ranks that are threads of one process get the
 * same mapping of the same part: half the address space, and tools that watch
 * memory see that they share it.
 */
#include "net/seg.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct mapping {
    struct mapping *next;
    dev_t device;
    ino_t inode;
    uint64_t offset;
    size_t bytes;
    void *memory;
    unsigned users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;

static struct mapping *find(const struct stat *file, uint64_t offset,
                            size_t bytes)
{
    for (struct mapping *m = mappings; m; m = m->next)
        if (m->device == file->st_dev && m->inode == file->st_ino &&
            m->offset == offset && m->bytes == bytes)
            return m;
    return NULL;
}

static accel_status_t add(int fd, const struct stat *file, uint64_t offset,
                          size_t bytes, struct mapping **out)
{
    struct mapping *m = malloc(sizeof *m);
    if (!m)
        return ax_fail(ACCEL_ERR_NOMEM, "net: no memory for a mapping");
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                        (off_t)offset);
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
                          .memory = memory};
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
