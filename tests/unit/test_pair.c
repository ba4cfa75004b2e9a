/* comm: messages from rank to rank; ranks are threads. */
#include "unit/unit.h"

#include "unit/ranks.h"

#include <time.h>

static const char *const one[] = {"a", "a", "a", "a", "a"};
static const char *const two[] = {"a", "b", "a", "b", "b"};
static const char *const three[] = {"a", "b", "c", "b", "a"};
static const char *const *const layouts[] = {one, two, three};

static void everywhere(rank_fn run, int least, int most, const char *spec)
{
    for (int size = least; size <= most; size++)
        for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
            struct world w = {
                .size = size, .nodes = layouts[i], .spec = spec, .run = run};
            if (i > 1 && size < 3)
                continue; /* the same as the one before */
            if (i && !WITH_UCX)
                print_message("%d ranks, layout %zu: not without UCX: %s\n",
                              size, i, WHY_NOT);
            else
                run_world(&w);
        }
}

static unsigned char byte_of(int from, int to, int tag, size_t i)
{
    return (unsigned char)(from * 31 + to * 7 + tag * 3 + (int)(i % 251));
}

static unsigned char *message(int from, int to, int tag, size_t bytes)
{
    unsigned char *m = malloc(bytes + 1);

    CHECK(m != NULL);
    for (size_t i = 0; i < bytes; i++)
        m[i] = byte_of(from, to, tag, i);
    return m;
}

static void send_one(accel_comm_t *c, int to, int tag, size_t bytes)
{
    int me = accel_comm_rank(c);
    unsigned char *m = message(me, to, tag, bytes);

    CHECK(accel_comm_send(c, bytes ? m : NULL, bytes, ACCEL_U8, to, tag) ==
          ACCEL_OK);
    free(m);
}

/* `room` bytes, of which `bytes` come. */
static void recv_one(accel_comm_t *c, int from, int tag, size_t bytes,
                     size_t room)
{
    int me = accel_comm_rank(c);
    unsigned char *m = malloc(room + 1);

    CHECK(m != NULL);
    memset(m, 0xee, room + 1);
    CHECK(accel_comm_recv(c, room ? m : NULL, room, ACCEL_U8, from, tag) ==
          ACCEL_OK);
    for (size_t i = 0; i < bytes; i++)
        CHECK(m[i] == byte_of(from, me, tag, i));
    for (size_t i = bytes; i <= room; i++)
        CHECK(m[i] == 0xee);
    free(m);
}

/* ---- all pairs, all sizes ---------------------------------------------------
 */

/* Around what goes along with a letter, and around the ring of a post. */
static const size_t sizes[] = {0,     1,     1023,   1024,    1025,
                               65535, 65536, 200001, 3145728, 5};

static void all_pairs(rank_of_t *me)
{
    accel_comm_t *c = me->comm;

    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
        for (int from = 0; from < me->world->size; from++)
            for (int to = 0; to < me->world->size; to++) {
                int tag = (int)s + 100 * from;
                if (me->rank == from)
                    send_one(c, to, tag, sizes[s]);
                if (me->rank == to)
                    recv_one(c, from, tag, sizes[s], sizes[s] + s % 3);
            }
    CHECK(accel_comm_barrier(c) == ACCEL_OK);
}

static void any_size_reaches_any_rank(void **state)
{
    (void)state;
    everywhere(all_pairs, 1, 5, NULL);
}

/* ---- no order makes them wait for ever --------------------------------------
 */

static void ring(rank_of_t *me)
{
    int size = me->world->size, right = (me->rank + 1) % size;
    int left = (me->rank + size - 1) % size;

    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        unsigned char *out = message(me->rank, right, 9, sizes[s]);
        unsigned char *in = malloc(sizes[s] + 1);
        CHECK(in != NULL);
        accel_outgoing_t send = {out, sizes[s], ACCEL_U8, right, 9};
        accel_incoming_t recv = {in, sizes[s], ACCEL_U8, left, 9};
        CHECK(accel_comm_sendrecv(me->comm, &send, &recv) == ACCEL_OK);
        for (size_t i = 0; i < sizes[s]; i++)
            CHECK(in[i] == byte_of(left, me->rank, 9, i));
        free(out);
        free(in);
    }
}

/* All send first, and to each other. */
static void all_send_first(rank_of_t *me)
{
    int size = me->world->size;

    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        for (int to = 0; to < size; to++)
            if (to != me->rank)
                send_one(me->comm, to, 5, sizes[s]);
        for (int from = size - 1; from >= 0; from--)
            if (from != me->rank)
                recv_one(me->comm, from, 5, sizes[s], sizes[s]);
    }
}

/* Tags are received in another order; those that are alike in theirs. */
static void other_order(rank_of_t *me)
{
    accel_comm_t *c = me->comm;

    if (me->rank == 0) {
        for (int i = 0; i < 4; i++)
            send_one(c, 1, i, 1000 * (size_t)i + 5);
        send_one(c, 1, 7, 3000000);
        for (int i = 0; i < 3; i++)
            CHECK(accel_comm_send(c, &i, 1, ACCEL_I32, 1, 8) == ACCEL_OK);
    }
    if (me->rank == 1) {
        recv_one(c, 0, 7, 3000000, 3000000);
        for (int i = 3; i >= 0; i--)
            recv_one(c, 0, i, 1000 * (size_t)i + 5, 4000);
        for (int i = 0; i < 3; i++) {
            int32_t got = -1;
            CHECK(accel_comm_recv(c, &got, 1, ACCEL_I32, 0, 8) == ACCEL_OK);
            CHECK(got == i);
        }
    }
    CHECK(accel_comm_barrier(c) == ACCEL_OK);
}

static void order_does_not_matter(void **state)
{
    (void)state;
    everywhere(ring, 1, 5, NULL);
    everywhere(all_send_first, 2, 5, NULL);
    everywhere(other_order, 2, 3, NULL);
}

/* Collectives in between, and sub-communicators of their own. */
static void among_others(rank_of_t *me)
{
    accel_comm_t *part = NULL;
    float x = 1;

    CHECK(accel_comm_split(me->comm, me->rank % 2, me->rank, &part) ==
          ACCEL_OK);
    for (int i = 0; i < 20; i++) {
        int there = me->rank ^ 2;
        if (me->rank < 2)
            send_one(me->comm, there, 1, 100);
        else
            recv_one(me->comm, there, 1, 100, 100);
        CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32, ACCEL_MAX) ==
              ACCEL_OK);
        if (accel_comm_rank(part) == 0)
            send_one(part, 1, 1, 50);
        else
            recv_one(part, 0, 1, 50, 50);
        CHECK(accel_comm_barrier(part) == ACCEL_OK);
    }
    accel_comm_close(part);
}

static void they_keep_apart(void **state)
{
    (void)state;
    everywhere(among_others, 4, 4, NULL);
}

/* ---- misfits ----------------------------------------------------------------
 */

static void misfits(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    const char *text = accel_last_error()->text;
    float x[2000] = {0};

    /* longer than wanted; in one piece, and in a letter with bytes to come */
    for (size_t n = 5; n < 2000; n += 1000) {
        char words[64];
        if (me->rank == 0)
            CHECK(accel_comm_send(c, x, n, ACCEL_F32, 1, 3) == ACCEL_ERR_PROTO);
        else
            CHECK(accel_comm_recv(c, x, 4, ACCEL_F32, 0, 3) == ACCEL_ERR_PROTO);
        snprintf(words, sizeof words, "sends %zu x f32 with tag 3", n);
        CHECK(strstr(text, "comm: rank 0 on a ") == text);
        CHECK(strstr(text, words) != NULL);
        CHECK(strstr(text, "and rank 1 on ") != NULL);
        CHECK(strstr(text, "receives only 4 x f32") != NULL);
    }
    if (me->rank == 0)
        CHECK(accel_comm_send(c, x, 8, ACCEL_I32, 1, 4) == ACCEL_ERR_PROTO);
    else
        CHECK(accel_comm_recv(c, x, 8, ACCEL_F32, 0, 4) == ACCEL_ERR_PROTO);
    CHECK(strstr(text, "sends 8 x i32 with tag 4") != NULL);
    CHECK(strstr(text, "receives 8 x f32") != NULL);
    /* life goes on */
    if (me->rank == 0)
        send_one(c, 1, 3, 20);
    else
        recv_one(c, 0, 3, 20, 20);
    CHECK(accel_comm_barrier(c) == ACCEL_OK);
}

/* The message was taken in before it was wanted: its sender hears later. */
static void late_misfit(rank_of_t *me)
{
    const char *text = accel_last_error()->text;
    float x[8] = {0};

    if (me->rank == 0) {
        CHECK(accel_comm_send(me->comm, x, 8, ACCEL_F32, 1, 1) == ACCEL_OK);
        /* the fault may come before the answer is looked at */
        accel_status_t st = accel_comm_send(me->comm, x, 8, ACCEL_F32, 1, 2);
        CHECK(st == ACCEL_OK || st == ACCEL_ERR_PROTO);
    } else {
        CHECK(accel_comm_recv(me->comm, x, 8, ACCEL_F32, 0, 2) == ACCEL_OK);
        CHECK(accel_comm_recv(me->comm, x, 7, ACCEL_F32, 0, 1) ==
              ACCEL_ERR_PROTO);
        CHECK(strstr(text, "receives only 7 x f32") != NULL);
    }
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PROTO);
    CHECK(strstr(text, "sends 8 x f32 with tag 1") != NULL);
}

static void misfits_are_told_to_both(void **state)
{
    (void)state;
    everywhere(misfits, 2, 2, NULL);
    everywhere(late_misfit, 2, 2, NULL);
}

/* ---- wrong uses -------------------------------------------------------------
 */

static void is_wrong(accel_status_t got, const char *text)
{
    CHECK(got == ACCEL_ERR_ARG);
    CHECK(strstr(accel_last_error()->text, text) != NULL);
}

static void wrong_uses(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    int me_too = me->rank, size = me->world->size;
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    accel_outgoing_t out = {x, 4, ACCEL_F32, me_too, 1};
    accel_incoming_t in = {x + 1, 2, ACCEL_F32, me_too, 1};

    is_wrong(accel_comm_send(c, x, 1, ACCEL_F32, size, 0), "destination");
    is_wrong(accel_comm_send(c, x, 1, ACCEL_F32, -1, 0), "destination -1");
    is_wrong(accel_comm_send(c, x, 1, ACCEL_F32, 0, -1), "tag -1");
    is_wrong(accel_comm_send(c, NULL, 1, ACCEL_F32, 0, 0), "1 x f32 at NULL");
    is_wrong(accel_comm_send(c, x, 1, (accel_dtype_t)99, 0, 0), "type");
    is_wrong(accel_comm_send(c, x, SIZE_MAX / 2, ACCEL_F64, 0, 0), "memory");
    is_wrong(accel_comm_recv(c, x, 1, ACCEL_F32, size, 0), "source");
    is_wrong(accel_comm_recv(c, NULL, 1, ACCEL_F32, 0, 0), "1 x f32 at NULL");
    is_wrong(accel_comm_recv(c, x, 1, ACCEL_F32, me_too, 0), "for ever");
    is_wrong(accel_comm_sendrecv(c, &out, &in), "overlap");
    is_wrong(accel_comm_sendrecv(c, &out, NULL), "receive (NULL)");
    is_wrong(accel_comm_sendrecv(c, NULL, &in), "send (NULL)");
    /* to oneself: a copy, in order */
    CHECK(accel_comm_send(c, x, 4, ACCEL_F32, me_too, 6) == ACCEL_OK);
    CHECK(accel_comm_send(c, x + 1, 1, ACCEL_F32, me_too, 6) == ACCEL_OK);
    CHECK(accel_comm_recv(c, y, 4, ACCEL_F32, me_too, 6) == ACCEL_OK);
    CHECK(memcmp(x, y, sizeof x) == 0);
    CHECK(accel_comm_recv(c, y, 4, ACCEL_F32, me_too, 6) == ACCEL_OK);
    CHECK(y[0] == 2 && y[1] == 2);
    in.data = y;
    in.count = 4;
    CHECK(accel_comm_sendrecv(c, &out, &in) == ACCEL_OK);
    CHECK(accel_comm_barrier(c) == ACCEL_OK);
}

static void wrong_uses_are_told(void **state)
{
    (void)state;
    everywhere(wrong_uses, 1, 3, NULL);
    assert_int_equal(accel_comm_send(NULL, NULL, 0, ACCEL_U8, 0, 0),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_comm_recv(NULL, NULL, 0, ACCEL_U8, 0, 0),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_comm_sendrecv(NULL, NULL, NULL), ACCEL_ERR_ARG);
}

/* ---- the other one does not come --------------------------------------------
 */

static void wait_for_world(rank_of_t *me)
{
    pthread_barrier_wait(&me->world->barrier);
}

static void too_late(rank_of_t *me)
{
    const char *text = accel_last_error()->text;
    float x[2000] = {0};

    if (me->rank == 0) {
        CHECK(accel_comm_send(me->comm, x, 2000, ACCEL_F32, 1, 3) ==
              ACCEL_ERR_TIMEOUT);
        CHECK(strstr(text, "waited 3 s in send for rank 1 on ") != NULL);
        CHECK(strstr(text, "timeout=3") != NULL);
    }
    wait_for_world(me);
    CHECK(accel_comm_recv(me->comm, x, 2000, ACCEL_F32, 0, 3) != ACCEL_OK);
    wait_for_world(me);
}

static void nothing_comes(rank_of_t *me)
{
    const char *text = accel_last_error()->text;
    float x;

    if (me->rank == 1) {
        CHECK(accel_comm_recv(me->comm, &x, 1, ACCEL_F32, 0, 3) ==
              ACCEL_ERR_TIMEOUT);
        CHECK(strstr(text, "waited 3 s in receive for rank 0 on a") != NULL);
    }
    wait_for_world(me);
}

static void the_other_leaves(rank_of_t *me)
{
    const char *text = accel_last_error()->text;
    float x = 0;

    if (me->rank == 0) { /* both ways are there */
        CHECK(accel_comm_send(me->comm, &x, 1, ACCEL_F32, 1, 0) == ACCEL_OK);
        accel_comm_close(me->comm);
        me->comm = NULL;
        return;
    }
    CHECK(accel_comm_recv(me->comm, &x, 1, ACCEL_F32, 0, 0) == ACCEL_OK);
    CHECK(accel_comm_recv(me->comm, &x, 1, ACCEL_F32, 0, 0) == ACCEL_ERR_PEER);
    CHECK(strstr(text, "rank 0 on a has left") != NULL);
}

static void waits_end(void **state)
{
    (void)state;
    everywhere(too_late, 2, 2, "timeout=3");
    everywhere(nothing_comes, 2, 2, "timeout=3");
    everywhere(the_other_leaves, 2, 2, "timeout=60");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_size_reaches_any_rank),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(they_keep_apart),
        cmocka_unit_test(misfits_are_told_to_both),
        cmocka_unit_test(wrong_uses_are_told),
        cmocka_unit_test(waits_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
