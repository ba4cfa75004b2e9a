/* Each rank of a benchmark on a core of its own, as the peers do. */
#ifndef BENCH_PIN_H
#define BENCH_PIN_H

#include <sched.h>

static inline void bench_pin(int index)
{
    cpu_set_t all, one;

    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    index %= CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || index-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

#endif
