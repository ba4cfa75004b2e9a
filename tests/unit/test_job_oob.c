/* job: ranks as threads over the out-of-band hook; what they agree on. */
#include "unit/unit.h"

#include "job/job_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX 8

/* An all-gather among the threads of one process. */
struct world {
    int size;
    pthread_barrier_t barrier;
    unsigned char *gathered;
    size_t bytes;
    int calls;     /* of rank 0 */
    int fail_call; /* this call returns 7 on every rank; -1: none */
    int swap_call; /* in this one, places 0 and 1 are swapped; -1: none */
    int junk_call; /* in this one, rank 1 sends junk; -1: none */
};

struct seat {
    struct world *world;
    int rank, calls;
    pthread_t thread;
    const char *spec, *node;
    int claim;                     /* the rank that it gives to the hook */
    size_t endpoint;               /* bytes that it publishes */
    bool cannot;                   /* takes part with an error */
    bool refuses;                  /* has no settings to open a job with */
    accel_status_t open, exchange; /* what came out */
    char text[512];
    int node_number, local_rank, local_size, nodes;
};

static int gather(void *context, const void *send, void *recv, size_t bytes)
{
    struct seat *seat = context;
    struct world *world = seat->world;
    int call = seat->calls++, place = seat->rank;

    if (seat->rank == 0) {
        world->bytes = bytes;
        world->gathered = malloc((size_t)world->size * bytes);
    }
    pthread_barrier_wait(&world->barrier);
    if (call == world->swap_call && place < 2)
        place = 1 - place;
    memcpy(world->gathered + (size_t)place * bytes, send, bytes);
    if (call == world->junk_call && seat->rank == 1)
        memset(world->gathered + bytes, 0xee, bytes);
    pthread_barrier_wait(&world->barrier);
    memcpy(recv, world->gathered, (size_t)world->size * bytes);
    pthread_barrier_wait(&world->barrier);
    if (seat->rank == 0)
        free(world->gathered);
    return call == world->fail_call ? 7 : 0;
}

static void note_failure(struct seat *seat)
{
    snprintf(seat->text, sizeof seat->text, "%s", accel_last_error()->text);
}

static void publish(struct seat *seat, accel_job_t *job)
{
    unsigned char endpoint[AX_JOB_ENDPOINT_MAX + 8];

    memset(endpoint, 'a' + seat->rank, sizeof endpoint);
    if (seat->cannot)
        seat->exchange = ax_job_exchange_error(
            job, ax_fail(ACCEL_ERR_NOMEM, "net: out of shared memory"));
    else
        seat->exchange = ax_job_exchange(job, endpoint, seat->endpoint);
    if (seat->exchange != ACCEL_OK)
        note_failure(seat);
}

static bool endpoints_are_right(struct seat *seat, accel_job_t *job,
                                const struct seat *seats)
{
    for (int r = 0; r < seat->world->size; r++) {
        size_t bytes;
        const unsigned char *got = ax_job_endpoint(job, r, &bytes);
        if (!got || bytes != seats[r].endpoint)
            return false;
        for (size_t i = 0; i < bytes; i++)
            if (got[i] != 'a' + r)
                return false;
    }
    return true;
}

static struct seat *all_seats;

static void *run_rank(void *arg)
{
    struct seat *seat = arg;
    accel_settings_t *settings = NULL;
    accel_job_t *job = NULL;
    accel_oob_t oob = {.rank = seat->claim,
                       .size = seat->world->size,
                       .node = seat->node,
                       .allgather = gather,
                       .context = seat};

    if (accel_settings_load(seat->spec, &settings) != ACCEL_OK)
        abort();
    seat->open =
        seat->refuses
            ? ax_job_refuse(&oob, ax_fail(ACCEL_ERR_ARG, "settings: x=y"))
            : accel_job_open(settings, &oob, &job);
    if (seat->open == ACCEL_OK) {
        seat->node_number = accel_job_node(job);
        seat->nodes = accel_job_nodes(job);
        seat->local_rank = accel_job_local_rank(job);
        seat->local_size = accel_job_local_size(job);
        publish(seat, job);
        if (seat->exchange == ACCEL_OK &&
            !endpoints_are_right(seat, job, all_seats))
            seat->exchange = ACCEL_ERR_CORRUPT;
    } else {
        note_failure(seat);
    }
    accel_job_close(job);
    accel_settings_free(settings);
    return NULL;
}

static void set_up(struct world *world, struct seat *seats, int size)
{
    *world = (struct world){
        .size = size, .fail_call = -1, .swap_call = -1, .junk_call = -1};
    for (int r = 0; r < size; r++)
        seats[r] = (struct seat){.world = world,
                                 .rank = r,
                                 .claim = r,
                                 .node = r % 2 ? "odd" : "even",
                                 .endpoint = (size_t)r * 10};
}

static void run_all(struct world *world, struct seat *seats)
{
    all_seats = seats;
    pthread_barrier_init(&world->barrier, NULL, (unsigned)world->size);
    for (int r = 0; r < world->size; r++)
        assert_int_equal(
            pthread_create(&seats[r].thread, NULL, run_rank, &seats[r]), 0);
    for (int r = 0; r < world->size; r++)
        pthread_join(seats[r].thread, NULL);
    pthread_barrier_destroy(&world->barrier);
}

/* Every rank has the same status and the same words. */
static void all_say(const struct world *world, const struct seat *seats,
                    accel_status_t status, const char *part)
{
    for (int r = 0; r < world->size; r++) {
        accel_status_t got =
            seats[r].open != ACCEL_OK ? seats[r].open : seats[r].exchange;
        if (got != status || !strstr(seats[r].text, part))
            fail_msg("rank %d: %s: %s", r, accel_status_name(got),
                     seats[r].text);
        assert_string_equal(seats[r].text, seats[0].text);
    }
}

static void threads_are_ranks(void **state)
{
    struct seat seats[MAX];
    struct world world;

    (void)state;
    for (int size = 1; size <= MAX; size++) {
        set_up(&world, seats, size);
        run_all(&world, seats);
        for (int r = 0; r < size; r++) {
            assert_int_equal(seats[r].open, ACCEL_OK);
            assert_int_equal(seats[r].exchange, ACCEL_OK);
            assert_int_equal(seats[r].node_number, r % 2);
            assert_int_equal(seats[r].nodes, size > 1 ? 2 : 1);
            assert_int_equal(seats[r].local_rank, r / 2);
            assert_int_equal(seats[r].local_size, (size + 1 - r % 2) / 2);
        }
    }
}

static void other_settings_are_named(void **state)
{
    struct seat seats[MAX];
    struct world world;

    (void)state;
    set_up(&world, seats, 5);
    for (int r = 0; r < 5; r++)
        seats[r].spec = "fp16";
    seats[3].spec = "bf16";
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_PROTO, "rank 3 on odd");
    all_say(&world, seats, ACCEL_ERR_PROTO, "precision is bf16, not fp16");

    /* the default against a value; two odd ones on two nodes */
    set_up(&world, seats, 6);
    seats[4].spec = seats[5].spec = "accumulate=4";
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_PROTO, "ranks 4 5 on even odd");
    all_say(&world, seats, ACCEL_ERR_PROTO, "accumulate is 4, not 1");

    /* no majority: rank 0 is the measure */
    set_up(&world, seats, 2);
    seats[0].spec = "seed=1";
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_PROTO, "rank 1 on odd");
    all_say(&world, seats, ACCEL_ERR_PROTO, "seed is 0, not 1");

    /* what may differ: how much is logged */
    set_up(&world, seats, 3);
    seats[1].spec = "log=error";
    run_all(&world, seats);
    for (int r = 0; r < 3; r++)
        assert_int_equal(seats[r].exchange, ACCEL_OK);
}

/* What the first of two ranks runs with, the second, and what both say. */
static const struct {
    const char *usual, *strange, *text;
} differences[] = {
    /* one number in two spellings is no difference */
    {"clip=1,seed=1", "clip=1.0,seed=2", ": seed is 2, not 1;"},
    {"clip=.5,seed=1", "clip=5e-1", ": seed is 0, not 1;"},
    {"accumulate=01,keep=2", "accumulate=1,keep=3", ": keep is 3, not 2;"},
    {"clip=1", "clip=1.5", ": clip is 1.5, not 1;"},
    /* commas in a value */
    {"checkpoint=/a,,b", "checkpoint=/a,,c", ": checkpoint is /a,c, not /a,b;"},
    {"checkpoint=/a,,seed=3", "seed=3,checkpoint=/a", ": seed is 3, not 0;"},
    /* what has no room is not taken for the default */
    {"resume=LONG,net=ucx", "resume=LONG", ": compare \"accel env\" on both;"},
    {"resume=LONG", "resume=no", ": compare \"accel env\" on both;"},
    {"resume=LONG,seed=2", "seed=1", ": seed is 1, not 2;"},
};

static void set_long(char *out, const char *spec)
{
    const char *word = strstr(spec, "LONG");
    int before = word ? (int)(word - spec) : (int)strlen(spec);

    sprintf(out, "%.*s", before, spec);
    if (!word)
        return;
    memset(out + before, 'x', AX_SUMMARY_MAX);
    strcpy(out + before + AX_SUMMARY_MAX, word + 4);
}

static void settings_are_compared_by_meaning(void **state)
{
    char usual[2 * AX_SUMMARY_MAX], strange[2 * AX_SUMMARY_MAX];
    struct seat seats[MAX];
    struct world world;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(differences); i++) {
        set_up(&world, seats, 2);
        set_long(usual, differences[i].usual);
        set_long(strange, differences[i].strange);
        seats[0].spec = usual;
        seats[1].spec = strange;
        run_all(&world, seats);
        all_say(&world, seats, ACCEL_ERR_PROTO, differences[i].text);
    }
    set_up(&world, seats, 2);
    seats[0].spec = "clip=1,accumulate=010";
    seats[1].spec = "clip=1.00,accumulate=10";
    run_all(&world, seats);
    assert_int_equal(seats[0].exchange, ACCEL_OK);
}

static void one_that_cannot_go_on_tells_all(void **state)
{
    struct seat seats[MAX];
    struct world world;

    (void)state;
    set_up(&world, seats, 4);
    seats[2].cannot = true;
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_NOMEM,
            "rank 2 on even: net: out of shared memory");

    set_up(&world, seats, 4);
    seats[1].refuses = true;
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_ARG, "job: rank 1 on odd: settings: x=y");
    set_up(&world, seats, 2);
    seats[0].refuses = seats[1].refuses = true;
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_ARG, "job: rank 0 on even: settings: x=y");
    set_up(&world, seats, 1); /* nobody to tell */
    seats[0].refuses = true;
    run_all(&world, seats);
    assert_string_equal(seats[0].text, "settings: x=y");

    set_up(&world, seats, 4);
    seats[1].endpoint = AX_JOB_ENDPOINT_MAX + 1;
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_ARG, "641 bytes");
}

static void a_faulty_hook_is_found_out(void **state)
{
    struct seat seats[MAX];
    struct world world;

    (void)state;
    for (int call = 0; call < 2; call++) {
        set_up(&world, seats, 3);
        world.fail_call = call;
        run_all(&world, seats);
        for (int r = 0; r < 3; r++)
            assert_int_equal(call ? seats[r].exchange : seats[r].open,
                             ACCEL_ERR_SYS);
        set_up(&world, seats, 3);
        world.swap_call = call;
        run_all(&world, seats);
        all_say(&world, seats, ACCEL_ERR_PROTO, "rank");
        set_up(&world, seats, 3);
        world.junk_call = call;
        run_all(&world, seats);
        all_say(&world, seats, ACCEL_ERR_PROTO, "");
    }
    /* two that claim one rank */
    set_up(&world, seats, 3);
    seats[2].claim = 1;
    run_all(&world, seats);
    all_say(&world, seats, ACCEL_ERR_PROTO, "place 2 of 3");
}

static int never(void *context, const void *send, void *recv, size_t bytes)
{
    (void)context;
    (void)send;
    (void)recv;
    (void)bytes;
    fail_msg("called");
    return 1;
}

static void wrong_uses_are_refused(void **state)
{
    static const accel_oob_t wrong[] = {
        {.rank = 0, .size = 0, .allgather = never},
        {.rank = -1, .size = 2, .allgather = never},
        {.rank = 2, .size = 2, .allgather = never},
        {.rank = 0, .size = 2},
        {.rank = 0, .size = 1, .node = "", .allgather = never},
        {.rank = 0, .size = 1 << 30, .allgather = never},
    };
    accel_settings_t *settings;
    accel_job_t *job, *second = (accel_job_t *)&job;
    size_t bytes;

    (void)state;
    assert_int_equal(accel_settings_load(NULL, &settings), ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        job = (accel_job_t *)&job;
        assert_int_equal(accel_job_open(settings, &wrong[i], &job),
                         ACCEL_ERR_ARG);
        assert_null(job);
    }
    assert_int_equal(accel_job_open(settings, NULL, NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_job_open(NULL, NULL, &job), ACCEL_ERR_ARG);

    assert_int_equal(accel_job_open(settings, NULL, &job), ACCEL_OK);
    assert_string_equal(accel_job_provider(job), "single");
    assert_int_equal(accel_job_open(settings, NULL, &second), ACCEL_ERR_STATE);
    assert_null(second);
    assert_int_equal(accel_job_node_of(job, 1), -1);
    assert_int_equal(accel_job_node_of(job, -1), -1);
    assert_int_equal(accel_job_local_rank_of(job, 1), -1);
    assert_null(accel_job_node_name(job, 1));
    assert_null(accel_job_node_name(job, -1));
    assert_null(ax_job_endpoint(job, 0, &bytes));
    assert_int_equal(ax_job_exchange(job, "x", 1), ACCEL_OK);
    assert_int_equal(ax_job_exchange(job, "x", 1), ACCEL_ERR_STATE);
    assert_memory_equal(ax_job_endpoint(job, 0, &bytes), "x", 1);
    assert_null(ax_job_endpoint(job, 1, &bytes));
    accel_job_close(job);
    accel_job_close(NULL);
    assert_int_equal(accel_job_open(settings, NULL, &job), ACCEL_OK);
    accel_job_close(job);
    accel_settings_free(settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_ranks),
        cmocka_unit_test(other_settings_are_named),
        cmocka_unit_test(settings_are_compared_by_meaning),
        cmocka_unit_test(one_that_cannot_go_on_tells_all),
        cmocka_unit_test(a_faulty_hook_is_found_out),
        cmocka_unit_test(wrong_uses_are_refused),
    };

    /* These tests are about this process alone, whoever started it. */
    unsetenv("PMIX_NAMESPACE");
    unsetenv("SLURM_STEP_ID");
    unsetenv("ACCEL_SPEC");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
