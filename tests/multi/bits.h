/*
 * The bits of sums of any numbers, NaN and subnormals among them: the same on
 * all ranks, whole and in pieces, wherever in the heap or in private memory,
 * started and called, once and again. Exits with a message where they are not.
 */
#ifndef BITS_H
#define BITS_H

#include "comm/comm.h"

/* A number of all results, to compare runs by. Collective. */
uint64_t bits(accel_comm_t *comm);

#endif
