/*
 * Which instructions this CPU and this kernel allow, and the table of kernels
 * that goes with them. __builtin_cpu_supports() knows no "f16c" in clang 14
 * and ifunc resolvers run too early under sanitizers: so cpuid by hand.
 */
#include "kernel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_once_t once;
    ax_isa_t isa;
    bool have[AX_ISA_COUNT];
    ax_kernels_t tables[AX_ISA_COUNT];
} state = {.once = PTHREAD_ONCE_INIT};

static void detect(bool have[AX_ISA_COUNT])
{
    have[AX_ISA_SCALAR] = true;
}

const char *ax_isa_name(ax_isa_t isa)
{
    static const char *const names[AX_ISA_COUNT] = {"scalar", "avx2", "avx512"};

    return (unsigned)isa < AX_ISA_COUNT ? names[isa] : "?";
}

static void choose(void)
{
    const char *wanted = getenv("ACCEL_ISA");
    bool known = !wanted || !*wanted;

    detect(state.have);
    for (int i = 0; i < AX_ISA_COUNT; i++) {
        bool named = wanted && strcmp(wanted, ax_isa_name((ax_isa_t)i)) == 0;
        known = known || named;
        if (state.have[i] && (!wanted || !*wanted || named))
            state.isa = (ax_isa_t)i;
    }
    ax_kernels_scalar(&state.tables[AX_ISA_SCALAR]);
    if (!known)
        ax_log(AX_LOG_WARN,
               "ACCEL_ISA=%s: no such level; one of: scalar avx2 avx512",
               wanted);
    else if (wanted && *wanted && strcmp(wanted, ax_isa_name(state.isa)) != 0)
        ax_log(AX_LOG_WARN, "ACCEL_ISA=%s: this CPU lacks it; using %s", wanted,
               ax_isa_name(state.isa));
}

ax_isa_t ax_isa(void)
{
    pthread_once(&state.once, choose);
    return state.isa;
}

const ax_kernels_t *ax_kernels(void)
{
    return &state.tables[ax_isa()];
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
