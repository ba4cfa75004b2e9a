/* A connection to each peer that says nothing until it breaks. */
#include "net/life.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x4143484cu /* "ACHL" */
#define GUESTS 32         /* callers that have not said who they are */
#define CALL_NS 5000000000u
#define WELCOME 'W'
#define LEAVES 'L'
#define GONE "its process has ended"

/* What a caller says first. */
struct hello {
    uint32_t magic;
    int32_t who;
    uint64_t nonce; /* of the called one */
};

enum state {
    STRANGER, /* not to be watched, or not yet */
    CALLING,
    GREETING, /* waits for the answer to its hello */
    UP,
    ENDED,
    UNKNOWN /* cannot be called */
};

struct line {
    int fd;
    enum state state;
    int place;    /* of its addresses, being tried */
    bool greeted; /* somebody was there, and hung up */
    uint64_t end; /* of this try */
    ax_life_address_t address;
    const char *how;
    bool left; /* in good order */
};

struct guest {
    int fd;
    uint64_t end;
};

struct ax_life {
    struct ax_life *next; /* of all in this process */
    int me, peers;
    int family; /* of its sockets */
    int listener;
    ax_life_address_t address;
    struct line *lines;
    struct guest guests[GUESTS];
};

/* ---- children of fork() -----------------------------------------------------
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static ax_life_t *lives;

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(ax_life_t *life)
{
    close_fd(&life->listener);
    for (int k = 0; k < life->peers; k++)
        close_fd(&life->lines[k].fd);
    for (int g = 0; g < GUESTS; g++)
        close_fd(&life->guests[g].fd);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* A connection stays open while any process holds it: a child that outlives
 * its parent would hide the parent's end. */
static void in_child(void)
{
    for (ax_life_t *life = lives; life; life = life->next)
        close_all(life);
    pthread_mutex_unlock(&lock);
}

static void register_handlers(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- who and where we are ---------------------------------------------------
 */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Never 0, which is no machine. */
static uint64_t machine(void)
{
    char text[64] = "";
    uint64_t hash = 1469598103934665603u;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return n > 0 && hash ? hash : 0;
}

/* The address in its long form; false when others cannot use it. */
static bool long_form(const struct sockaddr *from, uint8_t *to)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (from->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof in);
        memcpy(to, mapped, sizeof mapped);
        memcpy(to + 12, &in.sin_addr, 4);
        return true;
    }
    if (from->sa_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, from, sizeof in6);
    memcpy(to, &in6.sin6_addr, 16);
    return !IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr);
}

/* Loopback last: it serves peers on the same machine. */
static void list_places(ax_life_address_t *address)
{
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) != 0)
        return;
    for (int loopback = 0; loopback < 2; loopback++)
        for (struct ifaddrs *i = list; i; i = i->ifa_next) {
            bool lo = (i->ifa_flags & IFF_LOOPBACK) != 0;
            if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || lo != loopback ||
                address->places == AX_LIFE_PLACES)
                continue;
            if (long_form(i->ifa_addr, address->at[address->places]))
                address->places++;
        }
    freeifaddrs(list);
}

static socklen_t socket_address(int family, const uint8_t *at, uint16_t port,
                                struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (family == AF_INET) {
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port = htons(port)};
        if (at)
            memcpy(&in.sin_addr, at + 12, 4);
        memcpy(out, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons(port)};
    if (at)
        memcpy(&in6.sin6_addr, at, 16);
    memcpy(out, &in6, sizeof in6);
    return sizeof in6;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t bytes = sizeof name;
    struct sockaddr_in in;

    if (getsockname(fd, (struct sockaddr *)&name, &bytes) != 0)
        return 0;
    memcpy(&in, &name, sizeof in); /* the port is at the same place in both */
    return ntohs(in.sin_port);
}

/* For both families where there is IPv6. */
static bool listen_at(ax_life_t *life, int family)
{
    struct sockaddr_storage any;
    socklen_t bytes = socket_address(family, NULL, 0, &any);
    int off = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return false;
    if (family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&any, bytes) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        close(fd);
        return false;
    }
    life->family = family;
    life->listener = fd;
    life->address.port = port_of(fd);
    return true;
}

ax_life_t *ax_life_create(int me, int peers)
{
    ax_life_t *life = calloc(1, sizeof *life);

    if (life)
        life->lines = calloc((size_t)peers, sizeof *life->lines);
    if (!life || !life->lines) {
        free(life);
        return NULL;
    }
    life->me = me;
    life->peers = peers;
    life->listener = -1;
    for (int k = 0; k < peers; k++)
        life->lines[k].fd = -1;
    for (int g = 0; g < GUESTS; g++)
        life->guests[g].fd = -1;
    life->address.machine = machine();
    if (getrandom(&life->address.nonce, sizeof life->address.nonce, 0) ==
            (ssize_t)sizeof life->address.nonce &&
        (listen_at(life, AF_INET6) || listen_at(life, AF_INET)))
        list_places(&life->address);
    pthread_once(&once, register_handlers);
    pthread_mutex_lock(&lock);
    life->next = lives;
    lives = life;
    pthread_mutex_unlock(&lock);
    return life;
}

void ax_life_destroy(ax_life_t *life)
{
    if (!life)
        return;
    pthread_mutex_lock(&lock);
    for (ax_life_t **at = &lives; *at; at = &(*at)->next)
        if (*at == life) {
            *at = life->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    close_all(life);
    free(life->lines);
    free(life);
}

void ax_life_address(const ax_life_t *life, ax_life_address_t *out)
{
    *out = life->address;
}

/* ---- calling ----------------------------------------------------------------
 */

/* Probes, so that the loss of a machine is noticed in half a minute. */
static void keep_alive(int fd)
{
    int on = 1, idle = 15, interval = 5, count = 3;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval,
                     sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static bool is_loopback(const uint8_t *at)
{
    struct in6_addr in6;

    memcpy(&in6, at, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6) ||
           (IN6_IS_ADDR_V4MAPPED(&in6) && at[12] == 127);
}

/* May this place be tried from here? */
static bool reachable(const ax_life_t *life, const ax_life_address_t *a,
                      int place)
{
    struct in6_addr in6;
    bool same = a->machine && a->machine == life->address.machine;

    memcpy(&in6, a->at[place], sizeof in6);
    if (life->family == AF_INET && !IN6_IS_ADDR_V4MAPPED(&in6))
        return false;
    return same || !is_loopback(a->at[place]);
}

static void end_line(struct line *line, const char *how)
{
    close_fd(&line->fd);
    line->state = ENDED;
    line->how = how;
}

/* Calls at the next place that can be tried; none left: nothing is known. */
static void call(ax_life_t *life, struct line *line)
{
    struct sockaddr_storage name;

    close_fd(&line->fd);
    while (++line->place < line->address.places) {
        if (!reachable(life, &line->address, line->place))
            continue;
        int fd =
            socket(life->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t bytes =
            socket_address(life->family, line->address.at[line->place],
                           line->address.port, &name);
        if (fd < 0)
            break;
        if (connect(fd, (struct sockaddr *)&name, bytes) == 0 ||
            errno == EINPROGRESS) {
            line->fd = fd;
            line->state = CALLING;
            line->end = now_ns() + CALL_NS;
            return;
        }
        bool refused = errno == ECONNREFUSED;
        close(fd);
        if (refused && line->greeted) {
            end_line(line, GONE);
            return;
        }
    }
    line->state = UNKNOWN;
}

/* It hung up: it has ended if now nobody answers any more where it was. */
static void call_again(ax_life_t *life, struct line *line)
{
    bool again = !line->greeted;

    line->greeted = again;
    line->place -= again;
    call(life, line);
}

void ax_life_watch(ax_life_t *life, int peer, const ax_life_address_t *address)
{
    struct line *line = &life->lines[peer];

    /* who has called us before we were told is up already */
    if (peer == life->me || line->state != STRANGER || life->listener < 0)
        return;
    line->address = *address;
    if (line->address.places > AX_LIFE_PLACES || !address->port)
        line->address.places = 0;
    line->place = -1;
    if (life->me < peer)
        call(life, line);
}

static void greet(ax_life_t *life, struct line *line)
{
    struct hello hello = {
        .magic = MAGIC, .who = life->me, .nonce = line->address.nonce};
    int error = 0;
    socklen_t bytes = sizeof error;
    struct sockaddr_storage name;
    socklen_t room = sizeof name;

    if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 ||
        error) {
        if (error == ECONNREFUSED && line->greeted)
            end_line(line, GONE);
        else
            call(life, line);
        return;
    }
    if (getpeername(line->fd, (struct sockaddr *)&name, &room) != 0) {
        if (now_ns() > line->end)
            call(life, line);
        return; /* still calling */
    }
    keep_alive(line->fd);
    if (send(line->fd, &hello, sizeof hello, MSG_NOSIGNAL) !=
        (ssize_t)sizeof hello) {
        call(life, line);
        return;
    }
    line->state = GREETING;
    /* it answers when it next comes by, which may be late */
}

/* ---- being called -----------------------------------------------------------
 */

static void accept_all(ax_life_t *life)
{
    for (int g = 0; g < GUESTS && life->listener >= 0; g++) {
        struct guest *guest = &life->guests[g];
        if (guest->fd >= 0)
            continue;
        guest->fd =
            accept4(life->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        guest->end = now_ns() + CALL_NS;
        if (guest->fd < 0)
            return;
    }
}

static void admit(ax_life_t *life, struct guest *guest)
{
    struct hello hello;
    char welcome = WELCOME;
    ssize_t n = recv(guest->fd, &hello, sizeof hello, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR) && now_ns() < guest->end)
        return;
    if (n == (ssize_t)sizeof hello && hello.magic == MAGIC &&
        hello.nonce == life->address.nonce && hello.who >= 0 &&
        hello.who < life->me && life->lines[hello.who].fd < 0 &&
        life->lines[hello.who].state != ENDED &&
        send(guest->fd, &welcome, 1, MSG_NOSIGNAL) == 1) {
        struct line *line = &life->lines[hello.who];
        keep_alive(guest->fd);
        line->fd = guest->fd;
        line->state = UP;
        guest->fd = -1;
        return;
    }
    close_fd(&guest->fd);
}

/* ---- listening --------------------------------------------------------------
 */

static void hear(ax_life_t *life, struct line *line)
{
    char word;
    ssize_t n = recv(line->fd, &word, 1, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (line->state == GREETING && (n != 1 || word != WELCOME))
        call_again(life, line);
    else if (n == 1 && word == WELCOME)
        line->state = UP;
    else if (n == 1 && word == LEAVES) {
        line->left = true;
        end_line(line, "it has left MPI");
    } else if (n < 0 && errno == ETIMEDOUT)
        end_line(line, "its machine does not answer any more");
    else
        end_line(line, GONE);
}

void ax_life_poll(ax_life_t *life)
{
    accept_all(life);
    for (int g = 0; g < GUESTS; g++)
        if (life->guests[g].fd >= 0)
            admit(life, &life->guests[g]);
    for (int k = 0; k < life->peers; k++) {
        struct line *line = &life->lines[k];
        if (line->state == CALLING)
            greet(life, line);
        if (line->state == GREETING || line->state == UP)
            hear(life, line);
    }
}

bool ax_life_watched(const ax_life_t *life, int peer)
{
    return life->lines[peer].state == UP;
}

const char *ax_life_ended(const ax_life_t *life, int peer)
{
    return life->lines[peer].state == ENDED ? life->lines[peer].how : NULL;
}

bool ax_life_left(const ax_life_t *life, int peer)
{
    return life->lines[peer].left;
}

void ax_life_leave(ax_life_t *life)
{
    char word = LEAVES;

    for (int k = 0; k < life->peers; k++)
        if (life->lines[k].state == UP)
            (void)send(life->lines[k].fd, &word, 1, MSG_NOSIGNAL);
    close_all(life);
    for (int k = 0; k < life->peers; k++)
        if (life->lines[k].state != ENDED)
            life->lines[k].state = UNKNOWN;
}
