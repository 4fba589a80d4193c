// SPDX-License-Identifier: Apache-2.0
// Batches of a stream, and their graphs (cuda_batch.h).
//
// The items of a graph are a chain, as on the stream, except for runs of one kernel behind each
// other that write nothing the others use, as for the lanes of a kernel that takes one at a time: a
// lane may not fill the GPU, so they are branches. Others are not, so that kernels do not take the
// cache from each other.
#include "kernels/cuda/cuda_batch.h"

#include <string.h>

#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"

enum {
    LEAST = 4,    // launches of a batch that is worth a graph
    GRAPHS = 1024 // that a stream keeps; then the one that was used longest ago goes
};

// The first word of items without a kernel; numbers of prepared kernels lie between.
#define CLEARS 0
#define COPIES UINT64_MAX

typedef struct batch_item {
    const sr_prepared *prepared; // NULL: a clear or a copy
    const sr_kernel_request *request;
    sr_kernel_site site;
    size_t first_word;
} batch_item;

// What was run before.
typedef struct batch_known {
    uint64_t hash;
    uint64_t *words;
    size_t word_count;
    cudaGraphExec_t graph; // NULL: none yet
    bool refused;          // CUDA could not make one
    uint64_t used;         // the number of its last run
} batch_known;

struct sr_cuda_batch {
    sr_device *device;
    cudaStream_t stream;
    batch_item *items;
    size_t count, item_capacity;
    // What identifies each item: the number of its prepared kernel, the addresses of its arguments,
    // of its workspace and of what is packed, and whether that is there; or CLEARS, address, bytes;
    // or COPIES, to, from, bytes.
    uint64_t *words;
    size_t word_count, word_capacity;
    bool repeats; // no kernel is without a number
    batch_known *known;
    size_t known_count, known_capacity;
    batch_known *repeated; // by the last run, for the second time
    uint64_t runs;
};

sr_status sr_cuda_batch_create(sr_device *device, cudaStream_t stream, sr_cuda_batch **out) {
    sr_cuda_batch *b = sr_alloc(sizeof *b, "stream");
    if (!b)
        return SR_E_MEMORY;
    b->device = device;
    b->stream = stream;
    b->repeats = true;
    *out = b;
    return SR_OK;
}

static void release(batch_known *known) {
    if (known->graph)
        (void)cudaGraphExecDestroy(known->graph);
    sr_free(known->words);
}

void sr_cuda_batch_free(sr_cuda_batch *b) {
    if (!b)
        return;
    for (size_t i = 0; i < b->known_count; i++)
        release(&b->known[i]);
    sr_free(b->known);
    sr_free(b->items);
    sr_free(b->words);
    sr_free(b);
}

// ---- Holding back ----

static sr_status add(sr_cuda_batch *b, const batch_item *item, size_t words) {
    void *items = b->items, *all = b->words;
    sr_status status = SR_OK;
    if (b->count == b->item_capacity)
        status = sr_grow(&items, &b->item_capacity, b->count + 1, sizeof *b->items, "stream");
    b->items = items;
    SR_TRY(status);
    if (b->word_count + words > b->word_capacity)
        status =
            sr_grow(&all, &b->word_capacity, b->word_count + words, sizeof *b->words, "stream");
    b->words = all;
    SR_TRY(status);
    b->items[b->count] = *item;
    b->items[b->count++].first_word = b->word_count;
    b->word_count += words;
    return SR_OK;
}

sr_status sr_cuda_batch_add(sr_cuda_batch *b, const sr_kernel_call *call) {
    const size_t args = (size_t)call->request->args, first = b->word_count;
    batch_item item = {.prepared = call->prepared, .request = call->request, .site = call->site};
    if (!item.site.what)
        item.site.what = call->prepared->entry->name;
    SR_TRY(add(b, &item, args + 4));
    uint64_t *words = b->words + first;
    words[0] = call->prepared->number;
    for (size_t i = 0; i < args; i++)
        words[i + 1] = call->p[i].at;
    words[args + 1] = call->workspace.at;
    words[args + 2] = call->packed.at;
    words[args + 3] = call->is_packed;
    b->repeats = b->repeats && call->prepared->number != 0;
    return SR_OK;
}

// An item without a kernel.
static sr_status add_words(sr_cuda_batch *b, const char *what, const uint64_t *words,
                           size_t count) {
    const batch_item item = {.site = {.what = what}};
    SR_TRY(add(b, &item, count));
    memcpy(b->words + b->word_count - count, words, count * sizeof *words);
    return SR_OK;
}

sr_status sr_cuda_batch_add_clear(sr_cuda_batch *b, sr_address memory, size_t bytes) {
    const uint64_t words[] = {CLEARS, memory.at, bytes};
    return add_words(b, "clearing", words, sizeof words / sizeof *words);
}

sr_status sr_cuda_batch_add_copy(sr_cuda_batch *b, sr_address to, sr_address from, size_t bytes) {
    const uint64_t words[] = {COPIES, to.at, from.at, bytes};
    return add_words(b, "copying", words, sizeof words / sizeof *words);
}

// ---- Running ----

static sr_status run_words(const sr_cuda_batch *b, const batch_item *item, const uint64_t *words) {
    const bool clears = words[0] == CLEARS;
    const uint64_t bytes = words[clears ? 2 : 3];
    const cudaError_t error = clears ? cudaMemsetAsync((void *)words[1], 0, bytes, b->stream)
                                     : cudaMemcpyAsync((void *)words[1], (const void *)words[2],
                                                       bytes, cudaMemcpyDeviceToDevice, b->stream);
    return error == cudaSuccess
               ? SR_OK
               : sr_cuda_fail(b->device, error, "%s %zu bytes on %s", item->site.what,
                              (size_t)bytes, sr_device_name(b->device));
}

static sr_status run_item(const sr_cuda_batch *b, const batch_item *item) {
    const uint64_t *words = b->words + item->first_word;
    sr_address p[SR_KERNEL_MAX_ARGS];
    if (!item->prepared)
        return run_words(b, item, words);
    const int args = item->request->args;
    for (int i = 0; i < args; i++)
        p[i].at = words[i + 1];
    const sr_kernel_launch launch = {.p = p,
                                     .params = item->request->params,
                                     .state = item->prepared->state,
                                     .workspace = {words[args + 1]},
                                     .packed = {words[args + 2]},
                                     .is_packed = words[args + 3] != 0,
                                     .stream = b->stream};
    return item->prepared->launch(&launch);
}

static sr_status fail_item(const sr_cuda_batch *b, const batch_item *item, sr_status status) {
    char text[SR_CUDA_SITE];
    cudaError_t lost;
    if (!sr_cuda_state(b->device)->blocking &&
        sr_cuda_is_lost(b->device, &lost)) // by an earlier one
        return sr_cuda_fail_lost(b->device, lost);
    if (item->prepared)
        sr_error_prefix("%s", sr_cuda_site_text(&item->site, text));
    return status;
}

static sr_status run_items(const sr_cuda_batch *b, sr_cuda_log *log) {
    for (size_t i = 0; i < b->count; i++) {
        const batch_item *item = &b->items[i];
        const sr_status status = run_item(b, item);
        if (status != SR_OK)
            return fail_item(b, item, status);
        if (item->prepared)
            sr_cuda_log_launch(b->device, log, &item->site);
    }
    return SR_OK;
}

// ---- Graphs ----

enum { BRANCHES = 64 }; // side by side, at most

typedef struct memory_range {
    uint64_t begin, end;
    bool writes;
} memory_range;

enum { RANGES = SR_KERNEL_MAX_ARGS + 2 }; // of an item: arguments, workspace, what is packed

// Lists the memory of an item.
static int list_ranges(const sr_cuda_batch *b, const batch_item *item, memory_range out[RANGES]) {
    const sr_kernel_request *r = item->request;
    const uint64_t *at = b->words + item->first_word + 1;
    int known, count = 0;
    const sr_kernel_argument *arguments = sr_kernel_arguments(r->kernel, &known);
    for (int i = 0; i < r->args; i++) {
        if (!at[i])
            continue;
        const uint64_t bytes =
            (uint64_t)sr_kernel_argument_count(r, i) * sr_dtype_size(r->dtype[i]);
        const bool reads =
            i < known && (arguments[i].role == SR_ARG_IN || arguments[i].role == SR_ARG_OPT);
        out[count++] = (memory_range){at[i], at[i] + bytes, !reads};
    }
    const uint64_t workspace = at[r->args], packed = at[r->args + 1];
    const size_t packing = item->prepared->packing.bytes;
    if (workspace)
        out[count++] = (memory_range){
            workspace, workspace + item->prepared->workspace - (packed ? packing : 0), true};
    if (packed)
        out[count++] = (memory_range){packed, packed + packing, at[r->args + 2] == 0};
    return count;
}

// Whether two runs of a kernel may run side by side: neither writes what the other uses.
static bool are_apart(const sr_cuda_batch *b, const batch_item *x, const batch_item *y) {
    memory_range xs[RANGES], ys[RANGES];
    const int x_count = list_ranges(b, x, xs), y_count = list_ranges(b, y, ys);
    for (int i = 0; i < x_count; i++)
        for (int k = 0; k < y_count; k++)
            if ((xs[i].writes || ys[k].writes) && xs[i].begin < ys[k].end &&
                ys[k].begin < xs[i].end)
                return false;
    return true;
}

// How many items from this one on are branches.
static size_t count_branches(const sr_cuda_batch *b, size_t first) {
    const batch_item *items = b->items;
    size_t end = first + 1;
    if (!items[first].prepared || items[first].request->kernel == SR_KERNEL_OWN ||
        sr_cuda_state(b->device)->graphs != SR_CUDA_GRAPHS_BRANCHED)
        return 1;
    for (; end < b->count && end - first < BRANCHES; end++) {
        if (!items[end].prepared || items[end].prepared->number != items[first].prepared->number)
            break;
        bool apart = true;
        for (size_t i = first; i < end && apart; i++)
            apart = are_apart(b, &items[i], &items[end]);
        if (!apart)
            break;
    }
    return end - first;
}

// What the next item of the capture is behind.
typedef struct graph_ends {
    cudaGraphNode_t nodes[BRANCHES];
    cudaGraphEdgeData edges[BRANCHES]; // as libraries left them
    size_t count;
} graph_ends;

static cudaError_t get_ends(const sr_cuda_batch *b, graph_ends *out) {
    const cudaGraphNode_t *nodes;
    const cudaGraphEdgeData *edges = NULL;
    enum cudaStreamCaptureStatus status;
    const cudaError_t error =
        cudaStreamGetCaptureInfo(b->stream, &status, NULL, NULL, &nodes, &edges, &out->count);
    if (error != cudaSuccess)
        return error;
    if (status != cudaStreamCaptureStatusActive)
        return cudaErrorStreamCaptureInvalidated;
    if (out->count > BRANCHES)
        return cudaErrorNotSupported;
    memset(out->edges, 0, sizeof out->edges);
    if (out->count > 0)
        memcpy(out->nodes, nodes, out->count * sizeof(cudaGraphNode_t));
    if (out->count > 0 && edges)
        memcpy(out->edges, edges, out->count * sizeof(cudaGraphEdgeData));
    return cudaSuccess;
}

static cudaError_t set_ends(const sr_cuda_batch *b, graph_ends *ends) {
    return cudaStreamUpdateCaptureDependencies(b->stream, ends->nodes, ends->edges, ends->count,
                                               cudaStreamSetCaptureDependencies);
}

static cudaError_t capture_item(const sr_cuda_batch *b, size_t i) {
    return run_item(b, &b->items[i]) == SR_OK ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}

static cudaError_t capture_branches(const sr_cuda_batch *b, size_t first, size_t count) {
    graph_ends before, branch, after = {.count = 0};
    cudaError_t error = get_ends(b, &before);
    for (size_t i = 0; i < count && error == cudaSuccess; i++) {
        error = i > 0 ? set_ends(b, &before) : cudaSuccess;
        if (error == cudaSuccess)
            error = capture_item(b, first + i);
        if (error == cudaSuccess)
            error = get_ends(b, &branch);
        if (error == cudaSuccess && after.count + branch.count > BRANCHES)
            error = cudaErrorNotSupported;
        if (error != cudaSuccess)
            break;
        memcpy(after.nodes + after.count, branch.nodes, branch.count * sizeof(cudaGraphNode_t));
        memcpy(after.edges + after.count, branch.edges, branch.count * sizeof(cudaGraphEdgeData));
        after.count += branch.count;
    }
    return error == cudaSuccess ? set_ends(b, &after) : error;
}

static cudaError_t capture(const sr_cuda_batch *b, cudaGraph_t *graph) {
    *graph = NULL;
    // Forbids this thread, not others, what a graph would not repeat.
    cudaError_t error = cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess)
        return error;
    for (size_t i = 0, branches; i < b->count && error == cudaSuccess; i += branches) {
        branches = count_branches(b, i);
        error = branches > 1 ? capture_branches(b, i, branches) : capture_item(b, i);
    }
    const cudaError_t end = cudaStreamEndCapture(b->stream, graph);
    return error == cudaSuccess ? end : error;
}

// Where CUDA refuses, the batch runs kernel by kernel as before.
static void make_graph(const sr_cuda_batch *b, batch_known *known) {
    cudaGraph_t graph;
    cudaError_t error = capture(b, &graph);
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&known->graph, graph, 0);
    if (graph)
        (void)cudaGraphDestroy(graph);
    known->refused = error != cudaSuccess;
    if (known->refused) {
        known->graph = NULL; // CUDA does not say what it left there
        (void)cudaGetLastError();
        SR_DEBUG("%s: no graph of %zu kernels from %s on: %s", sr_device_name(b->device), b->count,
                 b->items[0].site.what, cudaGetErrorName(error));
    }
}

static batch_known *find(const sr_cuda_batch *b, uint64_t hash) {
    const size_t bytes = b->word_count * sizeof *b->words;
    for (size_t i = 0; i < b->known_count; i++) {
        batch_known *known = &b->known[i];
        if (known->hash == hash && known->word_count == b->word_count &&
            memcmp(known->words, b->words, bytes) == 0)
            return known;
    }
    return NULL;
}

static sr_status take_place(sr_cuda_batch *b, batch_known **out) {
    void *all = b->known;
    if (b->known_count == GRAPHS) {
        size_t oldest = 0;
        for (size_t i = 1; i < b->known_count; i++)
            if (b->known[i].used < b->known[oldest].used)
                oldest = i;
        release(&b->known[oldest]);
        *out = &b->known[oldest];
        return SR_OK;
    }
    if (b->known_count == b->known_capacity)
        SR_TRY(sr_grow(&all, &b->known_capacity, b->known_count + 1, sizeof *b->known, "stream"));
    b->known = all;
    *out = &b->known[b->known_count++];
    return SR_OK;
}

// Notes a batch that is new.
static sr_status learn(sr_cuda_batch *b, uint64_t hash) {
    const size_t bytes = b->word_count * sizeof *b->words;
    batch_known *known;
    uint64_t *words = sr_alloc(bytes, "stream");
    if (!words)
        return SR_E_MEMORY;
    const sr_status status = take_place(b, &known);
    if (status != SR_OK) {
        sr_free(words);
        return status;
    }
    memcpy(words, b->words, bytes);
    *known =
        (batch_known){.hash = hash, .words = words, .word_count = b->word_count, .used = b->runs};
    return SR_OK;
}

static sr_status run_graph(const sr_cuda_batch *b, cudaGraphExec_t graph, sr_cuda_log *log) {
    const cudaError_t error = cudaGraphLaunch(graph, b->stream);
    if (error != cudaSuccess)
        return sr_cuda_fail(b->device, error, "launching %zu kernels from %s on", b->count,
                            b->items[0].site.what);
    for (size_t i = 0; i < b->count; i++)
        if (b->items[i].prepared)
            sr_cuda_log_launch(b->device, log, &b->items[i].site);
    return SR_OK;
}

// The second time the kernels go first, so that the GPU has work while the host makes the graph.
static sr_status run(sr_cuda_batch *b, sr_cuda_log *log) {
    if (b->count < LEAST || !b->repeats || sr_cuda_state(b->device)->graphs == SR_CUDA_GRAPHS_NONE)
        return run_items(b, log);
    const uint64_t hash = sr_hash64(b->words, b->word_count * sizeof *b->words);
    batch_known *known = find(b, hash);
    b->runs++;
    if (!known)
        SR_TRY(learn(b, hash));
    if (known)
        known->used = b->runs;
    if (known && known->graph)
        return run_graph(b, known->graph, log);
    SR_TRY(run_items(b, log));
    if (known && !known->refused)
        b->repeated = known;
    return SR_OK;
}

sr_status sr_cuda_batch_run(sr_cuda_batch *b, sr_cuda_log *log) {
    const sr_status status = b->count > 0 ? run(b, log) : SR_OK;
    if (!b->repeated)
        sr_cuda_batch_end(b);
    return status;
}

void sr_cuda_batch_end(sr_cuda_batch *b) {
    if (b->repeated)
        make_graph(b, b->repeated);
    b->repeated = NULL;
    b->count = b->word_count = 0;
    b->repeats = true;
}
