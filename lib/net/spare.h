/*
 * spare: is there what a transport takes for granted? UCX aborts the process
 * where a thread cannot be started or a connection not be accepted. Part of
 * the transport's module, which sees no other part of the library.
 */
#ifndef AX_SPARE_H
#define AX_SPARE_H

#include <stdbool.h>

/* Can `count` threads more be started now? Else *error is an errno. */
bool ax_spare_threads(int count, int *error);

/* Can `count` files more be opened? Else how many are open, and the limit; or
 * -1, when the whole machine can open no more. */
bool ax_spare_files(int count, int *open, unsigned long long *limit);

#endif
