/* Kernels for AVX-512 F, BW, DQ and VL: 64-byte vectors. */
#include "kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define BYTES 64
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#include "kernel_types.h"

LANE vf32 widen_f16(half v)
{
    return (vf32)_mm512_cvtph_ps((__m256i)v);
}

LANE half narrow_f16(vf32 v)
{
    return (half)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
}

LANE vu32 widen_u16(half v)
{
    return (vu32)_mm512_cvtepu16_epi32((__m256i)v);
}

LANE half narrow_u16(vu32 v)
{
    return (half)_mm512_cvtepi32_epi16((__m512i)v);
}

LANE vf64 widen_f32(hf32 v)
{
    return (vf64)_mm512_cvtps_pd((__m256)v);
}

LANE hf32 narrow_f64(vf64 v)
{
    return (hf32)_mm512_cvtpd_ps((__m512d)v);
}

LANE __m512i one_nan(__m512i v)
{
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);

    return _mm512_mask_mov_epi32(v, nan, _mm512_set1_epi32(AX_NAN32));
}

/* Half of the last place, less one where the last place is even. */
LANE __m512i round_up(__m512i v)
{
    __mmask16 odd = _mm512_test_epi32_mask(v, _mm512_set1_epi32(0x10000));
    __m512i more = _mm512_mask_blend_epi32(odd, _mm512_set1_epi32(0x7fff),
                                           _mm512_set1_epi32(0x8000));

    return _mm512_add_epi32(v, more);
}

LANE raw pack_bf16(raw even, raw odd)
{
    __m512i a = (__m512i)even, b = (__m512i)odd;

    if (__builtin_expect(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q),
                         0)) {
        a = one_nan(a);
        b = one_nan(b);
    }
    a = _mm512_srli_epi32(round_up(a), 16);
    return (raw)_mm512_mask_blend_epi16(0xaaaaaaaa, a, round_up(b));
}

LANE void stream_raw(void *p, raw v)
{
    _mm512_stream_si512(p, (__m512i)v);
}

LANE void stream_half(void *p, half v)
{
    _mm256_stream_si256(p, (__m256i)v);
}

/* `bytes` from 0 to 64; masked bytes are not touched, not even on a page that
 * is not there. */
LANE __mmask64 first(size_t bytes)
{
    return bytes >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << bytes) - 1;
}

LANE raw part_load(const void *p, size_t bytes)
{
    return (raw)_mm512_maskz_loadu_epi8(first(bytes), p);
}

LANE void part_store(void *p, raw v, size_t bytes)
{
    _mm512_mask_storeu_epi8(p, first(bytes), (__m512i)v);
}

#include "kernel_lanes.h"

#include "kernel_loops.h"

void ax_kernels_avx512(ax_kernels_t *table)
{
    ax_kernels_scalar(table);
    fill(table);
}
#else
void ax_kernels_avx512(ax_kernels_t *table)
{
    ax_kernels_scalar(table);
}
#endif
