/*
 * Preloaded into a program, spoils what it gets from accel or the system.
 *
 *   LIE_RANK    in the process with this PMIX_RANK only
 *   LIE_REDUCE  all-reduces of this many elements give a wrong first byte
 *   LIE_ROOM    a calloc() of this many bytes, and every later one of as many,
 *               finds no memory
 *   LIE_THREADS so many threads can be started and no more
 *   LIE_FULL    whoever asks hears that every file system is full
 */
#include <accel.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

extern void *__libc_calloc(size_t count, size_t bytes);

static size_t wish(const char *name)
{
    const char *want = getenv("LIE_RANK"), *rank = getenv("PMIX_RANK");
    const char *value = getenv(name);

    if (!value || !want || !rank || strcmp(want, rank) != 0)
        return 0;
    return strtoul(value, NULL, 10);
}

accel_status_t accel_comm_allreduce(accel_comm_t *comm, const void *send,
                                    void *recv, size_t count,
                                    accel_dtype_t dtype, accel_op_t op)
{
    static __typeof__(&accel_comm_allreduce) real;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "accel_comm_allreduce");
    accel_status_t st = real(comm, send, recv, count, dtype, op);
    if (st == ACCEL_OK && count && count == wish("LIE_REDUCE"))
        *(unsigned char *)recv ^= 1;
    return st;
}

int statvfs(const char *path, struct statvfs *fs)
{
    static __typeof__(&statvfs) real;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "statvfs");
    int rc = real(path, fs);
    if (rc == 0 && getenv("LIE_FULL"))
        fs->f_bavail = 0;
    return rc;
}

void *calloc(size_t count, size_t bytes)
{
    if (bytes && count == 1 && bytes == wish("LIE_ROOM"))
        return NULL;
    return __libc_calloc(count, bytes);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*run)(void *), void *arg)
{
    static __typeof__(&pthread_create) real;
    static atomic_size_t started;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (wish("LIE_THREADS") && started++ >= wish("LIE_THREADS"))
        return EAGAIN;
    return real(thread, attr, run, arg);
}
