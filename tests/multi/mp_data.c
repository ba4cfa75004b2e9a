/*
 * Data among ranks. mp_data CASE: the case named; rank 0 prints "ok CASE" or
 * what the case is to show. Samples are their own numbers.
 */
#include "mp_rig.h"

#include <stdarg.h>

enum { MOST = 600 };

static uint64_t numbers[MOST];

static accel_dataset_t *dataset(uint64_t samples)
{
    accel_field_t field = {"id", ACCEL_U64, 1};
    const void *arrays[] = {numbers};
    accel_dataset_t *d;

    for (uint64_t i = 0; i < MOST; i++)
        numbers[i] = i;
    OK(accel_dataset_from_memory(&field, arrays, 1, samples, &d));
    return d;
}

/* As a stream. */
static int next_number(void *context, uint64_t epoch, uint64_t position,
                       size_t *count, void *const *fields)
{
    uint64_t samples = *(uint64_t *)context, n = 0;

    (void)epoch;
    for (; n < *count && position + n < samples; n++)
        ((uint64_t *)fields[0])[n] = position + n;
    *count = (size_t)n;
    return 0;
}

static accel_loader_t *prepared(accel_dataset_t *d,
                                const accel_loader_options_t *o)
{
    accel_loader_t *l;

    OK(accel_loader_create(d, o, &l));
    OK(accel_prepare(accel, ACCEL_PREPARE(.loader = l)));
    return l;
}

/* Gathers an epoch; kept[i]: how often sample i came. Returns all rows. */
static size_t gather_epoch(accel_loader_t *l, unsigned *kept)
{
    size_t rows = 0;
    accel_status_t st = ACCEL_OK;

    for (;;) {
        accel_batch_t b = {0};
        if (st == ACCEL_OK) /* after the end comes the next epoch */
            st = accel_loader_next(l, &b);
        CHECK(st == ACCEL_OK || st == ACCEL_END);
        /* uneven ranks take part with nothing */
        uint64_t more = st == ACCEL_OK, *ids, *twice;
        OK(accel_reduce(accel, &more, 1, ACCEL_U64, ACCEL_MAX));
        if (!more)
            return rows;
        uint64_t pairs[MOST][2];
        for (size_t i = 0; i < b.count; i++) {
            uint64_t id = ((uint64_t *)b.data[0])[i];
            pairs[i][0] = id;
            pairs[i][1] = 2 * id;
        }
        accel_rows_t mine[] = {
            {b.count ? b.data[0] : NULL, b.count, 1, ACCEL_U64},
            {pairs, b.count, 2, ACCEL_U64}};
        void *out[2];
        size_t n;
        OK(accel_gather_fields(accel, l, mine, 2, out, &n));
        ids = out[0];
        twice = out[1];
        for (size_t i = 0; i < n; i++) {
            CHECK(twice[2 * i] == ids[i] && twice[2 * i + 1] == 2 * ids[i]);
            kept[ids[i]]++;
        }
        rows += n;
        free(ids);
        free(twice);
    }
}

static void check_once(accel_dataset_t *d, const accel_loader_options_t *o,
                       uint64_t samples)
{
    unsigned kept[MOST] = {0};
    accel_loader_t *l = prepared(d, o);
    size_t rows = gather_epoch(l, kept);

    CHECK(rows == samples);
    for (uint64_t i = 0; i < samples; i++)
        CHECK(kept[i] == 1);
    accel_loader_destroy(l);
}

/* Every way of dealing and reading; test 31 is 22 samples in batches of 4. */
static void case_once(void)
{
    static const uint64_t samples[] = {1, 3, 21, 22, 25, 48, 99};
    static const size_t batches[] = {1, 4, 8};

    for (size_t n = 0; n < 7; n++)
        for (size_t b = 0; b < 3; b++) {
            uint64_t N = samples[n];
            size_t B = batches[b], all = B * (size_t)accel_size(accel);
            accel_dataset_t *d = dataset(N), *s;
            accel_field_t field = {"id", ACCEL_U64, 1};
            OK(accel_dataset_from_stream(&field, 1, next_number, &N, &s));
            check_once(d, ACCEL_LOADER(.batch_size = B, .shuffle = true), N);
            check_once(d,
                       ACCEL_LOADER(.batch_size = all, .shuffle = true,
                                    .split_batches = true),
                       N);
            check_once(d, ACCEL_LOADER(.batch_size = B, .uneven = true), N);
            check_once(d,
                       ACCEL_LOADER(.batch_size = B, .dispatch = true,
                                    .shuffle = true),
                       N);
            check_once(d, ACCEL_LOADER(.batch_size = B, .threads = 2), N);
            check_once(s, ACCEL_LOADER(.batch_size = B), N);
            check_once(s, ACCEL_LOADER(.batch_size = B, .uneven = true), N);
            check_once(s, ACCEL_LOADER(.batch_size = B, .dispatch = true), N);
            accel_dataset_destroy(s);
            accel_dataset_destroy(d);
        }
}

/* test 32: rows of an epoch, and of a batch in mid-epoch. */
static void case_rows(void)
{
    static const uint64_t samples[] = {82, 99, 512};
    uint64_t size = (uint64_t)accel_size(accel), thirty = 30;
    accel_field_t field = {"id", ACCEL_U64, 1};
    accel_dataset_t *d;
    accel_batch_t b;
    void *out;
    size_t n;

    for (size_t i = 0; i < 3; i++) {
        d = dataset(samples[i]);
        check_once(d, ACCEL_LOADER(.batch_size = 16), samples[i]);
        accel_dataset_destroy(d);
    }
    OK(accel_dataset_from_stream(&field, 1, next_number, &thirty, &d));
    check_once(d, ACCEL_LOADER(.batch_size = 4), 30);
    accel_dataset_destroy(d);

    d = dataset(10 * size + 1);
    accel_loader_t *l =
        prepared(d, ACCEL_LOADER(.batch_size = 5, .drop_last = true));
    CHECK(accel_loader_length(l) == 2);
    for (int i = 0; i < 2; i++) {
        OK(accel_loader_next(l, &b));
        accel_rows_t mine = {b.data[0], b.count, 1, ACCEL_U64};
        OK(accel_gather_for_metrics(accel, l, &mine, &out, &n));
        CHECK(n == 5 * size);
        free(out);
    }
    CHECK(accel_loader_next(l, &b) == ACCEL_END);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

/* After a seek, and in the middle of another loader's epoch. */
static void case_seek(void)
{
    accel_dataset_t *d = dataset(22), *inner_data = dataset(21);
    accel_loader_t *l = prepared(d, ACCEL_LOADER(.batch_size = 3));
    unsigned kept[MOST] = {0}, inner_kept[MOST] = {0};
    accel_loader_t *inner =
        prepared(inner_data, ACCEL_LOADER(.batch_size = 4, .threads = 1));
    uint64_t from = 3 * (uint64_t)accel_size(accel);

    OK(accel_loader_seek(l, 1));
    if (from < 22) {
        CHECK(gather_epoch(l, kept) == 22 - from);
        for (uint64_t i = 0; i < 22; i++)
            CHECK(kept[i] == (i >= from));
    }
    accel_batch_t b;
    accel_loader_set_epoch(l, 0);
    OK(accel_loader_next(l, &b));
    CHECK(gather_epoch(inner, inner_kept) == 21);
    CHECK(b.index[0] == 3 * (uint64_t)accel_rank(accel) % 22);
    accel_loader_destroy(inner);
    accel_loader_destroy(l);
    accel_dataset_destroy(inner_data);
    accel_dataset_destroy(d);
}

/* ---- case 1 -------------------------------------------------------------- */

static void case_1(void)
{
    static const uint64_t samples[] = {1, 21, 22, 23, 24, 25, 48};
    static const size_t batches[] = {1, 4, 8};

    for (size_t n = 0; n < 7; n++)
        for (size_t b = 0; b < 3; b++) {
            accel_dataset_t *d = dataset(samples[n]);
            check_once(d, ACCEL_LOADER(.batch_size = batches[b]), samples[n]);
            accel_dataset_destroy(d);
        }
}

/* ---- case 4: ranks with unequal numbers of batches ----------------------- */

static void case_4a(void)
{
    accel_dataset_t *d = dataset(255);
    accel_loader_t *l =
        prepared(d, ACCEL_LOADER(.batch_size = 8, .drop_last = true));

    CHECK(accel_loader_length(l) == 3);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

typedef struct walk {
    accel_model_t *model;
    accel_param_t *w;
    accel_optimizer_t *optimizer;
    int batches; /* of this rank */
} walk_t;

/* Plain SGD with rate 1: the weight falls by the gradient. */
static void walk_open(walk_t *k)
{
    OK(accel_model_create(accel, &k->model));
    OK(accel_model_add(
        k->model, ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {1}), &k->w));
    OK(accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1),
                              &k->optimizer));
    OK(accel_prepare(
        accel, ACCEL_PREPARE(.model = k->model, .optimizer = k->optimizer)));
    accel_param_data(k->w)[0] = 0;
    k->batches = accel_is_last(accel) ? 4 : 5;
}

static void walk_close(walk_t *k)
{
    accel_optimizer_destroy(k->optimizer);
    accel_model_destroy(k->model);
}

static accel_status_t walk_step(walk_t *k, bool have)
{
    accel_status_t st;

    accel_backward_begin(accel);
    if (have)
        accel_param_grad(k->w)[0] += (float)accel_rank(accel) + 1;
    if ((st = accel_backward_end(accel)) != ACCEL_OK)
        return st;
    OK(accel_optimizer_step(k->optimizer));
    OK(accel_optimizer_zero_grad(k->optimizer));
    return ACCEL_OK;
}

static void walk_joined(const float *want, int updates)
{
    walk_t k = {0};
    bool any;
    int done = 0;

    walk_open(&k);
    for (int i = 0;; i++) {
        float before = accel_param_data(k.w)[0];
        OK(accel_join(accel, i < k.batches, &any));
        if (!any)
            break;
        OK(walk_step(&k, i < k.batches));
        if (accel_sync_gradients(accel)) {
            CHECK(before - accel_param_data(k.w)[0] == want[done]);
            done++;
        }
    }
    CHECK(done == updates);
    CHECK(accel_steps(accel) == (uint64_t)updates);
    walk_close(&k);
}

static void case_4b(void)
{
    walk_joined((float[]){2.5F, 2.5F, 2.5F, 2.5F, 2.0F}, 5);
}

static void case_4c(void)
{
    OK(accel_set_accumulate(accel, 2));
    walk_joined((float[]){2.5F, 2.5F}, 2);
}

/* Off: who stays learns who left, and after how many. */
static void case_4off(void)
{
    walk_t k = {0};
    accel_status_t st = ACCEL_OK;

    walk_open(&k);
    for (int i = 0; i < k.batches && st == ACCEL_OK; i++)
        st = walk_step(&k, true);
    if (accel_is_last(accel)) {
        CHECK(st == ACCEL_OK);
    } else {
        CHECK(st == ACCEL_ERR_PEER);
        printf("rank %d: %s\n", accel_rank(accel), accel_last_error()->text);
        fflush(stdout);
    }
    walk_close(&k);
}

/* ---- case 3: fewer samples than ranks ------------------------------------ */

/* One step of training: who has nothing takes part, and the update is the one
 * of a single process with all samples in one batch. */
static void train_on_few(accel_dataset_t *d, uint64_t samples)
{
    accel_loader_t *l =
        prepared(d, ACCEL_LOADER(.batch_size = 1, .uneven = true));
    walk_t k = {0};
    bool any, have = true;
    accel_batch_t b;
    float before;
    int steps = 0;

    walk_open(&k);
    before = accel_param_data(k.w)[0];
    for (;; steps++) {
        have = have && accel_loader_next(l, &b) == ACCEL_OK;
        OK(accel_join(accel, have, &any));
        if (!any)
            break;
        CHECK(!have || b.index[0] == (uint64_t)accel_rank(accel));
        OK(walk_step(&k, have)); /* the sample's number and 1 */
    }
    CHECK(steps == 1 && accel_steps(accel) == 1);
    CHECK(before - accel_param_data(k.w)[0] == (float)(samples + 1) / 2);
    walk_close(&k);
    accel_loader_destroy(l);
}

static void case_3(void)
{
    uint64_t samples = accel_size(accel) == 9 ? 4 : 3;
    accel_dataset_t *d = dataset(samples), *none = dataset(0);
    accel_loader_t *l;
    uint64_t steps;

    check_once(d, ACCEL_LOADER(.batch_size = 1), samples);
    check_once(d, ACCEL_LOADER(.batch_size = 1, .uneven = true), samples);
    l = prepared(d, ACCEL_LOADER(.batch_size = 1, .shuffle = true));
    steps = accel_loader_length(l);
    CHECK(steps == 1);
    accel_loader_destroy(l);
    train_on_few(d, samples);
    FAILS(accel_loader_create(none, ACCEL_LOADER(.batch_size = 1), &l),
          ACCEL_ERR_ARG);
    accel_dataset_destroy(none);
    accel_dataset_destroy(d);
}

/* An epoch without a batch is one of no rounds, however it is dealt. */
static void case_nothing(void)
{
    const accel_loader_options_t *const kinds[] = {
        ACCEL_LOADER(.batch_size = 4, .drop_last = true),
        ACCEL_LOADER(.batch_size = 4, .drop_last = true, .threads = 2),
        ACCEL_LOADER(.batch_size = 4, .drop_last = true, .dispatch = true),
    };
    accel_field_t field = {"id", ACCEL_U64, 1};
    uint64_t few = 3;
    accel_dataset_t *d[2] = {dataset(few)};
    accel_batch_t b;

    OK(accel_dataset_from_stream(&field, 1, next_number, &few, &d[1]));
    for (size_t k = 0; k < 6; k++) {
        accel_loader_t *l = prepared(d[k / 3], kinds[k % 3]);
        CHECK(accel_loader_length(l) == (k / 3 ? ACCEL_UNKNOWN : 0));
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            CHECK(accel_loader_epoch(l) == epoch);
            OK(epoch == 1 ? accel_loader_seek(l, 7) : ACCEL_OK);
            CHECK(accel_loader_next(l, &b) == ACCEL_END);
        }
        accel_loader_destroy(l);
    }
    accel_dataset_destroy(d[0]);
    accel_dataset_destroy(d[1]);
}

/* With a loader that knows its end, the short group counts as well. */
static void case_join_loader(void)
{
    accel_dataset_t *d = dataset(13);
    walk_t k = {0};
    accel_loader_t *l;
    accel_batch_t b;
    bool any, have = true;
    double sum = 0;

    OK(accel_set_accumulate(accel, 2));
    walk_open(&k);
    l = prepared(d, ACCEL_LOADER(.batch_size = 1, .uneven = true));
    for (;;) {
        have = have && accel_loader_next(l, &b) == ACCEL_OK;
        OK(accel_join(accel, have, &any));
        if (!any)
            break;
        OK(walk_step(&k, have));
        if (have)
            sum += (double)b.index[0];
    }
    /* 13 batches: every rank's turn, two turns an update, the rest one more */
    uint64_t turns =
        (13 + (uint64_t)accel_size(accel) - 1) / (uint64_t)accel_size(accel);
    CHECK(accel_steps(accel) == (turns + 1) / 2);
    OK(accel_mean(accel, sum, 0, &sum));
    CHECK(isnan(sum));
    accel_loader_destroy(l);
    walk_close(&k);
    accel_dataset_destroy(d);
}

/* ---- case 5: one order for all ------------------------------------------- */

static void case_5(void)
{
    accel_dataset_t *d = dataset(100);
    uint64_t order[2][100] = {{0}};
    accel_rng_t rng;
    accel_loader_t *l;

    accel_rng_init(&rng, 1, 1);
    for (int i = 0; i < accel_rank(accel); i++)
        accel_rng_u32(&rng);
    if (accel_size(accel) > 1) {
        OK(accel_loader_create(
            d,
            ACCEL_LOADER(.batch_size = 5, .shuffle = true,
                         .seed = (uint64_t)accel_rank(accel) + 1),
            &l));
        FAILS(accel_prepare(accel, ACCEL_PREPARE(.loader = l)),
              ACCEL_ERR_PROTO);
        accel_loader_destroy(l);
    }
    l = prepared(d, ACCEL_LOADER(.batch_size = 5, .shuffle = true));
    for (int epoch = 0; epoch < 2; epoch++) {
        accel_batch_t b;
        size_t n = 0, got;
        while (accel_loader_next(l, &b) == ACCEL_OK) {
            accel_rows_t mine = {b.data[0], b.count, 1, ACCEL_U64};
            void *all;
            OK(accel_gather_for_metrics(accel, l, &mine, &all, &got));
            CHECK(n + got <= 100);
            memcpy(&order[epoch][n], all, got * sizeof(uint64_t));
            n += got;
            free(all);
        }
        bool seen[100] = {false};
        CHECK(n == 100);
        for (size_t i = 0; i < 100; i++) {
            CHECK(!seen[order[epoch][i]]);
            seen[order[epoch][i]] = true;
            accel_printf(accel, "%llu ", (unsigned long long)order[epoch][i]);
        }
        accel_printf(accel, "\n");
    }
    CHECK(memcmp(order[0], order[1], sizeof order[0]) != 0);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

/* ---- case 7: broken off in a later epoch --------------------------------- */

enum { BREAK = 7, STEPS = 15 };

typedef struct epochs {
    walk_t walk;
    accel_dataset_t *data;
    accel_loader_t *loader;
} epochs_t;

static void epochs_open(epochs_t *e)
{
    walk_open(&e->walk);
    e->data = dataset(20);
    e->loader = prepared(
        e->data, ACCEL_LOADER(.batch_size = 2, .shuffle = true, .threads = 2));
}

static void epochs_close(epochs_t *e)
{
    accel_loader_destroy(e->loader);
    accel_dataset_destroy(e->data);
    walk_close(&e->walk);
}

/* Each line: step, epoch, ids, noise and weight, of this rank. */
static void epochs_run(epochs_t *e, int from, int to)
{
    float *w = accel_param_data(e->walk.w);

    for (int i = from; i < to; i++) {
        accel_batch_t b;
        accel_status_t st = accel_loader_next(e->loader, &b);
        if (st == ACCEL_END)
            st = accel_loader_next(e->loader, &b);
        OK(st);
        float noise = accel_rng_normal(accel_get_rng(accel));
        float id = (float)(b.index[0] + b.index[1]);
        accel_backward_begin(accel);
        accel_param_grad(e->walk.w)[0] += 1e-3F * (*w - id + noise);
        OK(accel_backward_end(accel));
        OK(accel_optimizer_step(e->walk.optimizer));
        OK(accel_optimizer_zero_grad(e->walk.optimizer));
        printf("step %02d rank %d epoch %d ids %d %d noise %a weight %a\n", i,
               accel_rank(accel), (int)b.epoch, (int)b.index[0],
               (int)b.index[1], (double)noise, (double)*w);
    }
    fflush(stdout);
}

static void case_7(void)
{
    epochs_t e;

    epochs_open(&e);
    epochs_run(&e, 0, STEPS);
    epochs_close(&e);
}

static void case_7_begin(void)
{
    epochs_t e;

    epochs_open(&e);
    epochs_run(&e, 0, BREAK);
    OK(accel_save_state(accel, "ck"));
    epochs_close(&e);
}

static void case_7_end(void)
{
    epochs_t e;

    epochs_open(&e);
    OK(accel_load_state(accel, "ck"));
    epochs_run(&e, BREAK, STEPS);
    epochs_close(&e);
}

/* ---- dispatch ------------------------------------------------------------ */

static void print_last(uint64_t samples, size_t batch)
{
    accel_dataset_t *d = dataset(samples);
    accel_loader_t *l =
        prepared(d, ACCEL_LOADER(.batch_size = batch, .dispatch = true));
    uint64_t steps = 0, mine[64] = {0};
    size_t count = 0;
    accel_batch_t b;

    while (accel_loader_next(l, &b) == ACCEL_OK) {
        steps++;
        count = b.count;
        memcpy(mine, b.data[0], count * sizeof *mine);
        CHECK(b.last == (steps == accel_loader_length(l)));
    }
    CHECK(steps == accel_loader_length(l));
    accel_printf(accel, "%llu:", (unsigned long long)samples);
    for (int r = 0; r < accel_size(accel); r++) {
        char text[128] = "";
        size_t n = 0;
        for (size_t i = 0; i < count; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, " %llu",
                                  (unsigned long long)mine[i]);
        OK(accel_comm_broadcast(accel_get_comm(accel), text, sizeof text,
                                ACCEL_U8, r));
        accel_printf(accel, "%s%s", r ? " |" : "", text);
    }
    accel_printf(accel, "\n");
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

static void case_dispatch(void)
{
    if (accel_size(accel) == 2) {
        print_last(9, 4);
        print_last(10, 4);
        print_last(11, 4);
    } else {
        print_last(1, 1);
        print_last(2, 1);
    }
}

static int broken(void *context, const uint64_t *index, size_t count,
                  void *const *fields)
{
    (void)context;
    (void)count;
    (void)fields;
    return index[0] >= 16 ? 5 : 0;
}

/* Rank 0's trouble is everybody's. */
static void case_dispatch_error(void)
{
    accel_field_t field = {"id", ACCEL_U64, 1};
    accel_dataset_t *d;
    accel_batch_t b;
    accel_loader_t *l;

    OK(accel_dataset_from_callback(&field, 1, 64, broken, NULL, &d));
    l = prepared(d,
                 ACCEL_LOADER(.batch_size = 4, .dispatch = true, .threads = 2));
    int steps = 16 / (4 * accel_size(accel));
    for (int i = 0; i < steps; i++)
        OK(accel_loader_next(l, &b));
    FAILS(accel_loader_next(l, &b), ACCEL_ERR_IO);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"once", case_once},
    {"rows", case_rows},
    {"seek", case_seek},
    {"1", case_1},
    {"3", case_3},
    {"nothing", case_nothing},
    {"4a", case_4a},
    {"4b", case_4b},
    {"4c", case_4c},
    {"4off", case_4off},
    {"join_loader", case_join_loader},
    {"5", case_5},
    {"7", case_7},
    {"7_begin", case_7_begin},
    {"7_end", case_7_end},
    {"dispatch", case_dispatch},
    {"dispatch_error", case_dispatch_error},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        OK(accel_open(ACCEL_OPTIONS(.spec = argc > 2 ? argv[2] : NULL),
                      &accel));
        cases[i].run();
        accel_printf(accel, "ok %s\n", argv[1]);
        accel_close(accel);
        return 0;
    }
    fprintf(stderr, "mp_data: no case %s\n", argc > 1 ? argv[1] : "");
    return 2;
}
