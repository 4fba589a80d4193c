// SPDX-License-Identifier: Apache-2.0
// Streams of the CPU devices: a thread that takes commands from a bounded queue and leads a team.
//
// The leader creates its pool itself, so that it is worker 0 of it. Commands are host functions and
// copies; a replayed plan is one command. The queue is bounded: a full one makes the caller wait.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/base/thread.h"
#include "kernels/device/device_internal.h"
#include "kernels/kernel.h"

enum { QUEUE = 64 };

typedef struct command {
    sr_stream_fn fn; // NULL: a copy
    void *user;
    void *dst;
    const void *src;
    size_t bytes;
} command;

struct sr_stream {
    sr_device *device;
    int threads;
    sr_pool *pool;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    command queue[QUEUE];
    uint64_t put, done; // tickets: commands queued, commands finished
    bool ready, stopping;
    sr_kept_error failure;
    sr_rng delays;
};

static void pause_at_random(sr_stream *stream) {
    if (stream->device->ops->delays && sr_rng_below(&stream->delays, 16) == 0)
        sr_clock_sleep_ns((int64_t)sr_rng_below(&stream->delays, 100) * 1000);
}

static sr_status run_command(sr_stream *stream, const command *c) {
    sr_float_control();
    if (c->fn)
        return c->fn(c->user);
    pause_at_random(stream);
    memcpy(c->dst, c->src, c->bytes);
    return SR_OK;
}

// Every thread that runs kernels lets the providers limit their libraries' own threads.
static void start_worker(void *user, int worker) {
    (void)user;
    (void)worker;
    sr_kernels_thread_init();
}

static void *stream_main(void *user) {
    sr_stream *stream = user;
    sr_status status = sr_pool_create(stream->threads, start_worker, NULL, &stream->pool);
    (void)pthread_mutex_lock(&stream->lock);
    sr_error_keep(&stream->failure, status);
    stream->ready = true;
    (void)pthread_cond_broadcast(&stream->changed);
    for (;;) {
        while (stream->put == stream->done && !stream->stopping)
            (void)pthread_cond_wait(&stream->changed, &stream->lock);
        if (stream->put == stream->done)
            break;
        command c = stream->queue[stream->done % QUEUE];
        bool skip = stream->failure.status != SR_OK;
        (void)pthread_mutex_unlock(&stream->lock);
        status = skip ? SR_OK : run_command(stream, &c);
        (void)pthread_mutex_lock(&stream->lock);
        sr_error_keep(&stream->failure, status);
        stream->done++;
        (void)pthread_cond_broadcast(&stream->changed);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    sr_pool_free(stream->pool);
    return NULL;
}

static void release(sr_stream *stream) {
    (void)pthread_mutex_destroy(&stream->lock);
    (void)pthread_cond_destroy(&stream->changed);
    sr_free(stream);
}

sr_status sr_stream_create(sr_device *device, int threads, sr_stream **out) {
    sr_stream *stream = sr_alloc(sizeof *stream, "stream");
    if (!stream)
        return SR_E_MEMORY;
    stream->device = device;
    stream->threads = threads > 0 ? threads : sr_cpu_count();
    sr_rng_init(&stream->delays, (uint64_t)sr_clock_ns(), 0, 0, 0);
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->changed, NULL);
    sr_status status = sr_thread_start(&stream->thread, "sr-stream", stream_main, stream);
    if (status != SR_OK) {
        release(stream);
        return status;
    }
    (void)pthread_mutex_lock(&stream->lock);
    while (!stream->ready)
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    bool failed = stream->failure.status != SR_OK;
    (void)pthread_mutex_unlock(&stream->lock);
    if (failed) {
        status = sr_stream_wait(stream);
        sr_stream_free(stream);
        return status;
    }
    *out = stream;
    return SR_OK;
}

void sr_stream_free(sr_stream *stream) {
    if (!stream)
        return;
    (void)pthread_mutex_lock(&stream->lock);
    stream->stopping = true;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    (void)pthread_join(stream->thread, NULL);
    release(stream);
}

int sr_stream_threads(const sr_stream *stream) {
    return stream->threads;
}

sr_device *sr_stream_device(sr_stream *stream) {
    return stream->device;
}

static sr_status enqueue(sr_stream *stream, command c) {
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->put - stream->done == QUEUE)
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    stream->queue[stream->put++ % QUEUE] = c;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    return SR_OK;
}

sr_status sr_stream_call(sr_stream *stream, sr_stream_fn fn, void *user) {
    return enqueue(stream, (command){.fn = fn, .user = user});
}

sr_status sr_stream_copy(sr_stream *stream, void *dst, const void *src, size_t bytes) {
    return enqueue(stream, (command){.dst = sr_device_kernel_address(stream->device, dst),
                                     .src = sr_device_source_address(stream->device, src),
                                     .bytes = bytes});
}

sr_status sr_stream_wait(sr_stream *stream) {
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->put != stream->done)
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    sr_status status = sr_error_restore(&stream->failure);
    stream->failure.status = SR_OK;
    (void)pthread_mutex_unlock(&stream->lock);
    return status;
}

void sr_event_record(sr_stream *stream, sr_event *out) {
    (void)pthread_mutex_lock(&stream->lock);
    *out = (sr_event){.stream = stream, .ticket = stream->put};
    (void)pthread_mutex_unlock(&stream->lock);
}

bool sr_event_done(const sr_event *event) {
    sr_stream *stream = event->stream;
    (void)pthread_mutex_lock(&stream->lock);
    bool done = stream->done >= event->ticket;
    (void)pthread_mutex_unlock(&stream->lock);
    return done;
}

void sr_stream_team_run(sr_stream *stream, int64_t count, sr_team_fn fn, void *user) {
    pause_at_random(stream);
    sr_pool_run(stream->pool, count, fn, user);
}
