/*
 * What the benchmark programs share: the clock, memory, and a line of result
 * as bench/README describes it.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Touched, on a page; ends the program when there is none. */
static inline void *bench_alloc(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    if (!p) {
        fprintf(stderr, "bench: no %zu bytes of memory\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static inline void bench_print(const char *what, const char *unit,
                               const char *who, double value)
{
    printf("%s\t%s\t%s\t%.6g\n", what, unit, who, value);
}

/*
 * Runs two sides in turn, `turns` times each, and gives each one's shortest
 * time in seconds: what else runs on the machine disturbs one turn, not all.
 */
typedef void (*bench_fn)(void *context);

static inline void bench_pair(bench_fn one, bench_fn other, void *context,
                              int turns, double best[2])
{
    bench_fn sides[2] = {one, other};

    best[0] = best[1] = 1e30;
    for (int i = 0; i < turns; i++)
        for (int s = 0; s < 2; s++) {
            double start = bench_now();
            sides[s](context);
            double took = bench_now() - start;
            if (took < best[s])
                best[s] = took;
        }
}

/*
 * A collective is timed in batches so short that some are not disturbed, and
 * the shortest counts, on all sides alike.
 */
static inline int bench_rounds(size_t bytes)
{
    size_t n = ((size_t)4 << 20) / (bytes + 2000);

    return n < 1 ? 1 : (int)n;
}

static inline int bench_batches(size_t bytes)
{
    return bytes > (size_t)8 << 20 ? 20 : 300;
}

/* Small ones: microseconds; large ones: bytes of the buffer a second. */
static inline void bench_collective(size_t bytes, double seconds)
{
    if (bytes < 65536)
        printf("us\t%.4f\n", seconds * 1e6);
    else
        printf("GB/s\t%.4f\n", (double)bytes / seconds / 1e9);
}

#endif
