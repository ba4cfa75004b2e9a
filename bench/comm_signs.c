/*
 * What it costs that ranks compare their calls:
 *   comm_signs BYTES
 * The library's own code, linked with an enter.c that has a switch: batches
 * of all-reduces with the signature and without take turns in one run, so that
 * whatever else the machine does hits both. Prints, on rank 0, the medians of
 * a batch as two lines of result: "accel" is with it, "limit" without.
 */
#include <accel.h>

#include "bench.h"
#include "pin.h"

#define ROUNDS 200
#define BATCHES 2000

/* The switch: enter.c is compiled with AX_SIGNS_SWITCH. */
extern bool ax_signs;

static int complain(const char *what)
{
    fprintf(stderr, "comm_signs: %s: %s\n", what, accel_last_error()->text);
    return 1;
}

static accel_status_t batch(accel_comm_t *comm, float *data, size_t count,
                            double *took)
{
    accel_status_t st =
        accel_comm_allreduce(comm, data, data, count, ACCEL_F32, ACCEL_SUM);
    double start = bench_now();

    for (int i = 0; i < ROUNDS && st == ACCEL_OK; i++)
        st =
            accel_comm_allreduce(comm, data, data, count, ACCEL_F32, ACCEL_SUM);
    *took = (bench_now() - start) / ROUNDS;
    return st;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *took)
{
    qsort(took, BATCHES, sizeof *took, compare);
    return took[BATCHES / 2] * 1e6;
}

static int run(accel_comm_t *comm, size_t bytes)
{
    static double took[2][BATCHES];
    float *data = bench_alloc(bytes);
    accel_status_t st = ACCEL_OK;
    char name[64];

    for (int k = 0; k < BATCHES && st == ACCEL_OK; k++)
        for (int i = 0; i < 2 && st == ACCEL_OK; i++) {
            int side = (i + k) % 2;
            ax_signs = side == 0;
            st = batch(comm, data, bytes / sizeof *data, &took[side][k]);
        }
    ax_signs = true;
    free(data);
    if (st != ACCEL_OK)
        return complain("all-reduce");
    snprintf(name, sizeof name, "signature f32 private 2 ranks %zu B", bytes);
    if (accel_comm_rank(comm) == 0) {
        bench_print(name, "us", "accel", median(took[0]));
        bench_print(name, "us", "limit", median(took[1]));
    }
    return 0;
}

int main(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_job_t *job;
    accel_comm_t *comm;

    if (argc != 2) {
        fprintf(stderr, "usage: comm_signs BYTES\n");
        return 2;
    }
    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, NULL, &job) != ACCEL_OK)
        return complain("job");
    bench_pin(accel_job_local_rank(job));
    if (accel_comm_open(job, settings, &comm) != ACCEL_OK)
        return complain("communicator");
    int rc = run(comm, (size_t)strtoull(argv[1], NULL, 10));
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return rc;
}
