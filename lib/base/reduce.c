/* Conversion and reduction of buffers: choose a kernel, hold the mode. */
#include "kernel.h"

#include <string.h>

static bool float_index(accel_dtype_t dtype, ax_float_t *out)
{
    switch (dtype) {
    case ACCEL_F64:
        *out = AX_F64;
        return true;
    case ACCEL_F32:
        *out = AX_F32;
        return true;
    case ACCEL_F16:
        *out = AX_F16;
        return true;
    case ACCEL_BF16:
        *out = AX_BF16;
        return true;
    default:
        return false;
    }
}

accel_status_t accel_convert(void *dst, accel_dtype_t dst_dtype,
                             const void *src, accel_dtype_t src_dtype,
                             size_t count)
{
    ax_float_t to, from;

    if (count > 0 && (!dst || !src))
        return ax_fail(ACCEL_ERR_ARG, "convert: a NULL buffer for %zu elements",
                       count);
    if (!float_index(dst_dtype, &to) || !float_index(src_dtype, &from))
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "convert: %s to %s: want f64, f32, f16 or bf16",
                       accel_dtype_name(src_dtype),
                       accel_dtype_name(dst_dtype));
    if (to == from) {
        if (count > 0 && dst != src)
            memcpy(dst, src, count * accel_dtype_size(dst_dtype));
        return ACCEL_OK;
    }
    const ax_kernels_t *k = ax_kernels();
    bool large = count >= AX_LARGE_BYTES / accel_dtype_size(dst_dtype) &&
                 k->large[to][from];
    ax_fpmode_t mode = ax_fpmode_enter();
    (large ? k->large : k->convert)[to][from](dst, src, count);
    ax_fpmode_leave(mode);
    return ACCEL_OK;
}

#define FEW 4 /* elements; see ax_kernels_few() */

void ax_reduce(const ax_reduce_t *how, void *dst, const void *const *src,
               int nsrc, size_t count)
{
    const ax_kernels_t *k = count <= FEW ? ax_kernels_few() : ax_kernels();
    ax_fpmode_t mode = ax_fpmode_enter();

    if (how->to == how->dtype)
        k->reduce[how->dtype][how->op](dst, src, nsrc, count, how->divisor);
    else
        k->widen[how->dtype][how->op](dst, src, nsrc, count, how->divisor);
    ax_fpmode_leave(mode);
}
