/*
 * The cases of the product (product.h), for its own files.
 */
#ifndef PRODUCT_PRIV_H
#define PRODUCT_PRIV_H

#include "comm/direct.h"
#include "multi/element.h"

/* X(NAME, text, reduces, parts) */
#define OPERATIONS(X)                                                          \
    X(ALLREDUCE, "all-reduce", true, false)                                    \
    X(REDUCE, "reduce", true, false)                                           \
    X(REDUCE_SCATTER, "reduce-scatter", true, false)                           \
    X(REDUCE_SCATTERV, "reduce-scatter-v", true, true)                         \
    X(BROADCAST, "broadcast", false, false)                                    \
    X(ALLGATHER, "all-gather", false, false)                                   \
    X(ALLGATHERV, "all-gather-v", false, true)                                 \
    X(BYTES, "all-gather of bytes", false, true)                               \
    X(GATHER, "gather", false, false)                                          \
    X(GATHERV, "gather-v", false, true)                                        \
    X(SCATTER, "scatter", false, false)                                        \
    X(SCATTERV, "scatter-v", false, true)                                      \
    X(ALLTOALL, "all-to-all", false, false)                                    \
    X(ALLTOALLV, "all-to-all-v", false, true)

typedef enum operation {
#define OPERATION_ENUM(NAME, text, reduces, parts) DO_##NAME,
    OPERATIONS(OPERATION_ENUM)
#undef OPERATION_ENUM
        OPERATION_COUNT
} operation_t;

static const struct {
    const char *text;
    bool reduces, parts;
} about[] = {
#define OPERATION_ROW(NAME, text, reduces, parts) {text, reduces, parts},
    OPERATIONS(OPERATION_ROW)
#undef OPERATION_ROW
};

typedef enum shape { EQUAL, RAMP, ONE, HOLES, SHAPES } shape_t;

/* What lies in the heap: nothing, all that ranks have, what they send, what
 * they receive, each of them one or the other. */
typedef enum form {
    APART,
    IN_PLACE,
    HEAP,
    HEAP_IN_PLACE,
    HEAP_SENT,
    HEAP_COMES,
    HEAP_SOME,
    HEAP_SOME_IN_PLACE,
    FORMS
} form_t;

/* One case; alike on all ranks. */
typedef struct trial {
    operation_t what;
    accel_dtype_t t;
    accel_op_t op;
    size_t count;
    shape_t shape;
    form_t form;
    bool spread; /* parts lie apart, in reverse order */
    int rails;   /* see ax_inter_force_rails() */
    int root;
    uint64_t dice;
} trial_t;

#define AROUND 3 /* one element less, exactly so many, one more */
#define EDGES 10 /* sizes at which something changes */
#define OPS ((size_t)ACCEL_PROD + 1)
#define ALL_CASES                                                              \
    (UINT64_C(12) * OPERATION_COUNT * OPS * AROUND * (EDGES + 2) * SHAPES *    \
     FORMS * 2)

/* Case `number`, on this communicator; false: there is no such combination, or
 * it can tell nothing new. */
bool product_case(const accel_comm_t *comm, uint64_t number, trial_t *trial);

#endif
