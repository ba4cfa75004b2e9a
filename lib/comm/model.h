/*
 * model: which way a collective takes between nodes. Time is so much for a
 * round, for each further message of it, for each byte sent or received and
 * for each byte added; the constants are measured once and agreed, so that
 * all nodes choose alike. Pure functions: measure.c measures.
 */
#ifndef AX_MODEL_H
#define AX_MODEL_H

#include "comm/plan.h"

/* Seconds. `crowd` is a byte's time when all nodes send to all at once. */
typedef struct ax_model {
    double round, message, byte, crowd, add;
} ax_model_t;

typedef struct ax_ask {
    ax_plan_kind_t kind;
    int nodes;
    double acc_bytes, out_bytes; /* of all elements, in ACC and in OUT */
    bool ordered;                /* the order of adding shows */
    bool cut;                    /* a slice of each part: others lie between */
} ax_ask_t;

/* What the busiest node does, one round after the other. */
typedef struct ax_load {
    double rounds;
    double messages; /* sent, or received if those are more */
    double bytes;    /* likewise */
    double added;    /* bytes read by adding and by ending it */
    bool crowded;
} ax_load_t;

/* Segments of a chain that take the least time: at least 1. */
size_t ax_model_segments(const ax_model_t *m, const ax_ask_t *ask);

ax_load_t ax_model_load(const ax_ask_t *ask, ax_way_t way, size_t segments);
double ax_model_cost(const ax_model_t *m, const ax_load_t *load);

/* Seconds of a way for this question; infinite where it does not serve. */
double ax_model_time(const ax_model_t *m, const ax_ask_t *ask, ax_way_t way);

/* The way that takes the least time of those that serve. */
ax_way_t ax_model_choose(const ax_model_t *m, const ax_ask_t *ask);

/* A table of choices: one line of text a call, while `line` counts from 0;
 * false after the last. */
bool ax_model_line(const ax_model_t *m, int nodes, int line, char *text,
                   size_t room);

#endif
