/*
 * How the ranks of a node meet: local rank 0 listens on an abstract socket
 * whose name the kernel chose and the job told the others. Each of them sends
 * a pidfd of itself and gets back the segment and the pidfds of all. A
 * stranger is kept out by the user id, and by a nonce that only the job's
 * record holds.
 */
#include "net/seg.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define MEET_MAGIC 0x6d616331u
#define FDS_A_MESSAGE 64 /* the kernel takes at most 253 */

struct hello { /* follower to local rank 0, with its pidfd */
    uint32_t magic;
    int32_t local_rank;
    int32_t pid;
    uint8_t nonce[16];
};

struct welcome { /* back, with the memfd; then the pidfds, in pieces */
    uint32_t magic;
    int32_t status;
    char text[AX_SEG_TEXT];
}; /* then once more each way: has it been mapped, by all? */

struct pids { /* each with up to FDS_A_MESSAGE pidfds */
    int32_t first, count, fds;
    int32_t pid[FDS_A_MESSAGE];
    uint8_t has_fd[FDS_A_MESSAGE];
};

/* ---- messages with descriptors ---------------------------------------------
 */

static accel_status_t send_fds(int sock, const void *data, size_t bytes,
                               const int *fds, int nfds)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * FDS_A_MESSAGE)];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (nfds > 0) {
        memset(&control, 0, sizeof control);
        msg.msg_control = control.room;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)nfds);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)bytes)
        return ax_fail_sys(ACCEL_ERR_SYS, errno,
                           "net: sending to a rank of this node");
    return ACCEL_OK;
}

/* Receives one message of exactly `bytes`, and up to `max` descriptors. */
static accel_status_t recv_fds(int sock, void *data, size_t bytes, int *fds,
                               int max)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * FDS_A_MESSAGE)];
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = bytes};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof control.room};
    ssize_t n;
    int got = 0;

    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg); c;
         c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + sizeof(int) * (size_t)i, sizeof fd);
            if (got < max)
                fds[got++] = fd;
            else
                close(fd);
        }
    }
    for (int i = got; i < max; i++)
        fds[i] = -1;
    if (n == (ssize_t)bytes && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return ACCEL_OK;
    for (int i = 0; i < got; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return ax_fail(ACCEL_ERR_TIMEOUT,
                       "net: a rank of this node did not answer in time");
    if (n < 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno,
                           "net: receiving from a rank of this node");
    if (n == 0)
        return ax_fail(ACCEL_ERR_PEER,
                       "net: a rank of this node left while it joined");
    return ax_fail(ACCEL_ERR_PROTO,
                   "net: a message of %zd bytes from a rank of this node, "
                   "expected %zu (more open files needed?)",
                   n, bytes);
}

static void set_timeout(int sock, double seconds)
{
    struct timeval tv = {.tv_sec = (time_t)seconds};

    tv.tv_usec = (suseconds_t)((seconds - (double)tv.tv_sec) * 1e6);
    (void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    (void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
}

static int open_pidfd(void)
{
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

/* The other end runs as the same user. */
static bool is_one_of_us(int sock)
{
    struct ucred who;
    socklen_t bytes = sizeof who;

    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           who.uid == geteuid();
}

/* ---- before the exchange ---------------------------------------------------
 */

accel_status_t ax_meet_listen(bool listening, ax_meet_point_t *point, int *fd)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof name.sun_family; /* the kernel picks a name */

    *fd = -1;
    *point = (ax_meet_point_t){{0}, {0}};
    if (!listening)
        return ACCEL_OK;
    if (getrandom(point->nonce, sizeof point->nonce, 0) !=
        (ssize_t)sizeof point->nonce)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "net: getrandom");
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "net: socket");
    if (bind(sock, (struct sockaddr *)&name, bytes) != 0 ||
        listen(sock, 4096) != 0)
        goto fail;
    bytes = sizeof name;
    if (getsockname(sock, (struct sockaddr *)&name, &bytes) != 0)
        goto fail;
    size_t length = bytes - offsetof(struct sockaddr_un, sun_path) - 1;
    if (length >= sizeof point->name)
        goto fail;
    memcpy(point->name, name.sun_path + 1, length);
    *fd = sock;
    return ACCEL_OK;
fail:
    ax_fail_sys(ACCEL_ERR_SYS, errno, "net: listening for this node's ranks");
    close(sock);
    return ACCEL_ERR_SYS;
}

/* ---- the follower ----------------------------------------------------------
 */

static accel_status_t connect_to(const ax_meet_point_t *point, double timeout,
                                 int *out)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t length = strnlen(point->name, sizeof point->name);
    socklen_t bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (sock < 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "net: socket");
    set_timeout(sock, timeout);
    memcpy(name.sun_path + 1, point->name, length);
    int rc;
    do
        rc = connect(sock, (struct sockaddr *)&name, bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0) {
        ax_fail_sys(ACCEL_ERR_SYS, errno,
                    "net: joining local rank 0 of this node; do the ranks of "
                    "one node share a network namespace?");
        close(sock);
        return ACCEL_ERR_SYS;
    }
    if (!is_one_of_us(sock)) {
        close(sock);
        return ax_fail(ACCEL_ERR_SYS, "net: local rank 0 runs as another user");
    }
    *out = sock;
    return ACCEL_OK;
}

static accel_status_t say_hello(int sock, const ax_meet_point_t *point, int me)
{
    struct hello hello = {
        .magic = MEET_MAGIC, .local_rank = me, .pid = (int32_t)getpid()};
    int pidfd = open_pidfd();

    memcpy(hello.nonce, point->nonce, sizeof hello.nonce);
    accel_status_t st =
        send_fds(sock, &hello, sizeof hello, &pidfd, pidfd >= 0);
    if (pidfd >= 0)
        close(pidfd);
    return st;
}

static accel_status_t take_pids(int sock, ax_seg_t *seg)
{
    struct pids part;
    int fds[FDS_A_MESSAGE];

    for (int r = 0; r < seg->ranks; r += part.count) {
        accel_status_t st =
            recv_fds(sock, &part, sizeof part, fds, FDS_A_MESSAGE);
        if (st != ACCEL_OK)
            return st;
        if (part.first != r || part.count < 1 || part.count > FDS_A_MESSAGE ||
            part.count > seg->ranks - r)
            return ax_fail(ACCEL_ERR_PROTO, "net: a bad list of processes");
        int next = 0;
        for (int i = 0; i < part.count; i++) {
            seg->pids[r + i] = part.pid[i];
            if (part.has_fd[i] && next < FDS_A_MESSAGE)
                seg->pidfds[r + i] = fds[next++];
        }
    }
    return ACCEL_OK;
}

static accel_status_t follow(const ax_seg_plan_t *plan,
                             const ax_meet_point_t *point, ax_seg_t *seg)
{
    struct welcome welcome;
    int sock = -1;
    accel_status_t st;

    if ((st = connect_to(point, plan->timeout, &sock)) != ACCEL_OK)
        return st;
    if ((st = say_hello(sock, point, plan->me)) != ACCEL_OK)
        goto out;
    st = recv_fds(sock, &welcome, sizeof welcome, &seg->fd, 1);
    if (st != ACCEL_OK)
        goto out;
    if (welcome.magic != MEET_MAGIC ||
        (welcome.status == ACCEL_OK && seg->fd < 0)) {
        st = ax_fail(ACCEL_ERR_PROTO, "net: local rank 0 is another release");
        goto out;
    }
    if (welcome.status != ACCEL_OK) {
        welcome.text[sizeof welcome.text - 1] = '\0';
        st = ax_fail((accel_status_t)welcome.status, "%s", welcome.text);
        goto out;
    }
    if ((st = take_pids(sock, seg)) == ACCEL_OK) {
        seg->sock = sock;
        return ACCEL_OK;
    }
out:
    close(sock);
    return st;
}

/* ---- local rank 0 ----------------------------------------------------------
 */

struct lobby {
    const ax_seg_plan_t *plan;
    const ax_meet_point_t *point;
    struct pollfd *polls; /* [0]: the listening socket; then callers */
    int callers, room;
    int *socks; /* by local rank, -1 until it has joined */
    int *pidfds;
    int32_t *pids;
    int joined;
};

static void take_caller(struct lobby *lobby)
{
    int sock = accept4(lobby->polls[0].fd, NULL, NULL, SOCK_CLOEXEC);

    if (sock < 0)
        return;
    if (!is_one_of_us(sock) || lobby->callers == lobby->room) {
        close(sock);
        return;
    }
    set_timeout(sock, lobby->plan->timeout);
    lobby->callers++;
    lobby->polls[lobby->callers] =
        (struct pollfd){.fd = sock, .events = POLLIN};
}

/* Caller `i` has said something: a rank of ours, or somebody to turn away. */
static void hear_caller(struct lobby *lobby, int i)
{
    struct hello hello;
    int pidfd = -1;
    int sock = lobby->polls[i].fd;
    int ranks = lobby->plan->ranks;

    lobby->polls[i] = lobby->polls[lobby->callers--];
    if (recv_fds(sock, &hello, sizeof hello, &pidfd, 1) == ACCEL_OK &&
        hello.magic == MEET_MAGIC && hello.local_rank > 0 &&
        hello.local_rank < ranks && lobby->socks[hello.local_rank] < 0 &&
        memcmp(hello.nonce, lobby->point->nonce, sizeof hello.nonce) == 0) {
        lobby->socks[hello.local_rank] = sock;
        lobby->pids[hello.local_rank] = hello.pid;
        lobby->pidfds[hello.local_rank] = pidfd;
        lobby->joined++;
        return;
    }
    if (pidfd >= 0)
        close(pidfd);
    close(sock);
}

static accel_status_t gather_callers(struct lobby *lobby)
{
    uint64_t end = ax_now_ns() + (uint64_t)(lobby->plan->timeout * 1e9);

    while (lobby->joined < lobby->plan->ranks - 1) {
        int n = poll(lobby->polls, (nfds_t)lobby->callers + 1, 100);
        if (n < 0 && errno != EINTR)
            return ax_fail_sys(ACCEL_ERR_SYS, errno, "net: poll");
        if (n > 0 && lobby->polls[0].revents)
            take_caller(lobby);
        for (int i = lobby->callers; n > 0 && i >= 1; i--)
            if (lobby->polls[i].revents)
                hear_caller(lobby, i);
        if (ax_now_ns() > end)
            return ax_fail(ACCEL_ERR_TIMEOUT,
                           "net: only %d of %d ranks of this node joined "
                           "within %g s (setting timeout, but not beyond "
                           "%g s here); have the others ended?",
                           lobby->joined + 1, lobby->plan->ranks,
                           lobby->plan->timeout, AX_MEET_SECONDS);
    }
    return ACCEL_OK;
}

static accel_status_t send_pids(const struct lobby *lobby, int sock)
{
    int ranks = lobby->plan->ranks;

    for (int r = 0; r < ranks; r += FDS_A_MESSAGE) {
        struct pids part = {.first = r};
        int fds[FDS_A_MESSAGE];
        for (; part.count < FDS_A_MESSAGE && r + part.count < ranks;
             part.count++) {
            int at = r + part.count;
            part.pid[part.count] = lobby->pids[at];
            part.has_fd[part.count] = lobby->pidfds[at] >= 0;
            if (lobby->pidfds[at] >= 0)
                fds[part.fds++] = lobby->pidfds[at];
        }
        accel_status_t st = send_fds(sock, &part, sizeof part, fds, part.fds);
        if (st != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

static accel_status_t welcome_all(const struct lobby *lobby, int memfd,
                                  const struct welcome *welcome)
{
    for (int r = 1; r < lobby->plan->ranks; r++) {
        accel_status_t st = send_fds(lobby->socks[r], welcome, sizeof *welcome,
                                     &memfd, memfd >= 0);
        if (st == ACCEL_OK && memfd >= 0)
            st = send_pids(lobby, lobby->socks[r]);
        if (st != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

/* Who has joined stays joined: the rest of seg's. */
static void lobby_fini(const struct lobby *lobby)
{
    for (int i = 1; i <= lobby->callers; i++)
        close(lobby->polls[i].fd);
}

/* Its memory is the segment's, and there already. */
static struct lobby lobby_of(const ax_seg_plan_t *plan,
                             const ax_meet_point_t *point, int listen_fd,
                             ax_seg_t *seg)
{
    struct lobby lobby = {.plan = plan,
                          .point = point,
                          .polls = seg->lobby,
                          .room = AX_LOBBY_ROOM(plan->ranks),
                          .socks = seg->socks,
                          .pidfds = seg->pidfds,
                          .pids = seg->pids};

    lobby.polls[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    return lobby;
}

static accel_status_t lead(const ax_seg_plan_t *plan,
                           const ax_meet_point_t *point, int listen_fd,
                           ax_seg_t *seg)
{
    struct welcome welcome = {.magic = MEET_MAGIC, .status = ACCEL_OK};
    struct lobby lobby = lobby_of(plan, point, listen_fd, seg);
    accel_status_t st;

    seg->pids[0] = (int32_t)getpid();
    seg->pidfds[0] = open_pidfd();
    if ((st = gather_callers(&lobby)) == ACCEL_OK)
        st = welcome_all(&lobby, seg->fd, &welcome);
    lobby_fini(&lobby);
    return st;
}

accel_status_t ax_meet(const ax_seg_plan_t *plan, const ax_meet_point_t *point,
                       int listen_fd, ax_seg_t *seg)
{
    if (plan->me != 0)
        return follow(plan, point, seg);
    return lead(plan, point, listen_fd, seg);
}

/* ---- has everybody mapped it?
 * ------------------------------------------------
 */

static void pack_outcome(struct welcome *out, accel_status_t status)
{
    *out = (struct welcome){.magic = MEET_MAGIC, .status = status};
    if (status != ACCEL_OK)
        memcpy(out->text, accel_last_error()->text, sizeof out->text - 1);
}

static accel_status_t unpack_outcome(const struct welcome *in)
{
    if (in->status == ACCEL_OK)
        return ACCEL_OK;
    return ax_fail((accel_status_t)in->status, "%.*s", (int)sizeof in->text,
                   in->text);
}

static accel_status_t confirm_leading(ax_seg_t *seg, accel_status_t mine)
{
    struct welcome worst, heard;

    pack_outcome(&worst, mine);
    for (int r = 1; r < seg->ranks; r++) {
        accel_status_t st =
            recv_fds(seg->socks[r], &heard, sizeof heard, NULL, 0);
        if (st != ACCEL_OK)
            pack_outcome(&heard, st);
        if (worst.status == ACCEL_OK)
            worst = heard;
    }
    for (int r = 1; r < seg->ranks; r++) /* one that is gone is not told */
        (void)send_fds(seg->socks[r], &worst, sizeof worst, NULL, 0);
    return unpack_outcome(&worst);
}

accel_status_t ax_meet_confirm(ax_seg_t *seg, accel_status_t mine)
{
    struct welcome word;
    accel_status_t st;

    if (seg->ranks == 1)
        return mine;
    if (seg->me == 0)
        return confirm_leading(seg, mine);
    pack_outcome(&word, mine);
    if ((st = send_fds(seg->sock, &word, sizeof word, NULL, 0)) != ACCEL_OK)
        return st;
    if ((st = recv_fds(seg->sock, &word, sizeof word, NULL, 0)) != ACCEL_OK)
        return st;
    return unpack_outcome(&word);
}

void ax_meet_end(ax_seg_t *seg)
{
    for (int r = 0; seg->socks && r < seg->ranks; r++)
        if (seg->socks[r] >= 0)
            close(seg->socks[r]);
    free(seg->socks);
    seg->socks = NULL;
    free(seg->lobby);
    seg->lobby = NULL;
    if (seg->sock >= 0)
        close(seg->sock);
    seg->sock = -1;
}

void ax_meet_refuse(const ax_seg_plan_t *plan, const ax_meet_point_t *point,
                    int listen_fd, ax_seg_t *seg)
{
    struct lobby lobby = lobby_of(plan, point, listen_fd, seg);
    struct welcome welcome;
    accel_error_t why;

    ax_error_get(&why);
    pack_outcome(&welcome, why.status);
    if (gather_callers(&lobby) == ACCEL_OK)
        (void)welcome_all(&lobby, -1, &welcome);
    lobby_fini(&lobby);
    ax_error_set(&why);
}
