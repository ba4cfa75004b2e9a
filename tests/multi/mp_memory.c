/*
 * Each allocation that the library makes fails once, on one rank: the call
 * gives all ranks the same error, and what it left lets the same call succeed
 * afterwards. mp_memory DIR VICTIM; rank 0 prints how many failed.
 */
#include "mp_rig.h"

#include <dlfcn.h>
#include <errno.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static struct {
    bool armed;
    long at, seen;
    bool fired;
} fault;

/* Only calls that come from the library itself: what others do without memory
 * is their affair. */
static bool fails(void *caller)
{
    Dl_info info;

    if (!fault.armed)
        return false;
    fault.armed = false; /* dladdr() may allocate */
    bool ours =
        dladdr(caller, &info) && strstr(info.dli_fname, "libaccel.so") != NULL;
    fault.armed = true;
    if (!ours || ++fault.seen != fault.at)
        return false;
    fault.fired = true;
    errno = ENOMEM;
    return true;
}

#define FAILS_HERE() fails(__builtin_return_address(0))

void *malloc(size_t bytes)
{
    return FAILS_HERE() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return FAILS_HERE() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return FAILS_HERE() ? NULL : __libc_realloc(old, bytes);
}

void *reallocarray(void *old, size_t count, size_t bytes)
{
    return FAILS_HERE() ? NULL : __libc_realloc(old, count * bytes);
}

char *strdup(const char *text)
{
    char *copy = FAILS_HERE() ? NULL : __libc_malloc(strlen(text) + 1);

    return copy ? strcpy(copy, text) : NULL;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *memory = NULL;

    if (FAILS_HERE() || posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    return memory;
}

/* ---- calls that are to fail ---------------------------------------------- */

static const char *dir;
static rig_t rig;
static char path[512];
static accel_batch_t batch;
static accel_prepare_options_t all;

static int save_own(void *context, void **data, size_t *bytes)
{
    (void)context;
    *bytes = 4;
    *data = __libc_calloc(1, 4);
    return *data == NULL;
}

static int load_own(void *context, const void *data, size_t bytes,
                    uint32_t version)
{
    (void)context;
    return !data || bytes != 4 || version != 1;
}

static accel_status_t do_prepare(void)
{
    return accel_prepare(accel, &all);
}

static accel_status_t do_save(void)
{
    return accel_save_state(accel, path);
}

static accel_status_t do_load(void)
{
    return accel_load_state(accel, path);
}

static accel_status_t do_metrics(void)
{
    accel_rows_t mine = {.data = batch.data[0],
                         .rows = batch.count,
                         .width = FEATURES,
                         .dtype = ACCEL_F32};
    void *rows;
    size_t count;
    accel_status_t st =
        accel_gather_for_metrics(accel, rig.loader, &mine, &rows, &count);

    free(rows);
    return st;
}

static accel_status_t do_pass(void)
{
    accel_backward_begin(accel);
    accel_status_t st = accel_param_ready(rig.b);
    if (st == ACCEL_OK)
        st = accel_param_ready(rig.w);
    if (st == ACCEL_OK)
        st = accel_backward_end(accel);
    return st == ACCEL_OK ? accel_optimizer_step(rig.optimizer) : st;
}

enum { PREPARE = 0, SAVE, LOAD, METRICS, PASS, CALLS };

static accel_status_t (*const calls[CALLS])(void) = {
    [PREPARE] = do_prepare, [SAVE] = do_save, [LOAD] = do_load,
    [METRICS] = do_metrics, [PASS] = do_pass,
};

static void open_all(void)
{
    rig = (rig_t){0};
    OK(accel_model_create(accel, &rig.model));
    OK(accel_model_add(rig.model,
                       ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {5000}),
                       &rig.w));
    OK(accel_model_add(rig.model, ACCEL_PARAM(.name = "b"), &rig.b));
    OK(accel_optimizer_create(NULL, &rig.optimizer));
    OK(accel_schedule_create(rig.optimizer, NULL, &rig.schedule));
    rig_data(&rig, 4);
    all = (accel_prepare_options_t){
        ACCEL_PREPARE_DEFAULTS, .model = rig.model, .optimizer = rig.optimizer,
        .loader = rig.loader, .schedule = rig.schedule};
}

/* The k-th allocation of a call fails; false: it has not so many. */
static bool try_one(int call, long k, int victim)
{
    open_all();
    /* one for all that are loaded */
    snprintf(path, sizeof path, "%s/%d-%ld", dir, call, call == LOAD ? 1 : k);
    if (call != PREPARE) {
        OK(do_prepare());
        OK(accel_loader_next(rig.loader, &batch));
    }
    if (call == LOAD && k == 1)
        OK(do_save());
    OK(accel_wait_for_everyone(accel));
    fault.at = k;
    fault.seen = 0;
    fault.fired = false;
    fault.armed = accel_rank(accel) == victim;
    accel_status_t st = calls[call]();
    fault.armed = false;

    int32_t said[3] = {st, -(int32_t)st, fault.fired};
    OK(accel_comm_allreduce(accel_get_comm(accel), said, said, 3, ACCEL_I32,
                            ACCEL_MAX));
    bool fired = said[2];
    if (said[0] != -said[1] || (st != ACCEL_OK && st != ACCEL_ERR_NOMEM) ||
        (st != ACCEL_OK && !fired)) {
        printf("rank %d, call %d, allocation %ld: %s: %s\n", accel_rank(accel),
               call, k, accel_status_name(st),
               st == ACCEL_OK ? "" : accel_last_error()->text);
        fflush(stdout);
        CHECK(!"one error on all ranks");
    }
    if (st != ACCEL_OK)
        CHECK(strstr(accel_last_error()->text, "memory"));
    if (st != ACCEL_OK)
        OK(calls[call]());
    rig_close(&rig);
    return fired;
}

int main(int argc, char **argv)
{
    int victim = argc > 2 ? atoi(argv[2]) : 0;
    long failed = 0;

    dir = argc > 1 ? argv[1] : ".";
    OK(accel_open(NULL, &accel));
    OK(accel_register_state(accel, "own", 1, save_own, load_own, NULL));
    for (int call = 0; call < CALLS; call++)
        for (long k = 1; try_one(call, k, victim); k++)
            failed++;
    accel_printf(accel, "%ld allocations failed\n", failed);
    accel_close(accel);
    return 0;
}
