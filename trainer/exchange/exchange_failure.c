// SPDX-License-Identifier: Apache-2.0
// The one failure of an exchange: the first that is recorded, returned by every later call.
#include <stdio.h>

#include "trainer/exchange/exchange_internal.h"

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
