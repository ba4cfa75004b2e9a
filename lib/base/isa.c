/*
 * Which instructions this CPU and this kernel allow, and the table of kernels
 * that goes with them. __builtin_cpu_supports() knows no "f16c" in clang 14
 * and ifunc resolvers run too early under sanitizers: so cpuid by hand.
 */
#include "kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_once_t once;
    ax_isa_t isa;
    bool have[AX_ISA_COUNT];
    ax_kernels_t tables[AX_ISA_COUNT];
    const ax_kernels_t *_Atomic table; /* the chosen one, once it is filled */
} state = {.once = PTHREAD_ONCE_INIT};

#if defined(__x86_64__)
#include <cpuid.h>

/* Which register sets the kernel saves when it switches tasks. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

#define XCR0_YMM 0x06u /* xmm and ymm */
#define XCR0_ZMM 0xe6u /* and masks, zmm */

static void detect(bool have[AX_ISA_COUNT])
{
    unsigned a, b, c, d;

    have[AX_ISA_SCALAR] = true;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return;
    bool f16c = c & bit_F16C;
    uint32_t saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    have[AX_ISA_AVX2] =
        f16c && (b & bit_AVX2) && (saved & XCR0_YMM) == XCR0_YMM;
    have[AX_ISA_AVX512] = have[AX_ISA_AVX2] && (b & bit_AVX512F) &&
                          (b & bit_AVX512BW) && (b & bit_AVX512DQ) &&
                          (b & bit_AVX512VL) && (saved & XCR0_ZMM) == XCR0_ZMM;
}
#else
static void detect(bool have[AX_ISA_COUNT])
{
    have[AX_ISA_SCALAR] = true;
}
#endif

const char *ax_isa_name(ax_isa_t isa)
{
    static const char *const names[AX_ISA_COUNT] = {"scalar", "avx2", "avx512"};

    return (unsigned)isa < AX_ISA_COUNT ? names[isa] : "?";
}

/* The level named; -1 when there is none of that name. */
static int find_level(const char *name)
{
    for (int i = 0; i < AX_ISA_COUNT; i++)
        if (strcmp(name, ax_isa_name((ax_isa_t)i)) == 0)
            return i;
    return -1;
}

static ax_isa_t best_level(void)
{
    int best = AX_ISA_SCALAR;

    for (int i = 0; i < AX_ISA_COUNT; i++)
        if (state.have[i])
            best = i;
    return (ax_isa_t)best;
}

static void choose(void)
{
    const char *name = getenv("ACCEL_ISA");
    int wanted = name && *name ? find_level(name) : -1;

    detect(state.have);
    ax_kernels_scalar(&state.tables[AX_ISA_SCALAR]);
    ax_kernels_avx2(&state.tables[AX_ISA_AVX2]);
    ax_kernels_avx512(&state.tables[AX_ISA_AVX512]);
    state.isa = best_level();
    if (wanted >= 0 && state.have[wanted])
        state.isa = (ax_isa_t)wanted;
    else if (name && *name)
        ax_log(AX_LOG_WARN, "ACCEL_ISA=%s: %s; using %s", name,
               wanted < 0 ? "no such level; one of: scalar avx2 avx512"
                          : "not on this machine",
               ax_isa_name(state.isa));
    atomic_store_explicit(&state.table, &state.tables[state.isa],
                          memory_order_release);
}

ax_isa_t ax_isa(void)
{
    pthread_once(&state.once, choose);
    return state.isa;
}

const ax_kernels_t *ax_kernels(void)
{
    const ax_kernels_t *table =
        atomic_load_explicit(&state.table, memory_order_acquire);

    return table ? table : &state.tables[ax_isa()];
}

const ax_kernels_t *ax_kernels_few(void)
{
    (void)ax_kernels();
    return &state.tables[AX_ISA_SCALAR];
}

const ax_kernels_t *ax_kernels_of(ax_isa_t isa)
{
    ax_isa();
    return state.have[isa] ? &state.tables[isa] : NULL;
}

/* ---- the floating-point mode --------------------------------------------- */

#if defined(__x86_64__)
#include <xmmintrin.h>

#define MODE_DEFAULT 0x1f80u /* nearest, all exceptions masked, no FTZ, DAZ */
#define MODE_FLAGS 0x3fu

/* Writing MXCSR costs tens of cycles: only when somebody changed it. */
ax_fpmode_t ax_fpmode_enter(void)
{
    unsigned mode = _mm_getcsr();

    if ((mode & ~MODE_FLAGS) != MODE_DEFAULT)
        _mm_setcsr(MODE_DEFAULT);
    return mode;
}

void ax_fpmode_leave(ax_fpmode_t mode)
{
    if ((mode & ~MODE_FLAGS) != MODE_DEFAULT)
        _mm_setcsr(mode);
}
#else
ax_fpmode_t ax_fpmode_enter(void)
{
    return 0;
}

void ax_fpmode_leave(ax_fpmode_t mode)
{
    (void)mode;
}
#endif
