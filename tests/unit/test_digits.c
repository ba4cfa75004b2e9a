/* digits: its data, and its gradients against differences. */
#include "unit/unit.h"

#include "digits_data.h"
#include "digits_net.h"

#include <accel/rng.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the data ------------------------------------------------------------ */

static void the_data_is_all_there(void **state)
{
    digits_t d;
    size_t seen[10] = {0};

    (void)state;
    assert_int_equal(digits_read(NULL, &d), 0);
    assert_int_equal(d.train, 1437);
    assert_int_equal(d.test, 360);
    for (size_t i = 0; i < d.train + d.test; i++) {
        assert_in_range(d.labels[i], 0, 9);
        seen[d.labels[i]]++;
    }
    /* the counts that UCI gives for optdigits.tes */
    static const size_t known[10] = {178, 182, 177, 183, 181,
                                     182, 181, 179, 174, 180};
    assert_memory_equal(seen, known, sizeof seen);
    digits_free(&d);
    digits_free(&d); /* is empty now */
}

/* Each digit is about a tenth of the test part: the mixing works. */
static void the_parts_are_alike(void **state)
{
    digits_t d;
    size_t seen[10] = {0};

    (void)state;
    assert_int_equal(digits_read(NULL, &d), 0);
    for (size_t i = d.train; i < d.train + d.test; i++)
        seen[d.labels[i]]++;
    for (int digit = 0; digit < 10; digit++)
        assert_in_range(seen[digit], 20, 55);
    digits_free(&d);
}

static int read_text(const char *text)
{
    char path[] = "/tmp/test_digits.XXXXXX";
    int fd = mkstemp(path);
    digits_t d;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int rc = digits_read(path, &d);
    unlink(path);
    digits_free(&d);
    return rc;
}

static void damaged_data_is_refused(void **state)
{
    char line[512] = "", file[2048] = "";
    digits_t d;

    (void)state;
    for (int i = 0; i < 64; i++)
        strcat(line, "16,");
    for (int i = 0; i < 5; i++)
        sprintf(file + strlen(file), "%s%d\n", line, i);
    assert_int_equal(read_text(file), 0);

    assert_int_equal(read_text(""), -1);
    assert_int_equal(read_text("1,2,3\n"), -1);
    line[0] = '9', line[1] = '9'; /* a pixel of 99 */
    sprintf(file, "%s1\n", line);
    assert_int_equal(read_text(file), -1);
    line[0] = '-', line[1] = '1';
    sprintf(file, "%s1\n", line);
    assert_int_equal(read_text(file), -1);
    line[0] = '1';
    sprintf(file, "%s10\n", line); /* no such digit */
    assert_int_equal(read_text(file), -1);
    sprintf(file, "%s1 \n", line);
    assert_int_equal(read_text(file), -1);
    sprintf(file, "%s1\n", line); /* one image cannot be divided */
    assert_int_equal(read_text(file), -1);
    assert_int_equal(digits_read("/nonexistent/digits.csv", &d), -1);
}

/* ---- the network ----------------------------------------------------------
 */

enum { ROWS = 12 };

struct setting {
    float *weights[NET_PARAMS], *grads[NET_PARAMS];
    void *narrow[NET_PARAMS];
    float images[ROWS * NET_PIXELS];
    uint8_t labels[ROWS];
};

static struct setting *new_setting(void)
{
    struct setting *s = calloc(1, sizeof *s);
    accel_rng_t rng;

    assert_non_null(s);
    accel_rng_init(&rng, 3, 0);
    for (int p = 0; p < NET_PARAMS; p++) {
        size_t n = net_shapes[p].elements;
        s->weights[p] = calloc(n, sizeof(float));
        s->grads[p] = calloc(n, sizeof(float));
        s->narrow[p] = calloc(n, sizeof(float));
        assert_true(s->weights[p] && s->grads[p] && s->narrow[p]);
        for (size_t i = 0; i < n; i++)
            s->weights[p][i] = accel_rng_normal(&rng) / 6;
    }
    for (size_t i = 0; i < ROWS * NET_PIXELS; i++)
        s->images[i] = (float)accel_rng_below(&rng, 17) / 16;
    for (size_t i = 0; i < ROWS; i++)
        s->labels[i] = (uint8_t)accel_rng_below(&rng, 10);
    return s;
}

static void free_setting(struct setting *s)
{
    for (int p = 0; p < NET_PARAMS; p++) {
        free(s->weights[p]);
        free(s->grads[p]);
        free(s->narrow[p]);
    }
    free(s);
}

static double loss_of(net_t *net, const struct setting *s, accel_dtype_t dtype)
{
    for (int p = 0; p < NET_PARAMS; p++)
        accel_convert(s->narrow[p], dtype, s->weights[p], ACCEL_F32,
                      net_shapes[p].elements);
    return net_forward(net, (const void *const *)s->narrow, s->images,
                       s->labels, ROWS, NULL);
}

static void gradients_match_differences(void **state)
{
    struct setting *s = new_setting();
    net_t *net = net_create(ACCEL_F32, ROWS);
    const float seed = 4;

    (void)state;
    assert_non_null(net);
    loss_of(net, s, ACCEL_F32);
    net_backward(net, seed, s->grads);
    for (int p = 0; p < NET_PARAMS; p++)
        for (size_t i = 0; i < net_shapes[p].elements; i += 1 + i / 7) {
            float *w = &s->weights[p][i], kept = *w;
            const float step = 1e-3f; /* larger ones cross kinks */
            *w = kept + step;
            double above = loss_of(net, s, ACCEL_F32);
            *w = kept - step;
            double below = loss_of(net, s, ACCEL_F32);
            *w = kept;
            double want = (above - below) / (2 * (double)step);
            double got = (double)(s->grads[p][i] / seed);
            if (fabs(got - want) > 1e-3 + 1e-2 * fabs(want))
                fail_msg("%s[%zu]: %g, by differences %g", net_shapes[p].name,
                         i, got, want);
        }
    net_destroy(net);
    free_setting(s);
}

static void gradients_are_added(void **state)
{
    struct setting *s = new_setting();
    net_t *net = net_create(ACCEL_F32, ROWS);

    (void)state;
    loss_of(net, s, ACCEL_F32);
    net_backward(net, 1, s->grads);
    float once = s->grads[NET_B2][3];
    loss_of(net, s, ACCEL_F32);
    net_backward(net, 1, s->grads);
    assert_true(once != 0 && s->grads[NET_B2][3] == 2 * once);
    net_destroy(net);
    free_setting(s);
}

static void narrow_types_are_near_and_really_round(void **state)
{
    static const accel_dtype_t types[] = {ACCEL_F16, ACCEL_BF16};
    struct setting *s = new_setting();
    net_t *wide = net_create(ACCEL_F32, ROWS);
    double want = loss_of(wide, s, ACCEL_F32);

    (void)state;
    for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
        net_t *net = net_create(types[t], ROWS);
        double got = loss_of(net, s, types[t]);
        assert_true(got != want);
        assert_true(fabs(got - want) < 0.02 * want);
        net_destroy(net);
    }
    net_destroy(wide);
    free_setting(s);
}

/* Whether every gradient is finite when the backward pass starts from `seed`.
 */
static bool finite_with(struct setting *s, accel_dtype_t dtype, float seed)
{
    net_t *net = net_create(dtype, ROWS);
    bool finite = true;

    for (int p = 0; p < NET_PARAMS; p++)
        memset(s->grads[p], 0, net_shapes[p].elements * sizeof(float));
    loss_of(net, s, dtype);
    net_backward(net, seed, s->grads);
    for (int p = 0; p < NET_PARAMS; p++)
        for (size_t i = 0; i < net_shapes[p].elements; i++)
            finite = finite && isfinite(s->grads[p][i]);
    net_destroy(net);
    return finite;
}

static void only_fp16_overflows(void **state)
{
    struct setting *s = new_setting();

    (void)state;
    assert_true(finite_with(s, ACCEL_F16, 1024));
    assert_false(finite_with(s, ACCEL_F16, 0x1p20f));
    assert_true(finite_with(s, ACCEL_BF16, 0x1p20f));
    assert_true(finite_with(s, ACCEL_F32, 0x1p20f));
    free_setting(s);
}

static void guesses_are_the_likeliest(void **state)
{
    struct setting *s = new_setting();
    net_t *net = net_create(ACCEL_F32, ROWS);
    int32_t digits[ROWS];

    (void)state;
    for (int p = 0; p < NET_PARAMS; p++)
        memset(s->weights[p], 0, net_shapes[p].elements * sizeof(float));
    s->weights[NET_B2][7] = 1; /* whatever the image */
    net_forward(net, (const void *const *)s->weights, s->images, NULL, ROWS,
                digits);
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(digits[i], 7);
    net_destroy(net);
    net_destroy(NULL);
    free_setting(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_data_is_all_there),
        cmocka_unit_test(the_parts_are_alike),
        cmocka_unit_test(damaged_data_is_refused),
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(gradients_are_added),
        cmocka_unit_test(narrow_types_are_near_and_really_round),
        cmocka_unit_test(only_fp16_overflows),
        cmocka_unit_test(guesses_are_the_likeliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
