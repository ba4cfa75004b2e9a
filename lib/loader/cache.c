/*
 * Small files of datasets in memory. A row of some hundred bytes takes far
 * longer to ask the kernel for than to copy: of a file that fits, each block
 * is read once, when it is first touched, and rows are copied from it.
 */
#include "dataset_priv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT 20
#define BLOCK ((size_t)1 << SHIFT)

typedef struct block {
    pthread_mutex_t lock; /* for the one who reads it */
    _Atomic(char *) data; /* NULL: nobody has touched it */
} block_t;

struct ax_cache {
    size_t nblocks;
    block_t block[];
};

accel_status_t ax_cache_open(ax_file_t *file, size_t limit)
{
    size_t n = (size_t)((file->bytes + BLOCK - 1) >> SHIFT), bytes;
    ax_cache_t *c = NULL;

    if (file->fd < 0 || file->bytes == 0 || file->bytes > limit)
        return ACCEL_OK;
    if (ax_mul(n, sizeof c->block[0], &bytes) && bytes < SIZE_MAX / 2)
        c = malloc(sizeof *c + bytes);
    if (!c)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "dataset: %s: out of memory for a cache of %zu blocks; "
                       "set cache_bytes to a smaller number",
                       file->path, n);
    c->nblocks = n;
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_init(&c->block[i].lock, NULL);
        atomic_init(&c->block[i].data, NULL);
    }
    file->cache = c;
    return ACCEL_OK;
}

void ax_cache_close(ax_file_t *file)
{
    ax_cache_t *c = file->cache;

    for (size_t i = 0; c && i < c->nblocks; i++) {
        free(atomic_load(&c->block[i].data));
        pthread_mutex_destroy(&c->block[i].lock);
    }
    free(c);
    file->cache = NULL;
}

static char *peek(const ax_file_t *file, uint64_t offset)
{
    return atomic_load_explicit(&file->cache->block[offset >> SHIFT].data,
                                memory_order_acquire);
}

/* Reads block `b`, unless another thread has done so meanwhile. A failure
 * leaves it as it was, for the next one to try. */
static accel_status_t load(const ax_file_t *file, size_t b, char **out)
{
    block_t *block = &file->cache->block[b];
    uint64_t from = (uint64_t)b << SHIFT;
    size_t n =
        file->bytes - from < BLOCK ? (size_t)(file->bytes - from) : BLOCK;
    accel_status_t st = ACCEL_OK;

    pthread_mutex_lock(&block->lock);
    *out = atomic_load_explicit(&block->data, memory_order_acquire);
    if (!*out) {
        char *data = malloc(n);
        st = data ? ax_file_read(file, data, n, from)
                  : ax_fail(ACCEL_ERR_NOMEM,
                            "dataset: %s: out of memory for a block of its "
                            "cache; set cache_bytes to a smaller number",
                            file->path);
        if (st == ACCEL_OK) {
            atomic_store_explicit(&block->data, data, memory_order_release);
            *out = data;
        } else {
            free(data);
        }
    }
    pthread_mutex_unlock(&block->lock);
    return st;
}

/* The bytes are in the file: the caller has looked. */
static accel_status_t copy(const ax_file_t *file, char *to, size_t bytes,
                           uint64_t offset)
{
    accel_status_t st;

    while (bytes > 0) {
        size_t at = (size_t)(offset & (BLOCK - 1));
        size_t n = bytes < BLOCK - at ? bytes : BLOCK - at;
        char *data = peek(file, offset);
        if (!data &&
            (st = load(file, (size_t)(offset >> SHIFT), &data)) != ACCEL_OK)
            return st;
        memcpy(to, data + at, n);
        to += n;
        offset += n;
        bytes -= n;
    }
    return ACCEL_OK;
}

accel_status_t ax_cache_read(const ax_file_t *file, void *data, size_t bytes,
                             uint64_t offset)
{
    if (!file->cache || bytes > AX_CACHED)
        return ax_file_read(file, data, bytes, offset);
    if (offset > file->bytes || bytes > file->bytes - offset)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: has %llu bytes, but %zu are wanted at "
                       "byte %llu: it was cut short",
                       file->path, (unsigned long long)file->bytes, bytes,
                       (unsigned long long)offset);
    return copy(file, data, bytes, offset);
}

void ax_cache_ask(const ax_file_t *file, size_t bytes, uint64_t offset)
{
    if (!file->cache || offset >= file->bytes)
        return;
    size_t at = (size_t)(offset & (BLOCK - 1));
    const char *data = peek(file, offset);
    for (size_t i = 0; data && i < bytes && i < 512 && at + i < BLOCK; i += 64)
        __builtin_prefetch(data + at + i);
}
