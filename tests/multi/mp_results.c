/*
 * Results among ranks. mp_results CASE: the case named; rank 0 prints "ok
 * CASE", or all ranks the error that the case is to end with.
 */
#include "mp_rig.h"

enum { RANKS = 16 };

/* This rank's numbers: of W, those after W * rank. */
static void numbers(float *mine)
{
    int size = accel_size(accel);

    CHECK(size <= RANKS);
    for (int i = 0; i < size; i++)
        mine[i] = (float)(i + 1 + size * accel_rank(accel));
}

/* tests 34 to 36: gather, objects, broadcast from any rank */
static void case_moved(void)
{
    int rank = accel_rank(accel), size = accel_size(accel);
    size_t n = (size_t)size, *offsets;
    float mine[RANKS], all[RANKS * RANKS];
    accel_comm_t *comm = accel_get_comm(accel);
    int *ranks;

    numbers(mine);
    OK(accel_comm_allgather(comm, mine, all, n, ACCEL_F32));
    for (size_t i = 0; i < n * n; i++)
        CHECK(all[i] == (float)(i + 1));

    OK(accel_gather_bytes(accel, &rank, sizeof rank, (void **)&ranks,
                          &offsets));
    for (int r = 0; r < size; r++) {
        CHECK(offsets[r] == (size_t)r * sizeof rank);
        CHECK(ranks[r] == r);
    }
    CHECK(offsets[size] == n * sizeof rank);
    free(ranks);
    free(offsets);

    for (int root = 0; root < size; root++) {
        numbers(mine);
        OK(accel_comm_broadcast(comm, mine, n, ACCEL_F32, root));
        for (int i = 0; i < size; i++)
            CHECK(mine[i] == (float)(i + 1 + size * root));
    }
}

/* test 37: for two ranks sum 4 6, mean 2 3, max 3 4 */
static void case_reduced(void)
{
    static const accel_op_t ops[] = {ACCEL_SUM, ACCEL_AVG, ACCEL_MAX,
                                     ACCEL_MIN};
    static const float of_two[][2] = {{4, 6}, {2, 3}, {3, 4}, {1, 2}};
    int size = accel_size(accel);

    for (int k = 0; k < 4; k++) {
        float mine[RANKS];
        numbers(mine);
        OK(accel_reduce(accel, mine, (size_t)size, ACCEL_F32, ops[k]));
        for (int i = 0; i < size; i++) {
            float first = (float)i + 1,
                  last = first + (float)(size * (size - 1));
            float mean = (first + last) / 2;
            float want[] = {mean * (float)size, mean, last, first};
            CHECK(mine[i] == want[k]);
            CHECK(size != 2 || mine[i] == of_two[k][i]);
        }
    }
}

/* test 38: rank 0 has one more, so the others end with one 0 */
static void case_pad_one(void)
{
    int rank = accel_rank(accel), size = accel_size(accel);
    float mine[RANKS + 1] = {0};
    size_t have = (size_t)size + (rank == 0), n;
    accel_rows_t rows = {mine, have, 1, ACCEL_F32};
    void *out;

    numbers(mine);
    if (rank == 0)
        mine[size] = 99;
    OK(accel_pad_across(accel, &rows, 0, NULL, &out, &n));
    CHECK(n == (size_t)size + 1);
    CHECK(memcmp(out, mine, (size_t)size * sizeof *mine) == 0);
    CHECK(((float *)out)[size] == (rank == 0 ? 99.0F : 0.0F));
    free(out);
}

/* test 39: shapes that differ are an error on all ranks, and no hang; debug
 * does not have to be on */
static void case_unlike_pad(void)
{
    float mine[RANKS] = {0};
    bool odd = accel_rank(accel) == accel_size(accel) - 1;
    accel_rows_t rows = {mine, 2, odd ? 3 : 2, ACCEL_F32};
    void *out;
    size_t n;

    FAILS(accel_pad_across(accel, &rows, 0, NULL, &out, &n), ACCEL_ERR_PROTO);
    CHECK(out == NULL);
}

static void case_unlike_reduce(void)
{
    float mine[RANKS] = {0};
    bool odd = accel_rank(accel) == accel_size(accel) - 1;

    FAILS(accel_reduce(accel, mine, odd ? 3 : 2, ACCEL_F32, ACCEL_SUM),
          ACCEL_ERR_PROTO);
}

static void case_unlike_broadcast(void)
{
    float mine[RANKS] = {0};
    bool odd = accel_rank(accel) == accel_size(accel) - 1;

    FAILS(accel_comm_broadcast(accel_get_comm(accel), mine, odd ? 3 : 2,
                               ACCEL_F32, 0),
          ACCEL_ERR_PROTO);
}

/* test 39: 1 2 3 from rank 0, of which the others know neither shape nor
 * type */
static void case_copied(void)
{
    static const int one_two_three[] = {1, 2, 3};
    bool mine = accel_is_main(accel);
    void *copy;
    size_t n;

    OK(accel_broadcast_bytes(accel, mine ? one_two_three : NULL,
                             mine ? sizeof one_two_three : 0, 0, &copy, &n));
    CHECK(n == sizeof one_two_three);
    CHECK(memcmp(copy, one_two_three, n) == 0);
    free(copy);
}

/* test 38: shapes (r + 2, 10) become (W + 1, 10), padded behind and before */
static void case_pad(void)
{
    int rank = accel_rank(accel), size = accel_size(accel);
    size_t have = (size_t)rank + 2, n;
    float rows[16][10], seven = 7;
    void *out;

    for (size_t i = 0; i < have * 10; i++)
        rows[i / 10][i % 10] = (float)(rank * 1000) + (float)i;
    accel_rows_t mine = {rows, have, 10, ACCEL_F32};
    for (int first = 0; first < 2; first++) {
        OK(accel_pad_across(accel, &mine, first ? ACCEL_PAD_FIRST : 0,
                            first ? &seven : NULL, &out, &n));
        CHECK(n == (size_t)size + 1);
        const float *f = out;
        size_t rest = (n - have) * 10;
        for (size_t i = 0; i < n * 10; i++) {
            bool pad = first ? i < rest : i >= have * 10;
            size_t at = first ? i - rest : i;
            CHECK(f[i] == (pad ? (first ? 7.0F : 0.0F)
                               : (float)(rank * 1000) + (float)at));
        }
        free(out);
    }
    if (size > 1) { /* one rank differs */
        mine.width = rank == 1 ? 5 : 10;
        FAILS(accel_pad_across(accel, &mine, 0, NULL, &out, &n),
              ACCEL_ERR_PROTO);
        CHECK(out == NULL);
    }
}

static void case_bytes(void)
{
    int rank = accel_rank(accel), size = accel_size(accel);
    char mine[64], *all, *copy;
    size_t *offsets, n;
    double mean;

    memset(mine, 'a' + rank, sizeof mine);
    OK(accel_gather_bytes(accel, mine, (size_t)rank, (void **)&all, &offsets));
    for (int r = 0; r < size; r++) {
        CHECK(offsets[r + 1] - offsets[r] == (size_t)r);
        for (size_t i = offsets[r]; i < offsets[r + 1]; i++)
            CHECK(all[i] == 'a' + r);
    }
    free(all);
    free(offsets);
    for (int root = 0; root < size; root++) {
        bool me = rank == root;
        OK(accel_broadcast_bytes(accel, me ? "{\"epoch\": 3}" : NULL,
                                 me ? 12 : 0, root, (void **)&copy, &n));
        CHECK(n == 12 && strcmp(copy, "{\"epoch\": 3}") == 0);
        free(copy);
    }
    /* rank r has r + 1 samples of value r */
    OK(accel_mean(accel, rank * (rank + 1.0), rank + 1.0, &mean));
    double sum = 0, weight = 0;
    for (int r = 0; r < size; r++) {
        sum += r * (r + 1.0);
        weight += r + 1.0;
    }
    CHECK(mean == sum / weight);
    accel_range_t part;
    OK(accel_split_between(accel, 10, &part));
    uint64_t total = part.count;
    OK(accel_reduce(accel, &total, 1, ACCEL_U64, ACCEL_SUM));
    CHECK(total == 10);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"moved", case_moved},
    {"reduced", case_reduced},
    {"pad_one", case_pad_one},
    {"unlike_pad", case_unlike_pad},
    {"unlike_reduce", case_unlike_reduce},
    {"unlike_broadcast", case_unlike_broadcast},
    {"copied", case_copied},
    {"pad", case_pad},
    {"bytes", case_bytes},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        OK(accel_open(ACCEL_OPTIONS(.spec = NULL), &accel));
        cases[i].run();
        accel_printf(accel, "ok %s\n", argv[1]);
        accel_close(accel);
        return 0;
    }
    fprintf(stderr, "mp_results: no case %s\n", argc > 1 ? argv[1] : "");
    return 2;
}
