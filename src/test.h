/* accel test, inside: what is checked, and how a finding is told. */
#ifndef TEST_H
#define TEST_H

#include <accel.h>

/* The whole run; the same on all ranks but for the accelerator itself. */
struct test {
    accel_t *accel;
    const char *dir; /* where the checkpoint goes; NULL: here */
    int checks;
    int failed;
    bool speaks; /* this process tells the verdict */
    bool dead;   /* the communicator has failed: nothing can be agreed on */
};

/* What one rank found. */
struct finding {
    char detail[240]; /* shown behind "ok" */
    char note[240];   /* not wrong, but the user should know; "": none */
    char wrong[400];  /* "": all is well here */
};

typedef void (*check_fn)(struct test *test, struct finding *finding);

struct check {
    const char *name;
    check_fn run;
    const char *fix; /* what to do when something is wrong */
};

/* The first thing that is wrong is kept. */
void wrong(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* wrong() with the text of accel_last_error(), unless it went well. True when
 * it did. */
bool went_well(struct finding *finding, accel_status_t status);

/*
 * Have all ranks what they need for the collectives of a check? Only then any
 * of them begins: whether a rank takes part in a collective, and in which one,
 * must never hang on what this rank alone has found or got.
 */
bool all_ready(struct test *test, bool mine, struct finding *finding);

/* test_world.c */
void check_identity(struct test *test, struct finding *finding);
void check_placement(struct test *test, struct finding *finding);
void check_binding(struct test *test, struct finding *finding);
void check_barrier(struct test *test, struct finding *finding);

/* test_comm.c */
void check_broadcast(struct test *test, struct finding *finding);
void check_allreduce(struct test *test, struct finding *finding);
void check_reduce_scatter(struct test *test, struct finding *finding);
void check_allgather(struct test *test, struct finding *finding);
void check_alloc(struct test *test, struct finding *finding);

/* test_loader.c */
void check_sharding(struct test *test, struct finding *finding);
void check_shuffle(struct test *test, struct finding *finding);
void check_metrics(struct test *test, struct finding *finding);

/* test_train.c */
void check_training(struct test *test, struct finding *finding);
void check_overflow(struct test *test, struct finding *finding);
void check_checkpoint(struct test *test, struct finding *finding);

#endif
