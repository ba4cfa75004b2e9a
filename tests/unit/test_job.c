/* job: who started us, node lists, node tables, records. */
#include "unit/unit.h"

#include "job/job_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- node lists -----------------------------------------------------------
 */

static const struct {
    const char *list;
    size_t count;
    const char *first, *last;
} lists[] = {
    {"n[1,3-4]", 3, "n1", "n4"},
    {"nodeA,nodeB[001,003],nodeC", 4, "nodeA", "nodeC"},
    {"alpha,beta", 2, "alpha", "beta"},
    {"n", 1, "n", "n"},
    {"h[008-011]", 4, "h008", "h011"},
    {"h[8-11]", 4, "h8", "h11"},
    {"r[1-2]c[01-02]", 4, "r1c01", "r2c02"},
    {"r[1-2]c[01-02]x,y", 5, "r1c01x", "y"},
    {"n[1-3,7]-ib", 4, "n1-ib", "n7-ib"},
    {"[1-2]", 2, "1", "2"},
    {"gpu.a,gpu.b", 2, "gpu.a", "gpu.b"},
    {"n[99-101]", 3, "n99", "n101"},
    {"n[0099-0101]", 3, "n0099", "n0101"},
    {"n[5]", 1, "n5", "n5"},
    {"n[123456789012345678]", 1, "n123456789012345678", "n123456789012345678"},
    {"a,a", 2, "a", "a"},
};

static void node_lists_are_written_out(void **state)
{
    char **names;
    size_t count;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        if (accel_job_nodelist(lists[i].list, &names, &count) != ACCEL_OK)
            fail_msg("%s", accel_last_error()->text);
        assert_int_equal(count, lists[i].count);
        assert_string_equal(names[0], lists[i].first);
        assert_string_equal(names[count - 1], lists[i].last);
        free(names);
    }
    assert_int_equal(accel_job_nodelist("r[1-2]c[1,3]", &names, &count),
                     ACCEL_OK);
    assert_string_equal(names[1], "r1c3");
    assert_string_equal(names[2], "r2c1");
    free(names);
}

static const char *const bad_lists[] = {
    "",
    "a[1-2",
    "a1-2]",
    "a[]",
    "a[2-1]",
    "a[1-]",
    "a[-1]",
    "a,",
    ",a",
    "a,,b",
    "a[1,]",
    "a[,1]",
    "a[x]",
    "a[1-2x]",
    "a b",
    "a[1[2]]",
    "a\n",
    "[",
    "]",
    "a[1 -2]",
    "n[1-1000001]",
    "n[0-999]x[0-999]y[0-9]",
    "n[1234567890123456789]",
};

static void bad_node_lists_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad_lists); i++) {
        char **names = (char **)&state;
        size_t count = 7;
        if (accel_job_nodelist(bad_lists[i], &names, &count) != ACCEL_ERR_ARG)
            fail_msg("\"%s\" passed", bad_lists[i]);
        assert_null(names);
        assert_int_equal(count, 0);
        assert_non_null(strstr(accel_last_error()->text, "node list"));
    }
    char **names;
    size_t count;
    assert_int_equal(accel_job_nodelist(NULL, &names, &count), ACCEL_ERR_ARG);
    assert_int_equal(accel_job_nodelist("a", NULL, &count), ACCEL_ERR_ARG);
    assert_int_equal(accel_job_nodelist("a", &names, NULL), ACCEL_ERR_ARG);
}

static void a_name_of_255_bytes_is_the_longest(void **state)
{
    char list[300];
    char **names;
    size_t count;

    (void)state;
    memset(list, 'x', sizeof list);
    list[255] = '\0';
    assert_int_equal(accel_job_nodelist(list, &names, &count), ACCEL_OK);
    assert_int_equal(strlen(names[0]), 255);
    free(names);
    strcpy(list + 255, "y");
    assert_int_equal(accel_job_nodelist(list, &names, &count), ACCEL_ERR_ARG);
    strcpy(list + 252, "[1-9999]");
    assert_int_equal(accel_job_nodelist(list, &names, &count), ACCEL_ERR_ARG);
}

static void ten_thousand_names(void **state)
{
    char *list = malloc(110000), *at = list;
    char **names;
    size_t count;

    (void)state;
    assert_int_equal(accel_job_nodelist("node[00000-09999]", &names, &count),
                     ACCEL_OK);
    assert_int_equal(count, 10000);
    assert_string_equal(names[9999], "node09999");
    free(names);
    for (int i = 0; i < 10000; i++)
        at += sprintf(at, "%snode%05d", i ? "," : "", i);
    assert_int_equal(accel_job_nodelist(list, &names, &count), ACCEL_OK);
    assert_int_equal(count, 10000);
    assert_string_equal(names[0], "node00000");
    assert_string_equal(names[9999], "node09999");
    free(names);
    free(list);
}

/* ---- who started us -------------------------------------------------------
 */

#define VARS 8

static const struct {
    const char *what;
    const char *env[VARS][2];
    ax_launcher_t launcher;
    const char *text;
} starts[] = {
    {"a plain start", {{NULL, NULL}}, AX_LAUNCHER_NONE, "no launcher"},
    {"srun --mpi=pmix",
     {{"PMIX_NAMESPACE", "slurm.pmix.12.0"},
      {"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "1"},
      {"SLURM_STEP_NUM_TASKS", "4"}},
     AX_LAUNCHER_PMIX,
     "PMIX_NAMESPACE"},
    {"mpirun", {{"PMIX_NAMESPACE", "1234"}}, AX_LAUNCHER_PMIX, ""},
    {"accel launch inside a step of four",
     {{"PMIX_NAMESPACE", "accel.launch.1"},
      {"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "4"}},
     AX_LAUNCHER_PMIX,
     ""},
    {"srun --mpi=none -n4",
     {{"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "2"},
      {"SLURM_STEP_NUM_TASKS", "4"}},
     AX_LAUNCHER_WITHOUT,
     "4 tasks but no PMIx: run \"srun --mpi=pmix ...\", or set "
     "MpiDefault=pmix"},
    {"srun --mpi=none -n1 in an allocation of four",
     {{"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "4"},
      {"SLURM_STEP_NUM_TASKS", "1"}},
     AX_LAUNCHER_NONE,
     "a Slurm step of one task"},
    {"a batch script of four tasks",
     {{"SLURM_JOB_ID", "12"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "4"},
      {"SLURM_NPROCS", "4"}},
     AX_LAUNCHER_NONE,
     "no launcher"},
    {"the shell of salloc",
     {{"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "4294967290"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "4"},
      {"SLURM_STEP_NUM_TASKS", "1"}},
     AX_LAUNCHER_NONE,
     ""},
    {"outside of Slurm, stale job",
     {{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "4"}},
     AX_LAUNCHER_NONE,
     "no launcher"},
    {"srun --mpi=none -n4 inside a step with PMIx",
     {{"PMIX_NAMESPACE", "slurm.pmix.12.0"},
      {"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "1"},
      {"SLURM_PROCID", "2"},
      {"SLURM_STEP_NUM_TASKS", "4"}},
     AX_LAUNCHER_WITHOUT,
     "4 tasks"},
    {"srun --mpi=none -n1 inside a step with PMIx",
     {{"PMIX_NAMESPACE", "slurm.pmix.12.0"},
      {"SLURM_JOB_ID", "12"},
      {"SLURM_STEP_ID", "1"},
      {"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "1"}},
     AX_LAUNCHER_NONE,
     "another step"},
    {"mpirun of MPICH",
     {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}},
     AX_LAUNCHER_WITHOUT,
     "3 processes"},
    {"mpirun of MPICH, one process",
     {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}},
     AX_LAUNCHER_NONE,
     ""},
    {"empty values",
     {{"PMIX_NAMESPACE", ""}, {"SLURM_STEP_NUM_TASKS", ""}},
     AX_LAUNCHER_NONE,
     ""},
    {"junk",
     {{"SLURM_STEP_ID", "x"},
      {"SLURM_PROCID", "y"},
      {"SLURM_STEP_NUM_TASKS", "-4z"}},
     AX_LAUNCHER_NONE,
     ""},
};

static const char *const (*fake)[2];

static char *fake_getenv(const char *name)
{
    for (int i = 0; i < VARS && fake[i][0]; i++)
        if (strcmp(fake[i][0], name) == 0)
            return (char *)(uintptr_t)fake[i][1];
    return NULL;
}

static void launchers_are_told_apart(void **state)
{
    char reason[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
        fake = starts[i].env;
        ax_launcher_t got = ax_job_detect(fake_getenv, reason, sizeof reason);
        if (got != starts[i].launcher || !strstr(reason, starts[i].text))
            fail_msg("%s: %d, \"%s\"", starts[i].what, (int)got, reason);
        assert_true(reason[0] != '\0');
    }
}

/* ---- node tables ----------------------------------------------------------
 */

static const struct {
    const char *names[8];
    int size;
    int nodes;
    int node_of[8], local_of[8];
} tables[] = {
    {{"a"}, 1, 1, {0}, {0}},
    {{"b", "b", "a", "a", "c"}, 5, 3, {0, 0, 1, 1, 2}, {0, 1, 0, 1, 0}},
    {{"a", "b", "a", "b", "a"}, 5, 2, {0, 1, 0, 1, 0}, {0, 0, 1, 1, 2}},
    {{"a", "b", "b", "b"}, 4, 2, {0, 1, 1, 1}, {0, 0, 1, 2}},
    /* equal up to the first dot: two nodes */
    {{"gpu.a", "gpu.b", "gpu.a", "gpu"}, 4, 3, {0, 1, 0, 2}, {0, 0, 1, 0}},
};

static void nodes_are_numbered_by_lowest_rank(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        ax_nodes_t nodes;
        int on_node[8] = {0};
        assert_int_equal(ax_nodes_init(&nodes, tables[i].names, tables[i].size),
                         ACCEL_OK);
        assert_int_equal(nodes.count, tables[i].nodes);
        for (int r = 0; r < tables[i].size; r++) {
            int node = nodes.node_of[r];
            assert_int_equal(node, tables[i].node_of[r]);
            assert_int_equal(nodes.local_of[r], tables[i].local_of[r]);
            assert_string_equal(nodes.names[node], tables[i].names[r]);
            on_node[node]++;
        }
        for (int n = 0; n < nodes.count; n++)
            assert_int_equal(nodes.sizes[n], on_node[n]);
        ax_nodes_fini(&nodes);
    }
}

static const struct {
    const char *map;
    int size, nodes;
    bool good;
    int node_of[8];
} maps[] = {
    {"(vector,(0,1,2),(1,1,1))", 3, 2, true, {0, 0, 1}},
    {"(vector,(0,2,2))", 4, 2, true, {0, 0, 1, 1}},
    {"(vector,(0,3,1))", 7, 3, true, {0, 1, 2, 0, 1, 2, 0}}, /* cyclic */
    {"(vector,(1,1,1),(0,1,2))", 3, 2, true, {1, 0, 0}},
    {"(vector, (0, 1, 2) )", 2, 1, false, {0}},
    {"(vector,(0,1,3))", 2, 1, true, {0, 0}},
    {"(vector,(0,2,1))", 2, 1, false, {0}}, /* a node too many */
    {"(vector,(2147483647,2,1))", 2, 1, false, {0}},
    {"(vector,(0,0,1))", 2, 1, false, {0}},
    {"(vector,(0,1,0))", 2, 1, false, {0}},
    {"(vector,(0,1))", 2, 1, false, {0}},
    {"(vector,(0,1,1)", 1, 1, false, {0}},
    {"(vector,(0,1,1))x", 1, 1, false, {0}},
    {"(vector,(0,99999999999,1))", 1, 1, false, {0}},
    {"(vector)", 1, 1, false, {0}},
    {"", 1, 1, false, {0}},
};

static void maps_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
        int got[8] = {0};
        bool good =
            ax_job_read_map(maps[i].map, maps[i].size, maps[i].nodes, got);
        if (good != maps[i].good)
            fail_msg("%s: %d", maps[i].map, good);
        for (int r = 0; good && r < maps[i].size; r++)
            assert_int_equal(got[r], maps[i].node_of[r]);
    }
}

/* ---- records --------------------------------------------------------------
 */

static ax_record_t sample(const void *endpoint, size_t bytes)
{
    return (ax_record_t){.rank = 3,
                         .size = 5,
                         .settings = 0x123456789abcdefull,
                         .spec = true,
                         .version = "0.1.0",
                         .summary = "precision=fp16",
                         .cut = true,
                         .endpoint = endpoint,
                         .bytes = bytes};
}

static void records_come_back(void **state)
{
    unsigned char buffer[AX_RECORD_MAX], endpoint[AX_JOB_ENDPOINT_MAX];
    static const size_t lengths[] = {0, 1, 100, AX_JOB_ENDPOINT_MAX};
    ax_record_t got;
    size_t bytes;

    (void)state;
    memset(endpoint, 0xa5, sizeof endpoint);
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        ax_record_t want = sample(endpoint, lengths[i]);
        assert_int_equal(ax_record_pack(&want, buffer, &bytes), ACCEL_OK);
        assert_true(bytes <= AX_RECORD_MAX);
        assert_int_equal(ax_record_unpack(buffer, bytes, &got), ACCEL_OK);
        assert_int_equal(got.rank, 3);
        assert_int_equal(got.size, 5);
        assert_true(got.settings == want.settings && got.spec);
        assert_string_equal(got.version, want.version);
        assert_string_equal(got.summary, want.summary);
        assert_true(got.cut);
        assert_int_equal(got.bytes, lengths[i]);
        assert_memory_equal(got.endpoint, endpoint, lengths[i]);
    }
}

static void long_texts_are_cut_but_fit(void **state)
{
    unsigned char buffer[AX_RECORD_MAX], endpoint[AX_JOB_ENDPOINT_MAX + 1];
    ax_record_t record, got;
    char text[2000];
    size_t bytes;

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    memset(endpoint, 1, sizeof endpoint);
    record = sample(endpoint, AX_JOB_ENDPOINT_MAX);
    record.version = record.summary = text;
    assert_int_equal(ax_record_pack(&record, buffer, &bytes), ACCEL_OK);
    assert_true(bytes <= AX_RECORD_MAX);
    assert_int_equal(ax_record_unpack(buffer, bytes, &got), ACCEL_OK);
    assert_memory_equal(got.endpoint, endpoint, AX_JOB_ENDPOINT_MAX);
    record.bytes++;
    assert_int_equal(ax_record_pack(&record, buffer, &bytes), ACCEL_ERR_ARG);
}

/* Any cut and any changed byte is refused or harmless, never read past. */
static void damaged_records_do_no_harm(void **state)
{
    unsigned char buffer[AX_RECORD_MAX];
    ax_record_t record = sample("endpoint", 8), got;
    size_t bytes;

    (void)state;
    assert_int_equal(ax_record_pack(&record, buffer, &bytes), ACCEL_OK);
    for (size_t cut = 0; cut < bytes; cut++) {
        /* a copy of its own, so that a sanitizer sees a read past the end */
        unsigned char *copy = malloc(cut ? cut : 1);
        memcpy(copy, buffer, cut);
        assert_int_equal(ax_record_unpack(copy, cut, &got), ACCEL_ERR_PROTO);
        free(copy);
    }
    for (size_t at = 0; at < bytes; at++) {
        unsigned char *copy = malloc(bytes);
        memcpy(copy, buffer, bytes);
        copy[at] ^= 0xff;
        if (ax_record_unpack(copy, bytes, &got) == ACCEL_OK) {
            assert_true(strlen(got.summary) < bytes);
            assert_true(got.bytes < bytes);
        }
        free(copy);
    }
    buffer[4]++; /* the version */
    assert_int_equal(ax_record_unpack(buffer, bytes, &got), ACCEL_ERR_PROTO);
    assert_non_null(strstr(accel_last_error()->text, "one version"));
}

/* ---- the time limit -------------------------------------------------------
 */

#define SECONDS(n) ((n)*INT64_C(1000000000))

/* END is seconds from now: of the monotonic clock from the plugin, of the wall
 * clock from Slurm. This is step 7.0. */
static const struct {
    const char *plugin;        /* a format of END */
    int64_t slurm, slurm_from; /* 0: not set */
    int64_t left, whole;       /* 0: not known */
} limits[] = {
    {NULL, 0, 0, 0, 0},
    {"7.0:%lld/3600", 0, 0, 500, 3600},
    {"7:%lld/3600", 0, 0, 500, 3600},
    {NULL, 900, 0, 900, 900},
    {NULL, 900, -100, 900, 1000},
    {"7.0:%lld/3600", 900, 0, 500, 3600},
    /* another job's, another step's */
    {"6.0:%lld/3600", 900, 0, 900, 900},
    {"6:%lld/3600", 0, 0, 0, 0},
    {"7.1:%lld/3600", 900, 0, 900, 900},
    /* nobody's, or none */
    {"%lld", 900, 0, 900, 900},
    {"7.0:%lld", 900, 0, 900, 900},
    {"7.0:%lld/", 900, 0, 900, 900},
    {"7.0:%lld/3600x", 900, 0, 900, 900},
    {"7.0:-%lld/3600", 0, 0, 0, 0},
    {"7.0:99999999999999999999/3600", 0, 0, 0, 0},
    {"7.0:9999999999999/3600", 0, 0, 0, 0},
    {"", 900, 0, 900, 900},
};

static void the_time_limit_is_read(void **state)
{
    static const char *const names[] = {"ACCEL_END_TIME", "SLURM_JOB_END_TIME",
                                        "SLURM_JOB_START_TIME", "SLURM_JOB_ID",
                                        "SLURM_STEP_ID"};

    (void)state;
    setenv("SLURM_JOB_ID", "7", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        char text[64];
        ax_time_limit_t got = {0, 0};
        for (size_t n = 0; n < 3; n++)
            unsetenv(names[n]);
        if (limits[i].plugin) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(text, sizeof text, limits[i].plugin,
                     (long long)(ax_now_ns() / SECONDS(1)) + 500);
#pragma GCC diagnostic pop
            setenv("ACCEL_END_TIME", text, 1);
        }
        snprintf(text, sizeof text, "%lld",
                 (long long)time(NULL) + (long long)limits[i].slurm);
        if (limits[i].slurm)
            setenv("SLURM_JOB_END_TIME", text, 1);
        snprintf(text, sizeof text, "%lld",
                 (long long)time(NULL) + (long long)limits[i].slurm_from);
        if (limits[i].slurm_from)
            setenv("SLURM_JOB_START_TIME", text, 1);
        bool known = ax_job_time_limit(&got);
        if (known != (limits[i].whole != 0) ||
            (known && got.whole_ns != SECONDS(limits[i].whole)) ||
            got.left_ns > SECONDS(limits[i].left) ||
            (known && got.left_ns < SECONDS(limits[i].left - 60)))
            fail_msg("case %zu: %d, %lld of %lld", i, known,
                     (long long)got.left_ns, (long long)got.whole_ns);
    }
    for (size_t n = 0; n < ARRAY_SIZE(names); n++)
        unsetenv(names[n]);
}

/* ---- the mark of accel launch ---------------------------------------------
 */

static const struct {
    const char *block; /* variables, each ended by a line's end */
    bool found;
} marks[] = {
    {"A=1\nACCEL_LAUNCH=2 4 0 accel.launch.7.ab\n"
     "PMIX_NAMESPACE=accel.launch.7.ab\n",
     true},
    {"PMIX_NAMESPACE=a\nACCEL_LAUNCH=2 4 0 a", true},
    /* an mpirun, srun or launcher in between, or somebody who takes it out */
    {"PMIX_NAMESPACE=slurm.pmix.1.0\nACCEL_LAUNCH=2 4 0 a\n", false},
    {"PMIX_NAMESPACE=ab\nACCEL_LAUNCH=2 4 0 a\n", false},
    {"ACCEL_LAUNCH=2 4 0 a\n", false},
    {"PMIX_NAMESPACE=a\n", false},
    {"PMIX_NAMESPACE=a\nXACCEL_LAUNCH=2 4 0 a\n", false},
    {"PMIX_NAMESPACE=a\nACCEL_LAUNCH2=2 4 0 a\n", false},
    /* words that are no mark */
    {"PMIX_NAMESPACE=a\nACCEL_LAUNCH=yes\n", false},
    {"PMIX_NAMESPACE=a\nACCEL_LAUNCH=4 4 0 a\n", false},
    {"PMIX_NAMESPACE=a\nACCEL_LAUNCH=-1 4 0 a\n", false},
    {"PMIX_NAMESPACE=a\nACCEL_LAUNCH=2 4 0 a b\n", false},
    {"PMIX_NAMESPACE=\nACCEL_LAUNCH=2 4 0 \n", false},
    {"", false},
};

static void marks_are_of_this_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
        size_t bytes = strlen(marks[i].block);
        char *block = strdup(marks[i].block);
        ax_mark_t mark;
        for (size_t c = 0; c < bytes; c++)
            if (block[c] == '\n')
                block[c] = '\0';
        assert_int_equal(ax_mark_read(block, bytes, &mark), marks[i].found);
        if (marks[i].found) {
            assert_int_equal(mark.rank, 2);
            assert_int_equal(mark.size, 4);
        }
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_lists_are_written_out),
        cmocka_unit_test(bad_node_lists_are_refused),
        cmocka_unit_test(a_name_of_255_bytes_is_the_longest),
        cmocka_unit_test(ten_thousand_names),
        cmocka_unit_test(launchers_are_told_apart),
        cmocka_unit_test(nodes_are_numbered_by_lowest_rank),
        cmocka_unit_test(maps_are_read),
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(long_texts_are_cut_but_fit),
        cmocka_unit_test(damaged_records_do_no_harm),
        cmocka_unit_test(the_time_limit_is_read),
        cmocka_unit_test(marks_are_of_this_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
