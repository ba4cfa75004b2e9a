/*
 * The product of operations, types, operators, sizes around every switch
 * point, shapes of parts and forms, on one communicator, against what must
 * come out in f64. Values are small whole numbers (for products, powers of
 * two), so every order of adding gives the same bits. Which ranks start an
 * operation and which call it changes from case to case, and so does whether
 * large messages are shared out among the ranks of a node.
 *
 * All of it takes hours; by default a sample with a fixed seed is tried, as
 * many cases of each operation. With ACCEL_TEST_PRODUCT=all in the environment
 * everything is, with ACCEL_TEST_PRODUCT=K/N piece K of N, with
 * ACCEL_TEST_PRODUCT=N so many cases on each communicator. What is left out
 * even then, since it can tell nothing new, is_worth_it() in product_space.c
 * says.
 */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "comm/comm.h"

/* About `cases` of them, chosen by `seed`. A difference is printed and ends
 * the program with status 1. Returns how many were tried. Collective. */
size_t product(accel_comm_t *comm, size_t cases, uint64_t seed);

/* "all-reduce", ... as many as there are, then NULL. */
const char *product_operation(size_t index);

#endif
