/* match: which receive gets which message; heads, chunks and channels. */
#include "unit/unit.h"

#include "net/match.h"

#include <limits.h>
#include <stdlib.h>

/* ---- on the wire -----------------------------------------------------------
 */

static void heads_come_back_as_they_were(void **state)
{
    unsigned char room[AX_WIRE_ROOM] = {0};
    static const struct {
        uint64_t bytes;
        uint32_t channel;
        size_t length;
        bool good;
    } cases[] = {
        {0, 0, sizeof(ax_wire_t), true},
        {1, 0, sizeof(ax_wire_t) + 1, true},
        {AX_WIRE_SHORT, 0, AX_WIRE_ROOM, true},
        {AX_WIRE_SHORT + 1, 1, sizeof(ax_wire_t), true},
        {UINT64_MAX, 32767, sizeof(ax_wire_t), true},
        {1, 0, sizeof(ax_wire_t), false},            /* cut */
        {1, 0, sizeof(ax_wire_t) + 2, false},        /* more than it says */
        {0, 0, sizeof(ax_wire_t) - 1, false},        /* no whole head */
        {0, 0, 0, false},                            /* nothing */
        {AX_WIRE_SHORT, 1, sizeof(ax_wire_t), false} /* short, by a channel */
        ,
        {UINT64_MAX, 0, sizeof(ax_wire_t), false},
        {AX_WIRE_SHORT + 1, 1, sizeof(ax_wire_t) + 1, false},
        {AX_WIRE_SHORT + 1, 0, AX_WIRE_ROOM + 1, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ax_wire_t head = ax_wire_head(7, 0xfedcba9876543210u, cases[i].bytes,
                                      cases[i].channel);
        ax_wire_t got;
        memcpy(room, &head, sizeof head);
        assert_int_equal(ax_wire_read(room, cases[i].length, &got),
                         cases[i].good);
        if (cases[i].good)
            assert_memory_equal(&got, &head, sizeof head);
    }
}

static void other_messages_are_none_of_ours(void **state)
{
    ax_wire_t head = ax_wire_head(1, 2, 0, 0), got;

    (void)state;
    for (size_t i = 0; i < sizeof head.magic; i++) {
        ax_wire_t bad = head;
        ((unsigned char *)&bad)[i] ^= 1;
        assert_false(ax_wire_read(&bad, sizeof bad, &got));
    }
    head.zero = 1;
    assert_false(ax_wire_read(&head, sizeof head, &got));
}

/* MPI counts in ints; ours are 64 bits wide. */
static void chunks_make_up_any_length(void **state)
{
    static const uint64_t lengths[] = {0,
                                       1,
                                       ((uint64_t)1 << 30) - 1,
                                       (uint64_t)1 << 30,
                                       INT_MAX,
                                       2147483648,
                                       4294967299u,
                                       3 * ((uint64_t)1 << 30)};
    const size_t most = (size_t)1 << 30;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        uint64_t at = 0;
        size_t chunks = 0, bytes;
        while ((bytes = ax_wire_chunk(lengths[i], at, most)) > 0) {
            assert_true(bytes <= INT_MAX);
            at += bytes;
            chunks++;
        }
        assert_int_equal(at, lengths[i]);
        assert_int_equal(chunks, (lengths[i] + most - 1) / most);
        assert_int_equal(ax_wire_chunk(lengths[i], UINT64_MAX, most), 0);
    }
}

static void channels_go_round_and_leave_out_that_of_heads(void **state)
{
    (void)state;
    assert_int_equal(ax_wire_channel(0, 32767), 1);
    assert_int_equal(ax_wire_channel(32766, 32767), 32767);
    assert_int_equal(ax_wire_channel(32767, 32767), 1);
    assert_int_equal(ax_wire_channel(UINT32_MAX, INT_MAX), 2);
    for (uint32_t turn = 0; turn < 100000; turn += 7) {
        uint32_t channel = ax_wire_channel(turn, 32767);
        assert_true(channel >= 1 && channel <= 32767);
    }
}

/* ---- queues ----------------------------------------------------------------
 */

static void keep(ax_match_t *match, uint64_t tag, int source)
{
    uint32_t data = (uint32_t)tag;
    ax_wire_t head = ax_wire_head(1, tag, sizeof data, 0);

    assert_true(ax_match_keep(match, &head, source, &data));
}

static void the_oldest_message_that_fits_is_taken(void **state)
{
    static const struct {
        uint64_t tag, mask;
        int source; /* -1: none */
    } cases[] = {
        {0x12, UINT64_MAX, 1},
        {0x12, UINT64_MAX, 3},
        {0x12, UINT64_MAX, -1},
        {0x10, 0xf0, 4},
        {0, 0, 0},
        {0, 0, 2},
        {0, 0, -1},
    };
    ax_waiting_t waiting[ARRAY_SIZE(cases)];
    ax_match_t match;

    (void)state;
    ax_match_init(&match);
    keep(&match, 0x21, 0);
    keep(&match, 0x12, 1);
    keep(&match, 0x33, 2);
    keep(&match, 0x12, 3);
    keep(&match, 0x1f, 4);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        waiting[i] = (ax_waiting_t){.tag = cases[i].tag, .mask = cases[i].mask};
        ax_arrival_t *got = ax_match_post(&match, &waiting[i]);
        assert_int_equal(got ? got->source : -1, cases[i].source);
        if (got) {
            uint32_t data;
            memcpy(&data, got->data, sizeof data);
            assert_int_equal(data, got->head.tag);
        }
        free(got);
    }
    /* both ends of the queue still hold after the last was taken */
    assert_true(ax_match_cancel(&match, &waiting[6]));
    keep(&match, 0x77, 5);
    ax_waiting_t late = {.tag = 0x77, .mask = UINT64_MAX};
    ax_arrival_t *got = ax_match_post(&match, &late);
    assert_non_null(got);
    free(got);
    ax_match_fini(&match);
}

static void the_oldest_receive_that_fits_gets_it(void **state)
{
    ax_waiting_t exact = {.tag = 0x500000001, .mask = UINT64_MAX};
    ax_waiting_t any = {.tag = 0x500000000, .mask = UINT64_MAX << 32};
    ax_waiting_t again = exact;
    ax_match_t match;

    (void)state;
    ax_match_init(&match);
    assert_null(ax_match_post(&match, &exact));
    assert_null(ax_match_post(&match, &any));
    assert_null(ax_match_post(&match, &again));
    assert_null(ax_match_arrive(&match, 0x600000001)); /* a high bit differs */
    assert_ptr_equal(ax_match_arrive(&match, 0x500000001), &exact);
    assert_ptr_equal(ax_match_arrive(&match, 0x500000001), &any);
    assert_ptr_equal(ax_match_arrive(&match, 0x500000001), &again);
    assert_null(ax_match_arrive(&match, 0x500000001));
    ax_match_fini(&match);
}

static void a_receive_can_be_called_back(void **state)
{
    ax_waiting_t w[3];
    ax_match_t match;

    (void)state;
    ax_match_init(&match);
    for (int i = 0; i < 3; i++) {
        w[i] = (ax_waiting_t){.tag = (uint64_t)i, .mask = UINT64_MAX};
        assert_null(ax_match_post(&match, &w[i]));
    }
    assert_true(ax_match_cancel(&match, &w[2])); /* the last */
    assert_false(ax_match_cancel(&match, &w[2]));
    assert_true(ax_match_cancel(&match, &w[0])); /* the first */
    assert_null(ax_match_arrive(&match, 0));
    assert_null(ax_match_post(&match, &w[0])); /* behind the last one left */
    assert_ptr_equal(ax_match_arrive(&match, 1), &w[1]);
    assert_ptr_equal(ax_match_arrive(&match, 0), &w[0]);
    assert_false(ax_match_cancel(&match, &w[0]));
    ax_match_fini(&match);
}

/* Any order of posting and arriving pairs them as two sorted lists would. */
static void each_message_goes_to_one_receive(void **state)
{
    enum { COUNT = 400, TAGS = 5 };
    static ax_waiting_t waiting[COUNT];
    unsigned seed = 7;
    int posted = 0, sent = 0, paired = 0, next_of[TAGS] = {0};
    ax_match_t match;

    (void)state;
    ax_match_init(&match);
    while (posted < COUNT || sent < COUNT) {
        seed = seed * 1103515245 + 12345;
        bool post = (seed >> 16 & 1) != 0;
        uint64_t tag = (uint64_t)((post ? posted : sent) % TAGS);
        if (post && posted < COUNT) {
            waiting[posted] = (ax_waiting_t){.tag = tag, .mask = UINT64_MAX};
            ax_arrival_t *got = ax_match_post(&match, &waiting[posted++]);
            if (got)
                assert_int_equal(got->source, next_of[tag]++);
            paired += got != NULL;
            free(got);
        } else if (!post && sent < COUNT) {
            ax_waiting_t *got = ax_match_arrive(&match, tag);
            if (got)
                assert_ptr_equal(got, &waiting[next_of[tag] * TAGS + (int)tag]);
            if (got)
                next_of[tag]++;
            else
                keep(&match, tag, sent / TAGS);
            paired += got != NULL;
            sent++;
        }
    }
    assert_int_equal(paired, COUNT);
    ax_match_fini(&match);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_come_back_as_they_were),
        cmocka_unit_test(other_messages_are_none_of_ours),
        cmocka_unit_test(chunks_make_up_any_length),
        cmocka_unit_test(channels_go_round_and_leave_out_that_of_heads),
        cmocka_unit_test(the_oldest_message_that_fits_is_taken),
        cmocka_unit_test(the_oldest_receive_that_fits_gets_it),
        cmocka_unit_test(a_receive_can_be_called_back),
        cmocka_unit_test(each_message_goes_to_one_receive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
