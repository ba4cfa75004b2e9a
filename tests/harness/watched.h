/* What tests/harness/watched.c has seen, for the test that loads it. */
#ifndef WATCHED_H
#define WATCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct watched {
    atomic_bool refuse;    /* nothing can be registered from now on */
    atomic_int maps;       /* registered so far */
    atomic_int unmaps;     /* taken back by the library */
    atomic_int left;       /* still there when their transport was closed */
    atomic_int refused;    /* not registered, as wished */
    atomic_int wrong;      /* taken back twice, or what never was there */
    atomic_size_t large;   /* messages of 64 KiB and more, either way */
    atomic_size_t foreign; /* of those, from or to memory not registered */
} watched_t;

/* Exported by the module as `watched`; is this memory registered by anyone? */
typedef bool watched_has_fn(const void *memory, size_t bytes);

#endif
