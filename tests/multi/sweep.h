/*
 * Every collective on every type, operator and size around the switch points
 * against a float64 reference. The values are small whole numbers, so sums
 * are exact in every type and any order of adding must give the same bits.
 * A difference is printed and ends the program with status 1.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include "comm/comm.h"

/* `quick`: every third size of each type, none beyond a slot. */
void sweep(accel_comm_t *comm, bool quick);

/* So many all-reduces of one element. */
void sweep_rounds(accel_comm_t *comm, int rounds);

#endif
