/*
 * What one rank tells all others, packed.
 *
 * All ranks run on machines of one byte order: the magic number tells when
 * that is not so. The layout is a fixed head and then the texts and the
 * endpoint, with no gaps.
 */
#include "job_priv.h"

#include <string.h>

#define RECORD_MAGIC 0x41435231u /* "ACR1" */
#define RECORD_VERSION 2
#define FLAG_SPEC 1u
#define FLAG_CUT 2u
#define TEXTS 2

struct head {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    int32_t rank;
    int32_t size;
    int32_t status;
    uint32_t bytes; /* of the endpoint */
    uint64_t settings;
    uint16_t text[TEXTS]; /* bytes of each text, its NUL included */
};

/* The most of each text: together with head and endpoint below 1 KiB. */
static const size_t text_max[TEXTS] = {24, AX_SUMMARY_MAX};

_Static_assert(sizeof(struct head) + 24 + AX_SUMMARY_MAX +
                       AX_JOB_ENDPOINT_MAX <=
                   AX_RECORD_MAX,
               "a record must stay below 1 KiB");

accel_status_t ax_record_pack(const ax_record_t *record, unsigned char *buffer,
                              size_t *bytes)
{
    const char *texts[TEXTS] = {record->version, record->summary};
    struct head head = {.magic = RECORD_MAGIC,
                        .version = RECORD_VERSION,
                        .flags = (uint16_t)((record->spec ? FLAG_SPEC : 0) |
                                            (record->cut ? FLAG_CUT : 0)),
                        .rank = record->rank,
                        .size = record->size,
                        .status = record->status,
                        .settings = record->settings};
    size_t at = sizeof head;

    if (record->bytes > AX_JOB_ENDPOINT_MAX)
        return ax_fail(ACCEL_ERR_ARG,
                       "job: an endpoint of %zu bytes, at most %d fit",
                       record->bytes, AX_JOB_ENDPOINT_MAX);
    head.bytes = (uint32_t)record->bytes;
    for (int i = 0; i < TEXTS; i++) {
        size_t n = strlen(texts[i]);
        if (n >= text_max[i])
            n = text_max[i] - 1;
        memcpy(buffer + at, texts[i], n);
        buffer[at + n] = '\0';
        head.text[i] = (uint16_t)(n + 1);
        at += n + 1;
    }
    if (record->bytes)
        memcpy(buffer + at, record->endpoint, record->bytes);
    memcpy(buffer, &head, sizeof head);
    *bytes = at + record->bytes;
    return ACCEL_OK;
}

static accel_status_t unpack_texts(const struct head *head,
                                   const unsigned char *data, size_t bytes,
                                   const char *texts[], size_t *at)
{
    for (int i = 0; i < TEXTS; i++) {
        size_t n = head->text[i];
        if (n == 0 || n > bytes - *at || data[*at + n - 1] != '\0')
            return ax_fail(ACCEL_ERR_PROTO,
                           "published a damaged record "
                           "(text %d of %zu bytes)",
                           i, n);
        texts[i] = (const char *)data + *at;
        *at += n;
    }
    return ACCEL_OK;
}

accel_status_t ax_record_unpack(const unsigned char *data, size_t bytes,
                                ax_record_t *out)
{
    const char *texts[TEXTS] = {0};
    struct head head;
    size_t at = sizeof head;
    accel_status_t st;

    if (bytes < sizeof head)
        return ax_fail(ACCEL_ERR_PROTO,
                       "published %zu bytes, too few for a record", bytes);
    memcpy(&head, data, sizeof head);
    if (head.magic != RECORD_MAGIC)
        return ax_fail(ACCEL_ERR_PROTO,
                       "published something that is no record of accel: "
                       "another program, or a machine of another byte order");
    if (head.version != RECORD_VERSION)
        return ax_fail(ACCEL_ERR_PROTO,
                       "published a record of version %d, this library knows "
                       "%d: install one version of accel on all nodes",
                       head.version, RECORD_VERSION);
    if ((st = unpack_texts(&head, data, bytes, texts, &at)) != ACCEL_OK)
        return st;
    if (head.bytes > AX_JOB_ENDPOINT_MAX || head.bytes != bytes - at)
        return ax_fail(ACCEL_ERR_PROTO,
                       "published a damaged record (%u bytes of endpoint in "
                       "%zu)",
                       (unsigned)head.bytes, bytes - at);
    *out = (ax_record_t){.rank = head.rank,
                         .size = head.size,
                         .status = (accel_status_t)head.status,
                         .settings = head.settings,
                         .spec = (head.flags & FLAG_SPEC) != 0,
                         .version = texts[0],
                         .summary = texts[1],
                         .cut = (head.flags & FLAG_CUT) != 0,
                         .endpoint = data + at,
                         .bytes = head.bytes};
    return ACCEL_OK;
}
