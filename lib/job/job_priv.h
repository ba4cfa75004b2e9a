/* job: shared by the files of this room only. */
#ifndef AX_JOB_PRIV_H
#define AX_JOB_PRIV_H

#include "job.h"

#define AX_JOB_NAME_MAX 256        /* a node's name, with its NUL */
#define AX_RECORD_MAX 1023         /* what one rank publishes, at most */
#define AX_SUMMARY_MAX 300         /* of it, the settings, with their NUL */
#define AX_JOB_RANKS_MAX (1 << 24) /* more is a broken launcher */

/* ---- nodes.c: which rank is where -----------------------------------------
 */

typedef struct ax_nodes {
    int count;
    char **names;  /* of each node; one allocation with its strings */
    int *sizes;    /* ranks on each node */
    int *node_of;  /* of each rank */
    int *local_of; /* of each rank: its position on its node */
} ax_nodes_t;

/* Groups `size` ranks by the name of their node. */
accel_status_t ax_nodes_init(ax_nodes_t *nodes, const char *const *names,
                             int size);
void ax_nodes_fini(ax_nodes_t *nodes);

/* ---- map.c ----------------------------------------------------------------
 */

/* The node, in [0, nodes), of each of `size` ranks. False: no such map. */
bool ax_job_read_map(const char *map, int size, int nodes, int *node_of);

/* ---- record.c: what one rank tells all others -----------------------------
 */

typedef struct ax_record {
    int rank;
    int size;
    accel_status_t status; /* an error: that rank cannot go on */
    uint64_t settings;     /* ax_settings_hash() */
    bool spec;             /* the plugin or the launcher set ACCEL_SPEC */
    const char *version;   /* of the library */
    const char *summary;   /* a SPEC of what must be alike and is set */
    bool cut;              /* not all of it has found room there */
    const void *endpoint;  /* or the error's text */
    size_t bytes;
} ax_record_t;

/* Packs into `buffer` of AX_RECORD_MAX bytes; texts that are too long are cut,
 * an endpoint that is too long is ACCEL_ERR_ARG. */
accel_status_t ax_record_pack(const ax_record_t *record, unsigned char *buffer,
                              size_t *bytes);

/* The reverse: strings point into `data`. Checks every length. Text without
 * the name of the rank: the caller adds it. */
accel_status_t ax_record_unpack(const unsigned char *data, size_t bytes,
                                ax_record_t *out);

/* ---- compare.c: do all ranks agree? ---------------------------------------
 */

/* All ranks' records, one after the other. */
typedef struct ax_records {
    unsigned char *data;
    size_t *offsets;     /* size + 1 */
    unsigned char *room; /* before the exchange: the provider's own */
    uint64_t *hashes;    /* room for one of each rank, */
    bool *odd;           /* and for a mark */
} ax_records_t;

/* Same records, same answer: every rank gets the same error. */
accel_status_t ax_records_compare(const accel_job_t *job,
                                  const ax_records_t *all);

/* ---- mark.c: what accel launch has said of this process -------------------
 */

#define AX_MARK_ENV "ACCEL_LAUNCH"

typedef struct ax_mark {
    int rank, size;
    unsigned uid; /* of the launcher */
    char nspace[128];
} ax_mark_t;

/* From the environment that a process was started with, NUL-separated and
 * with a NUL at data[bytes]. False: none, or one of an ancestor's. */
bool ax_mark_read(const char *data, size_t bytes, ax_mark_t *mark);

/* Whether this process's mark, if any, agrees; nspace is NULL for a world that
 * has none. */
accel_status_t ax_mark_check(int rank, int size, const char *nspace);
accel_status_t ax_mark_check_user(void);

/* ---- providers ------------------------------------------------------------
 */

typedef struct ax_provider {
    const char *name;
    /* Fills rank, size, nodes and reason of the job. */
    accel_status_t (*open)(accel_job_t *job, const accel_oob_t *oob);
    /* Gives every rank's `mine` to all; offsets are allocated by the caller,
     * data by the provider. */
    accel_status_t (*allgather)(accel_job_t *job, const unsigned char *mine,
                                size_t bytes, ax_records_t *all);
    /* Leaves the launcher for good; NULL: nothing to leave. */
    void (*leave)(accel_job_t *job);
    /* See ax_job_leave_behind(); NULL: the launcher sees to it. */
    void (*leave_behind)(accel_job_t *job);
} ax_provider_t;

extern const ax_provider_t ax_job_pmix, ax_job_single, ax_job_custom;

/*
 * What the environment says about who started this process. Pure, so that
 * tests can try every launcher: `get` is getenv().
 */
typedef enum ax_launcher {
    AX_LAUNCHER_NONE,    /* a world of one */
    AX_LAUNCHER_PMIX,    /* PMIx answers */
    AX_LAUNCHER_WITHOUT, /* several tasks, but nothing that joins them */
} ax_launcher_t;

ax_launcher_t ax_job_detect(char *(*get)(const char *name), char *reason,
                            size_t room);

struct accel_job {
    const ax_provider_t *provider;
    const accel_settings_t *settings;
    accel_oob_t oob;
    int rank;
    int size;
    int owner; /* process id: a forked child must not finalize for us */
    ax_nodes_t nodes;
    ax_records_t records; /* empty before the exchange */
    bool exchanged;
    char reason[256];
};

#endif
