/* Kernels for AVX2 and F16C: 32-byte vectors. */
#include "kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define BYTES 32
#define TARGET __attribute__((target("avx2,f16c")))
#include "kernel_types.h"

LANE vf32 widen_f16(half v)
{
    return (vf32)_mm256_cvtph_ps((__m128i)v);
}

LANE half narrow_f16(vf32 v)
{
    return (half)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
}

LANE vu32 widen_u16(half v)
{
    return (vu32)_mm256_cvtepu16_epi32((__m128i)v);
}

/* The pack works within 128-bit halves: their low parts are brought together.
 */
LANE half narrow_u16(vu32 v)
{
    __m256i packed = _mm256_packus_epi32((__m256i)v, (__m256i)v);

    return (half)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

LANE vf64 widen_f32(hf32 v)
{
    return (vf64)_mm256_cvtps_pd((__m128)v);
}

LANE hf32 narrow_f64(vf64 v)
{
    return (hf32)_mm256_cvtpd_ps((__m256d)v);
}

LANE __m256i one_nan(__m256i v)
{
    __m256 nan = _mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q);
    __m256 one = (__m256)_mm256_set1_epi32(AX_NAN32);

    return (__m256i)_mm256_blendv_ps((__m256)v, one, nan);
}

LANE __m256i round_up(__m256i v)
{
    __m256i last =
        _mm256_and_si256(_mm256_srli_epi32(v, 16), _mm256_set1_epi32(1));

    return _mm256_add_epi32(_mm256_add_epi32(v, _mm256_set1_epi32(0x7fff)),
                            last);
}

LANE raw pack_bf16(raw even, raw odd)
{
    __m256i a = (__m256i)even, b = (__m256i)odd;
    __m256 nan = _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q);

    if (__builtin_expect(_mm256_movemask_ps(nan), 0)) {
        a = one_nan(a);
        b = one_nan(b);
    }
    a = _mm256_srli_epi32(round_up(a), 16);
    return (raw)_mm256_blend_epi16(a, round_up(b), 0xaa);
}

LANE void stream_raw(void *p, raw v)
{
    _mm256_stream_si256(p, (__m256i)v);
}

LANE void stream_half(void *p, half v)
{
    _mm_stream_si128(p, (__m128i)v);
}

LANE raw part_load(const void *p, size_t bytes)
{
    raw v = {0};

    memcpy(&v, p, bytes);
    return v;
}

LANE void part_store(void *p, raw v, size_t bytes)
{
    memcpy(p, &v, bytes);
}

#include "kernel_lanes.h"

#include "kernel_loops.h"

void ax_kernels_avx2(ax_kernels_t *table)
{
    ax_kernels_scalar(table);
    fill(table);
}
#else
void ax_kernels_avx2(ax_kernels_t *table)
{
    ax_kernels_scalar(table);
}
#endif
