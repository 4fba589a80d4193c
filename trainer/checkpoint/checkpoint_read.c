// SPDX-License-Identifier: Apache-2.0
// Reading generations: the newest complete one, its weights, and optimiser state for any number of
// ranks.
//
// A run folder is read by its generation numbers, not by its links: the newest manifest whose files
// all match their checksums wins. Shards are read by element ranges, so the number of ranks that
// wrote them need not be that of the readers. To choose a generation, one rank reads all its files;
// every rank then reads values through the same checksums, chunk by chunk (file_sums.h), so no rank
// uses a byte that was not compared in its own memory.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/checkpoint/checkpoint_internal.h"
#include "trainer/checkpoint/json_tree.h"

// Elements of a state that a shard contains.
typedef struct stored_range {
    int64_t begin, end; // in the flat buffer
    int64_t at;         // first element in the shard's tensor
    int shard, state;
} stored_range;

struct sr_checkpoint {
    sr_generation generation;
    sr_safetensors *weights[2];
    sr_safetensors **shards; // manifest.ranks of them, once opened
    sr_state_info *states;
    size_t state_count, state_capacity;
    stored_range *ranges; // by state and begin
    size_t range_count, range_capacity;
};

// -- opening ---------------------------------------------------------------------------------

// Opens one generation. *gone: it failed because the generation was removed meanwhile.
static sr_status open_generation(const char *folder, bool verify, sr_checkpoint **out, bool *gone) {
    sr_checkpoint *checkpoint = sr_alloc(sizeof *checkpoint, "checkpoint");
    if (checkpoint == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_generation_open(folder, &checkpoint->generation);
    *gone = status != SR_OK && sr_generation_is_gone(&checkpoint->generation);
    if (status == SR_OK && verify)
        status = sr_generation_check(&checkpoint->generation);
    if (status != SR_OK) {
        sr_checkpoint_free(checkpoint);
        return status;
    }
    *out = checkpoint;
    return SR_OK;
}

bool sr_generation_is_damage(sr_status status) {
    return status == SR_E_CHECKSUM || status == SR_E_DATA || status == SR_E_NOT_FOUND ||
           status == SR_E_LIMIT || status == SR_E_IO;
}

// A renamed folder would be taken for newer or older than it is.
static sr_status open_numbered(const char *folder, int64_t number, bool verify, sr_checkpoint **out,
                               bool *gone) {
    sr_checkpoint *checkpoint;
    SR_TRY(open_generation(folder, verify, &checkpoint, gone));
    const int64_t own = checkpoint->generation.manifest.generation;
    if (own != number) {
        sr_checkpoint_free(checkpoint);
        return SR_FAIL(SR_E_DATA,
                       "%s was renamed: its manifest.json is of generation "
                       "%" PRId64,
                       folder, own);
    }
    *out = checkpoint;
    return SR_OK;
}

// What a search of a run folder found.
typedef struct search {
    const char *run;
    const sr_checkpoint_open_options *options;
    size_t tried; // generations with a manifest
    bool gone;    // some were removed meanwhile
} search;

// True: the search is over, with *status.
static bool try_generation(search *s, int64_t number, sr_status *status, sr_checkpoint **out) {
    char name[64];
    bool gone = false;
    const bool linked = number == sr_generation_linked(s->run, "last"); // before its manifest
    char *folder = sr_path_join(s->run, sr_generation_name(number, name));
    if (folder == NULL) {
        *status = SR_E_MEMORY;
        return true;
    }
    if (!sr_checkpoint_has(folder, MANIFEST_NAME)) { // never committed, or removed
        if (linked && number == sr_generation_linked(s->run, "last"))
            SR_WARN("checkpoint %s is skipped: its manifest.json is missing, though 'last' points "
                    "to it",
                    folder);
        s->gone = s->gone || !sr_path_exists(folder);
        sr_free(folder);
        return false;
    }
    *status = open_numbered(folder, number, !s->options->no_verify, out, &gone);
    const bool over =
        *status == SR_OK || !sr_generation_is_damage(*status) || s->options->generation > 0;
    s->gone = s->gone || gone;
    s->tried += !gone;
    if (!over && !gone)
        SR_WARN("checkpoint %s is skipped: %s", folder, sr_error_message());
    sr_free(folder);
    return over;
}

static sr_status open_newest(search *s, const int64_t *list, size_t count, sr_checkpoint **out) {
    char name[64];
    sr_status status = SR_OK;
    for (size_t i = 0; i < count; ++i)
        if ((s->options->generation <= 0 || list[i] == s->options->generation) &&
            try_generation(s, list[i], &status, out))
            return status;
    if (s->options->generation > 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s/%s: no finished checkpoint with this number", s->run,
                       sr_generation_name(s->options->generation, name));
    if (s->tried == 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: no finished checkpoint yet", s->run);
    sr_error_prefix("%s: none of its %zu checkpoints is complete; the oldest", s->run, s->tried);
    return SR_E_DATA;
}

static sr_status open_once(search *s, sr_checkpoint **out) {
    int64_t *list;
    size_t count;
    SR_TRY(sr_generations_list(s->run, &list, &count));
    sr_status status;
    if (count > 0)
        status = open_newest(s, list, count, out);
    else if (sr_checkpoint_has(s->run, MANIFEST_NAME))
        status = open_generation(s->run, !s->options->no_verify, out, &s->gone);
    else if (sr_checkpoint_is(s->run))
        status = SR_FAIL(SR_E_NOT_FOUND, "%s: no finished checkpoint yet", s->run);
    else
        status = SR_FAIL(SR_E_NOT_FOUND,
                         "%s: not a checkpoint: it has neither manifest.json nor a checkpoints "
                         "folder; give a run folder or its last/ or best/",
                         s->run);
    sr_free(list);
    return status;
}

sr_status sr_checkpoint_open(const char *path, const sr_checkpoint_open_options *options,
                             sr_checkpoint **out) {
    static const sr_checkpoint_open_options defaults = {0};
    sr_status status;
    bool again;
    int attempts = 0;
    do { // what a running job has removed is replaced by something newer
        search s = {.run = path, .options = options == NULL ? &defaults : options};
        status = open_once(&s, out);
        again = s.gone && s.options->generation <= 0;
    } while (status != SR_OK && again && ++attempts < SR_OPEN_ATTEMPTS);
    return status;
}

void sr_checkpoint_free(sr_checkpoint *checkpoint) {
    if (checkpoint == NULL)
        return;
    for (int r = 0; checkpoint->shards != NULL && r < checkpoint->generation.manifest.ranks; ++r)
        sr_safetensors_free(checkpoint->shards[r]);
    sr_safetensors_free(checkpoint->weights[SR_WEIGHTS_MODEL]);
    sr_safetensors_free(checkpoint->weights[SR_WEIGHTS_EMA]);
    sr_free(checkpoint->shards);
    sr_free(checkpoint->states);
    sr_free(checkpoint->ranges);
    sr_generation_release(&checkpoint->generation);
    sr_free(checkpoint);
}

const char *sr_checkpoint_folder(const sr_checkpoint *checkpoint) {
    return checkpoint->generation.path;
}

const sr_manifest *sr_checkpoint_manifest(const sr_checkpoint *checkpoint) {
    return &checkpoint->generation.manifest;
}

bool sr_checkpoint_has_weights(const sr_checkpoint *checkpoint, sr_weights_kind kind) {
    return sr_manifest_files_find(&checkpoint->generation.files, sr_weights_file_name(kind)) !=
           NULL;
}

static sr_status open_file(const sr_checkpoint *checkpoint, const char *name,
                           sr_safetensors **out) {
    const sr_generation *g = &checkpoint->generation;
    return sr_generation_tensors(g, sr_manifest_files_find(&g->files, name), true, out);
}

sr_status sr_checkpoint_weights(sr_checkpoint *checkpoint, sr_weights_kind kind,
                                sr_safetensors **out) {
    if (!sr_checkpoint_has_weights(checkpoint, kind))
        return SR_FAIL(SR_E_NOT_FOUND, "%s: has no %s", checkpoint->generation.path,
                       sr_weights_file_name(kind));
    if (checkpoint->weights[kind] == NULL)
        SR_TRY(open_file(checkpoint, sr_weights_file_name(kind), &checkpoint->weights[kind]));
    *out = checkpoint->weights[kind];
    return SR_OK;
}

// Whether a generation is of the run with this identity; -1 if its manifest cannot be read.
static int is_of(const char *run, int64_t generation, const char *identity) {
    char name[64];
    int of = -1;
    sr_manifest manifest;
    sr_manifest_files files = {0};
    sr_arena arena;
    sr_arena_init(&arena);
    char *folder = sr_path_join(run, sr_generation_name(generation, name));
    if (folder != NULL && sr_manifest_read(folder, &arena, &manifest, &files) == SR_OK)
        of = strcmp(manifest.recipe_identity, identity) == 0;
    sr_manifest_files_release(&files);
    sr_arena_release(&arena);
    sr_free(folder);
    return of;
}

sr_status sr_checkpoint_all_of(const char *run, const char *identity, bool *all) {
    int64_t *list;
    size_t count, own = 0, others = 0;
    *all = false;
    SR_TRY(sr_generations_list(run, &list, &count));
    for (size_t i = 0; i < count; ++i) {
        const int of = is_of(run, list[i], identity);
        own += of == 1;
        others += of == 0;
    }
    sr_free(list);
    *all = own > 0 && others == 0;
    return SR_OK;
}

static bool looks_like_ours(const char *manifest) {
    static const char begin[] = "{\"format\": \"serried checkpoint\"";
    void *text = NULL;
    size_t bytes;
    bool ours = sr_path_exists(manifest) &&
                sr_file_read(manifest, MAX_MANIFEST, &text, &bytes) == SR_OK &&
                bytes >= sizeof begin && memcmp(text, begin, sizeof begin - 1) == 0;
    sr_free(text);
    return ours;
}

// A file of a generation, with its checksums if the manifest lists it.
static sr_status open_listed(const char *folder, const char *name, const char *path,
                             sr_safetensors **out) {
    sr_generation g;
    sr_status status;
    bool gone;
    int attempts = 0;
    do {
        status = sr_generation_open(folder, &g);
        gone = status != SR_OK && sr_generation_is_gone(&g);
        if (status == SR_OK) {
            const sr_manifest_file *file = sr_manifest_files_find(&g.files, name);
            status = file == NULL ? sr_safetensors_open(path, out)
                                  : sr_generation_tensors(&g, file, true, out);
        }
        sr_generation_release(&g);
    } while (gone && ++attempts < SR_OPEN_ATTEMPTS);
    return status;
}

sr_status sr_checkpoint_open_weights(const char *path, sr_safetensors **out) {
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? sr_strdup(".") : sr_strdup(path);
    if (folder != NULL && slash != NULL)
        folder[slash - path + 1] = 0; // "/" stays
    char *manifest = folder == NULL ? NULL : sr_path_join(folder, MANIFEST_NAME);
    sr_status status = SR_E_MEMORY;
    if (manifest != NULL)
        status = looks_like_ours(manifest)
                     ? open_listed(folder, slash == NULL ? path : slash + 1, path, out)
                     : sr_safetensors_open(path, out);
    sr_free(manifest);
    sr_free(folder);
    return status;
}

// -- optimiser states -------------------------------------------------------------------------

static int find_state(const sr_checkpoint *checkpoint, const char *name) {
    for (size_t i = 0; i < checkpoint->state_count; ++i)
        if (strcmp(checkpoint->states[i].name, name) == 0)
            return (int)i;
    return -1;
}

static sr_status add_state(sr_checkpoint *checkpoint, const char *path, const sr_state_info *info,
                           int *index) {
    *index = find_state(checkpoint, info->name);
    if (*index >= 0) {
        const sr_state_info *known = &checkpoint->states[*index];
        if (known->elements != info->elements || known->dtype != info->dtype)
            return SR_FAIL(SR_E_DATA,
                           "%s: optimiser state '%s' differs in dtype or size from other shards",
                           path, info->name);
        return SR_OK;
    }
    void *states = checkpoint->states;
    SR_TRY(sr_grow(&states, &checkpoint->state_capacity, checkpoint->state_count + 1,
                   sizeof *checkpoint->states, "states"));
    checkpoint->states = states;
    checkpoint->states[checkpoint->state_count] = *info;
    *index = (int)checkpoint->state_count++;
    return SR_OK;
}

static sr_status add_range(sr_checkpoint *checkpoint, const stored_range *p) {
    void *ranges = checkpoint->ranges;
    SR_TRY(sr_grow(&ranges, &checkpoint->range_capacity, checkpoint->range_count + 1,
                   sizeof *checkpoint->ranges, "state ranges"));
    checkpoint->ranges = ranges;
    checkpoint->ranges[checkpoint->range_count++] = *p;
    return SR_OK;
}

// Reads the ranges of one state in one shard, and compares them with the length of its tensor.
static sr_status read_state_ranges(sr_checkpoint *checkpoint, int shard, const sr_json *node) {
    const char *path = sr_safetensors_path(checkpoint->shards[shard]);
    const sr_stored_tensor *tensor = sr_safetensors_find(checkpoint->shards[shard], node->key);
    const sr_json *ranges = sr_json_get(node, "ranges");
    sr_state_info info = {.name = node->key};
    if (tensor == NULL || ranges == NULL || ranges->type != SR_JSON_ARRAY ||
        !sr_json_int64(sr_json_get(node, "elements"), &info.elements))
        return SR_FAIL(SR_E_DATA, "%s: optimiser state '%s' has no tensor, elements or ranges",
                       path, node->key);
    info.dtype = tensor->dtype;
    stored_range p = {.shard = shard};
    SR_TRY(add_state(checkpoint, path, &info, &p.state));
    for (const sr_json *range = ranges->first; range != NULL; range = range->next) {
        if (range->type != SR_JSON_ARRAY || range->count != 2 ||
            !sr_json_int64(range->first, &p.begin) || !sr_json_int64(range->first->next, &p.end) ||
            p.begin < 0 || p.end < p.begin || p.end > info.elements)
            return SR_FAIL(SR_E_DATA, "%s: optimiser state '%s' has a range outside its elements",
                           path, node->key);
        if (p.end > p.begin)
            SR_TRY(add_range(checkpoint, &p));
        p.at += p.end - p.begin;
    }
    if (p.at != sr_stored_elements(tensor))
        return SR_FAIL(SR_E_DATA,
                       "%s: optimiser state '%s' has %" PRId64 " elements for ranges of %" PRId64,
                       path, node->key, sr_stored_elements(tensor), p.at);
    return SR_OK;
}

static sr_status read_shard(sr_checkpoint *checkpoint, int shard) {
    char name[64];
    const sr_json *root;
    sr_checkpoint_shard_name(shard, checkpoint->generation.manifest.ranks, name);
    SR_TRY(open_file(checkpoint, name, &checkpoint->shards[shard]));
    const char *text = sr_safetensors_metadata(checkpoint->shards[shard], STATES_KEY);
    const char *path = sr_safetensors_path(checkpoint->shards[shard]);
    if (text == NULL)
        return SR_FAIL(SR_E_DATA, "%s: not an optimiser shard of serried", path);
    SR_TRY(sr_json_parse(text, strlen(text), (size_t)1 << 22, path, &checkpoint->generation.arena,
                         &root));
    if (root->type != SR_JSON_OBJECT)
        return SR_FAIL(SR_E_DATA, "%s: its metadata '" STATES_KEY "' is not a JSON object", path);
    for (const sr_json *node = root->first; node != NULL; node = node->next)
        SR_TRY(read_state_ranges(checkpoint, shard, node));
    return SR_OK;
}

static int compare_ranges(const void *a, const void *b) {
    const stored_range *x = a, *y = b;
    if (x->state != y->state)
        return x->state - y->state;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// Checks that every element of every state is in exactly one shard.
static sr_status check_coverage(sr_checkpoint *checkpoint) {
    size_t next = 0;
    if (checkpoint->range_count > 0)
        qsort(checkpoint->ranges, checkpoint->range_count, sizeof *checkpoint->ranges,
              compare_ranges);
    for (size_t s = 0; s < checkpoint->state_count; ++s) {
        int64_t reached = 0;
        for (; next < checkpoint->range_count && checkpoint->ranges[next].state == (int)s; ++next) {
            if (checkpoint->ranges[next].begin != reached)
                break;
            reached = checkpoint->ranges[next].end;
        }
        if (reached != checkpoint->states[s].elements)
            return SR_FAIL(SR_E_DATA,
                           "%s: element %" PRId64
                           " of optimiser state '%s' is not in exactly one shard",
                           checkpoint->generation.path, reached, checkpoint->states[s].name);
    }
    return SR_OK;
}

static sr_status open_shards(sr_checkpoint *checkpoint) {
    checkpoint->shards = sr_alloc_array((size_t)checkpoint->generation.manifest.ranks,
                                        sizeof(sr_safetensors *), "optimiser shards");
    if (checkpoint->shards == NULL)
        return SR_E_MEMORY;
    for (int r = 0; r < checkpoint->generation.manifest.ranks; ++r)
        SR_TRY(read_shard(checkpoint, r));
    return check_coverage(checkpoint);
}

static void close_shards(sr_checkpoint *checkpoint) {
    for (int r = 0; checkpoint->shards != NULL && r < checkpoint->generation.manifest.ranks; ++r)
        sr_safetensors_free(checkpoint->shards[r]);
    sr_free(checkpoint->shards);
    checkpoint->shards = NULL;
    checkpoint->state_count = checkpoint->range_count = 0;
}

sr_status sr_checkpoint_states(sr_checkpoint *checkpoint, const sr_state_info **states,
                               int *count) {
    if (checkpoint->shards == NULL) {
        sr_status status = open_shards(checkpoint);
        if (status != SR_OK) {
            close_shards(checkpoint);
            return status;
        }
    }
    *states = checkpoint->states;
    *count = (int)checkpoint->state_count;
    return SR_OK;
}

// Reads elements [begin, end) of a state into 'out', from all ranges that contain some of them.
static sr_status read_range(sr_checkpoint *checkpoint, int state, int64_t begin, int64_t end,
                            uint8_t *out) {
    size_t size = sr_dtype_size(checkpoint->states[state].dtype);
    for (size_t i = 0; i < checkpoint->range_count; ++i) {
        const stored_range *p = &checkpoint->ranges[i];
        int64_t from = p->begin > begin ? p->begin : begin, to = p->end < end ? p->end : end;
        if (p->state != state || from >= to)
            continue;
        sr_safetensors *shard = checkpoint->shards[p->shard];
        const sr_stored_tensor *tensor = sr_safetensors_find(shard, checkpoint->states[state].name);
        SR_TRY(sr_safetensors_read(shard, tensor, p->at + (from - p->begin), to - from,
                                   out + (size_t)(from - begin) * size));
    }
    return SR_OK;
}

sr_status sr_checkpoint_read_state(sr_checkpoint *checkpoint, const char *name, sr_dtype dtype,
                                   int64_t elements, const sr_range *ranges, int range_count,
                                   bool packed, void *out) {
    const sr_state_info *states;
    int count;
    uint8_t *data = out;
    int64_t packed_at = 0;
    SR_TRY(sr_checkpoint_states(checkpoint, &states, &count));
    int state = find_state(checkpoint, name);
    if (state < 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: no optimiser state '%s'", checkpoint->generation.path,
                       name);
    if (states[state].dtype != dtype || states[state].elements != elements) {
        return SR_FAIL(SR_E_SHAPE,
                       "%s: optimiser state '%s' has %" PRId64 " elements of %s where %" PRId64
                       " of %s are expected: it was written with another model or optimiser",
                       checkpoint->generation.path, name, states[state].elements,
                       sr_dtype_name(states[state].dtype), elements, sr_dtype_name(dtype));
    }
    for (int i = 0; i < range_count; ++i) {
        int64_t n = ranges[i].end - ranges[i].begin;
        int64_t at = packed ? packed_at : ranges[i].begin;
        if (ranges[i].begin < 0 || n < 0 || ranges[i].end > elements)
            return SR_FAIL(SR_E_ARGUMENT, "optimiser state '%s': a range outside its elements",
                           name);
        SR_TRY(read_range(checkpoint, state, ranges[i].begin, ranges[i].end,
                          data + (size_t)at * sr_dtype_size(dtype)));
        packed_at += n;
    }
    return SR_OK;
}
