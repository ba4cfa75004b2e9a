/* From srun to the first collective, by accel. */
#include <accel.h>
#include <stdio.h>

int main(void)
{
    accel_t *acc = NULL;
    double one = 1;

    if (accel_open(NULL, &acc) ||
        accel_comm_allreduce(accel_get_comm(acc), &one, &one, 1, ACCEL_F64,
                             ACCEL_SUM)) {
        fprintf(stderr, "startup_accel: %s\n", accel_last_error()->text);
        return 1;
    }
    if (one != accel_size(acc))
        return 2;
    accel_close(acc);
    return 0;
}
