// SPDX-License-Identifier: Apache-2.0
// The failure of an exchange: the first one that is recorded, which every later call returns. Also
// the text that names the ranks that a wait is for.
#include <stdio.h>

#include "trainer/exchange/exchange_internal.h"

#define NAMED_PEERS 4 // in a message about a wait

void sr_exchange_set_failure(sr_exchange *x, sr_status status, const char *text, const char *told) {
    pthread_mutex_lock(&x->lock);
    if (x->failed == SR_OK) {
        x->failed = status == SR_OK ? SR_E_INTERNAL : status;
        snprintf(x->failure, sizeof x->failure, "%s", text);
        snprintf(x->own_failure, sizeof x->own_failure, "%s", told ? told : text);
        atomic_store_explicit(&x->has_failed, true, memory_order_release);
    }
    x->wakes++;
    pthread_cond_broadcast(&x->wake);
    pthread_cond_broadcast(&x->finished_step);
    pthread_mutex_unlock(&x->lock);
}

void sr_exchange_fail(sr_exchange *x, sr_status status, const char *message) {
    char text[SR_EXCHANGE_TEXT_BYTES];
    snprintf(text, sizeof text, "rank %d (%s): %s", x->rank, sr_comm_peer_name(x->comm, x->rank),
             message);
    sr_exchange_set_failure(x, status, x->size > 1 ? text : message, message);
}

sr_status sr_exchange_failure(sr_exchange *x) {
    pthread_mutex_lock(&x->lock);
    sr_status status = sr_error_adopt(x->failed, "exchange_failure.c", x->failure);
    pthread_mutex_unlock(&x->lock);
    return status;
}

static void append(sr_peer_names *n, const char *a, const char *b, const char *c) {
    const size_t room = sizeof n->text - n->length;
    const int wrote = snprintf(n->text + n->length, room, "%s%s%s", a, b, c);
    if (wrote > 0)
        n->length += (size_t)wrote < room ? (size_t)wrote : room - 1;
}

void sr_exchange_names_begin(sr_peer_names *names, const char *what) {
    *names = (sr_peer_names){.last = -1};
    append(names, what, " ", "");
}

void sr_exchange_names_add(sr_peer_names *names, const sr_exchange *x, int peer) {
    char rank[32];
    if (peer == names->last)
        return;
    names->last = peer;
    if (names->named == NAMED_PEERS) {
        names->unnamed++;
        return;
    }
    (void)snprintf(rank, sizeof rank, "%srank %d (", names->named ? ", " : "", peer);
    append(names, rank, sr_comm_peer_name(x->comm, peer), ")");
    append(names, sr_comm_peer_is_stopped(x->comm, peer) ? SR_COMM_STOPPED : "", "", "");
    names->named++;
}

bool sr_exchange_names_end(sr_peer_names *names) {
    char more[32];
    (void)snprintf(more, sizeof more, " and %d more", names->unnamed);
    append(names, names->unnamed > 0 ? more : "", "", "");
    return names->named > 0;
}
