/* Every operation on every number of ranks and nodes: see product.h. Ranks
 * are threads. */
#include "unit/unit.h"

#include "multi/product.h"
#include "unit/ranks.h"

#include <time.h>

/* On each of these. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CASES 12
#else
#define CASES 30
#endif

/* The node of each rank, one letter a rank. */
static const char *const worlds[] = {
    "a",      "aa",       "aaa",      "aaaa",      "aaaaa",
    "aaaaaa", "aaaaaaa",  "aaaaaaaa", "aaaaaaaaa", /* one node */
    "ab",     "abab",     "aabbcc",   "abcabcabc", /* as many on each */
    "abb",    "aaab",     "abbcc",    "abcddda",   "aabcbcacc", /* uneven */
    "abcd",   "abcdabcda"};

struct world_case {
    const char *nodes;
    uint64_t seed;
};

static size_t tried; /* on the world before, as rank 0 counted */

static void one_world(rank_of_t *me)
{
    const struct world_case *w = me->world->arg;

    size_t n = product(me->comm, CASES, w->seed);

    CHECK(n > 0);
    if (me->rank == 0)
        tried = n;
}

static void try_world(const char *letters, uint64_t seed)
{
    char names[16][2] = {{0}};
    const char *nodes[16];
    struct world_case about = {letters, seed};
    struct world w = {.size = (int)strlen(letters),
                      .nodes = nodes,
                      .run = one_world,
                      .arg = &about};

    for (int r = 0; r < w.size; r++) {
        names[r][0] = letters[r];
        nodes[r] = names[r];
    }
    if (strspn(letters, "a") == strlen(letters) || WITH_UCX) {
        clock_t began = clock();
        run_world(&w);
        print_message("%s: %zu cases, %.0f s of CPU\n", letters, tried,
                      (double)(clock() - began) / CLOCKS_PER_SEC);
    } else
        print_message("%s: left out: %s\n", letters, WHY_NOT);
}

static void right_on_one_node(void **state)
{
    (void)state;
    for (size_t i = 0; i < 9; i++)
        try_world(worlds[i], i + 1);
}

static void right_on_several_nodes(void **state)
{
    (void)state;
    for (size_t i = 9; i < ARRAY_SIZE(worlds); i++)
        try_world(worlds[i], i + 1);
}

/* No operation is left out of the sample by chance. */
static void all_operations_are_tried(void **state)
{
    size_t n = 0;

    (void)state;
    while (product_operation(n))
        n++;
    assert_int_equal(n, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_operations_are_tried),
        cmocka_unit_test(right_on_one_node),
        cmocka_unit_test(right_on_several_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
