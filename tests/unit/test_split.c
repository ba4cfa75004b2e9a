/* split: parts of a communicator; ranks are threads. */
#include "unit/unit.h"

#include "multi/sweep.h"
#include "unit/ranks.h"

#include <fcntl.h>

static const char *const cyclic[] = {"a", "b", "a", "b", "a", "b", "a", "b"};
static const char *const uneven[] = {"a", "b", "b", "c", "b", "c"};

/* On one node, and where the ranks lie on several. */
static void on_both(struct world *w, const char *const *nodes)
{
    w->nodes = NULL;
    run_world(w);
    w->nodes = nodes;
    if (WITH_UCX)
        run_world(w);
}

static int sum_of(accel_comm_t *comm, int mine)
{
    int sum = mine;

    CHECK(accel_comm_allreduce(comm, &sum, &sum, 1, ACCEL_I32, ACCEL_SUM) ==
          ACCEL_OK);
    return sum;
}

/* ---- who is where ---------------------------------------------------------
 */

/* One line a case: colors and keys of ranks 0.., then the ranks of each part
 * in their new order, parts by color. '-' is no part. */
static const struct {
    const char *name, *colors, *keys, *parts[3];
} cases[] = {
    {"one part", "000000", "000000", {"012345"}},
    {"reversed", "000000", "543210", {"543210"}},
    {"odd and even", "010101", "000000", {"024", "135"}},
    {"each its own", "012---", "000000", {"0", "1", "2"}},
    {"equal keys keep the order", "000000", "110011", {"230145"}},
    {"a gap in the colors", "002200", "000000", {"0145", "", "23"}},
    {"nobody", "------", "000000", {NULL}},
    {"one is left out", "00-000", "987654", {"54310"}},
};

static void check_part(rank_of_t *me, accel_comm_t *part, const char *order)
{
    int size = (int)strlen(order), sum = 0;

    CHECK(accel_comm_size(part) == size);
    CHECK(order[accel_comm_rank(part)] == '0' + me->rank);
    for (int i = 0; i < size; i++)
        sum += order[i] - '0';
    CHECK(sum_of(part, me->rank) == sum);
    for (int root = 0; root < size; root++) {
        int who = me->rank;
        CHECK(accel_comm_broadcast(part, &who, 1, ACCEL_I32, root) == ACCEL_OK);
        CHECK(who == order[root] - '0');
    }
}

static void split_as_the_table(rank_of_t *me)
{
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char color = cases[i].colors[me->rank];
        accel_comm_t *part = (void *)me;
        CHECK(accel_comm_split(me->comm, color == '-' ? -1 : color - '0',
                               cases[i].keys[me->rank] - '0',
                               &part) == ACCEL_OK);
        CHECK((part == NULL) == (color == '-'));
        if (part)
            check_part(me, part, cases[i].parts[color - '0']);
        CHECK(sum_of(me->comm, 1) == 6);
        accel_comm_close(part);
    }
}

static void parts_are_as_colors_and_keys_say(void **state)
{
    struct world w = {.size = 6, .run = split_as_the_table};

    (void)state;
    on_both(&w, uneven);
}

/* Any int is a key, and any that is not negative a color. */
static void split_at_the_limits(rank_of_t *me)
{
    accel_comm_t *part;

    CHECK(accel_comm_split(me->comm, me->rank ? INT32_MAX : INT32_MIN,
                           me->rank == 1 ? INT32_MAX : INT32_MIN,
                           &part) == ACCEL_OK);
    CHECK((part == NULL) == (me->rank == 0));
    if (part)
        CHECK(accel_comm_rank(part) == (me->rank == 1));
    accel_comm_close(part);
}

static void colors_and_keys_may_be_any(void **state)
{
    struct world w = {.size = 3, .run = split_at_the_limits};

    (void)state;
    run_world(&w);
}

static void given_parts(rank_of_t *me)
{
    accel_comm_t *node, *across;
    const char *const *at = me->world->nodes;
    int here = 0, before = 0;

    for (int r = 0; r < me->world->size; r++) {
        bool same = !at || strcmp(at[r], at[me->rank]) == 0;
        here += same;
        before += same && r < me->rank;
    }
    CHECK(accel_comm_split_node(me->comm, &node) == ACCEL_OK);
    CHECK(accel_comm_split_across(me->comm, &across) == ACCEL_OK);
    CHECK(accel_comm_size(node) == here && accel_comm_rank(node) == before);
    CHECK(sum_of(node, 1) == here);
    int same_place = sum_of(across, 1);
    CHECK(same_place == accel_comm_size(across));
    /* b has three ranks, c two, a one */
    static const int places[] = {3, 2, 1};
    CHECK(same_place == (at ? places[before] : 1));
    int place = before * accel_comm_size(across);
    CHECK(sum_of(across, before) == place);
    accel_comm_close(node);
    accel_comm_close(across);
}

static void nodes_and_across_are_given(void **state)
{
    struct world w = {.size = 6, .run = given_parts};

    (void)state;
    on_both(&w, uneven);
}

/* ---- they are communicators like any other --------------------------------
 */

static void sweep_of_parts(rank_of_t *me)
{
    accel_comm_t *part;

    CHECK(accel_comm_split(me->comm, me->rank / 3, -me->rank, &part) ==
          ACCEL_OK);
    sweep(part, true);
    accel_comm_close(part);
}

static void all_operations_work_in_parts(void **state)
{
    struct world w = {.size = 6, .run = sweep_of_parts};

    (void)state;
    on_both(&w, uneven);
}

/* Parts of parts, closed in another order than they were opened; each has
 * memory of its own. */
static void nested(rank_of_t *me)
{
    accel_comm_t *half, *pair;
    void *heaps[3];

    CHECK(accel_comm_split(me->comm, me->rank / 4, 0, &half) == ACCEL_OK);
    CHECK(accel_comm_split(half, me->rank / 2 % 2, 0, &pair) == ACCEL_OK);
    accel_comm_t *all[] = {me->comm, half, pair};
    for (int k = 0; k < 3; k++) {
        CHECK(accel_alloc(all[k], 100000, &heaps[k]) == ACCEL_OK);
        memset(heaps[k], 1 << k, 100000);
    }
    /* they are not each other's heap, and both ways give the sum */
    for (int k = 0; k < 3; k++)
        for (int h = 0; h < 3; h++) {
            uint8_t *heap = heaps[h];
            memset(heap, 1, 100000);
            CHECK(accel_comm_allreduce(all[k], heap, heap, 100000, ACCEL_U8,
                                       ACCEL_SUM) == ACCEL_OK);
            CHECK(heap[0] == 8 >> k && heap[99999] == 8 >> k);
        }
    CHECK(accel_free(half, heaps[2]) == ACCEL_ERR_ARG);
    CHECK(accel_free(pair, heaps[2]) == ACCEL_OK);
    accel_comm_close(half);
    CHECK(sum_of(pair, 1) == 2);
    CHECK(sum_of(me->comm, 1) == 8);
    accel_comm_close(pair);
}

static void parts_of_parts_close_in_any_order(void **state)
{
    struct world w = {.size = 8, .run = nested};

    (void)state;
    on_both(&w, cyclic);
}

/* The parent may go first. */
static void parent_first(rank_of_t *me)
{
    accel_comm_t *part;

    CHECK(accel_comm_split(me->comm, 0, -me->rank, &part) == ACCEL_OK);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    accel_comm_close(me->comm);
    me->comm = NULL;
    CHECK(sum_of(part, me->rank) == 6);
    CHECK(accel_comm_rank(part) == 3 - me->rank);
    accel_comm_close(part);
}

static void the_parent_may_close_first(void **state)
{
    struct world w = {.size = 4, .run = parent_first};

    (void)state;
    on_both(&w, cyclic);
}

/* ---- wrong uses, and faults ------------------------------------------------
 */

static void wrong_uses(rank_of_t *me)
{
    accel_comm_t *part = (void *)me;

    CHECK(accel_comm_split(me->comm, 0, 0, me->rank == 1 ? NULL : &part) ==
          ACCEL_ERR_ARG);
    CHECK(strstr(accel_last_error()->text, "split: out is NULL") != NULL);
    if (me->rank != 1)
        CHECK(part == NULL &&
              strstr(accel_last_error()->text, "rank 1 on ") != NULL);
    CHECK(sum_of(me->comm, 1) == 4); /* it can still be used */
    part = (void *)me;
    CHECK(accel_comm_split(NULL, 0, 0, &part) == ACCEL_ERR_ARG && !part);
    part = (void *)me;
    CHECK(accel_comm_split_node(NULL, &part) == ACCEL_ERR_ARG && !part);
    part = (void *)me;
    CHECK(accel_comm_split_across(NULL, &part) == ACCEL_ERR_ARG && !part);
    /* another operation at the same place */
    accel_status_t st = me->rank == 2 ? accel_comm_barrier(me->comm)
                                      : accel_comm_split(me->comm, 0, 0, &part);
    CHECK(st == ACCEL_ERR_PROTO && !part);
    CHECK(strstr(accel_last_error()->text, "rank 2: barrier #") != NULL);
    CHECK(strstr(accel_last_error()->text, ": accel_comm_split #") != NULL);
}

static void wrong_uses_are_told(void **state)
{
    struct world w = {.size = 4, .run = wrong_uses};

    (void)state;
    on_both(&w, cyclic);
}

/* A fault of a part: its texts name ranks by their number in the job, and
 * others do not hear of it. */
static void fault_of_a_part(rank_of_t *me)
{
    accel_comm_t *part;
    float x = 1;

    CHECK(accel_comm_split(me->comm, me->rank / 4, 0, &part) == ACCEL_OK);
    if (me->rank == 6) {
        accel_comm_close(part);
    } else if (me->rank > 3) {
        CHECK(accel_comm_allreduce(part, &x, &x, 1, ACCEL_F32, ACCEL_SUM) ==
              ACCEL_ERR_PEER);
        CHECK(strstr(accel_last_error()->text, "rank 6 on ") != NULL);
        CHECK(strstr(accel_last_error()->text, "has left") != NULL);
        CHECK(accel_comm_barrier(part) == ACCEL_ERR_PEER);
        accel_comm_close(part);
    } else {
        CHECK(sum_of(part, me->rank) == 6);
        accel_comm_close(part);
    }
    CHECK(sum_of(me->comm, 1) == 8);
    CHECK(accel_comm_split(me->comm, me->rank / 4, 0, &part) == ACCEL_OK);
    accel_status_t st = accel_comm_allreduce(
        part, &x, &x, 1, ACCEL_F32, me->rank == 5 ? ACCEL_MAX : ACCEL_SUM);
    CHECK(st == (me->rank > 3 ? ACCEL_ERR_PROTO : ACCEL_OK));
    if (me->rank > 3) {
        CHECK(strstr(accel_last_error()->text, "rank 5: all-reduce") != NULL);
        CHECK(strstr(accel_last_error()->text, "ranks 4 6-7: all") ||
              strstr(accel_last_error()->text, "ranks 4 6 7: all"));
    }
    CHECK(sum_of(me->comm, 1) == 8);
    accel_comm_close(part);
}

static void faults_stay_in_their_part(void **state)
{
    struct world w = {.size = 8, .run = fault_of_a_part};

    (void)state;
    on_both(&w, cyclic);
}

/* A communicator that has failed has no parts. */
static void after_a_fault(rank_of_t *me)
{
    accel_comm_t *part = (void *)me;
    float x[2] = {1, 1};

    CHECK(accel_comm_allreduce(me->comm, x, x, (size_t)me->rank + 1, ACCEL_F32,
                               ACCEL_SUM) == ACCEL_ERR_PROTO);
    CHECK(accel_comm_split(me->comm, 0, 0, &part) == ACCEL_ERR_PROTO);
    CHECK(part == NULL);
}

static void no_parts_after_a_fault(void **state)
{
    struct world w = {.size = 2, .run = after_a_fault};

    (void)state;
    run_world(&w);
}

/* Nothing is left, however often. */
static int open_files(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void split_often(rank_of_t *me)
{
    int before = 0;

    for (int i = 0; i < 40; i++) {
        accel_comm_t *part;
        CHECK(accel_comm_split(me->comm, me->rank % 2, i, &part) == ACCEL_OK);
        CHECK(sum_of(part, 1) == 2);
        accel_comm_close(part);
        /* all have closed theirs, and nobody opens one */
        CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
        if (i == 2)
            before = open_files();
        if (i == 39)
            CHECK(open_files() == before);
        CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    }
}

static void nothing_is_left_of_parts(void **state)
{
    struct world w = {.size = 4, .run = split_often};

    (void)state;
    run_world(&w);
}

/* ---- alone ------------------------------------------------------------------
 */

#define PLACE 3 /* elements before the only part, and what they are */
#define GAP 77

/* One part behind a gap, sent from elsewhere or from where it belongs. */
static void try_alone(accel_comm_t *c, bool gather, bool in_place)
{
    const size_t counts[] = {2}, places[] = {PLACE};
    accel_parts_t parts = {.counts = counts, .places = places, .mine = 2};
    static const int want[] = {GAP, GAP, GAP, 1, 2, GAP};
    int recv[] = {GAP, GAP, GAP, GAP, GAP, GAP}, other[] = {1, 2};
    int *send = in_place ? recv + PLACE : other;

    memcpy(send, other, sizeof other);
    CHECK((gather ? accel_comm_gatherv(c, send, recv, &parts, ACCEL_I32, 0)
                  : accel_comm_allgatherv(c, send, recv, &parts, ACCEL_I32)) ==
          ACCEL_OK);
    CHECK(memcmp(recv, want, sizeof want) == 0);
}

static void gather_alone(rank_of_t *me)
{
    accel_comm_t *part = NULL;

    if (me->world->size > 1)
        CHECK(accel_comm_split(me->comm, me->rank, 0, &part) == ACCEL_OK);
    for (int k = 0; k < 4; k++)
        try_alone(part ? part : me->comm, k & 1, k & 2);
    accel_comm_close(part);
}

static void one_rank_has_its_place_too(void **state)
{
    (void)state;
    run_world(&(struct world){.size = 1, .run = gather_alone});
    on_both(&(struct world){.size = 3, .run = gather_alone}, uneven);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_as_colors_and_keys_say),
        cmocka_unit_test(colors_and_keys_may_be_any),
        cmocka_unit_test(nodes_and_across_are_given),
        cmocka_unit_test(all_operations_work_in_parts),
        cmocka_unit_test(parts_of_parts_close_in_any_order),
        cmocka_unit_test(the_parent_may_close_first),
        cmocka_unit_test(wrong_uses_are_told),
        cmocka_unit_test(faults_stay_in_their_part),
        cmocka_unit_test(no_parts_after_a_fault),
        cmocka_unit_test(nothing_is_left_of_parts),
        cmocka_unit_test(one_rank_has_its_place_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
