/*
 * Between the nodes: news.c carries news among the ranks of a rail (a fault, an
 * orderly leave, whom a node waits for), exec.c data among ranks of the same
 * local rank, as a plan says; inter.c chooses the plan by what measure.c
 * found.
 */
#ifndef AX_INTER_PRIV_H
#define AX_INTER_PRIV_H

#include "comm/comm_priv.h"
#include "comm/model.h"
#include "comm/pipe.h"

/* What a rank that carries data says outside the operations. */
typedef enum ax_news_kind {
    AX_NEWS_FAULT = 1, /* the communicator has failed */
    AX_NEWS_LEFT,      /* this rank has closed */
    AX_NEWS_WAITING    /* a leader: still waiting, perhaps for a rank there */
} ax_news_kind_t;

typedef struct ax_news {
    uint32_t kind;
    int32_t node;
    int32_t status;
    int32_t rank;           /* WAITING: for whom, or -1 */
    uint64_t last;          /* the sender's newest call */
    uint64_t rank_last;     /* WAITING: that rank's newest call */
    char text[AX_SEG_TEXT]; /* FAULT; not sent otherwise */
} ax_news_t;

/* What such a rank knows of another node. */
typedef struct ax_peer {
    uint64_t last; /* newest call that all its ranks have entered */
    int waits_for; /* a rank that it waits for, there or elsewhere, or -1 */
    uint64_t waits_last, waits_ns; /* that rank's newest call; when we heard */
    uint64_t failed_ns;            /* the way to it was found broken */
    uint64_t left_ns;              /* it has left in good order */
    ax_news_t news;                /* to it */
    ax_net_req_t sent;
    bool sending;
} ax_peer_t;

/* The first message of an operation. */
typedef struct ax_head {
    ax_call_t call;
    int32_t status;
    int32_t rank; /* whose status that is */
    uint32_t differ;
    char text[AX_SEG_TEXT]; /* sent when status is an error */
} ax_head_t;

/* One message of an exchange. */
typedef struct ax_move {
    ax_net_req_t req;
    int node;
    bool recv;
    void *data;
    size_t bytes, least; /* a receive: at most and at least */
} ax_move_t;

/* Where a rank can be reached. */
typedef struct ax_address {
    size_t bytes;
    char data[];
} ax_address_t;

/* A plan and where its data lies; `how` is NULL when bytes are only moved. */
typedef struct ax_exec {
    const ax_plan_t *plan;
    const ax_reduction_t *how;
    char *acc, *out;
} ax_exec_t;

/* One that is being carried out. */
typedef struct ax_flight {
    ax_exec_t what;
    ax_plan_t plan;
    size_t round, rounds, steps; /* steps: of the round that is under way */
    bool begun;                  /* the round's messages are started */
    accel_status_t status;
} ax_flight_t;

struct ax_inter {
    ax_net_t *net;
    uint64_t nonce; /* of this communicator, in all tags */
    uint32_t step;
    int nodes;
    ax_peer_t *peers;
    ax_move_t *moves;
    int nmoves;
    bool *awaited;
    bool told; /* the others know of the fault, or it came from them */
    bool listening;
    ax_news_t in;
    ax_net_req_t in_req;
    ax_head_t *heads;
    const void **src;
    ax_call_t *calls; /* of all ranks that differ */
    bool *reached;    /* ranks that this one has connected to */
    ax_address_t **addresses;
    char *room;
    size_t room_bytes;
    ax_step_t *steps; /* of one round */
    ax_flight_t flight;
    bool flying;      /* `flight` has not come to its end */
    ax_model_t model; /* when measured: alike on all nodes */
    bool measured;
    ax_model_t rail_model; /* of all rails at once: alike on all ranks */
    bool rails_measured;
    int rails_forced; /* by the setting, or a test: rails (1), none (0), best
                         (-1) */
    /* this rank's slice of each node's part, sent and, in an all-to-all,
     * received: those of the plan that is carried out */
    size_t *slices, *ends, *slices2, *ends2;
    int forced; /* the way that a test wants, or -1 */
};

/* Is node k there, as far as the transport knows? */
static inline const char *ax_inter_broken(const accel_comm_t *c, int node)
{
    const ax_net_t *net = c->inter->net;

    return net->ops->failed(net->self, ax_rail_rank(c, node));
}

/* What a message is; tags hold it, and who sends. */
typedef enum ax_tag {
    AX_TAG_DATA = 0, /* of a plan, from a node */
    AX_TAG_NEWS,     /* from a node */
    AX_TAG_LETTER,   /* from rank to rank: letter.c */
    AX_TAG_ANSWER,
    AX_TAG_BYTES
} ax_tag_t;

uint64_t ax_inter_tag(const ax_inter_t *x, ax_tag_t kind, int from,
                      uint32_t step);

/* exec.c: messages of one round; ax_moves_run() waits for them. */
void ax_moves_add(ax_inter_t *x, const ax_move_t *move);
accel_status_t ax_moves_run(accel_comm_t *c);

/* Makes x->room at least so long; what was in it may move. */
accel_status_t ax_inter_room(accel_comm_t *c, size_t bytes);

/*
 * Carrying out a plan. Once started it moves on whenever the rank polls, as it
 * does in all waits; end waits for it. An error of the poll is told by end.
 * One at a time, and no ax_moves_run() meanwhile.
 */
accel_status_t ax_exec_start(accel_comm_t *c, const ax_exec_t *what);
accel_status_t ax_exec_end(accel_comm_t *c);
void ax_exec_poll(accel_comm_t *c);

/* measure.c: fills in x->model unless it is there. All leaders call it at the
 * same place. */
accel_status_t ax_inter_measure(accel_comm_t *c);

/* The same for this rank's rail, while the others measure theirs. */
accel_status_t ax_rail_measure(accel_comm_t *c, ax_model_t *model);

/* Of each constant the larger one. */
void ax_model_worst(ax_model_t *m, const ax_model_t *other);

/* inter.c: the way that the model, or a test, wants for `ask`. */
void ax_inter_choose(const accel_comm_t *c, const ax_model_t *model,
                     const ax_ask_t *ask, ax_plan_t *plan);

/*
 * rail.c: each of the first c->rails ranks of a node carries a slice of a
 * large message. All ranks of all nodes ask at the same place.
 */

/* Is it faster so than through the leaders? Measures when it must. */
accel_status_t ax_rail_better(accel_comm_t *c, const ax_ask_t *ask, bool *yes);

/* Starts this rank's slice, one of `pieces`, of `what`, whose plan is that of
 * the whole. */
accel_status_t ax_rail_start(accel_comm_t *c, const ax_ask_t *ask,
                             const ax_exec_t *what, int pieces);

/* news.c */
accel_status_t ax_news_listen(accel_comm_t *c);
void ax_news_left(accel_comm_t *c);

#endif
