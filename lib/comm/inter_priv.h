/*
 * The leaders of the nodes: news.c carries news among them (a fault, an
 * orderly leave, whom a node waits for), inter.c the data.
 */
#ifndef AX_INTER_PRIV_H
#define AX_INTER_PRIV_H

#include "comm/comm_priv.h"

/* What a leader says outside the operations. */
typedef enum ax_news_kind {
    AX_NEWS_FAULT = 1, /* the communicator has failed */
    AX_NEWS_LEFT,      /* this leader has closed */
    AX_NEWS_WAITING    /* still waiting, perhaps for a rank of its node */
} ax_news_kind_t;

typedef struct ax_news {
    uint32_t kind;
    int32_t node;
    int32_t status;
    int32_t rank;           /* FAULT: about whom; WAITING: for whom, or -1 */
    uint64_t last;          /* the sender's newest call */
    uint64_t rank_last;     /* WAITING: that rank's newest call */
    char text[AX_SEG_TEXT]; /* FAULT; not sent otherwise */
} ax_news_t;

/* What a leader knows of another node. */
typedef struct ax_peer {
    uint64_t last; /* newest call that all its ranks have entered */
    int waits_for; /* a rank that is missing there, or -1 */
    uint64_t waits_last;
    uint64_t failed_ns; /* the way to it was found broken */
    uint64_t left_ns;   /* it has left in good order */
    ax_news_t news;     /* to it */
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
    char *room;
    size_t room_bytes;
};

uint64_t ax_inter_tag(const ax_inter_t *x, bool news, int node, uint32_t step);

/* news.c */
accel_status_t ax_news_listen(accel_comm_t *c);
void ax_news_left(accel_comm_t *c);

#endif
