// SPDX-License-Identifier: Apache-2.0
// Ranks of one process joined by queues in memory; see backend_local_internal.h.
//
// One lock for the whole world: this backend is meant to be correct, not fast. Messages and posted
// receives are items from a free list, so steady use allocates nothing. The receiving rank matches
// messages when it tests: in order of sending, each arrived message goes to the first posted
// receive with its source and tag.
#include <pthread.h>
#include <string.h>

#include "collective/backend_local_internal.h"
#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"

#define EAGER_BYTES 1024u
#define DELAY_DRAW 0x6c6f6361u // counter word that separates these draws from others

typedef struct queue_item queue_item;
struct queue_item {
    queue_item *next;
    int from, tag;
    const void *source; // of a message: the sender's memory, or 'copy'
    void *target;       // of a receive
    size_t bytes;
    int64_t arrival_ns;
    bool buffered, done;
    size_t sent_bytes; // of a done receive
    unsigned char copy[];
};

typedef struct queue {
    queue_item *first, **end;
} queue;

struct sr_local_world {
    pthread_mutex_t lock;
    int size;
    uint64_t seed;
    uint32_t drawn;
    int64_t max_delay_ns;
    int64_t (*clock_ns)(void);
    size_t eager_bytes, copy_bytes;
    queue *messages, *receives; // per receiving rank
    bool *dead;
    queue_item *unused;
};

struct sr_local_rank {
    sr_local_world *world;
    int rank;
    bool owns_world;
};

static void queue_init(queue *q) {
    q->first = NULL;
    q->end = &q->first;
}

static void queue_push(queue *q, queue_item *n) {
    n->next = NULL;
    *q->end = n;
    q->end = &n->next;
}

// Removes the item that *link points to.
static queue_item *queue_take(queue *q, queue_item **link) {
    queue_item *n = *link;
    *link = n->next;
    if (q->end == &n->next)
        q->end = link;
    n->next = NULL;
    return n;
}

static queue_item *new_item(sr_local_world *world) {
    queue_item *n = world->unused;
    if (!n)
        return sr_alloc(sizeof *n + world->copy_bytes, "message of the local backend");
    world->unused = n->next;
    memset(n, 0, sizeof *n);
    return n;
}

static void give_item(sr_local_world *world, queue_item *n) {
    n->next = world->unused;
    world->unused = n;
}

static void free_items(queue_item *n) {
    while (n) {
        queue_item *next = n->next;
        sr_free(n);
        n = next;
    }
}

void sr_local_world_free(sr_local_world *world) {
    if (!world)
        return;
    for (int r = 0; r < world->size && world->messages && world->receives; r++) {
        free_items(world->messages[r].first);
        free_items(world->receives[r].first);
    }
    free_items(world->unused);
    sr_free(world->messages);
    sr_free(world->receives);
    sr_free(world->dead);
    pthread_mutex_destroy(&world->lock);
    sr_free(world);
}

sr_status sr_local_world_create(const sr_local_options *options, sr_local_world **out) {
    if (options->size < 1)
        return SR_FAIL(SR_E_ARGUMENT, "a local world cannot have %d ranks; at least 1",
                       options->size);
    sr_local_world *world = sr_alloc(sizeof *world, "local world");
    if (!world)
        return SR_E_MEMORY;
    pthread_mutex_init(&world->lock, NULL);
    size_t size = (size_t)options->size;
    world->size = options->size;
    world->seed = options->seed;
    world->max_delay_ns = options->max_delay_ns;
    world->clock_ns = options->clock_ns ? options->clock_ns : sr_clock_ns;
    world->eager_bytes = options->eager_bytes ? options->eager_bytes : EAGER_BYTES;
    world->copy_bytes =
        world->eager_bytes > sizeof(sr_comm_notice) ? world->eager_bytes : sizeof(sr_comm_notice);
    world->messages = sr_alloc_array(size, sizeof *world->messages, "queues");
    world->receives = sr_alloc_array(size, sizeof *world->receives, "queues");
    world->dead = sr_alloc_array(size, sizeof *world->dead, "marks of dead ranks");
    if (!world->messages || !world->receives || !world->dead) {
        sr_local_world_free(world);
        return SR_E_MEMORY;
    }
    for (size_t r = 0; r < size; r++) {
        queue_init(&world->messages[r]);
        queue_init(&world->receives[r]);
    }
    *out = world;
    return SR_OK;
}

sr_status sr_local_rank_create(sr_local_world *world, int rank, bool owns_world,
                               sr_local_rank **out) {
    sr_local_rank *self = sr_alloc(sizeof *self, "rank of the local backend");
    if (!self)
        return SR_E_MEMORY;
    *self = (sr_local_rank){.world = world, .rank = rank, .owns_world = owns_world};
    *out = self;
    return SR_OK;
}

sr_status sr_local_world_join(sr_local_world *world, int rank, const sr_comm_options *options,
                              sr_comm **out) {
    if (rank < 0 || rank >= world->size)
        return SR_FAIL(SR_E_ARGUMENT, "rank %d cannot join a local world of %d ranks", rank,
                       world->size);
    sr_comm_options with_clock = options ? *options : (sr_comm_options){0};
    if (!with_clock.clock_ns)
        with_clock.clock_ns = world->clock_ns;
    sr_local_rank *self = NULL;
    SR_TRY(sr_local_rank_create(world, rank, false, &self));
    sr_status status = sr_comm_start(&(sr_comm_job){.rank = rank, .size = world->size},
                                     &sr_comm_backend_local, self, &with_clock, out);
    if (status != SR_OK)
        sr_free(self);
    return status;
}

void sr_local_world_kill(sr_local_world *world, int rank) {
    pthread_mutex_lock(&world->lock);
    world->dead[rank] = true;
    for (int r = 0; r < world->size; r++) {
        queue *q = &world->messages[r];
        for (queue_item **link = &q->first; *link;) {
            if ((*link)->from != rank) {
                link = &(*link)->next;
                continue;
            }
            queue_item *n = queue_take(q, link);
            if (n->buffered)
                give_item(world, n);
            else
                n->done = true; // its request still refers to it
        }
    }
    pthread_mutex_unlock(&world->lock);
}

// A message of one (source, tag) never overtakes an earlier one.
static int64_t draw_arrival(sr_local_world *world, int to, int from, int tag) {
    if (world->max_delay_ns <= 0)
        return INT64_MIN;
    uint32_t word = sr_philox(world->seed, world->drawn++, DELAY_DRAW, 0, 0).v[0];
    int64_t delay = (int64_t)((double)word * 0x1p-32 * (double)world->max_delay_ns);
    int64_t arrival = world->clock_ns() + delay;
    for (const queue_item *n = world->messages[to].first; n; n = n->next) {
        if (n->from == from && n->tag == tag && n->arrival_ns > arrival)
            arrival = n->arrival_ns;
    }
    return arrival;
}

static bool matches(const queue_item *a, const queue_item *b) {
    return a->from == b->from && a->tag == b->tag;
}

static void hand_over(sr_local_world *world, queue_item *message, queue_item *receive) {
    receive->sent_bytes = message->bytes;
    receive->done = true;
    if (message->bytes == receive->bytes && message->bytes > 0)
        memcpy(receive->target, message->source, message->bytes);
    message->done = true;
    if (message->buffered) // the sender no longer refers to it
        give_item(world, message);
}

static void deliver(sr_local_world *world, int rank) {
    queue *messages = &world->messages[rank], *receives = &world->receives[rank];
    int64_t now = world->max_delay_ns > 0 ? world->clock_ns() : 0;
    for (queue_item **link = &messages->first; *link;) {
        queue_item **posted = &receives->first;
        while (*posted && !matches(*link, *posted))
            posted = &(*posted)->next;
        if (!*posted || (world->max_delay_ns > 0 && (*link)->arrival_ns > now)) {
            link = &(*link)->next;
            continue;
        }
        queue_item *message = queue_take(messages, link);
        hand_over(world, message, queue_take(receives, posted));
    }
}

// A notice of a failure must be sent without the receiver's help.
static bool is_buffered(const sr_local_world *world, int tag, size_t bytes) {
    return bytes <= world->eager_bytes || tag == SR_COMM_TAG_NOTICE || tag == SR_COMM_TAG_BYE;
}

static sr_status isend(void *opaque, int to, int tag, const void *data, size_t bytes,
                       sr_comm_request *request) {
    sr_local_rank *self = opaque;
    sr_local_world *world = self->world;
    pthread_mutex_lock(&world->lock);
    bool dead = world->dead[self->rank]; // its messages are lost
    queue_item *n = dead ? NULL : new_item(world);
    if (n) {
        n->from = self->rank;
        n->tag = tag;
        n->bytes = bytes;
        n->source = data;
        n->buffered = is_buffered(world, tag, bytes);
        if (n->buffered && bytes > 0)
            n->source = memcpy(n->copy, data, bytes);
        n->arrival_ns = draw_arrival(world, to, n->from, tag);
        queue_push(&world->messages[to], n);
        request->backend[0] = n->buffered ? NULL : n;
    }
    pthread_mutex_unlock(&world->lock);
    return n || dead ? SR_OK : SR_E_MEMORY;
}

static sr_status irecv(void *opaque, int from, int tag, void *data, size_t bytes,
                       sr_comm_request *request) {
    sr_local_rank *self = opaque;
    pthread_mutex_lock(&self->world->lock);
    queue_item *n = new_item(self->world);
    if (n) {
        n->from = from;
        n->tag = tag;
        n->target = data;
        n->bytes = bytes;
        queue_push(&self->world->receives[self->rank], n);
        request->backend[0] = n;
    }
    pthread_mutex_unlock(&self->world->lock);
    return n ? SR_OK : SR_E_MEMORY;
}

static sr_status test(void *opaque, sr_comm_request *request, bool *done) {
    sr_local_rank *self = opaque;
    sr_status status = SR_OK;
    pthread_mutex_lock(&self->world->lock);
    deliver(self->world, self->rank);
    queue_item *n = request->backend[0];
    *done = !n || n->done;
    if (n && n->done) {
        if (request->receives && n->sent_bytes != n->bytes)
            status = SR_FAIL(SR_E_PEER,
                             "rank %d sent %zu bytes where %zu were expected (tag %d); start all "
                             "ranks with the same recipe and build",
                             request->peer, n->sent_bytes, n->bytes, request->tag);
        give_item(self->world, n);
        request->backend[0] = NULL;
    }
    pthread_mutex_unlock(&self->world->lock);
    return status;
}

static bool take_back(sr_local_world *world, queue *q, queue_item *n) {
    for (queue_item **link = &q->first; *link; link = &(*link)->next) {
        if (*link == n) {
            give_item(world, queue_take(q, link));
            return true;
        }
    }
    return false;
}

static bool cancel(void *opaque, sr_comm_request *request) {
    sr_local_rank *self = opaque;
    sr_local_world *world = self->world;
    pthread_mutex_lock(&world->lock);
    queue_item *n = request->backend[0];
    if (n) {
        queue *q =
            request->receives ? &world->receives[self->rank] : &world->messages[request->peer];
        if (!take_back(world, q, n))
            give_item(world, n); // done, but never tested
        request->backend[0] = NULL;
    }
    pthread_mutex_unlock(&world->lock);
    return true;
}

static sr_status probe(void *opaque, int tag, int *from) {
    sr_local_rank *self = opaque;
    sr_local_world *world = self->world;
    *from = -1;
    pthread_mutex_lock(&world->lock);
    int64_t now = world->max_delay_ns > 0 ? world->clock_ns() : 0;
    for (const queue_item *n = world->messages[self->rank].first; n; n = n->next) {
        if (n->tag == tag && n->arrival_ns <= now) {
            *from = n->from;
            break;
        }
    }
    pthread_mutex_unlock(&world->lock);
    return SR_OK;
}

static void close_local(void *opaque) {
    sr_local_rank *self = opaque;
    if (self->owns_world)
        sr_local_world_free(self->world);
    sr_free(self);
}

// Not in backend_list.def: a rank needs a world.
const sr_comm_backend sr_comm_backend_local = {
    .struct_size = sizeof(sr_comm_backend),
    .abi = SR_COMM_BACKEND_ABI,
    .name = "local",
    .help = "ranks that are threads of one process, for tests",
    .isend = isend,
    .irecv = irecv,
    .test = test,
    .cancel = cancel,
    .probe = probe,
    .close = close_local,
};
