/*
 * What the wire between two ranks could do for an all-reduce of BYTES: two
 * processes that each send so many and receive as many, at the same time,
 * over a plain TCP connection of the loopback device, which is what UCX uses
 * between pretended nodes. Prints "unit<TAB>value".
 *   wire BYTES
 */
#include "bench.h"
#include "pin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE (256u << 10)

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Sends and receives `bytes`, whichever can go on. */
static void exchange(int fd, const char *send, char *recv, size_t bytes)
{
    size_t sent = 0, got = 0;

    while (sent < bytes || got < bytes) {
        struct pollfd p = {.fd = fd};
        size_t out = bytes - sent < AT_ONCE ? bytes - sent : AT_ONCE;
        ssize_t n = out ? write(fd, send + sent, out) : 0;
        ssize_t m = got < bytes ? read(fd, recv + got, bytes - got) : 0;
        if ((n < 0 && errno != EAGAIN) || (m < 0 && errno != EAGAIN))
            die("exchange");
        sent += n > 0 ? (size_t)n : 0;
        got += m > 0 ? (size_t)m : 0;
        if (n > 0 || m > 0)
            continue;
        p.events =
            (short)((sent < bytes ? POLLOUT : 0) | (got < bytes ? POLLIN : 0));
        (void)poll(&p, 1, -1);
    }
}

static double measure(int fd, size_t bytes)
{
    char *send = bench_alloc(bytes), *recv = bench_alloc(bytes);
    int rounds = bench_rounds(bytes);
    double best = 1e30;

    for (int k = 0; k < bench_batches(bytes); k++) {
        double start = bench_now();
        for (int i = 0; i < rounds; i++)
            exchange(fd, send, recv, bytes);
        double took = (bench_now() - start) / rounds;
        best = took < best ? took : best;
    }
    free(send);
    free(recv);
    return best;
}

/* Two ends of a connection: this one is the caller's, in either process. */
static int connect_two(bool *first)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (door < 0 || bind(door, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(door, 1) != 0 ||
        getsockname(door, (struct sockaddr *)&at, &length) != 0)
        die("listen");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    *first = child > 0;
    int fd =
        *first ? accept(door, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || (!*first && connect(fd, (struct sockaddr *)&at, length) != 0))
        die("connect");
    close(door);
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        die("settings of the connection");
    return fd;
}

int main(int argc, char **argv)
{
    bool first;

    if (argc != 2) {
        fprintf(stderr, "usage: wire BYTES\n");
        return 2;
    }
    size_t bytes = (size_t)strtoull(argv[1], NULL, 10);
    int fd = connect_two(&first);
    bench_pin(!first);
    double best = measure(fd, bytes);
    if (!first)
        return 0;
    (void)wait(NULL);
    bench_collective(bytes, best);
    return 0;
}
