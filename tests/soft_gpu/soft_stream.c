// SPDX-License-Identifier: Apache-2.0
// Streams and events of the software GPU.
//
// A stream is a thread that runs commands in their order. It runs them at the wrong time where it
// may: work for which nobody waits is left lying now and then, while other streams run ahead, so
// that a missing wait is a wrong result. A wait of the host or of another stream ends that at once;
// asking for an event ends it soon. Which work is left lying follows from SERRIED_TEST_SEED and the
// number of the stream. Work that is to fail (SOFT_GPU_FAULT) always is, so that tests know which
// call is the first that can tell.
//
// Handles stay taken for ever, so that the use of one that was destroyed is always found. What is
// no handle has other bytes than theirs, or cannot be read.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

// One command in so many is left lying, for at most so long, or so long where somebody asks.
#define LINGER_EVERY 6u
#define LINGER_NS 20000000u
#define LINGER_ASKED_NS 500000u

#define STREAM_MAGIC UINT64_C(0x243f6a8885a308d3)
#define EVENT_MAGIC UINT64_C(0x13198a2e03707344)

static struct CUstream_st *streams, *ended; // ended: destroyed, and their threads are gone
static struct CUevent_st *events;
static int stream_count;

int64_t soft_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct CUstream_st *soft_streams(void) {
    return streams;
}

struct CUstream_st *soft_stream(cudaStream_t stream) {
    if (!stream) {
        (void)soft_refuse(cudaErrorInvalidResourceHandle, "a call on the default stream; every "
                                                          "call names its stream");
        return NULL;
    }
    if (stream->magic != STREAM_MAGIC)
        soft_mistake("%p is no stream", (void *)stream);
    if (!stream->live)
        soft_mistake("a call on a stream that was destroyed");
    return stream;
}

struct CUevent_st *soft_event(cudaEvent_t event) {
    if (!event || event->magic != EVENT_MAGIC)
        soft_mistake("%p is no event", (void *)event);
    if (!event->live)
        soft_mistake("a call for an event that was destroyed");
    return event;
}

// ---- The thread of a stream; the lock is held but while a command runs ----

static void want(struct CUstream_st *s, uint64_t end, bool waits) {
    uint64_t *to = waits ? &s->wanted : &s->asked;
    if (s->done < end && *to < end) {
        *to = end;
        (void)pthread_cond_signal(&s->work);
    }
}

static void linger(struct CUstream_st *s) {
    const bool fails = s->first->fault != cudaSuccess;
    if (soft_below(&s->rng, LINGER_EVERY) != 0 && !fails)
        return;
    const int64_t begin = soft_now_ns();
    const int64_t end = fails ? INT64_MAX : begin + soft_below(&s->rng, LINGER_NS);
    const int64_t end_asked = begin + soft_below(&s->rng, LINGER_ASKED_NS);
    int error = 0;
    while (s->wanted <= s->done && s->live && error == 0) {
        const int64_t at = s->asked > s->done && end_asked < end ? end_asked : end;
        const struct timespec deadline = {at / 1000000000, at % 1000000000};
        error = pthread_cond_timedwait(&s->work, &soft_mutex, &deadline);
    }
    if (s->asked > s->wanted)
        s->wanted = s->asked;
}

static void wait_for(struct CUevent_st *event, uint64_t number) {
    while (event->reached < number && soft_sticky() == cudaSuccess) {
        // The event may be recorded elsewhere by now; its stream is then beyond this record.
        want(event->stream, event->end, true);
        (void)pthread_cond_wait(&soft_progress, &soft_mutex);
    }
}

// Events are reached after an error, too, so that nobody waits for ever.
static void run_locked(struct CUstream_st *s, soft_command *c) {
    if (c->kind == SOFT_RECORD) {
        if (c->number > c->event->reached)
            c->event->reached = c->number;
        c->event->at_ns = soft_now_ns();
    } else if (soft_sticky() != cudaSuccess) {
        return;
    } else if (c->kind == SOFT_WAIT) {
        wait_for(c->event, c->number);
    } else {
        soft_unlock();
        const cudaError_t error = soft_command_run(c, s->device, &s->rng);
        soft_lock();
        if (error != cudaSuccess)
            soft_set_sticky(error);
    }
}

static void put_aside(struct CUstream_st *s) {
    struct CUstream_st **at = &streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->next = ended;
    ended = s;
}

static void *stream_main(void *user) {
    struct CUstream_st *s = user;
    soft_signals_thread();
    soft_lock();
    for (;;) {
        while (!s->first && s->live)
            (void)pthread_cond_wait(&s->work, &soft_mutex);
        if (!s->first)
            break;
        linger(s);
        soft_command *c = s->first;
        run_locked(s, c);
        s->first = c->next;
        s->done++;
        soft_command_free(c);
        (void)pthread_cond_broadcast(&soft_progress);
    }
    put_aside(s);
    soft_unlock();
    soft_release_block();
    soft_signals_thread_end();
    return NULL;
}

void soft_stream_put(struct CUstream_st *s, soft_command *command) {
    if (s->first)
        s->last->next = command;
    else
        s->first = command;
    s->last = command;
    s->put++;
    (void)pthread_cond_signal(&s->work);
}

void soft_stream_wait(struct CUstream_st *s, uint64_t end) {
    while (s->done < end && soft_sticky() == cudaSuccess) {
        want(s, end, true);
        (void)pthread_cond_wait(&soft_progress, &soft_mutex);
    }
}

// The newest of the streams that are older than stream number 'below'; NULL: none.
static struct CUstream_st *older_stream(int below) {
    struct CUstream_st *s = streams;
    while (s && s->number >= below)
        s = s->next;
    return s;
}

// Streams that are waited for may leave the list meanwhile.
void soft_streams_wait_all(void) {
    struct CUstream_st *s = streams;
    while (s) {
        soft_stream_wait(s, s->put);
        s = older_stream(s->number);
    }
}

// ---- Streams ----

// The product's signals are for its own threads.
static int start_thread(struct CUstream_st *s) {
    pthread_t id;
    pthread_condattr_t monotonic;
    sigset_t all, before;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->work, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSEGV);
    (void)sigdelset(&all, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&id, NULL, stream_main, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error != 0 ? error : pthread_detach(id);
}

SOFT_GPU_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags,
                                                         int priority) {
    cudaError_t error = soft_enter();
    (void)soft_count("made");
    (void)priority; // pStream of range ones are clamped
    if (error == cudaSuccess && (!pStream || flags > cudaStreamNonBlocking))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return soft_leave(error);
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        return soft_leave(cudaErrorMemoryAllocation);
    soft_lock();
    s->magic = STREAM_MAGIC;
    s->device = soft_current_device();
    s->number = stream_count++;
    s->rng.state = soft_seed() * 1000003 + (uint64_t)s->number;
    s->live = true;
    s->next = streams;
    streams = s;
    if (start_thread(s) != 0)
        error = cudaErrorMemoryAllocation;
    soft_unlock();
    if (error == cudaSuccess)
        *pStream = s;
    return soft_leave(error);
}

// What is on the stream still runs.
SOFT_GPU_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t error = soft_enter();
    soft_lock();
    struct CUstream_st *s = soft_stream(stream);
    if (!s) {
        error = cudaErrorInvalidResourceHandle;
    } else {
        if (s->capture)
            error = soft_capture_forbids_stream(s, "cudaStreamDestroy");
        s->live = false;
        (void)pthread_cond_signal(&s->work);
    }
    soft_unlock();
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t error = soft_enter();
    if (error != cudaSuccess)
        return soft_leave(error);
    soft_lock();
    struct CUstream_st *s = soft_stream(stream);
    error = s ? soft_capture_forbids_stream(s, "cudaStreamSynchronize")
              : cudaErrorInvalidResourceHandle;
    (void)soft_count("wait");
    if (error == cudaSuccess) {
        soft_stream_wait(s, s->put);
        error = soft_sticky();
    }
    soft_unlock();
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
    cudaError_t error = soft_enter();
    if (error != cudaSuccess)
        return soft_leave(error);
    soft_lock();
    struct CUstream_st *s = soft_stream(stream);
    error = s ? soft_capture_forbids_stream(s, "cudaStreamQuery") : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && s->done < s->put) {
        want(s, s->put, false);
        error = cudaErrorNotReady;
    }
    soft_unlock();
    return soft_leave(error);
}

// ---- Events ----

SOFT_GPU_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    const cudaError_t error = soft_enter();
    (void)soft_count("made");
    if (error != cudaSuccess)
        return soft_leave(error);
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e)
        return soft_leave(cudaErrorMemoryAllocation);
    soft_lock();
    e->magic = EVENT_MAGIC;
    e->device = soft_current_device();
    e->timed = !(flags & cudaEventDisableTiming);
    e->live = true;
    e->next = events;
    events = e;
    soft_unlock();
    *event = e;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const cudaError_t error = soft_enter();
    soft_lock();
    soft_event(event)->live = false;
    soft_unlock();
    return soft_leave(error);
}

static cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
    struct CUevent_st *e = soft_event(event);
    struct CUstream_st *s = soft_stream(stream);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (e->device != s->device)
        return soft_refuse(cudaErrorInvalidResourceHandle,
                           "cudaEventRecord: the event is of device %d, the stream of device %d",
                           e->device, s->device);
    if (s->capture)
        return soft_capture_record(s, e);
    e->capture = NULL;
    soft_command *c = soft_command_new(SOFT_RECORD);
    c->event = e;
    c->number = ++e->recorded;
    soft_stream_put(s, c);
    e->stream = s;
    e->end = s->put;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = record(event, stream);
        soft_unlock();
    }
    return soft_leave(error);
}

// For an event that was never recorded there is nothing to wait for.
static cudaError_t put_wait(cudaStream_t stream, cudaEvent_t event) {
    struct CUevent_st *e = soft_event(event);
    struct CUstream_st *s = soft_stream(stream);
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (s->capture || soft_capture_has_event(e))
        return soft_capture_wait(s, e);
    if (e->recorded == 0)
        return cudaSuccess;
    soft_command *c = soft_command_new(SOFT_WAIT);
    c->event = e;
    c->number = e->recorded;
    soft_stream_put(s, c);
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                unsigned int flags) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess && flags != 0)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        soft_lock();
        error = put_wait(stream, event);
        soft_unlock();
    }
    return soft_leave(error);
}

static cudaError_t check_event(struct CUevent_st *e, const char *call) {
    const cudaError_t error = soft_capture_forbids_unsafe(call);
    if (error == cudaSuccess && soft_capture_has_event(e))
        return soft_refuse(cudaErrorCapturedEvent, "%s: the event was recorded in a capture", call);
    return error;
}

SOFT_GPU_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = soft_enter();
    if (error != cudaSuccess)
        return soft_leave(error);
    soft_lock();
    struct CUevent_st *e = soft_event(event);
    error = check_event(e, "cudaEventQuery");
    if (error == cudaSuccess && e->reached < e->recorded) {
        want(e->stream, e->end, false);
        error = cudaErrorNotReady;
    }
    soft_unlock();
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error = soft_enter();
    if (error != cudaSuccess)
        return soft_leave(error);
    soft_lock();
    struct CUevent_st *e = soft_event(event);
    error = check_event(e, "cudaEventSynchronize");
    if (error == cudaSuccess) {
        wait_for(e, e->recorded);
        error = soft_sticky();
    }
    soft_unlock();
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    cudaError_t error = soft_enter();
    if (error != cudaSuccess)
        return soft_leave(error);
    soft_lock();
    const struct CUevent_st *a = soft_event(start), *b = soft_event(end);
    if (!a->timed || !b->timed || a->recorded == 0 || b->recorded == 0 || a->device != b->device)
        error = soft_refuse(cudaErrorInvalidResourceHandle,
                            "cudaEventElapsedTime: the events were not recorded, do not measure "
                            "time, or are of two devices");
    else if (a->reached < a->recorded || b->reached < b->recorded)
        error = cudaErrorNotReady;
    else
        *ms = (float)((double)(b->at_ns - a->at_ns) * 1e-6);
    soft_unlock();
    return soft_leave(error);
}
