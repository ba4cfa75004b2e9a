/* See product.h. */
#include "multi/product.h"

#include "multi/product_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS 16
#define PERIOD 91 /* values repeat, so that checking is cheap */
#define CANARY 0x5a
#define EDGE 64 /* bytes before and behind a buffer that must stay */

static _Thread_local accel_comm_t *comm;
static _Thread_local int rank, size;
static _Thread_local const trial_t *now;
static _Thread_local accel_request_t *request;

static void die(const char *what, size_t i, double got, double want)
{
    fprintf(stderr,
            "rank %d of %d on %d nodes: %s %s x %zu op %d shape %d form %d "
            "spread %d rails %d root %d: %s: element %zu is %g, want %g (%s)\n",
            rank, size, comm->nodes, about[now->what].text,
            accel_dtype_name(now->t), now->count, now->op, now->shape,
            now->form, now->spread, now->rails, now->root, what, i, got, want,
            accel_last_error()->text);
    exit(1);
}

/* ---- values -----------------------------------------------------------------
 */

/* Element i of what `from` sends to `to`; in a reduction to is 0. */
static double value(int from, int to, size_t i)
{
    size_t k = i % PERIOD;
    int who = from * 5 + to * 3;

    if (about[now->what].reduces && now->op == ACCEL_PROD)
        return (k + (size_t)from) % 5 == 0 ? 2 : 1;
    int v = (int)((k * 7 + (size_t)who + k / 11) % 13);
    return is_unsigned(now->t) ? v : v - 6;
}

static double reduced(size_t i)
{
    double x = value(0, 0, i);

    for (int r = 1; r < size; r++) {
        double y = value(r, 0, i);
        if (now->op == ACCEL_MIN)
            x = y < x ? y : x;
        else if (now->op == ACCEL_MAX)
            x = y > x ? y : x;
        else if (now->op == ACCEL_PROD)
            x *= y;
        else
            x += y;
    }
    return now->op == ACCEL_AVG ? x / size : x;
}

static double wanted(int from, int to, size_t i)
{
    return about[now->what].reduces ? reduced(i) : value(from, to, i);
}

static void fill(char *at, int to, size_t first, size_t count)
{
    size_t e = accel_dtype_size(now->t);

    for (size_t i = 0; i < count && i < PERIOD; i++)
        put(at, now->t, i, value(rank, to, first + i));
    for (size_t done = PERIOD; done < count; done += PERIOD)
        memcpy(at + done * e, at,
               (count - done < PERIOD ? count - done : PERIOD) * e);
}

static bool right(double got, double want)
{
    double unit = now->t == ACCEL_BF16  ? 0x1p-8
                  : now->t == ACCEL_F16 ? 0x1p-11
                  : now->t == ACCEL_F32 ? 0x1p-22
                                        : 0x1p-50;

    if (about[now->what].reduces && now->op == ACCEL_AVG)
        return fabs(got - want) <= unit * fabs(want);
    return got == want;
}

/* `count` elements that came from `from`, of which the first is `first`. */
static void check_part(const char *at, int from, int to, size_t first,
                       size_t count)
{
    size_t e = accel_dtype_size(now->t);

    for (size_t i = 0; i < PERIOD && i < count; i++) {
        double got = get(at, now->t, i), want = wanted(from, to, first + i);
        if (!right(got, want))
            die("wrong", i, got, want);
    }
    /* bit for bit the same again */
    for (size_t i = PERIOD; i < count; i++) {
        size_t n = count - i;
        if (memcmp(at + (i - PERIOD) * e, at + i * e, n * e) == 0)
            break;
        if (memcmp(at + (i - PERIOD) * e, at + i * e, e) != 0)
            die("wrong", i, get(at, now->t, i), get(at, now->t, i - PERIOD));
    }
}

/* What is sent is still what it was. */
static void check_sent(const char *at, int to, size_t count)
{
    size_t e = accel_dtype_size(now->t);
    size_t first = count < PERIOD ? count : PERIOD;

    for (size_t i = 0; i < first; i++)
        if (get(at, now->t, i) != value(rank, to, i))
            die("changed what is sent", i, get(at, now->t, i),
                value(rank, to, i));
    if (count > first && memcmp(at, at + first * e, (count - first) * e) != 0)
        die("changed what is sent", count, 0, 0);
}

/* ---- parts ------------------------------------------------------------------
 */

typedef struct layout {
    size_t counts[MOST_RANKS], places[MOST_RANKS];
    size_t total, extent;
    accel_parts_t parts;
} layout_t;

/* How many elements `from` sends to `to`: alike both ways, for in-place
 * exchanges. In all but all-to-all-v one of the two is 0. */
static size_t part_size(int from, int to)
{
    size_t n = now->count, who = (size_t)(from + to);

    switch (now->shape) {
    case RAMP:
        return n * who / (size_t)size;
    case ONE:
        return who == (size_t)(now->dice % (uint64_t)size) ? n : 0;
    case HOLES:
        return who % 2 ? 0 : (n > who ? n - who : n);
    default:
        return n;
    }
}

/* `theirs`: of what comes, from each rank; else of what goes to each. */
static void lay_out(layout_t *l, bool pairs, bool theirs, bool spread)
{
    size_t at = 0;

    *l = (layout_t){0};
    for (int k = 0; k < size; k++) {
        int r = spread ? size - 1 - k : k;
        int from = pairs && !theirs ? rank : r;
        l->counts[r] = part_size(from, pairs ? (theirs ? rank : r) : 0);
        l->places[r] = at;
        at += l->counts[r] + (spread ? 3 : 0);
        l->total += l->counts[r];
    }
    l->extent = at;
    l->parts = (accel_parts_t){.counts = l->counts,
                               .places = spread ? l->places : NULL};
}

/* ---- buffers ----------------------------------------------------------------
 */

/* Memory of the heap, made once for a communicator: a lump for what is sent
 * and another for what comes. A buffer may begin in it where it likes. */
static _Thread_local void *lumps[2];
static _Thread_local size_t lump_bytes;

static bool in_heap(bool sent)
{
    switch (now->form) {
    case HEAP:
    case HEAP_IN_PLACE:
        return true;
    case HEAP_SENT:
        return sent;
    case HEAP_COMES:
        return !sent;
    case HEAP_SOME:
    case HEAP_SOME_IN_PLACE:
        return (now->dice >> (32 + 2 * rank + sent)) & 1;
    default:
        return false;
    }
}

/* `sent`: what is sent lies there, be it that the result comes there too. */
static char *guarded(size_t elements, bool sent)
{
    size_t bytes = elements * accel_dtype_size(now->t) + 2 * EDGE;
    /* ranks have it at different offsets, now and then */
    size_t at = (size_t)(now->dice >> 40) % 2 ? (size_t)rank * 192 : 0;
    char *p;

    if (in_heap(sent) && bytes + at <= lump_bytes)
        p = (char *)lumps[sent] + at;
    else
        p = malloc(bytes);
    if (!p)
        die("malloc", 0, 0, 0);
    memset(p, CANARY, bytes);
    return p + EDGE;
}

static bool is_lump(const char *p)
{
    uintptr_t at = (uintptr_t)p;

    for (int i = 0; i < 2; i++)
        if (at >= (uintptr_t)lumps[i] && at - (uintptr_t)lumps[i] < lump_bytes)
            return true;
    return false;
}

static void release(char *p, size_t elements)
{
    size_t bytes = elements * accel_dtype_size(now->t);

    for (size_t i = 0; i < EDGE; i++)
        if (p[bytes + i] != CANARY || p[(ptrdiff_t)i - EDGE] != CANARY)
            die("wrote beside the buffer", i, 0, 0);
    if (!is_lump(p))
        free(p - EDGE);
}

static void check_untouched(const char *p, size_t elements)
{
    for (size_t i = 0; i < elements * accel_dtype_size(now->t); i++)
        if (p[i] != CANARY)
            die("wrote where nothing was to come", i, 0, 0);
}

static bool in_place(void)
{
    return now->form == IN_PLACE || now->form == HEAP_IN_PLACE ||
           now->form == HEAP_SOME_IN_PLACE;
}

/* Some ranks start it, the others call it. */
static bool starts(void)
{
    return (now->dice >> 8) % 3 == 0 ||
           ((now->dice >> 8) % 3 == 1 && rank % 2 == 0);
}

static void ended(accel_status_t st)
{
    bool done = false;
    size_t index = 7;

    if (starts() && st == ACCEL_OK && !request)
        die("no request", 0, 0, 0);
    if (request && (now->dice >> 16) % 4 == 0)
        st = accel_request_wait(&request);
    else if (request && (now->dice >> 16) % 4 == 1)
        st = accel_request_wait_all(&request, 1);
    else if (request && (now->dice >> 16) % 4 == 2)
        st = accel_request_wait_any(&request, 1, &index);
    while (request && st == ACCEL_OK && !done)
        st = accel_request_test(&request, &done);
    if (st != ACCEL_OK || request)
        die("failed", 0, (double)st, 0);
}

/* ---- the operations ---------------------------------------------------------
 */

#define DO(name, ...)                                                          \
    ended(starts() ? accel_comm_##name##_start(comm, __VA_ARGS__, &request)    \
                   : accel_comm_##name(comm, __VA_ARGS__))

static void try_allreduce(void)
{
    size_t n = now->count;
    char *recv = guarded(n, in_place());
    char *send = in_place() ? recv : guarded(n, true);

    fill(send, 0, 0, n);
    DO(allreduce, send, recv, n, now->t, now->op);
    check_part(recv, 0, 0, 0, n);
    if (send != recv)
        check_sent(send, 0, n);
    release(recv, n);
    if (send != recv)
        release(send, n);
}

static void try_reduce(void)
{
    size_t n = now->count;
    bool get_it = rank == now->root;
    char *recv = guarded(n, get_it && in_place());
    char *send = get_it && in_place() ? recv : guarded(n, true);

    fill(send, 0, 0, n);
    DO(reduce, send, get_it || now->spread ? recv : NULL, n, now->t, now->op,
       now->root);
    if (get_it)
        check_part(recv, 0, 0, 0, n);
    else
        check_untouched(recv, n);
    if (send != recv) {
        check_sent(send, 0, n);
        release(send, n);
    }
    release(recv, n);
}

static void try_reduce_scatter(bool parts)
{
    layout_t l;
    size_t before = 0;

    lay_out(&l, false, false, false);
    for (int r = 0; r < rank; r++)
        before += l.counts[r];
    char *send = guarded(l.total, true);
    char *recv = in_place() ? send : guarded(l.counts[rank], false);
    fill(send, 0, 0, l.total);
    if (parts)
        DO(reduce_scatterv, send, recv, l.counts, now->t, now->op);
    else
        DO(reduce_scatter, send, recv, now->count, now->t, now->op);
    check_part(recv, 0, 0, before, l.counts[rank]);
    if (recv != send) {
        check_sent(send, 0, l.total);
        release(recv, l.counts[rank]);
    }
    release(send, l.total);
}

static void try_broadcast(void)
{
    char *buffer = guarded(now->count, rank == now->root);

    if (rank == now->root)
        fill(buffer, 0, 0, now->count);
    DO(broadcast, buffer, now->count, now->t, now->root);
    check_part(buffer, now->root, 0, 0, now->count);
    release(buffer, now->count);
}

static void try_bytes(void)
{
    size_t e = accel_dtype_size(now->t), n = part_size(rank, 0), *at = NULL;
    char *send = guarded(n, true);
    void *all = NULL;

    fill(send, 0, 0, n);
    DO(allgather_bytes, send, n * e, &all, &at);
    for (int r = 0; r < size; r++) {
        if (at[r + 1] - at[r] != part_size(r, 0) * e)
            die("size", (size_t)r, (double)(at[r + 1] - at[r]), 0);
        check_part((char *)all + at[r], r, 0, 0, part_size(r, 0));
    }
    free(all);
    free(at);
    release(send, n);
}

static void run_gather(const char *send, char *recv, layout_t *l)
{
    size_t n = now->count;

    switch (now->what) {
    case DO_ALLGATHER:
        DO(allgather, send, recv, n, now->t);
        break;
    case DO_ALLGATHERV:
        DO(allgatherv, send, recv, &l->parts, now->t);
        break;
    case DO_GATHER:
        DO(gather, send, recv, n, now->t, now->root);
        break;
    default:
        DO(gatherv, send, recv, &l->parts, now->t, now->root);
    }
}

static void try_gather(void)
{
    size_t e = accel_dtype_size(now->t);
    bool rooted = now->what == DO_GATHER || now->what == DO_GATHERV;
    bool get_it = !rooted || rank == now->root;
    layout_t l;

    lay_out(&l, false, true, now->spread && about[now->what].parts);
    size_t mine = l.counts[rank], extent = l.extent;
    char *recv = guarded(extent, get_it && in_place());
    char *send =
        get_it && in_place() ? recv + l.places[rank] * e : guarded(mine, true);
    fill(send, 0, 0, mine);
    if (!get_it) /* what is not looked at may be anything */
        l.parts = (accel_parts_t){.counts = (size_t *)(uintptr_t)8,
                                  .places = (size_t *)(uintptr_t)8,
                                  .mine = mine};
    run_gather(send, get_it ? recv : NULL, &l);
    for (int r = 0; get_it && r < size; r++)
        check_part(recv + l.places[r] * e, r, 0, 0, l.counts[r]);
    if (!get_it)
        check_untouched(recv, extent);
    if (!get_it || !in_place()) {
        check_sent(send, 0, mine);
        release(send, mine);
    }
    release(recv, extent);
}

static void try_scatter(void)
{
    size_t e = accel_dtype_size(now->t);
    bool gives = rank == now->root, parts = now->what == DO_SCATTERV;
    layout_t l;

    lay_out(&l, false, false, now->spread && parts);
    size_t mine = l.counts[rank], extent = l.extent;
    char *send = guarded(extent, true);
    char *recv =
        gives && in_place() ? send + l.places[rank] * e : guarded(mine, false);
    for (int r = 0; gives && r < size; r++)
        fill(send + l.places[r] * e, r, 0, l.counts[r]);
    if (!gives)
        l.parts =
            (accel_parts_t){.counts = (size_t *)(uintptr_t)8, .mine = mine};
    if (parts)
        DO(scatterv, gives ? send : NULL, recv, &l.parts, now->t, now->root);
    else
        DO(scatter, gives ? send : NULL, recv, now->count, now->t, now->root);
    check_part(recv, now->root, rank, 0, mine);
    for (int r = 0; gives && r < size; r++)
        check_sent(send + l.places[r] * e, r, l.counts[r]);
    if (!gives || !in_place())
        release(recv, mine);
    release(send, extent);
}

static void try_alltoall(void)
{
    size_t e = accel_dtype_size(now->t);
    bool parts = now->what == DO_ALLTOALLV;
    layout_t to, from;

    lay_out(&to, true, false, now->spread && parts);
    lay_out(&from, true, true, now->spread && parts && in_place());
    char *send = guarded(to.extent, true);
    char *recv = in_place() ? send : guarded(from.extent, false);
    for (int r = 0; r < size; r++)
        fill(send + to.places[r] * e, r, 0, to.counts[r]);
    if (parts)
        DO(alltoallv, send, &to.parts, recv, &from.parts, now->t);
    else
        DO(alltoall, send, recv, now->count, now->t);
    for (int r = 0; r < size; r++)
        check_part(recv + from.places[r] * e, r, rank, 0, from.counts[r]);
    for (int r = 0; recv != send && r < size; r++)
        check_sent(send + to.places[r] * e, r, to.counts[r]);
    if (recv != send)
        release(recv, from.extent);
    release(send, to.extent);
}

static void try_one(const trial_t *trial)
{
    now = trial;
    ax_inter_force_rails(comm, trial->rails);
    switch (trial->what) {
    case DO_ALLREDUCE:
        try_allreduce();
        break;
    case DO_REDUCE:
        try_reduce();
        break;
    case DO_REDUCE_SCATTER:
    case DO_REDUCE_SCATTERV:
        try_reduce_scatter(trial->what == DO_REDUCE_SCATTERV);
        break;
    case DO_BROADCAST:
        try_broadcast();
        break;
    case DO_BYTES:
        try_bytes();
        break;
    case DO_SCATTER:
    case DO_SCATTERV:
        try_scatter();
        break;
    case DO_ALLTOALL:
    case DO_ALLTOALLV:
        try_alltoall();
        break;
    default:
        try_gather();
    }
}

/* ---- the product ------------------------------------------------------------
 */

const char *product_operation(size_t index)
{
    return index < OPERATION_COUNT ? about[index].text : NULL;
}

/* What ACCEL_TEST_PRODUCT wants: so many cases, or piece k of n of all. */
typedef struct wish {
    size_t cases; /* 0: the piece */
    uint64_t piece, pieces;
} wish_t;

static wish_t wish_of(size_t cases)
{
    const char *text = getenv("ACCEL_TEST_PRODUCT");
    wish_t wish = {.cases = cases, .piece = 1, .pieces = 1};
    char *end;

    if (!text)
        return wish;
    wish.cases = 0;
    if (strcmp(text, "all") == 0)
        return wish;
    wish.piece = strtoul(text, &end, 10);
    if (*end == '/')
        wish.pieces = strtoul(end + 1, &end, 10);
    else
        wish.cases = (size_t)wish.piece;
    if (end == text || *end || wish.piece == 0 || wish.piece > wish.pieces) {
        if (wish.cases && !*end)
            return wish;
        fprintf(stderr, "ACCEL_TEST_PRODUCT=%s: want N, K/N or all\n", text);
        exit(2);
    }
    return wish;
}

static size_t try_piece(const wish_t *wish)
{
    trial_t trial;
    uint64_t there = 0;
    size_t tried = 0;

    for (uint64_t i = 0; i < ALL_CASES; i++) {
        if (!product_case(comm, i, &trial) ||
            there++ % wish->pieces + 1 != wish->piece)
            continue;
        try_one(&trial);
        tried++;
    }
    return tried;
}

/* As many of each operation. */
static size_t try_sample(size_t cases, uint64_t seed)
{
    trial_t trial;
    size_t tried = 0;

    for (uint64_t i = 0; tried < cases; i++) {
        uint64_t number = ax_hash(&i, sizeof i, seed) % ALL_CASES;
        number += (seed + tried) % OPERATION_COUNT - number % OPERATION_COUNT;
        if (!product_case(comm, number, &trial))
            continue;
        try_one(&trial);
        tried++;
    }
    return tried;
}

size_t product(accel_comm_t *c, size_t cases, uint64_t seed)
{
    static const trial_t none;
    wish_t wish = wish_of(cases);
    size_t tried;

    comm = c;
    now = &none;
    rank = accel_comm_rank(c);
    size = accel_comm_size(c);
    lump_bytes = 4 * comm->seg->slot_bytes + (64u << 10);
    for (int i = 0; i < 2; i++)
        if (accel_alloc(c, lump_bytes, &lumps[i]) != ACCEL_OK)
            die("accel_alloc", 0, 0, 0);
    tried = wish.cases ? try_sample(wish.cases, seed) : try_piece(&wish);
    for (int i = 0; i < 2; i++)
        if (accel_free(c, lumps[i]) != ACCEL_OK)
            die("accel_free", 0, 0, 0);
    if (accel_comm_barrier(c) != ACCEL_OK)
        die("the last barrier", 0, 0, 0);
    return tried;
}
