/*
 * Lines of many ranks on one standard output: a line is passed on in one
 * piece when it is whole, so two ranks never share one.
 */
#include "launch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STALL_MS 100

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

/* Whole lines, or at the end of a stream the beginning of one. */
static void pass_on(struct stream *stream, const char *data, size_t bytes)
{
    struct sink *sink = stream->sink;
    char tag[32];
    int tag_bytes = snprintf(tag, sizeof tag, "[%d] ", stream->rank);

    /* Another rank has ended in the middle of its last line. */
    if (sink->midline)
        write_all(sink, "\n", 1);
    if (!stream->tag)
        write_all(sink, data, bytes);
    for (size_t at = 0; stream->tag && at < bytes;) {
        const char *end = memchr(data + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - data) + 1 - at : bytes - at;
        write_all(sink, tag, (size_t)tag_bytes);
        write_all(sink, data + at, n);
        at += n;
    }
    sink->midline = data[bytes - 1] != '\n';
}

static bool make_room(struct stream *stream)
{
    if (stream->bytes < stream->room)
        return true;
    size_t room = stream->room ? stream->room * 2 : 8192;
    char *data = realloc(stream->data, room);
    if (!data)
        return false;
    stream->data = data;
    stream->room = room;
    return true;
}

static void take_lines(struct stream *stream, size_t fresh)
{
    const char *end = memrchr(stream->data + stream->bytes, '\n', fresh);

    stream->bytes += fresh;
    if (!end)
        return;
    size_t whole = (size_t)(end - stream->data) + 1;
    pass_on(stream, stream->data, whole);
    stream->bytes -= whole;
    memmove(stream->data, stream->data + whole, stream->bytes);
}

void stream_read(struct stream *stream)
{
    if (!make_room(stream)) {
        /* No memory for a longer line: better in two pieces than not. */
        pass_on(stream, stream->data, stream->bytes);
        stream->bytes = 0;
    }
    ssize_t n = read(stream->fd, stream->data + stream->bytes,
                     stream->room - stream->bytes);
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
    if (stream->bytes)
        pass_on(stream, stream->data, stream->bytes);
    close(stream->fd);
    free(stream->data);
    *stream = (struct stream){.fd = -1};
}
