/*
 * null: handles that are not there, because what creates them failed and the
 * program went on. Nothing may crash, and statuses name function and argument.
 */
#include "unit/unit.h"

#include <accel.h>
#include <stdlib.h>

static void *out = &out;
static void *more = &more;
static accel_request_t *request = (accel_request_t *)&out;
static accel_comm_t *part = (accel_comm_t *)&out;
static size_t count = 9;
static bool flag = true;
static double number;
static accel_device_t device;
static accel_setting_t setting;
static accel_batch_t batch;
static accel_range_t range;
static accel_loader_state_t place;
static accel_scaler_state_t scale;
static accel_ckpt_part_t array;
static const accel_rows_t rows = {.dtype = ACCEL_F32};

static int give_nothing(void *context, void **data, size_t *bytes)
{
    (void)context;
    (void)data;
    (void)bytes;
    return 1;
}

static int take_nothing(void *context, const void *data, size_t bytes,
                        uint32_t version)
{
    (void)context;
    (void)data;
    (void)bytes;
    (void)version;
    return 1;
}

/* X(function, argument that is missing, arguments) */
#define STATUSES(X)                                                            \
    X(accel_wait_for_everyone, accel, (NULL))                                  \
    X(accel_main_first_begin, accel, (NULL))                                   \
    X(accel_main_first_end, accel, (NULL))                                     \
    X(accel_check_trigger, accel, (NULL, &flag))                               \
    X(accel_prepare, accel, (NULL, NULL))                                      \
    X(accel_backward_end, accel, (NULL))                                       \
    X(accel_param_ready, param, (NULL))                                        \
    X(accel_set_accumulate, accel, (NULL, 1))                                  \
    X(accel_clip_grad_norm, accel, (NULL, 1, NULL))                            \
    X(accel_step, accel, (NULL, &flag))                                        \
    X(accel_reduce, accel, (NULL, &number, 1, ACCEL_F64, ACCEL_SUM))           \
    X(accel_gather_for_metrics, accel, (NULL, NULL, &rows, &out, &count))      \
    X(accel_gather_fields, accel, (NULL, NULL, &rows, 1, &out, &count))        \
    X(accel_mean, accel, (NULL, 1, 1, &number))                                \
    X(accel_pad_across, accel,                                                 \
      (NULL, &rows, ACCEL_PAD_LAST, NULL, &out, &count))                       \
    X(accel_gather_bytes, accel, (NULL, NULL, 0, &out, (size_t **)&more))      \
    X(accel_broadcast_bytes, accel, (NULL, NULL, 0, 0, &out, &count))          \
    X(accel_split_between, accel, (NULL, 1, &range))                           \
    X(accel_join, accel, (NULL, true, &flag))                                  \
    X(accel_register_state, accel,                                             \
      (NULL, "s", 1, give_nothing, take_nothing, NULL))                        \
    X(accel_save_state, accel, (NULL, NULL))                                   \
    X(accel_load_state, accel, (NULL, NULL))                                   \
    X(accel_ckpt_save, comm, (NULL, ".", 1, NULL, 0, NULL))                    \
    X(accel_ckpt_open, comm, (NULL, ".", (accel_ckpt_t **)&out))               \
    X(accel_ckpt_read, ckpt, (NULL, NULL, 0))                                  \
    X(accel_ckpt_at, ckpt, (NULL, 0, &array))                                  \
    X(accel_ckpt_find, ckpt, (NULL, "a", &array))                              \
    X(accel_model_create, accel, (NULL, (accel_model_t **)&out))               \
    X(accel_model_add, model, (NULL, NULL, NULL))                              \
    X(accel_model_build, model, (NULL))                                        \
    X(accel_model_add_block, model, (NULL, NULL, NULL))                        \
    X(accel_register_bytes, accel, (NULL, "x", &number, 1))                    \
    X(accel_model_round, model, (NULL))                                        \
    X(accel_optimizer_step, optimizer, (NULL))                                 \
    X(accel_optimizer_zero_grad, optimizer, (NULL))                            \
    X(accel_optimizer_set_lr, optimizer, (NULL, 1))                            \
    X(accel_schedule_create, optimizer,                                        \
      (NULL, NULL, (accel_schedule_t **)&out))                                 \
    X(accel_schedule_step, schedule, (NULL))                                   \
    X(accel_scaler_set_state, scaler, (NULL, &scale))                          \
    X(accel_loader_create, dataset, (NULL, NULL, (accel_loader_t **)&out))     \
    X(accel_loader_set_rank, loader, (NULL, 0, 1))                             \
    X(accel_loader_next, loader, (NULL, &batch))                               \
    X(accel_loader_seek, loader, (NULL, 0))                                    \
    X(accel_loader_set_state, loader, (NULL, &place))                          \
    X(accel_dataset_read, dataset, (NULL, NULL, 0, NULL))                      \
    X(accel_job_open, settings, (NULL, NULL, (accel_job_t **)&out))            \
    X(accel_topo_device, topo, (NULL, ACCEL_DEVICE_GPU, 0, &device))           \
    X(accel_settings_at, settings, (NULL, 0, &setting))                        \
    X(accel_settings_find, settings, (NULL, "seed", &setting))                 \
    X(accel_comm_barrier, comm, (NULL))                                        \
    X(accel_comm_barrier_start, comm, (NULL, &request))                        \
    X(accel_comm_broadcast, comm, (NULL, NULL, 1, ACCEL_F32, 0))               \
    X(accel_comm_broadcast_start, comm,                                        \
      (NULL, NULL, 1, ACCEL_F32, 0, &request))                                 \
    X(accel_comm_allreduce, comm, (NULL, NULL, NULL, 1, ACCEL_F32, ACCEL_SUM)) \
    X(accel_comm_allreduce_start, comm,                                        \
      (NULL, NULL, NULL, 1, ACCEL_F32, ACCEL_SUM, &request))                   \
    X(accel_comm_reduce, comm, (NULL, NULL, NULL, 1, ACCEL_F32, ACCEL_SUM, 0)) \
    X(accel_comm_reduce_start, comm,                                           \
      (NULL, NULL, NULL, 1, ACCEL_F32, ACCEL_SUM, 0, &request))                \
    X(accel_comm_reduce_scatter, comm,                                         \
      (NULL, NULL, NULL, 1, ACCEL_F32, ACCEL_SUM))                             \
    X(accel_comm_reduce_scatter_start, comm,                                   \
      (NULL, NULL, NULL, 1, ACCEL_F32, ACCEL_SUM, &request))                   \
    X(accel_comm_reduce_scatterv, comm,                                        \
      (NULL, NULL, NULL, NULL, ACCEL_F32, ACCEL_SUM))                          \
    X(accel_comm_reduce_scatterv_start, comm,                                  \
      (NULL, NULL, NULL, NULL, ACCEL_F32, ACCEL_SUM, &request))                \
    X(accel_comm_allgather, comm, (NULL, NULL, NULL, 1, ACCEL_F32))            \
    X(accel_comm_allgather_start, comm,                                        \
      (NULL, NULL, NULL, 1, ACCEL_F32, &request))                              \
    X(accel_comm_allgatherv, comm, (NULL, NULL, NULL, NULL, ACCEL_F32))        \
    X(accel_comm_allgatherv_start, comm,                                       \
      (NULL, NULL, NULL, NULL, ACCEL_F32, &request))                           \
    X(accel_comm_allgather_bytes, comm,                                        \
      (NULL, NULL, 0, &out, (size_t **)&more))                                 \
    X(accel_comm_allgather_bytes_start, comm,                                  \
      (NULL, NULL, 0, &out, (size_t **)&more, &request))                       \
    X(accel_comm_gather, comm, (NULL, NULL, NULL, 1, ACCEL_F32, 0))            \
    X(accel_comm_gather_start, comm,                                           \
      (NULL, NULL, NULL, 1, ACCEL_F32, 0, &request))                           \
    X(accel_comm_gatherv, comm, (NULL, NULL, NULL, NULL, ACCEL_F32, 0))        \
    X(accel_comm_gatherv_start, comm,                                          \
      (NULL, NULL, NULL, NULL, ACCEL_F32, 0, &request))                        \
    X(accel_comm_scatter, comm, (NULL, NULL, NULL, 1, ACCEL_F32, 0))           \
    X(accel_comm_scatter_start, comm,                                          \
      (NULL, NULL, NULL, 1, ACCEL_F32, 0, &request))                           \
    X(accel_comm_scatterv, comm, (NULL, NULL, NULL, NULL, ACCEL_F32, 0))       \
    X(accel_comm_scatterv_start, comm,                                         \
      (NULL, NULL, NULL, NULL, ACCEL_F32, 0, &request))                        \
    X(accel_comm_alltoall, comm, (NULL, NULL, NULL, 1, ACCEL_F32))             \
    X(accel_comm_alltoall_start, comm,                                         \
      (NULL, NULL, NULL, 1, ACCEL_F32, &request))                              \
    X(accel_comm_alltoallv, comm, (NULL, NULL, NULL, NULL, NULL, ACCEL_F32))   \
    X(accel_comm_alltoallv_start, comm,                                        \
      (NULL, NULL, NULL, NULL, NULL, ACCEL_F32, &request))                     \
    X(accel_comm_send, comm, (NULL, NULL, 1, ACCEL_F32, 0, 0))                 \
    X(accel_comm_send_start, comm, (NULL, NULL, 1, ACCEL_F32, 0, 0, &request)) \
    X(accel_comm_recv, comm, (NULL, NULL, 1, ACCEL_F32, 0, 0))                 \
    X(accel_comm_recv_start, comm, (NULL, NULL, 1, ACCEL_F32, 0, 0, &request)) \
    X(accel_comm_sendrecv, comm, (NULL, NULL, NULL))                           \
    X(accel_comm_sendrecv_start, comm, (NULL, NULL, NULL, &request))           \
    X(accel_comm_split, comm, (NULL, 0, 0, &part))                             \
    X(accel_comm_split_node, comm, (NULL, &part))                              \
    X(accel_comm_split_across, comm, (NULL, &part))                            \
    X(accel_alloc, comm, (NULL, 8, &out))                                      \
    X(accel_free, comm, (NULL, NULL))

/* X(getter, what it gives) */
#define GETTERS(X)                                                             \
    X(accel_rank, -1)                                                          \
    X(accel_size, 0)                                                           \
    X(accel_local_rank, -1)                                                    \
    X(accel_local_size, 0)                                                     \
    X(accel_node, -1)                                                          \
    X(accel_nodes, 0)                                                          \
    X(accel_is_main, false)                                                    \
    X(accel_is_local_main, false)                                              \
    X(accel_is_last, false)                                                    \
    X(accel_get_comm, NULL)                                                    \
    X(accel_get_job, NULL)                                                     \
    X(accel_get_settings, NULL)                                                \
    X(accel_get_rng, NULL)                                                     \
    X(accel_compute_dtype, ACCEL_DTYPE_NONE)                                   \
    X(accel_should_stop, false)                                                \
    X(accel_backward_begin, 0)                                                 \
    X(accel_sync_gradients, false)                                             \
    X(accel_accumulate, 0)                                                     \
    X(accel_step_was_skipped, false)                                           \
    X(accel_steps_skipped, 0)                                                  \
    X(accel_loss_scale, 0)                                                     \
    X(accel_steps, 0)                                                          \
    X(accel_model_count, 0)                                                    \
    X(accel_ckpt_step, 0)                                                      \
    X(accel_ckpt_ranks, 0)                                                     \
    X(accel_ckpt_path, NULL)                                                   \
    X(accel_ckpt_count, 0)                                                     \
    X(accel_param_data, NULL)                                                  \
    X(accel_param_compute, NULL)                                               \
    X(accel_param_grad, NULL)                                                  \
    X(accel_param_name, NULL)                                                  \
    X(accel_param_elements, 0)                                                 \
    X(accel_optimizer_lr, 0)                                                   \
    X(accel_optimizer_steps, 0)                                                \
    X(accel_schedule_steps, 0)                                                 \
    X(accel_scaler_scale, 0)                                                   \
    X(accel_loader_length, 0)                                                  \
    X(accel_loader_epoch, 0)                                                   \
    X(accel_loader_end_of_data, true)                                          \
    X(accel_loader_real_rows, 0)                                               \
    X(accel_dataset_samples, 0)                                                \
    X(accel_dataset_format, NULL)                                              \
    X(accel_dataset_fingerprint, 0)                                            \
    X(accel_job_rank, -1)                                                      \
    X(accel_job_size, 0)                                                       \
    X(accel_job_local_rank, -1)                                                \
    X(accel_job_local_size, 0)                                                 \
    X(accel_job_node, -1)                                                      \
    X(accel_job_nodes, 0)                                                      \
    X(accel_job_provider, NULL)                                                \
    X(accel_job_reason, NULL)                                                  \
    X(accel_topo_cores, 0)                                                     \
    X(accel_topo_threads, 0)                                                   \
    X(accel_topo_machine_cores, 0)                                             \
    X(accel_topo_packages, 0)                                                  \
    X(accel_topo_numa_nodes, 0)                                                \
    X(accel_topo_cpus, NULL)                                                   \
    X(accel_topo_numa, -1)                                                     \
    X(accel_topo_cache_bytes, 0)                                               \
    X(accel_settings_count, 0)

static void check_status(accel_status_t status, const char *text)
{
    assert_int_equal(status, ACCEL_ERR_ARG);
    if (strncmp(accel_last_error()->text, text, strlen(text)) != 0)
        fail_msg("want \"%s\", got \"%s\"", text, accel_last_error()->text);
}

static void statuses_name_function_and_argument(void **state)
{
    (void)state;
#define CHECK_STATUS(function, argument, arguments)                            \
    check_status(function arguments, #function ": " #argument " is NULL");
    STATUSES(CHECK_STATUS)
#undef CHECK_STATUS
}

static void results_are_empty(void **state)
{
    (void)state;
    out = &out;
    more = &more;
    count = 9;
    flag = true;
    accel_gather_bytes(NULL, NULL, 0, &out, (size_t **)&more);
    assert_null(out);
    assert_null(more);
    out = &out;
    accel_gather_for_metrics(NULL, NULL, &rows, &out, &count);
    assert_null(out);
    assert_int_equal(count, 0);
    accel_join(NULL, true, &flag);
    assert_false(flag);
    place.epoch = 9;
    accel_loader_get_state(NULL, &place);
    assert_int_equal(place.epoch, 0);
    scale.scale = 9;
    accel_scaler_get_state(NULL, &scale);
    assert_true(scale.scale == 0);
    out = &out;
    more = &more;
    accel_comm_allgather_bytes(NULL, NULL, 0, &out, (size_t **)&more);
    assert_null(out);
    assert_null(more);
    out = &out;
    accel_alloc(NULL, 8, &out);
    assert_null(out);
    request = (accel_request_t *)&out;
    accel_comm_barrier_start(NULL, &request);
    assert_null(request);
    part = (accel_comm_t *)&out;
    accel_comm_split(NULL, 0, 0, &part);
    assert_null(part);
}

static void getters_give_nothing(void **state)
{
    const accel_field_t *fields = &(accel_field_t){0};

    (void)state;
#define CHECK_GETTER(getter, value) assert_true(getter(NULL) == (value));
    GETTERS(CHECK_GETTER)
#undef CHECK_GETTER
    assert_string_equal(accel_precision(NULL), "?");
    assert_null(accel_model_at(NULL, 0));
    assert_null(accel_model_find(NULL, "w"));
    assert_int_equal(accel_dataset_fields(NULL, &fields), 0);
    assert_null(fields);
    assert_int_equal(accel_dataset_shape(NULL, 0, NULL), 0);
    assert_true(accel_schedule_value(NULL, 0) == 0);
    assert_int_equal(accel_job_node_of(NULL, 0), -1);
    assert_int_equal(accel_job_local_rank_of(NULL, 0), -1);
    assert_null(accel_job_node_name(NULL, 0));
    assert_int_equal(accel_topo_device_count(NULL, ACCEL_DEVICE_NIC), 0);
}

static void the_others_do_nothing(void **state)
{
    (void)state;
    assert_int_equal(accel_printf(NULL, "nobody sees %d\n", 1), 0);
    accel_set_trigger(NULL);
    accel_scaler_update(NULL, true);
    accel_loader_set_epoch(NULL, 1);
    accel_job_close(NULL);
    accel_topo_close(NULL);
    accel_settings_free(NULL);
    accel_progress_add(NULL, 1);
    accel_progress_set(NULL, 1, NULL);
    accel_progress_destroy(NULL);
    accel_loader_destroy(NULL);
    accel_dataset_destroy(NULL);
    accel_model_destroy(NULL);
    accel_schedule_destroy(NULL);
    accel_optimizer_destroy(NULL);
    accel_scaler_destroy(NULL);
    accel_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_name_function_and_argument),
        cmocka_unit_test(results_are_empty),
        cmocka_unit_test(getters_give_nothing),
        cmocka_unit_test(the_others_do_nothing),
    };

    return cmocka_run_group_tests_name("null", tests, NULL, NULL);
}
