/*
 * Lines of many ranks on one standard output: a line is passed on in one
 * piece when it is whole, so two ranks never share one. What has no end for a
 * while, such as progress that is drawn over itself, is passed on as it is;
 * the line is then that rank's until another one has something to say.
 */
#include "cmd.h"
#include "launch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STALL_MS 100
#define PATIENCE_NS 500000000LL /* what a line may take to be whole */
#define STREAM_ROOM 65536       /* and how long it may be */

/*
 * Who reads no more is not told what is lost, as by any tool; anything else,
 * such as a full disk, is said once. The ranks go on then: days of work are
 * worth more than their log, which may find room again.
 */
static void write_failed(struct sink *sink, int error)
{
    if (error == EPIPE)
        sink->broken = true;
    else if (!sink->error)
        fprintf(stderr,
                "accel: launch: cannot write the ranks' output: %s; what they "
                "say is lost\n",
                strerror(error));
    if (!sink->error)
        sink->error = error;
}

/*
 * A reader that stops must not stop the launcher too. A pipe that can be
 * written to takes PIPE_BUF bytes without waiting.
 */
static void write_all(struct sink *sink, const char *data, size_t bytes)
{
    while (bytes > 0 && !sink->broken) {
        struct pollfd p = {.fd = sink->fd, .events = POLLOUT};
        if (poll(&p, 1, STALL_MS) == 0) {
            if (!sink->stalled(sink->context))
                write_failed(sink, EPIPE);
            continue;
        }
        ssize_t n = write(sink->fd, data, bytes < PIPE_BUF ? bytes : PIPE_BUF);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0) {
            write_failed(sink, errno);
            return;
        }
        data += n;
        bytes -= (size_t)n;
    }
}

void sink_end_line(struct sink *sink)
{
    if (sink->owner)
        write_all(sink, "\n", 1);
    sink->owner = NULL;
}

/* Whole lines, or what there is of one. */
static void pass_on(struct stream *stream, size_t bytes)
{
    struct sink *sink = stream->sink;
    const char *data = stream->data;
    char tag[32];
    int tag_bytes = snprintf(tag, sizeof tag, "[%d] ", stream->rank);

    if (sink->owner != stream)
        sink_end_line(sink);
    if (!stream->tag)
        write_all(sink, data, bytes);
    for (size_t at = 0; stream->tag && at < bytes;) {
        const char *end = memchr(data + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - data) + 1 - at : bytes - at;
        if (at > 0 || !sink->owner)
            write_all(sink, tag, (size_t)tag_bytes);
        write_all(sink, data + at, n);
        at += n;
    }
    sink->owner = data[bytes - 1] != '\n' ? stream : NULL;
    stream->bytes -= bytes;
    memmove(stream->data, stream->data + bytes, stream->bytes);
}

static void take_lines(struct stream *stream, size_t fresh)
{
    const char *end = memrchr(stream->data + stream->bytes, '\n', fresh);

    if (stream->bytes == 0 || end)
        stream->due = cmd_now_ns() + PATIENCE_NS;
    stream->bytes += fresh;
    if (end)
        pass_on(stream, (size_t)(end - stream->data) + 1);
    else if (stream->bytes == STREAM_ROOM)
        pass_on(stream, stream->bytes);
}

bool stream_init(struct stream *stream)
{
    stream->data = malloc(STREAM_ROOM);
    return stream->data != NULL;
}

int64_t stream_due(const struct stream *stream)
{
    return stream->fd >= 0 && stream->bytes ? stream->due : INT64_MAX;
}

void stream_flush(struct stream *stream)
{
    if (stream->bytes)
        pass_on(stream, stream->bytes);
}

void stream_read(struct stream *stream)
{
    ssize_t n = read(stream->fd, stream->data + stream->bytes,
                     STREAM_ROOM - stream->bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        stream_close(stream);
        return;
    }
    take_lines(stream, (size_t)n);
    /* As in a shell's pipe: who writes where nobody reads gets SIGPIPE. */
    if (stream->sink->broken)
        stream_close(stream);
}

void stream_close(struct stream *stream)
{
    if (stream->fd < 0)
        return;
    stream_flush(stream);
    close(stream->fd);
    free(stream->data);
    stream->data = NULL;
    stream->fd = -1;
}
