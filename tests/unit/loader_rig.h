/* Numbers as samples: sample i of field "row" is {i, 3 * i}, of "tag" the byte
 * i % 251. From memory, from a function that may fail, and as a stream. */
#ifndef LOADER_RIG_H
#define LOADER_RIG_H

#include "unit/unit.h"

#include "loader/loader_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define L(...) ACCEL_LOADER(__VA_ARGS__)

enum { RIG_MOST = 1024 };

static const accel_field_t rig_fields[] = {{"row", ACCEL_U32, 2},
                                           {"tag", ACCEL_U8, 1}};

/* What the functions below read from. */
typedef struct rig {
    uint64_t samples;
    uint64_t bad;       /* reading this sample fails */
    int failures;       /* as often; < 0: always */
    bool cannot_jump;   /* as a stream */
    uint64_t at, epoch; /* where the stream is */
    int rewinds;
} rig_t;

static inline void rig_put(uint64_t i, size_t row, void *const *fields)
{
    uint32_t *pair = (uint32_t *)fields[0] + 2 * row;

    pair[0] = (uint32_t)i;
    pair[1] = (uint32_t)i * 3;
    ((uint8_t *)fields[1])[row] = (uint8_t)(i % 251);
}

static inline bool rig_fails(rig_t *r, uint64_t i)
{
    if (i != r->bad || r->failures == 0)
        return false;
    if (r->failures > 0)
        r->failures--;
    return true;
}

static inline int rig_read(void *context, const uint64_t *index, size_t count,
                           void *const *fields)
{
    rig_t *r = context;

    for (size_t i = 0; i < count; i++) {
        if (rig_fails(r, index[i]))
            return EBADMSG;
        rig_put(index[i], i, fields);
    }
    return 0;
}

static inline int rig_next(void *context, uint64_t epoch, uint64_t position,
                           size_t *count, void *const *fields)
{
    rig_t *r = context;
    size_t n = 0;

    if (position == 0)
        r->rewinds++;
    else if (r->cannot_jump && (position != r->at || epoch != r->epoch))
        return ESPIPE;
    for (; n < *count && position + n < r->samples; n++) {
        if (rig_fails(r, position + n))
            return EBADMSG;
        rig_put(position + n, n, fields);
    }
    r->at = position + n;
    r->epoch = epoch;
    *count = n;
    return 0;
}

static inline rig_t rig_of(uint64_t samples)
{
    return (rig_t){.samples = samples, .bad = UINT64_MAX};
}

static inline accel_dataset_t *rig_dataset(rig_t *r, bool stream)
{
    accel_dataset_t *d;
    accel_status_t st =
        stream ? accel_dataset_from_stream(rig_fields, 2, rig_next, r, &d)
               : accel_dataset_from_callback(rig_fields, 2, r->samples,
                                             rig_read, r, &d);

    assert_int_equal(st, ACCEL_OK);
    return d;
}

static inline accel_loader_t *rig_loader(accel_dataset_t *d,
                                         const accel_loader_options_t *o,
                                         int rank, int size)
{
    accel_loader_t *l;

    if (accel_loader_create(d, o, &l) != ACCEL_OK)
        fail_msg("%s", accel_last_error()->text);
    assert_int_equal(accel_loader_set_rank(l, rank, size), ACCEL_OK);
    return l;
}

/* The rows are those of the samples that `index` names. */
static inline void rig_check(const accel_batch_t *b)
{
    for (size_t i = 0; i < b->count; i++) {
        uint32_t pair[2];
        uint8_t tag;
        void *want[] = {pair, &tag};

        rig_put(b->index[i], 0, want);
        assert_memory_equal((uint32_t *)b->data[0] + 2 * i, pair, sizeof pair);
        assert_int_equal(((uint8_t *)b->data[1])[i], tag);
    }
}

/* Batches as text: "0 1 2|3 4 5", and "-" for none. */
static inline void rig_text(accel_loader_t *l, char *out, size_t room)
{
    accel_batch_t b;
    accel_status_t st;
    size_t n = 0;

    out[0] = '\0';
    while ((st = accel_loader_next(l, &b)) == ACCEL_OK) {
        rig_check(&b);
        n += (size_t)snprintf(out + n, room - n, "%s", n ? "|" : "");
        for (size_t i = 0; i < b.count; i++)
            n += (size_t)snprintf(out + n, room - n, "%s%llu", i ? " " : "",
                                  (unsigned long long)b.index[i]);
    }
    assert_int_equal(st, ACCEL_END);
    if (n == 0)
        snprintf(out, room, "-");
}

#endif
