/* Growing bytes, and taking them apart again. */
#include "ckpt_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow(ax_buf_t *buf, size_t more)
{
    size_t want, room = buf->room ? buf->room : 256;

    if (buf->failed || __builtin_add_overflow(buf->bytes, more, &want))
        goto fail;
    while (room < want) {
        if (!ax_mul(room, 2, &room))
            goto fail;
    }
    if (room != buf->room) {
        char *data = realloc(buf->data, room);
        if (!data)
            goto fail;
        buf->data = data;
        buf->room = room;
    }
    return true;
fail:
    buf->failed = true;
    return false;
}

void ax_buf_put(ax_buf_t *buf, const void *data, size_t bytes)
{
    if (!bytes || !grow(buf, bytes))
        return;
    memcpy(buf->data + buf->bytes, data, bytes);
    buf->bytes += bytes;
}

void ax_buf_put_u64(ax_buf_t *buf, uint64_t value)
{
    ax_buf_put(buf, &value, sizeof value);
}

void ax_buf_put_str(ax_buf_t *buf, const char *text)
{
    size_t bytes = strlen(text);

    ax_buf_put_u64(buf, bytes);
    ax_buf_put(buf, text, bytes + 1);
}

void ax_buf_printf(ax_buf_t *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (bytes < 0 || !grow(buf, (size_t)bytes + 1)) {
        buf->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(buf->data + buf->bytes, (size_t)bytes + 1, format, args);
    va_end(args);
    buf->bytes += (size_t)bytes;
}

accel_status_t ax_buf_status(const ax_buf_t *buf)
{
    if (buf->failed)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory after %zu bytes",
                       buf->bytes);
    return ACCEL_OK;
}

void ax_buf_free(ax_buf_t *buf)
{
    free(buf->data);
    *buf = (ax_buf_t){0};
}

const void *ax_cut_take(ax_cut_t *cut, size_t bytes)
{
    const char *at = cut->at;

    if (cut->failed || bytes > cut->left) {
        cut->failed = true;
        return NULL;
    }
    cut->at += bytes;
    cut->left -= bytes;
    return at;
}

uint64_t ax_cut_u64(ax_cut_t *cut)
{
    uint64_t value = 0;
    const void *at = ax_cut_take(cut, sizeof value);

    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}

const char *ax_cut_str(ax_cut_t *cut)
{
    uint64_t bytes = ax_cut_u64(cut);
    const char *text = bytes < cut->left ? ax_cut_take(cut, bytes + 1) : NULL;

    if (!text || text[bytes] != '\0' || strlen(text) != bytes) {
        cut->failed = true;
        return "";
    }
    return text;
}
