/* Descriptors that children close; part of the transport's module. */
#include "net/hide.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static ax_hide_t *hides;

static bool is_of_a_transport(int fd, const struct stat *file)
{
    char link[64], target[64];
    int protocol = 0;
    socklen_t bytes = sizeof protocol;

    if (S_ISSOCK(file->st_mode))
        return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) ==
                   0 &&
               protocol == IPPROTO_TCP;
    if (!S_ISCHR(file->st_mode))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, target, sizeof target - 1);
    target[n < 0 ? 0 : n] = '\0';
    return strncmp(target, "/dev/infiniband/", 16) == 0;
}

static bool add(ax_hide_t *hide, int fd, const struct stat *file)
{
    size_t room = (hide->count + 1) * sizeof *hide->fds;
    ax_hidden_fd_t *more = realloc(hide->fds, room);

    if (!more)
        return false;
    hide->fds = more;
    hide->fds[hide->count++] = (ax_hidden_fd_t){
        .fd = fd, .device = file->st_dev, .inode = file->st_ino};
    return true;
}

static bool list_open(ax_hide_t *hide)
{
    DIR *dir = opendir("/proc/self/fd");
    struct stat file;
    bool ok = true;

    *hide = (ax_hide_t){0};
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && ok;
         e = readdir(dir)) {
        int fd = atoi(e->d_name);
        if (e->d_name[0] != '.' && fstat(fd, &file) == 0 &&
            is_of_a_transport(fd, &file))
            ok = add(hide, fd, &file);
    }
    if (dir)
        closedir(dir);
    return ok;
}

/* ---- in the child -----------------------------------------------------------
 */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    struct stat file;

    for (ax_hide_t *h = hides; h; h = h->next)
        for (size_t i = 0; i < h->count; i++)
            if (fstat(h->fds[i].fd, &file) == 0 &&
                file.st_dev == h->fds[i].device &&
                file.st_ino == h->fds[i].inode)
                close(h->fds[i].fd);
    pthread_mutex_unlock(&lock);
}

static void watch(void)
{
    (void)pthread_atfork(before_fork, in_parent, in_child);
}

bool ax_hide_begin(ax_hide_t *hide)
{
    (void)pthread_once(&once, watch);
    return list_open(hide);
}

static bool is_listed(const ax_hide_t *hide, const ax_hidden_fd_t *what)
{
    for (size_t i = 0; i < hide->count; i++)
        if (hide->fds[i].inode == what->inode &&
            hide->fds[i].device == what->device)
            return true;
    return false;
}

void ax_hide_end(ax_hide_t *hide)
{
    ax_hide_t before = *hide;
    size_t kept = 0;

    (void)list_open(hide); /* what it has is better than nothing */
    for (size_t i = 0; i < hide->count; i++)
        if (!is_listed(&before, &hide->fds[i])) {
            /* programs that children start do not need them either */
            (void)fcntl(hide->fds[i].fd, F_SETFD, FD_CLOEXEC);
            hide->fds[kept++] = hide->fds[i];
        }
    hide->count = kept;
    free(before.fds);
    pthread_mutex_lock(&lock);
    hide->next = hides;
    hides = hide;
    pthread_mutex_unlock(&lock);
}

void ax_hide_fini(ax_hide_t *hide)
{
    pthread_mutex_lock(&lock);
    for (ax_hide_t **at = &hides; *at; at = &(*at)->next)
        if (*at == hide) {
            *at = hide->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    free(hide->fds);
    *hide = (ax_hide_t){0};
}
