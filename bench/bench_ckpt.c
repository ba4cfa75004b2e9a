/*
 * Saving and loading a checkpoint, durable on disk, against plain pwrite,
 * fsync and pread of as many bytes in the same directory. As many ranks as it
 * is started with; rank 0 prints. usage: bench_ckpt DIR
 */
#include "bench.h"

#include <accel.h>

#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#define ARRAYS 32
#define BYTES ((size_t)256 << 20) /* all arrays together */
#define TURNS 3

static accel_comm_t *comm;
static int rank, size;
static const char *dir;
static accel_ckpt_part_t parts[ARRAYS];
static char names[ARRAYS][32];
static char *data;

static void fail(const char *what)
{
    fprintf(stderr, "bench_ckpt: %s: %s\n", what, accel_last_error()->text);
    exit(1);
}

static void need(bool good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void barrier(void)
{
    if (accel_comm_barrier(comm) != ACCEL_OK)
        fail("barrier");
}

static void make_parts(void)
{
    uint64_t count = BYTES / ARRAYS / 4;

    data = bench_alloc(BYTES);
    for (size_t i = 0; i < BYTES / 8; i++)
        ((uint64_t *)(void *)data)[i] = i * 0x9e3779b97f4a7c15;
    for (int i = 0; i < ARRAYS; i++) {
        snprintf(names[i], sizeof names[i], "model/layer%d.weight", i);
        parts[i] = (accel_ckpt_part_t){.name = names[i],
                                       .dtype = ACCEL_F32,
                                       .ndim = 2,
                                       .shape = {256, count / 256},
                                       .count = count,
                                       .data = data + 4 * count * (size_t)i,
                                       .replicated = true};
    }
}

static int remove_one(const char *path, const struct stat *sb, int kind,
                      struct FTW *where)
{
    (void)sb;
    (void)kind;
    (void)where;
    return remove(path);
}

static void clean(void)
{
    char path[4096];

    barrier();
    if (rank == 0) {
        snprintf(path, sizeof path, "%s/ckpt", dir);
        nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    snprintf(path, sizeof path, "%s/raw-%d", dir, rank);
    unlink(path);
    barrier();
}

/* ---- the four acts; each is everybody's, and over when all are done ---- */

static void save_accel(void)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/ckpt", dir);
    if (accel_ckpt_save(comm, path, 1, parts, ARRAYS, NULL) != ACCEL_OK)
        fail("save");
}

static void load_accel(void)
{
    char path[4096];
    accel_ckpt_t *ckpt;

    snprintf(path, sizeof path, "%s/ckpt", dir);
    if (accel_ckpt_open(comm, path, &ckpt) != ACCEL_OK ||
        accel_ckpt_read(ckpt, parts, ARRAYS) != ACCEL_OK)
        fail("load");
    accel_ckpt_close(ckpt);
}

/* Each rank its share, as in a checkpoint, in pieces of 4 MiB. */
static void save_raw(void)
{
    char path[4096];
    size_t share = BYTES / (size_t)size, piece = (size_t)4 << 20;

    snprintf(path, sizeof path, "%s/raw-%d", dir, rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    need(fd >= 0, path);
    for (size_t at = 0; at < share; at += piece) {
        size_t n = share - at < piece ? share - at : piece;
        ssize_t done =
            pwrite(fd, data + (size_t)rank * share + at, n, (off_t)at);
        need(done == (ssize_t)n, path);
    }
    need(fsync(fd) == 0, path);
    need(close(fd) == 0, path);
    barrier();
}

/* Each rank everything, as loading replicated arrays does. */
static void load_raw(void)
{
    char path[4096];
    size_t share = BYTES / (size_t)size;

    for (int r = 0; r < size; r++) {
        snprintf(path, sizeof path, "%s/raw-%d", dir, r);
        int fd = open(path, O_RDONLY);
        need(fd >= 0, path);
        ssize_t done = pread(fd, data + (size_t)r * share, share, 0);
        need(done == (ssize_t)share, path);
        close(fd);
    }
    barrier();
}

static double timed(void (*act)(void))
{
    barrier();
    double start = bench_now();
    act();
    return bench_now() - start;
}

static void run(void)
{
    double best[4] = {1e30, 1e30, 1e30, 1e30};
    void (*const acts[4])(void) = {save_accel, save_raw, load_accel, load_raw};
    char what[64];

    make_parts();
    for (int turn = 0; turn < TURNS; turn++) {
        clean();
        for (int i = 0; i < 4; i++) {
            double took = timed(acts[i]);
            best[i] = took < best[i] ? took : best[i];
        }
    }
    clean();
    for (int i = 0; i < 4 && rank == 0; i++) {
        snprintf(what, sizeof what, "%s-%dranks-256MiB",
                 i < 2 ? "save" : "load", size);
        bench_print(what, "GB/s", i % 2 ? "limit" : "accel",
                    1e-9 * (double)BYTES / best[i]);
    }
}

int main(int argc, char **argv)
{
    accel_settings_t *settings = NULL;
    accel_job_t *job = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: bench_ckpt DIR\n");
        return 2;
    }
    dir = argv[1];
    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, NULL, &job) != ACCEL_OK ||
        accel_comm_open(job, settings, &comm) != ACCEL_OK)
        fail("open");
    rank = accel_comm_rank(comm);
    size = accel_comm_size(comm);
    run();
    free(data);
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return 0;
}
