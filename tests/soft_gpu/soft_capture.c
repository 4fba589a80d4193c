// SPDX-License-Identifier: Apache-2.0
// Capture of streams into graphs, on the software GPU.
//
// A graph is a list of commands, each with the set of those that it depends on. A launch of one is
// a single command of its stream, which runs the nodes in an order that is drawn anew each time
// among those that the dependencies allow: a missing dependency is a wrong result.
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

enum { WORDS = 64, NODES_MAX = WORDS * 64 };

struct CUgraphNode_st {
    soft_command *command;
    int number;            // in its graph
    uint64_t after[WORDS]; // bits of the nodes that come before
};

struct CUgraph_st {
    struct CUgraphNode_st **nodes;
    int count;
    // While it is captured:
    struct CUstream_st *origin;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
    struct CUgraphNode_st *ends[NODES_MAX]; // that cudaStreamGetCaptureInfo returned last
    struct CUgraph_st *next;
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
    int uses; // its handle, and launches that did not end
    bool live;
    struct CUgraphExec_st *next;
};

static struct CUgraph_st *captures;      // that have not ended
static struct CUgraphExec_st *instances; // all that there have been

static void *allocate(size_t count, size_t size) {
    void *p = calloc(count, size);
    if (!p)
        soft_mistake("no memory of the host is left");
    return p;
}

// ---- What captures forbid ----

static cudaError_t invalidate(struct CUgraph_st *graph, const char *call) {
    graph->invalid = true;
    return soft_refuse(cudaErrorStreamCaptureUnsupported, "%s is not permitted during a capture",
                       call);
}

cudaError_t soft_capture_forbids_unsafe(const char *call) {
    for (struct CUgraph_st *g = captures; g; g = g->next)
        if (g->mode == cudaStreamCaptureModeGlobal ||
            (g->mode == cudaStreamCaptureModeThreadLocal &&
             pthread_equal(g->thread, pthread_self())))
            return invalidate(g, call);
    return cudaSuccess;
}

cudaError_t soft_capture_forbids_stream(struct CUstream_st *stream, const char *call) {
    return stream->capture ? invalidate(stream->capture, call) : cudaSuccess;
}

// ---- Nodes ----

static void copy_set(uint64_t **to, const uint64_t *from) {
    if (!*to)
        *to = allocate(WORDS, sizeof **to);
    memcpy(*to, from, WORDS * sizeof **to);
}

static bool has(const uint64_t *set, int number) {
    return set[number / 64] >> number % 64 & 1;
}

static void add_set(uint64_t *to, const uint64_t *from) {
    for (int i = 0; i < WORDS; i++)
        to[i] |= from[i];
}

cudaError_t soft_capture_add(struct CUstream_st *stream, soft_command *command) {
    struct CUgraph_st *g = stream->capture;
    if (g->invalid || g->count == NODES_MAX) {
        soft_command_free(command);
        return g->invalid ? cudaErrorStreamCaptureInvalidated
                          : soft_refuse(cudaErrorNotSupported, "a graph of more than %d nodes",
                                        (int)NODES_MAX);
    }
    struct CUgraphNode_st *node = allocate(1, sizeof *node);
    node->command = command;
    node->number = g->count;
    memcpy(node->after, stream->after, sizeof node->after);
    g->nodes = realloc(g->nodes, (size_t)(g->count + 1) * sizeof(struct CUgraphNode_st *));
    if (!g->nodes)
        soft_mistake("no memory of the host is left");
    if (g->count > 0 && !has(stream->after, g->count - 1))
        (void)soft_count("branch");
    // What it depends on is behind it, also for those that depend on it.
    stream->after[g->count / 64] |= UINT64_C(1) << g->count % 64;
    g->nodes[g->count++] = node;
    return cudaSuccess;
}

bool soft_capture_has_event(const struct CUevent_st *event) {
    return event->capture != NULL;
}

cudaError_t soft_capture_record(struct CUstream_st *stream, struct CUevent_st *event) {
    event->capture = stream->capture;
    copy_set(&event->after, stream->after);
    return cudaSuccess;
}

cudaError_t soft_capture_wait(struct CUstream_st *stream, struct CUevent_st *event) {
    struct CUgraph_st *g = event->capture;
    if (stream->capture && stream->capture != g) {
        stream->capture->invalid = true;
        return soft_refuse(cudaErrorStreamCaptureIsolation,
                           "cudaStreamWaitEvent: a stream in a capture waits for an event that is "
                           "not of this capture");
    }
    if (stream->capture) {
        add_set(stream->after, event->after);
    } else if (g) { // joins the capture
        if (stream->device != g->origin->device)
            return cudaErrorStreamCaptureIsolation;
        stream->capture = g;
        copy_set(&stream->after, event->after);
    }
    return cudaSuccess;
}

// Whether no other node of the set is behind this one.
static bool is_end(const struct CUgraph_st *g, const uint64_t *set, int number) {
    for (int i = number + 1; i < g->count; i++)
        if (has(set, i) && has(g->nodes[i]->after, number))
            return false;
    return true;
}

static size_t list_ends(struct CUgraph_st *g, const uint64_t *set) {
    size_t count = 0;
    for (int i = 0; i < g->count; i++)
        if (has(set, i) && is_end(g, set, i))
            g->ends[count++] = g->nodes[i];
    return count;
}

SOFT_GPU_EXPORT cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
    unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
    const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out) {
    cudaError_t error = soft_enter();
    if (id_out || graph_out || !dependencies_out || !edgeData_out || !numDependencies_out)
        return soft_leave(
            soft_refuse(cudaErrorNotSupported, "cudaStreamGetCaptureInfo: dependencies alone"));
    *edgeData_out = NULL; // no kernel begins before those in front have ended
    if (error == cudaSuccess) {
        soft_lock();
        const struct CUstream_st *s = soft_stream(stream);
        struct CUgraph_st *g = s ? s->capture : NULL;
        *captureStatus_out = !g           ? cudaStreamCaptureStatusNone
                             : g->invalid ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
        *numDependencies_out = g ? list_ends(g, s->after) : 0;
        *dependencies_out = g ? g->ends : NULL;
        soft_unlock();
    }
    return soft_leave(error);
}

// What is enqueued next is behind these nodes alone.
static cudaError_t set_ends(struct CUstream_st *s, cudaGraphNode_t *nodes, size_t count) {
    uint64_t set[WORDS] = {0};
    if (!s || !s->capture)
        return soft_refuse(cudaErrorIllegalState,
                           "cudaStreamUpdateCaptureDependencies: the stream is not captured");
    for (size_t i = 0; i < count; i++) {
        const struct CUgraphNode_st *node = nodes[i];
        if (node->number >= s->capture->count || s->capture->nodes[node->number] != node)
            return soft_refuse(cudaErrorInvalidValue, "a node of another graph");
        add_set(set, node->after);
        set[node->number / 64] |= UINT64_C(1) << node->number % 64;
    }
    copy_set(&s->after, set);
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies(
    cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,
    size_t numDependencies, unsigned flags) {
    cudaError_t error = soft_enter();
    static const cudaGraphEdgeData plain;
    bool known = flags == cudaStreamSetCaptureDependencies;
    for (size_t i = 0; dependencyData && i < numDependencies; i++)
        known = known && memcmp(&dependencyData[i], &plain, sizeof plain) == 0;
    if (!known)
        return soft_leave(soft_refuse(cudaErrorNotSupported,
                                      "cudaStreamUpdateCaptureDependencies: plain edges are set"));
    if (error == cudaSuccess) {
        soft_lock();
        error = set_ends(soft_stream(stream), dependencies, numDependencies);
        soft_unlock();
    }
    return soft_leave(error);
}

// ---- Begin and end ----

static cudaError_t begin(struct CUstream_st *s, enum cudaStreamCaptureMode mode) {
    if (!s)
        return cudaErrorStreamCaptureUnsupported;
    if (s->capture)
        return soft_refuse(cudaErrorIllegalState, "cudaStreamBeginCapture: it is captured already");
    struct CUgraph_st *g = allocate(1, sizeof *g);
    g->origin = s;
    g->mode = mode;
    g->thread = pthread_self();
    g->next = captures;
    captures = g;
    const uint64_t nothing[WORDS] = {0};
    s->capture = g;
    copy_set(&s->after, nothing);
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                                   enum cudaStreamCaptureMode mode) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = begin(soft_stream(stream), mode);
        soft_unlock();
    }
    return soft_leave(error);
}

static void graph_free(struct CUgraph_st *g) {
    for (int i = 0; i < g->count; i++) {
        soft_command_free(g->nodes[i]->command);
        free(g->nodes[i]);
    }
    free(g->nodes);
    free(g);
}

// Whether work of another stream is not joined to the origin. What the origin left behind when its
// ends were set is of the graph all the same.
static bool has_unjoined(const struct CUgraph_st *g) {
    for (const struct CUstream_st *s = soft_streams(); s; s = s->next)
        for (int i = 0; s->capture == g && i < WORDS; i++)
            if (s->after[i] & ~g->origin->after[i])
                return true;
    return false;
}

static void detach(struct CUgraph_st *g) {
    struct CUgraph_st **at = &captures;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    for (struct CUstream_st *s = soft_streams(); s; s = s->next)
        if (s->capture == g)
            s->capture = NULL;
}

static cudaError_t end(struct CUstream_st *s, struct CUgraph_st **out) {
    struct CUgraph_st *g = s ? s->capture : NULL;
    *out = NULL;
    if (!g)
        return soft_refuse(cudaErrorIllegalState, "cudaStreamEndCapture: the stream is not "
                                                  "captured");
    if (g->origin != s)
        return cudaErrorStreamCaptureUnmatched;
    if (g->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(g->thread, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    const bool unjoined = has_unjoined(g);
    detach(g);
    if (g->invalid || unjoined) {
        const bool invalid = g->invalid;
        graph_free(g);
        return invalid ? cudaErrorStreamCaptureInvalidated
                       : soft_refuse(cudaErrorStreamCaptureUnjoined,
                                     "cudaStreamEndCapture: another stream's work is not joined");
    }
    *out = g;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = end(soft_stream(stream), pGraph);
        soft_unlock();
    }
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                  enum cudaStreamCaptureStatus *status) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        const struct CUstream_st *s = soft_stream(stream);
        if (!s)
            error = cudaErrorInvalidResourceHandle;
        else
            *status = !s->capture           ? cudaStreamCaptureStatusNone
                      : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
        soft_unlock();
    }
    return soft_leave(error);
}

// ---- Graphs ----

static soft_command *copy_command(const soft_command *from) {
    soft_command *c = soft_command_new(from->kind);
    *c = *from;
    if (from->launch) {
        const size_t bytes =
            sizeof *from->launch + (from->launch->kernel.argument_bytes + 15) / 16 * 16;
        c->launch = allocate(1, bytes);
        memcpy(c->launch, from->launch, bytes);
    }
    return c;
}

SOFT_GPU_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                                 unsigned long long flags) {
    const cudaError_t error = soft_enter();
    (void)soft_count("made");
    if (error != cudaSuccess || !graph || flags != 0)
        return soft_leave(error != cudaSuccess ? error : cudaErrorInvalidValue);
    struct CUgraphExec_st *exec = allocate(1, sizeof *exec);
    struct CUgraph_st *g = allocate(1, sizeof *g);
    g->count = graph->count;
    g->nodes = allocate((size_t)g->count + 1, sizeof(struct CUgraphNode_st *));
    for (int i = 0; i < g->count; i++) {
        g->nodes[i] = allocate(1, sizeof *g->nodes[i]);
        *g->nodes[i] = *graph->nodes[i];
        g->nodes[i]->command = copy_command(graph->nodes[i]->command);
    }
    exec->graph = g;
    exec->uses = 1;
    exec->live = true;
    soft_lock();
    exec->next = instances;
    instances = exec;
    soft_unlock();
    *pGraphExec = exec;
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    const cudaError_t error = soft_enter();
    if (graph)
        graph_free(graph);
    return soft_leave(error);
}

SOFT_GPU_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                              size_t *numNodes) {
    const cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        for (size_t i = 0; nodes && i < *numNodes; i++)
            nodes[i] = i < (size_t)graph->count ? graph->nodes[i] : NULL;
        if (!nodes || *numNodes > (size_t)graph->count)
            *numNodes = (size_t)graph->count;
    }
    return soft_leave(error);
}

// The handle stays taken, so that the use of one that was destroyed is found.
void soft_graph_release(struct CUgraphExec_st *graph) {
    if (--graph->uses == 0) {
        graph_free(graph->graph);
        graph->graph = NULL;
    }
}

SOFT_GPU_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    const cudaError_t error = soft_enter();
    soft_lock();
    if (!exec->live)
        soft_mistake("a graph is destroyed twice");
    exec->live = false;
    soft_graph_release(exec);
    soft_unlock();
    return soft_leave(error);
}

static cudaError_t launch(struct CUgraphExec_st *exec, struct CUstream_st *s) {
    if (!s)
        return cudaErrorInvalidResourceHandle;
    if (!exec->live)
        soft_mistake("a launch of a graph that was destroyed");
    if (s->capture)
        return soft_capture_forbids_stream(s, "cudaGraphLaunch");
    soft_command *c = soft_command_new(SOFT_GRAPH);
    (void)soft_count("graph");
    for (int i = 0; i < exec->graph->count; i++)
        if (exec->graph->nodes[i]->command->kind == SOFT_LAUNCH && soft_fault("launch"))
            c->fault = cudaErrorLaunchFailure;
    c->graph = exec;
    exec->uses++;
    soft_stream_put(s, c);
    return cudaSuccess;
}

SOFT_GPU_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    cudaError_t error = soft_enter();
    if (error == cudaSuccess) {
        soft_lock();
        error = launch(exec, soft_stream(stream));
        soft_unlock();
    }
    return soft_leave(error);
}

static bool is_ready(const struct CUgraphNode_st *node, const uint64_t *done) {
    for (int i = 0; i < WORDS; i++)
        if (node->after[i] & ~done[i])
            return false;
    return true;
}

// The next node: one of those that may run, from a random one on.
static int draw(const struct CUgraph_st *g, const uint64_t *done, soft_rng *rng) {
    const int from = (int)soft_below(rng, (uint32_t)g->count);
    for (int i = 0; i < g->count; i++) {
        const int n = (from + i) % g->count;
        if (!has(done, n) && is_ready(g->nodes[n], done))
            return n;
    }
    soft_mistake("a graph with a circle");
}

cudaError_t soft_graph_run(struct CUgraphExec_st *graph, int device, soft_rng *rng) {
    const struct CUgraph_st *g = graph->graph;
    uint64_t done[WORDS] = {0};
    for (int i = 0; i < g->count; i++) {
        const int n = draw(g, done, rng);
        const cudaError_t error = soft_command_run(g->nodes[n]->command, device, rng);
        if (error != cudaSuccess)
            return error;
        done[n / 64] |= UINT64_C(1) << n % 64;
    }
    return cudaSuccess;
}
