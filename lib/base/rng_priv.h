/* base: the block function, for the known-answer test. */
#ifndef AX_RNG_PRIV_H
#define AX_RNG_PRIV_H

#include <stdint.h>

/* Philox4x32-10 of one counter. */
void ax_philox(const uint32_t counter[4], const uint32_t key[2],
               uint32_t out[4]);

#endif
