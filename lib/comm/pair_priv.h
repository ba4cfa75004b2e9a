/*
 * Messages from rank to rank. pair.c matches what comes with what is wanted
 * and moves bytes inside a node; letter.c moves them between nodes.
 *
 * A send returns when its receiver has the message, so that both learn when
 * they disagree. Whoever waits takes in what is sent to it meanwhile, and
 * holds what it did not ask for yet: two ranks that send to each other do not
 * wait for ever, and tags may be received in another order.
 */
#ifndef AX_PAIR_PRIV_H
#define AX_PAIR_PRIV_H

#include "comm/inter_priv.h"

/* What is held for later receives; what is beyond waits at the sender. */
#define AX_PAIR_HELD (256u << 20)

/* A message: who sends it is known from the place. */
typedef struct ax_message {
    int peer; /* the other rank */
    int tag;
    uint32_t dtype;
    uint64_t count, bytes;
} ax_message_t;

/* Between nodes: bytes that travel with the letter; longer ones come when
 * the answer says so. */
#define AX_LETTER_ROOM 1024u

typedef struct ax_letter {
    int32_t source;
    int32_t tag;
    uint32_t dtype;
    uint32_t leaves; /* no message: this rank has closed */
    uint64_t number; /* of the sender's letters */
    uint64_t count, bytes;
    char data[AX_LETTER_ROOM];
} ax_letter_t;

typedef struct ax_answer {
    int32_t status;
    char text[AX_SEG_TEXT];
} ax_answer_t;

/* A message on its way to me. */
typedef struct ax_inbound {
    struct ax_inbound *next;
    ax_message_t what;
    uint64_t number; /* of its post or letter */
    bool near;       /* from a rank of this node */
    bool started, done, held;
    char *to;
    size_t got;
    char *data; /* a letter's own bytes */
    ax_net_req_t bytes_req, answer_req;
    bool receiving, answering;
    ax_answer_t answer;
} ax_inbound_t;

/* The message that I send; one at a time. */
typedef struct ax_outbound {
    ax_message_t what;
    const char *from;
    size_t put;
    uint64_t number;
    bool near, done;
    bool lettering, answering, sending; /* what is under way */
    ax_net_req_t letter_req, answer_req, bytes_req;
    ax_letter_t letter;
    ax_answer_t answer; /* once done: how it ended */
} ax_outbound_t;

struct ax_pairs {
    ax_inbound_t *first; /* in the order in which they came */
    uint64_t held;
    uint64_t *seen; /* of each local rank's posts */
    ax_outbound_t out;
    /* between nodes */
    uint64_t letters;
    ax_letter_t letter;
    ax_net_req_t letter_req;
    bool listening;
    bool *left; /* ranks that have said so */
    ax_letter_t leave;
};

/* Puts a message that was announced at the end of the list; `data`: its bytes
 * when they came along. False: no memory. */
bool ax_pair_announce(accel_comm_t *c, const ax_message_t *what,
                      uint64_t number, bool near, const char *data);

/* letter.c. Those that begin something say by ax_raise() when they cannot. */
accel_status_t ax_letters_hear(accel_comm_t *c);
accel_status_t ax_letter_send(accel_comm_t *c);
accel_status_t ax_letter_more(accel_comm_t *c); /* of pairs->out */
accel_status_t ax_letter_take(accel_comm_t *c, ax_inbound_t *in);
accel_status_t ax_letter_taking(accel_comm_t *c, ax_inbound_t *in);
accel_status_t ax_letter_refuse(accel_comm_t *c, ax_inbound_t *in);

/* All that is under way ends; before the transport is closed. */
void ax_letters_cancel(accel_comm_t *c);
void ax_letter_cancel(accel_comm_t *c, ax_inbound_t *in);

#endif
