/* Standard input: rank 0 has it, the others have /dev/null. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool input_open(struct input *input)
{
    int ends[2];

    *input = (struct input){.rank0 = 0, .from = -1, .to = -1};
    input->others = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input->others < 0)
        return false;
    if (!isatty(0))
        return true;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    input->rank0 = ends[0];
    input->from = 0;
    input->to = ends[1];
    return fcntl(input->to, F_SETFL, O_NONBLOCK) == 0;
}

void input_started(struct input *input)
{
    close(input->others);
    if (input->rank0 > 0)
        close(input->rank0);
}

/*
 * A job in the background (timeout(1) makes its command one) may not read the
 * terminal. Where none controls this process there is no background.
 */
bool input_in_background(const struct input *input)
{
    pid_t front = input->from < 0 ? -1 : tcgetpgrp(input->from);

    return front >= 0 && front != getpgrp();
}

int input_source(const struct input *input)
{
    return input->pending || input_in_background(input) ? -1 : input->from;
}

/* At the end, at an error, and when rank 0 reads no more. */
static void stop(struct input *input)
{
    close(input->to);
    input->from = input->to = -1;
}

static void drain(struct input *input)
{
    ssize_t n = write(input->to, input->data + input->at, input->pending);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        stop(input);
    if (n > 0) {
        input->at += (size_t)n;
        input->pending -= (size_t)n;
    }
}

void input_copy(struct input *input)
{
    if (input->pending == 0) {
        ssize_t n = read(input->from, input->data, sizeof input->data);
        /* EIO: sent to the background meanwhile */
        if (n < 0 && (errno == EINTR || input_in_background(input)))
            return;
        if (n <= 0) {
            stop(input);
            return;
        }
        input->at = 0;
        input->pending = (size_t)n;
    }
    drain(input);
}

void input_close(struct input *input)
{
    if (input->to >= 0)
        stop(input);
}
