/*
 * The state of several ranks, and stopping them. mp_state CASE DIR [NUMBER
 * [SPEC]]; the cases say what they print.
 */
#include "mp_rig.h"

#include <signal.h>
#include <time.h>

#define GLOBAL_BATCH 12 /* in every world: 4 steps an epoch */

static const char *dir;
static int number;
static rig_t rig;

static accel_optimizer_options_t adamw = {ACCEL_OPTIMIZER_DEFAULTS, .lr = 0.05};

static void open_rig(void)
{
    CHECK(GLOBAL_BATCH % accel_size(accel) == 0);
    rig_open(&rig, &adamw, (size_t)(GLOBAL_BATCH / accel_size(accel)));
}

static void train_until(uint64_t steps)
{
    accel_batch_t batch;

    while (accel_steps(accel) < steps) {
        if (accel_loader_next(rig.loader, &batch) != ACCEL_OK)
            continue;
        rig_backward(&rig, &batch);
        rig_step(&rig);
    }
    check_alike(&rig);
}

/* One line a rank with all that it goes on with. */
static void print_all(void)
{
    for (int r = 0; r < accel_size(accel); r++) {
        OK(accel_wait_for_everyone(accel));
        if (r != accel_rank(accel))
            continue;
        printf("rank %d step %llu rate %.17g random %08x\n", r,
               (unsigned long long)accel_steps(accel),
               accel_optimizer_lr(rig.optimizer),
               (unsigned)accel_rng_u32(accel_get_rng(accel)));
        fflush(stdout);
    }
    OK(accel_wait_for_everyone(accel));
    print_weights(&rig);
}

static void draw(void)
{
    for (int i = 0; i <= accel_rank(accel); i++)
        accel_rng_u32(accel_get_rng(accel));
}

/* run DIR N: N steps without a break. */
static void case_run(void)
{
    open_rig();
    draw();
    train_until((uint64_t)number);
    print_all();
}

/* save DIR N: N steps, then a checkpoint. */
static void case_save(void)
{
    open_rig();
    draw();
    train_until((uint64_t)number);
    OK(accel_save_state(accel, dir));
    print_weights(&rig);
}

/* load DIR N: the newest checkpoint, and on to step N. */
static void case_load(void)
{
    open_rig();
    OK(accel_load_state(accel, dir));
    if ((int)accel_steps(accel) < number)
        train_until((uint64_t)number);
    print_all();
}

/* ---- registered state: each rank its own --------------------------------- */

static int own = -1;
static int refuse;

static int save_own(void *context, void **data, size_t *bytes)
{
    (void)context;
    /* Lengths differ: rank r keeps r bytes and a number. */
    *bytes = sizeof own + (size_t)accel_rank(accel);
    *data = calloc(1, *bytes);
    if (!*data)
        return 1;
    memcpy(*data, &own, sizeof own);
    return refuse;
}

static int load_own(void *context, const void *data, size_t bytes,
                    uint32_t version)
{
    (void)context;
    if (bytes < sizeof own || version != 3)
        return 1;
    memcpy(&own, data, sizeof own);
    return refuse;
}

static int mine;         /* another number on each rank */
static float same[1000]; /* alike on all */

static void register_all(void)
{
    OK(accel_register_state(accel, "own", 3, save_own, load_own, NULL));
    OK(accel_register_bytes(accel, "mine", &mine, sizeof mine));
    OK(accel_register_bytes(accel, "same", same, sizeof same));
}

/* What is alike on all ranks is there once. */
static void check_bytes(const char *name, uint64_t bytes)
{
    accel_ckpt_t *ckpt;
    accel_ckpt_part_t part;

    OK(accel_ckpt_open(accel_get_comm(accel), dir, &ckpt));
    OK(accel_ckpt_find(ckpt, name, &part));
    CHECK(part.ndim == 1 && part.shape[0] == bytes);
    accel_ckpt_close(ckpt);
}

/* keep DIR: rank r keeps 100 + r, and some memory. */
static void case_keep(void)
{
    open_rig();
    own = 100 + accel_rank(accel);
    mine = 200 + accel_rank(accel);
    for (int i = 0; i < 1000; i++)
        same[i] = (float)i;
    register_all();
    OK(accel_save_state(accel, dir));
}

/* kept DIR N: rank r of N or more gets what rank r mod N kept. */
static void case_kept(void)
{
    open_rig();
    register_all();
    OK(accel_load_state(accel, dir));
    CHECK(own == 100 + accel_rank(accel) % number);
    CHECK(mine == 200 + accel_rank(accel) % number);
    for (int i = 0; i < 1000; i++)
        CHECK(same[i] == (float)i);
    check_bytes("state/same/data", sizeof same);
    check_bytes("state/mine/data", (uint64_t)number * sizeof mine);
}

/* refuse DIR: the last rank's functions fail; all ranks hear of it. */
static void case_refuse(void)
{
    open_rig();
    own = 7;
    OK(accel_register_state(accel, "own", 3, save_own, load_own, NULL));
    refuse = accel_is_last(accel);
    FAILS(accel_save_state(accel, dir), ACCEL_ERR_IO);
    refuse = 0;
    OK(accel_save_state(accel, dir));
    refuse = accel_is_last(accel);
    FAILS(accel_load_state(accel, dir), ACCEL_ERR_IO);
}

/* other_states DIR: the ranks register different names. */
static void case_other_states(void)
{
    open_rig();
    OK(accel_register_state(accel, accel_is_last(accel) ? "b" : "a", 3,
                            save_own, load_own, NULL));
    FAILS(accel_save_state(accel, dir), ACCEL_ERR_PROTO);
}

/* ---- calls that do not belong together ----------------------------------- */

/* alone DIR: rank 0 saves, the others go on training. */
static void case_alone(void)
{
    accel_batch_t batch;
    accel_status_t st;

    open_rig();
    train_until(1);
    if (accel_is_main(accel)) {
        st = accel_save_state(accel, dir);
    } else {
        OK(accel_loader_next(rig.loader, &batch));
        accel_backward_begin(accel);
        st = accel_backward_end(accel);
    }
    CHECK(st < 0);
    printf("rank %d: %s\n", accel_rank(accel), accel_last_error()->text);
    fflush(stdout);
    accel_close(accel); /* must not wait for anyone */
    exit(3);
}

/* ---- stopping ------------------------------------------------------------ */

/* signal DIR N: the last rank gets signal N in its third step. */
static void case_signal(void)
{
    int steps = 0;

    open_rig();
    for (;;) {
        accel_batch_t batch;
        if (accel_loader_next(rig.loader, &batch) != ACCEL_OK)
            continue;
        steps++;
        if (steps == 3 && accel_is_last(accel))
            raise(number);
        rig_backward(&rig, &batch);
        rig_step(&rig);
        CHECK(accel_should_stop(accel) == (steps >= 3));
        if (steps == 5)
            break;
    }
}

/* until_told DIR: trains until it is told to stop, and saves. */
static void case_until_told(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};

    open_rig();
    accel_status_t st = accel_load_state(accel, NULL);
    CHECK(st == ACCEL_OK || st == ACCEL_ERR_NOTFOUND);
    accel_printf(accel, "from step %llu\n",
                 (unsigned long long)accel_steps(accel));
    uint64_t first = accel_steps(accel);
    while (!accel_should_stop(accel)) {
        train_until(accel_steps(accel) + 1);
        if (accel_steps(accel) == first + 1)
            accel_printf(accel, "under way\n");
        nanosleep(&pause, NULL);
        /* A run that was resumed has shown what it should. */
        if (first > 0 && accel_steps(accel) == first + 3)
            raise(SIGTERM);
    }
    OK(accel_save_state(accel, NULL));
    accel_printf(accel, "stopped after step %llu\n",
                 (unsigned long long)accel_steps(accel));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"run", case_run},
    {"save", case_save},
    {"load", case_load},
    {"keep", case_keep},
    {"kept", case_kept},
    {"refuse", case_refuse},
    {"other_states", case_other_states},
    {"alone", case_alone},
    {"signal", case_signal},
    {"until_told", case_until_told},
};

int main(int argc, char **argv)
{
    const char *spec = argc > 4 ? argv[4] : NULL;

    dir = argc > 2 ? argv[2] : ".";
    number = argc > 3 ? atoi(argv[3]) : 0;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        OK(accel_open(ACCEL_OPTIONS(.spec = spec), &accel));
        cases[i].run();
        rig_close(&rig);
        accel_printf(accel, "ok %s\n", argv[1]);
        accel_close(accel);
        return 0;
    }
    fprintf(stderr, "mp_state: no case %s\n", argc > 1 ? argv[1] : "");
    return 2;
}
