/*
 * base: the loops over elements, one table for each instruction set. All
 * tables give the same bits. Callers hold the floating-point mode at its
 * default (see ax_fpmode_enter()).
 */
#ifndef AX_KERNEL_H
#define AX_KERNEL_H

#include "base.h"

/* The four floating types, as an index. */
typedef enum ax_float {
    AX_F64 = 0,
    AX_F32,
    AX_F16,
    AX_BF16,
    AX_FLOATS
} ax_float_t;

#define AX_REDUCE_OPS 4
#define AX_DTYPES (ACCEL_U64 + 1)

typedef void (*ax_convert_fn)(void *dst, const void *src, size_t count);

/* dst[i] = (src[0][i] op src[1][i] ...) / divisor */
typedef void (*ax_reduce_fn)(void *dst, const void *const *src, int nsrc,
                             size_t count, double divisor);

typedef struct ax_kernels {
    ax_convert_fn convert[AX_FLOATS][AX_FLOATS]; /* [to][from] */
    ax_convert_fn large[AX_FLOATS][AX_FLOATS];   /* NULL: none of its own */
    ax_reduce_fn reduce[AX_DTYPES][AX_REDUCE_OPS];
    ax_reduce_fn widen[AX_DTYPES][AX_REDUCE_OPS]; /* f16, bf16 into f32 */
} ax_kernels_t;

/*
 * A result of so many bytes is written past the caches: it and its source are
 * beyond the 2 to 4 MiB that a core has for itself, so each line would come
 * from memory and go back there. Measured, streaming wins from 2 MiB on; what
 * is smaller is likely read soon.
 */
#define AX_LARGE_BYTES ((size_t)8 << 20)

/* What a NaN becomes in a reduction: machines differ in which of two NaNs
 * they keep, and x86 makes a negative one of inf - inf. */
#define AX_NAN32 0x7fc00000u
#define AX_NAN64 0x7ff8000000000000u

/* Fill a table; the scalar one where the machine is no x86-64. */
void ax_kernels_scalar(ax_kernels_t *table);
void ax_kernels_avx2(ax_kernels_t *table);
void ax_kernels_avx512(ax_kernels_t *table);

/* The table in use: chosen once, from the CPU and ACCEL_ISA. */
const ax_kernels_t *ax_kernels(void);

/* For a few elements: done one by one, sooner than a vector of them is put
 * together. */
const ax_kernels_t *ax_kernels_few(void);

/* The one for a level, for tests; NULL when this CPU lacks it. */
const ax_kernels_t *ax_kernels_of(ax_isa_t isa);

#endif
