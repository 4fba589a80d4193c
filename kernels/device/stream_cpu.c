// SPDX-License-Identifier: Apache-2.0
// Streams and events of the CPU devices.
//
// A stream is a thread that takes commands from a bounded queue and leads a team; if the queue is
// full, the caller waits until half of it is done. The thread creates its own pool, so that it is
// the pool's worker 0. A direct stream has neither thread nor queue: its commands run at once, on
// the calling thread.
//
// An event counts its marks. Recording it enqueues a command on the stream that stores the number
// of the mark. A waiter waits for the number that was the latest when its wait began.
//
// "cpu-async" turns a missing wait into a wrong result. Its streams delay work whenever the rules
// allow it: now and then, work that nothing waits for is held back for longer than any reader of
// its results takes, while other streams run ahead. A wait by the host or by another stream ends
// the delay at once, and querying an event ends it within a millisecond, so a correct program loses
// little time. A seed determines which work is delayed (device_cpu_async.c). Accesses outside
// allocated memory fail.
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/base/clock.h"
#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/base/thread.h"
#include "kernels/device/cpu_internal.h"
#include "kernels/device/cpu_stream.h"
#include "kernels/kernel.h"

// Number of commands in a queue. With a long queue a caller can run far ahead of a stream that
// delays work.
enum { QUEUE = 128, ASYNC_QUEUE = 1024 };

// cpu-async: one command in LINGER_EVERY is delayed, by at most LINGER_NS, or LINGER_ASKED_NS once
// a caller queries an event after it; one command in PAUSE_EVERY pauses.
#define LINGER_EVERY 6u
#define LINGER_NS 20000000u
#define LINGER_ASKED_NS 500000u
#define PAUSE_EVERY 16u
#define PAUSE_NS 100000u

typedef struct cpu_stream cpu_stream;

typedef struct cpu_event {
    sr_event head;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, reached; // numbers of marks
    int64_t at_ns;              // when the last mark was reached
    // The stream of the last mark, valid until the mark is reached. NULL: not on a stream with a
    // thread.
    cpu_stream *stream;
    uint64_t end; // number of the stream's commands up to the mark
} cpu_event;

typedef struct copy {
    void *to;
    const void *from; // NULL: zeros
    size_t bytes;
} copy;

typedef struct launch {
    const sr_prepared *prepared;
    const sr_kernel_request *request;
    void *p[SR_KERNEL_MAX_ARGS];
    void *workspace;
    sr_kernel_site site;
} launch;

typedef struct mark {
    cpu_event *event;
    uint64_t number;
    cpu_stream *stream; // of a wait: the stream of the mark, as in the event
    uint64_t end;
} mark;

typedef struct call {
    sr_cpu_stream_fn fn;
    void *user;
} call;

typedef struct command {
    sr_status (*run)(cpu_stream *stream, const struct command *c);
    bool always; // run even after a failure
    union {
        copy copy;
        launch launch;
        mark mark;
        call call;
    } as;
} command;

struct cpu_stream {
    sr_stream head;
    bool direct;
    int threads;
    sr_pool *pool;
    void **scratch; // of each worker
    size_t scratch_bytes;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed, hurry; // hurry: ends the delay of a command
    command *queue;
    uint64_t length;    // of the queue
    uint64_t put, done; // commands queued, commands finished
    uint64_t wanted;    // commands that a caller waits for
    uint64_t asked;     // commands up to an event that a caller queries
    bool ready, stopping;
    sr_kept_error failure;
    sr_rng delays;
};

static cpu_stream *own(sr_stream *stream) {
    return (cpu_stream *)stream;
}

static bool is_async(const sr_device *device) {
    return device->properties.asynchronous;
}

// ---- Pointers and scratch ----

// The pointer to 'bytes' bytes.
static sr_status pointer_to(sr_device *device, sr_address address, size_t bytes, void **out) {
    sr_device_range range;
    if (!is_async(device)) {
        *out = (void *)address.at;
        return SR_OK;
    }
    if (!sr_device_find_range(device, address, &range))
        return SR_FAIL(SR_E_ARGUMENT, "%p is not memory of device %s", (void *)address.at,
                       device->properties.name);
    const size_t offset = address.at - range.base.at;
    if (offset > range.bytes || bytes > range.bytes - offset)
        return SR_FAIL(SR_E_ARGUMENT,
                       "%zu bytes at byte %zu of memory of %zu bytes on device %s reach beyond its "
                       "end",
                       bytes, offset, range.bytes, device->properties.name);
    *out = (unsigned char *)range.mapping + offset;
    return SR_OK;
}

sr_status sr_cpu_pointer(sr_device *device, sr_address address, void **out) {
    return pointer_to(device, address, 0, out);
}

int sr_cpu_stream_threads(const sr_stream *stream) {
    return ((const cpu_stream *)stream)->threads;
}

sr_status sr_cpu_stream_reserve_scratch(sr_stream *stream, size_t bytes) {
    cpu_stream *s = own(stream);
    if (bytes <= s->scratch_bytes)
        return SR_OK;
    s->scratch_bytes = 0;
    for (int i = 0; i < s->threads; i++) {
        sr_free(s->scratch[i]);
        s->scratch[i] = sr_alloc(bytes, "kernel scratch");
        if (!s->scratch[i])
            return SR_E_MEMORY;
    }
    s->scratch_bytes = bytes;
    return SR_OK;
}

void *sr_cpu_stream_scratch(const sr_stream *stream, int worker) {
    return ((const cpu_stream *)stream)->scratch[worker];
}

// ---- Commands ----

static void pause_at_random(cpu_stream *s) {
    if (is_async(s->head.device) && sr_rng_below(&s->delays, PAUSE_EVERY) == 0)
        sr_clock_sleep_ns((int64_t)sr_rng_below(&s->delays, PAUSE_NS));
}

static sr_status run_call(cpu_stream *s, const command *c) {
    (void)s;
    return c->as.call.fn(c->as.call.user);
}

static sr_status run_copy(cpu_stream *s, const command *c) {
    pause_at_random(s);
    if (c->as.copy.from)
        memcpy(c->as.copy.to, c->as.copy.from, c->as.copy.bytes);
    else
        memset(c->as.copy.to, 0, c->as.copy.bytes);
    return SR_OK;
}

// A stage of a kernel on the team of a stream.
typedef struct stage_run {
    cpu_stream *stream;
    const sr_kernel_stage *stage;
    const sr_kernel_args *args;
    sr_kept_error failure; // of the first block that failed, under the stream's lock
} stage_run;

static void run_block(void *user, int64_t block, int worker) {
    stage_run *r = user;
    sr_worker w = {.index = worker, .scratch = r->stream->scratch[worker]};
    const sr_status status = r->stage->run(r->args, block, &w);
    if (status == SR_OK)
        return;
    (void)pthread_mutex_lock(&r->stream->lock);
    sr_error_keep(&r->failure, status);
    (void)pthread_mutex_unlock(&r->stream->lock);
}

static sr_status run_stages(cpu_stream *s, const launch *l) {
    sr_kernel_args args = {.p = l->p,
                           .params = l->request->params,
                           .state = l->prepared->state,
                           .workspace = l->workspace};
    for (int i = 0; i < l->prepared->stages; i++) {
        stage_run r = {.stream = s, .stage = &l->prepared->stage[i], .args = &args};
        args.block_rows = r.stage->block_rows;
        if (s->pool) {
            sr_pool_run(s->pool, r.stage->blocks, run_block, &r);
        } else {
            for (int64_t block = 0; block < r.stage->blocks && r.failure.status == SR_OK; block++)
                run_block(&r, block, 0);
        }
        SR_TRY(sr_error_restore(&r.failure));
    }
    return SR_OK;
}

static sr_status run_launch(cpu_stream *s, const command *c) {
    const launch *l = &c->as.launch;
    pause_at_random(s);
    const sr_status status = run_stages(s, l);
    if (status != SR_OK && l->site.file)
        sr_error_prefix("%s:%d: %s", l->site.file, l->site.line, l->site.what);
    else if (status != SR_OK)
        sr_error_prefix("%s", l->site.what ? l->site.what : l->prepared->entry->name);
    return status;
}

static sr_status run_mark(cpu_stream *s, const command *c) {
    cpu_event *event = c->as.mark.event;
    (void)s;
    (void)pthread_mutex_lock(&event->lock);
    if (c->as.mark.number > event->reached)
        event->reached = c->as.mark.number;
    event->at_ns = sr_clock_ns();
    (void)pthread_cond_broadcast(&event->changed);
    (void)pthread_mutex_unlock(&event->lock);
    return SR_OK;
}

// Notes that a caller waits for a mark, or only queries it. Called with the event's lock held, so
// that a stream that has not reached the mark is still valid.
static void want_mark(const mark *wanted, bool waits) {
    cpu_stream *s = wanted->stream;
    if (wanted->event->reached >= wanted->number || !s)
        return;
    (void)pthread_mutex_lock(&s->lock);
    uint64_t *end = waits ? &s->wanted : &s->asked;
    if (wanted->end > *end) {
        *end = wanted->end;
        (void)pthread_cond_signal(&s->hurry);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static mark last_mark(cpu_event *event) {
    return (mark){event, event->recorded, event->stream, event->end};
}

static sr_status run_wait(cpu_stream *s, const command *c) {
    cpu_event *event = c->as.mark.event;
    (void)s;
    (void)pthread_mutex_lock(&event->lock);
    want_mark(&c->as.mark, true);
    while (event->reached < c->as.mark.number)
        (void)pthread_cond_wait(&event->changed, &event->lock);
    (void)pthread_mutex_unlock(&event->lock);
    return SR_OK;
}

static sr_status run(cpu_stream *s, const command *c) {
    sr_float_control();
    return c->run(s, c);
}

// Enqueues a command on a stream with a thread; returns the number of commands up to it.
static uint64_t put_command(cpu_stream *s, const command *c) {
    (void)pthread_mutex_lock(&s->lock);
    if (s->put - s->done == s->length)
        while (s->put - s->done > s->length / 2)
            (void)pthread_cond_wait(&s->changed, &s->lock);
    s->queue[s->put++ % s->length] = *c;
    const uint64_t end = s->put;
    (void)pthread_cond_broadcast(&s->changed);
    if (end - s->done == s->length)
        (void)pthread_cond_signal(&s->hurry);
    (void)pthread_mutex_unlock(&s->lock);
    return end;
}

static sr_status enqueue(cpu_stream *s, const command *c) {
    if (!s->direct)
        (void)put_command(s, c);
    else if (s->failure.status == SR_OK || c->always)
        sr_error_keep(&s->failure, run(s, c));
    return SR_OK;
}

// ---- The thread ----

// Every thread that runs kernels lets the providers limit the threads of their libraries.
static void start_worker(void *user, int worker) {
    (void)user;
    (void)worker;
    sr_kernels_thread_init();
}

static struct timespec time_at(int64_t clock_ns) {
    return (struct timespec){.tv_sec = (time_t)(clock_ns / SR_NS_PER_S),
                             .tv_nsec = (long)(clock_ns % SR_NS_PER_S)};
}

// Delays the next command, or not. Called with the lock held.
static void linger(cpu_stream *s) {
    if (!is_async(s->head.device) || sr_rng_below(&s->delays, LINGER_EVERY) != 0)
        return;
    const int64_t begin = sr_clock_ns();
    const int64_t end = begin + (int64_t)sr_rng_below(&s->delays, LINGER_NS);
    const int64_t end_asked = begin + (int64_t)sr_rng_below(&s->delays, LINGER_ASKED_NS);
    int error = 0;
    while (s->wanted <= s->done && s->put - s->done < s->length && !s->stopping && error == 0) {
        const struct timespec at = time_at(s->asked > s->done && end_asked < end ? end_asked : end);
        error = pthread_cond_timedwait(&s->hurry, &s->lock, &at);
    }
    if (s->asked > s->wanted) // once for each query
        s->wanted = s->asked;
}

static void *stream_main(void *user) {
    cpu_stream *s = user;
    sr_status status = sr_pool_create(s->threads, start_worker, NULL, &s->pool);
    (void)pthread_mutex_lock(&s->lock);
    sr_error_keep(&s->failure, status);
    s->ready = true;
    (void)pthread_cond_broadcast(&s->changed);
    for (;;) {
        while (s->put == s->done && !s->stopping)
            (void)pthread_cond_wait(&s->changed, &s->lock);
        if (s->put == s->done)
            break;
        linger(s);
        const command *c = &s->queue[s->done % s->length]; // not overwritten before it is done
        const bool skip = s->failure.status != SR_OK && !c->always;
        (void)pthread_mutex_unlock(&s->lock);
        status = skip ? SR_OK : run(s, c);
        (void)pthread_mutex_lock(&s->lock);
        sr_error_keep(&s->failure, status);
        s->done++;
        if (s->put == s->done || s->put - s->done == s->length / 2) // a caller may wait for this
            (void)pthread_cond_broadcast(&s->changed);
    }
    (void)pthread_mutex_unlock(&s->lock);
    sr_pool_free(s->pool);
    return NULL;
}

static void release(cpu_stream *s) {
    for (int i = 0; s->scratch && i < s->threads; i++)
        sr_free(s->scratch[i]);
    sr_free(s->scratch);
    sr_free(s->queue);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_cond_destroy(&s->hurry);
    sr_free(s);
}

static sr_status start(cpu_stream *s) {
    s->length = is_async(s->head.device) ? ASYNC_QUEUE : QUEUE;
    s->queue = sr_alloc_array(s->length, sizeof *s->queue, "stream");
    if (!s->queue)
        return SR_E_MEMORY;
    return sr_thread_start(&s->thread, "sr-stream", stream_main, s);
}

static sr_status wait_until_ready(cpu_stream *s) {
    (void)pthread_mutex_lock(&s->lock);
    while (!s->ready)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    const bool failed = s->failure.status != SR_OK;
    (void)pthread_mutex_unlock(&s->lock);
    return failed ? sr_cpu_stream_wait(&s->head) : SR_OK;
}

static void init_delays(sr_cpu_delays *from, sr_rng *out) {
    const unsigned stream = atomic_fetch_add_explicit(&from->streams, 1, memory_order_relaxed);
    sr_rng_init(out, from->seed, stream, 0, 0);
}

// Deadlines use the monotonic clock.
static void init_condition(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

sr_status sr_cpu_stream_create(sr_device *device, const sr_stream_options *options,
                               sr_stream **out) {
    cpu_stream *s = sr_alloc(sizeof *s, "stream");
    if (!s)
        return SR_E_MEMORY;
    s->head.device = device;
    s->direct = options->direct && !is_async(device);
    s->threads = options->direct ? 1 : options->threads > 0 ? options->threads : sr_cpu_count();
    if (is_async(device))
        init_delays(device->state, &s->delays);
    (void)pthread_mutex_init(&s->lock, NULL);
    init_condition(&s->changed);
    init_condition(&s->hurry);
    s->scratch = sr_alloc_array((size_t)s->threads, sizeof *s->scratch, "stream");
    sr_status status = s->scratch ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK && !s->direct)
        status = start(s);
    if (status != SR_OK) {
        release(s);
        return status;
    }
    status = s->direct ? SR_OK : wait_until_ready(s);
    if (status != SR_OK) {
        sr_stream_free(&s->head);
        return status;
    }
    *out = &s->head;
    return SR_OK;
}

void sr_cpu_stream_free(sr_stream *stream) {
    cpu_stream *s = own(stream);
    if (!s->direct) {
        (void)pthread_mutex_lock(&s->lock);
        s->stopping = true;
        (void)pthread_cond_broadcast(&s->changed);
        (void)pthread_cond_signal(&s->hurry);
        (void)pthread_mutex_unlock(&s->lock);
        (void)pthread_join(s->thread, NULL);
    }
    release(s);
}

// ---- Putting work on a stream ----

sr_status sr_cpu_stream_call(sr_stream *stream, sr_cpu_stream_fn fn, void *user) {
    return enqueue(own(stream), &(command){.run = run_call, .as.call = {fn, user}});
}

void sr_cpu_team_run(sr_stream *stream, int64_t count, sr_cpu_team_fn fn, void *user) {
    pause_at_random(own(stream));
    sr_pool_run(own(stream)->pool, count, fn, user);
}

static sr_status put_copy(sr_stream *stream, void *to, const void *from, size_t bytes) {
    if (stream)
        return enqueue(own(stream), &(command){.run = run_copy, .as.copy = {to, from, bytes}});
    assert(to && from);
    memcpy(to, from, bytes);
    return SR_OK;
}

sr_status sr_cpu_upload(sr_device *device, sr_stream *stream, sr_address to, const void *from,
                        size_t bytes) {
    void *p = NULL;
    SR_TRY(pointer_to(device, to, bytes, &p));
    return put_copy(stream, p, from, bytes);
}

sr_status sr_cpu_download(sr_device *device, sr_stream *stream, void *to, sr_address from,
                          size_t bytes) {
    void *p = NULL;
    SR_TRY(pointer_to(device, from, bytes, &p));
    return put_copy(stream, to, p, bytes);
}

sr_status sr_cpu_copy(sr_device *device, sr_stream *stream, sr_address to, sr_address from,
                      size_t bytes) {
    void *p = NULL, *q = NULL;
    SR_TRY(pointer_to(device, to, bytes, &p));
    SR_TRY(pointer_to(device, from, bytes, &q));
    return put_copy(stream, p, q, bytes);
}

sr_status sr_cpu_stream_clear(sr_stream *stream, sr_address memory, size_t bytes) {
    void *p = NULL;
    SR_TRY(pointer_to(stream->device, memory, bytes, &p));
    return enqueue(own(stream), &(command){.run = run_copy, .as.copy = {p, NULL, bytes}});
}

// Number of bytes of an argument that a kernel accesses, if known: only for kernels in the list.
static size_t argument_bytes(const sr_kernel_request *request, int i) {
    const int64_t count = sr_kernel_argument_count(request, i);
    return count > 0 ? (size_t)count * sr_dtype_size(request->dtype[i]) : 0;
}

static sr_status find_argument(sr_device *device, const sr_kernel_call *from, int i, void **out) {
    const sr_status status = pointer_to(device, from->p[i], argument_bytes(from->request, i), out);
    if (status != SR_OK)
        sr_error_prefix("argument %d of kernel %s", i, sr_kernel_name(from->request->kernel));
    return status;
}

sr_status sr_cpu_stream_launch(sr_stream *stream, const sr_kernel_call *from) {
    cpu_stream *s = own(stream);
    command c = {
        .run = run_launch,
        .as.launch = {.prepared = from->prepared, .request = from->request, .site = from->site}};
    launch *l = &c.as.launch;
    for (int i = 0; i < from->request->args; i++)
        if (!sr_address_is_none(from->p[i]))
            SR_TRY(find_argument(stream->device, from, i, &l->p[i]));
    if (!sr_address_is_none(from->workspace))
        SR_TRY(
            pointer_to(stream->device, from->workspace, from->prepared->workspace, &l->workspace));
    if (from->prepared->scratch > s->scratch_bytes) {
        if (!s->direct) // its thread may be using the present scratch
            SR_TRY(sr_cpu_stream_wait(stream));
        SR_TRY(sr_cpu_stream_reserve_scratch(stream, from->prepared->scratch));
    }
    return enqueue(s, &c);
}

sr_status sr_cpu_stream_wait(sr_stream *stream) {
    cpu_stream *s = own(stream);
    (void)pthread_mutex_lock(&s->lock);
    while (s->put != s->done) {
        if (s->wanted < s->put) {
            s->wanted = s->put;
            (void)pthread_cond_signal(&s->hurry);
        }
        (void)pthread_cond_wait(&s->changed, &s->lock);
    }
    const sr_status status = sr_error_restore(&s->failure);
    s->failure.status = SR_OK;
    (void)pthread_mutex_unlock(&s->lock);
    return status;
}

// ---- Events ----

sr_status sr_cpu_event_create(sr_device *device, sr_event **out) {
    cpu_event *event = sr_alloc(sizeof *event, "event");
    if (!event)
        return SR_E_MEMORY;
    event->head.device = device;
    (void)pthread_mutex_init(&event->lock, NULL);
    init_condition(&event->changed);
    *out = &event->head;
    return SR_OK;
}

void sr_cpu_event_free(sr_event *event) {
    cpu_event *e = (cpu_event *)event;
    (void)pthread_mutex_destroy(&e->lock);
    (void)pthread_cond_destroy(&e->changed);
    sr_free(e);
}

sr_status sr_cpu_event_record(sr_event *event, sr_stream *stream) {
    cpu_event *e = (cpu_event *)event;
    cpu_stream *s = own(stream);
    (void)pthread_mutex_lock(&e->lock);
    const uint64_t number = ++e->recorded;
    e->stream = NULL;
    (void)pthread_mutex_unlock(&e->lock);
    const command c = {.run = run_mark, .always = true, .as.mark = {.event = e, .number = number}};
    if (s->direct)
        return enqueue(s, &c);
    const uint64_t end = put_command(s, &c);
    (void)pthread_mutex_lock(&e->lock);
    e->stream = s;
    e->end = end;
    (void)pthread_mutex_unlock(&e->lock);
    return SR_OK;
}

bool sr_cpu_event_done(const sr_event *event) {
    union {
        const sr_event *in;
        cpu_event *out;
    } e = {.in = event}; // only its lock is modified
    (void)pthread_mutex_lock(&e.out->lock);
    const bool done = e.out->reached >= e.out->recorded;
    const mark last = last_mark(e.out);
    want_mark(&last, false);
    (void)pthread_mutex_unlock(&e.out->lock);
    return done;
}

sr_status sr_cpu_stream_wait_event(sr_stream *stream, sr_event *event) {
    cpu_event *e = (cpu_event *)event;
    (void)pthread_mutex_lock(&e->lock);
    const mark wanted = last_mark(e);
    const bool done = e->reached >= wanted.number;
    (void)pthread_mutex_unlock(&e->lock);
    if (done)
        return SR_OK;
    return enqueue(own(stream), &(command){.run = run_wait, .always = true, .as.mark = wanted});
}

sr_status sr_cpu_event_wait(sr_event *event, double seconds) {
    cpu_event *e = (cpu_event *)event;
    const struct timespec at = time_at(sr_clock_ns() + (int64_t)(seconds * (double)SR_NS_PER_S));
    int error = 0;
    (void)pthread_mutex_lock(&e->lock);
    const mark last = last_mark(e);
    want_mark(&last, true);
    while (e->reached < e->recorded && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&e->changed, &e->lock, &at);
    const bool done = e->reached >= e->recorded;
    (void)pthread_mutex_unlock(&e->lock);
    return done ? SR_OK
                : SR_FAIL(SR_E_TIMEOUT, "device %s has not finished its work after %.0f s",
                          event->device->properties.name, seconds);
}

int64_t sr_cpu_event_elapsed_ns(const sr_event *begin, const sr_event *end) {
    return ((const cpu_event *)end)->at_ns - ((const cpu_event *)begin)->at_ns;
}
