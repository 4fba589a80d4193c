// SPDX-License-Identifier: Apache-2.0
// Saves, loads and digests the training state (state.h).
//
// Optimiser state and averages are distributed: the owner of an element keeps it. In a checkpoint
// each rank stores the optimiser state that it owns. The average, which is stored as one file that
// other programs can read, and the digest gather the elements first.
#include "trainer/engine/state.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/checkpoint/json_tree.h"
#include "trainer/engine/digest.h"
#include "trainer/engine/engine_internal.h"
#include "trainer/engine/load_weights.h"

// ---- Host access ----

enum { ARRAYS = SR_SET_STATE + SR_OPTIMIZER_MAX_STATES };

// Arrays of all sets on the host; NULL: not mapped.
typedef struct host_arrays {
    float *flat[SR_MAX_SETS][ARRAYS];
} host_arrays;

static bool exists(const sr_param_set *set, int array) {
    if (array == SR_SET_AVERAGE)
        return sr_param_set_has_average(set);
    return array < SR_SET_STATE || sr_param_set_has_state(set, array - SR_SET_STATE);
}

// Ends the access and returns 'status', that of the work on the arrays, or else a failure of its
// own.
static sr_status unmap(const sr_engine *e, const host_arrays *host, bool write, sr_status status) {
    for (int s = 0; s < e->set_count; s++) {
        for (int a = 0; a < ARRAYS; a++) {
            if (!host->flat[s][a])
                continue;
            const sr_status other = sr_param_set_unmap(e->sets[s], a, host->flat[s][a], write);
            status = status == SR_OK ? other : status;
        }
    }
    return status;
}

// Maps those of the arrays [first, end) of every set that exist.
static sr_status map(const sr_engine *e, int first, int end, host_arrays *out) {
    *out = (host_arrays){0};
    for (int s = 0; s < e->set_count; s++) {
        for (int a = first; a < end; a++) {
            if (!exists(e->sets[s], a))
                continue;
            const sr_status status = sr_param_set_map(e->sets[s], a, &out->flat[s][a]);
            if (status != SR_OK)
                return unmap(e, out, false, status);
        }
    }
    return SR_OK;
}

// ---- Lists of tensors ----

static int count_tensors(const sr_engine *e) {
    int count = 0;
    for (int s = 0; s < e->set_count; s++)
        count +=
            e->models[s]->param_count + e->models[s]->counter_count + e->models[s]->table_count;
    return count;
}

static sr_stored_tensor stored_param(const sr_param *p, const float *flat) {
    sr_stored_tensor t = {
        .name = p->name, .dtype = SR_F32, .rank = p->info.rank, .data = flat + p->offset};
    for (int i = 0; i < p->info.rank; i++)
        t.shape[i] = p->info.dim[i];
    return t;
}

static sr_stored_tensor stored_table(const sr_model_table *table) {
    sr_stored_tensor t = {.name = table->name,
                          .dtype = table->info.dtype,
                          .rank = table->info.rank,
                          .data = table->data};
    for (int i = 0; i < table->info.rank; i++)
        t.shape[i] = table->info.dim[i];
    return t;
}

// The sets in the order of files: first the one that inference uses.
static int set_in_file(const sr_engine *e, int place) {
    const int first = e->task->infers;
    return place == 0 ? first : place <= first ? place - 1 : place;
}

// Parameters, buffers, and PyTorch's step counters and tables, with the values or the averages; of
// a set without an average, the values.
static int list_tensors(const sr_engine *e, const host_arrays *host, int array,
                        const int64_t *steps, sr_stored_tensor *out) {
    int count = 0;
    for (int k = 0; k < e->set_count; k++) {
        const int set = set_in_file(e, k);
        const sr_model *model = e->models[set];
        float *const *arrays = host->flat[set];
        const float *flat = arrays[array] ? arrays[array] : arrays[SR_SET_VALUES];
        for (int i = 0; i < model->param_count; i++)
            out[count++] = stored_param(&model->params[i], flat);
        for (int i = 0; i < model->counter_count; i++)
            out[count++] = (sr_stored_tensor){
                .name = model->counters[i].name, .dtype = SR_I64, .rank = 0, .data = steps};
        for (int i = 0; i < model->table_count; i++)
            out[count++] = stored_table(&model->tables[i]);
    }
    return count;
}

static bool has_average(const sr_engine *e) {
    for (int s = 0; s < e->set_count; s++)
        if (sr_param_set_has_average(e->sets[s]))
            return true;
    return false;
}

static sr_status gather_averages(sr_engine *e) {
    for (int s = 0; s < e->set_count; s++)
        if (sr_param_set_has_average(e->sets[s]))
            SR_TRY(sr_param_set_gather_average(e->sets[s]));
    return SR_OK;
}

static sr_status gather_states(sr_engine *e) {
    for (int k = 0; k < e->set_count; k++)
        for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++)
            if (sr_param_set_has_state(e->sets[k], s))
                SR_TRY(sr_exchange_gather(e->sets[k]->exchange, e->sets[k]->states[s],
                                          "gather the optimiser state"));
    return SR_OK;
}

static void set_name(const sr_param_set *set, const char *what, char out[SR_NAME_BYTES]) {
    (void)snprintf(out, SR_NAME_BYTES, "%s%s%s", set->name, set->name[0] ? "." : "", what);
}

static void state_name(const sr_param_set *set, int state, char out[SR_NAME_BYTES]) {
    set_name(set, set->optimizer->state_names[state], out);
}

// The loss scale is a state of the optimiser that is equal on all ranks; rank 0 saves it.
#define LOSS_SCALE "loss_scale"
static const sr_range loss_scale_range = {0, SR_LOSS_SCALE_NUMBERS};

static bool scales_loss(const sr_param_set *set) {
    return set->loss_scale.scale > 0;
}

// ---- Digest ----

typedef struct digest_list {
    sr_arena arena;
    sr_digest_array *arrays;
    int count;
    sr_status status;
} digest_list;

static void add_array(digest_list *list, const char *prefix, const char *name, sr_dtype dtype,
                      int64_t elements, const void *data) {
    if (list->status != SR_OK)
        return;
    int64_t blocks = sr_digest_block_count(elements);
    size_t length = strlen(prefix) + strlen(name) + 2;
    char *full = sr_arena_alloc(&list->arena, length);
    sr_hash128 *hashes = sr_arena_alloc(&list->arena, (size_t)blocks * sizeof *hashes);
    if (!full || !hashes) {
        list->status = SR_E_MEMORY;
        return;
    }
    (void)snprintf(full, length, "%s%s%s", prefix, prefix[0] ? " " : "", name);
    sr_digest_hash_blocks(data, dtype, elements, 0, blocks, hashes);
    list->arrays[list->count++] = (sr_digest_array){full, dtype, elements, hashes};
}

static void add_model_arrays(digest_list *list, const sr_param_set *set,
                             float *const flat[ARRAYS]) {
    for (int i = 0; i < set->model->param_count; i++) {
        const sr_param *p = &set->model->params[i];
        int64_t n = sr_info_count(&p->info);
        add_array(list, "", p->name, SR_F32, n, flat[SR_SET_VALUES] + p->offset);
        if (flat[SR_SET_AVERAGE])
            add_array(list, "ema", p->name, SR_F32, n, flat[SR_SET_AVERAGE] + p->offset);
        if (!sr_param_set_trains(set, i) || p->kind == SR_PARAM_BUFFER)
            continue;
        for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++) {
            char prefix[SR_NAME_BYTES];
            if (!sr_param_set_has_state(set, s))
                continue;
            state_name(set, s, prefix);
            add_array(list, prefix, p->name, SR_F32, n, flat[SR_SET_STATE + s] + p->offset);
        }
    }
}

static sr_status digest_arrays(const sr_engine *e, const host_arrays *host, int64_t position,
                               int64_t steps, char hex[SR_SHA256_HEX]) {
    digest_list list = {.status = SR_OK};
    sr_arena_init(&list.arena);
    size_t most = (size_t)count_tensors(e) * (2 + SR_OPTIMIZER_MAX_STATES) + SR_MAX_SETS + 1;
    list.arrays = sr_arena_alloc(&list.arena, most * sizeof *list.arrays);
    if (!list.arrays)
        list.status = SR_E_MEMORY;
    for (int s = 0; s < e->set_count; s++)
        add_model_arrays(&list, e->sets[s], host->flat[s]);
    for (int s = 0; s < e->set_count; s++)
        if (scales_loss(e->sets[s]))
            add_array(&list, e->sets[s]->name, LOSS_SCALE, SR_F64, SR_LOSS_SCALE_NUMBERS,
                      &e->sets[s]->loss_scale);
    add_array(&list, "", "steps", SR_I64, 1, &steps);
    if (list.status == SR_OK)
        list.status = sr_digest_combine(list.arrays, list.count, position, hex);
    sr_arena_release(&list.arena);
    return list.status;
}

static sr_status digest_here(const sr_engine *e, int64_t position, int64_t steps,
                             char hex[SR_SHA256_HEX]) {
    host_arrays host;
    SR_TRY(map(e, 0, ARRAYS, &host));
    return unmap(e, &host, false, digest_arrays(e, &host, position, steps, hex));
}

sr_status sr_state_digest(sr_engine *e, int64_t position, int64_t steps, char hex[SR_SHA256_HEX]) {
    SR_TRY(gather_averages(e));
    SR_TRY(gather_states(e));
    memset(hex, 0, SR_SHA256_HEX);
    if (sr_comm_rank(e->comm) == 0)
        SR_TRY(digest_here(e, position, steps, hex));
    return sr_comm_broadcast(e->comm, 0, hex, SR_SHA256_HEX, "digest");
}

// ---- Saving ----

static sr_status write_states(const sr_engine *e, const host_arrays *host,
                              sr_checkpoint_writer *writer) {
    enum { MOST = SR_MAX_SETS * (SR_OPTIMIZER_MAX_STATES + 1) };
    sr_checkpoint_state states[MOST];
    char names[MOST][SR_NAME_BYTES];
    const bool first = sr_comm_rank(e->comm) == 0;
    int count = 0;
    for (int k = 0; k < e->set_count; k++) {
        const sr_param_set *set = e->sets[k];
        for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++) {
            if (!sr_param_set_has_state(set, s))
                continue;
            state_name(set, s, names[count]);
            states[count] = (sr_checkpoint_state){.name = names[count],
                                                  .dtype = SR_F32,
                                                  .elements = set->elements,
                                                  .data = host->flat[k][SR_SET_STATE + s]};
            states[count].ranges = sr_exchange_owned(set->exchange, &states[count].range_count);
            count++;
        }
        if (!scales_loss(set))
            continue;
        set_name(set, LOSS_SCALE, names[count]);
        states[count] = (sr_checkpoint_state){.name = names[count],
                                              .dtype = SR_F64,
                                              .elements = SR_LOSS_SCALE_NUMBERS,
                                              .data = &set->loss_scale,
                                              .ranges = &loss_scale_range,
                                              .range_count = first ? 1 : 0};
        count++;
    }
    return sr_checkpoint_write_optimizer(writer, states, count);
}

static sr_status write_shard(const sr_engine *e, sr_checkpoint_writer *writer) {
    host_arrays host;
    SR_TRY(map(e, SR_SET_STATE, ARRAYS, &host));
    return unmap(e, &host, false, write_states(e, &host, writer));
}

static sr_status write_models(const sr_engine *e, const host_arrays *host,
                              sr_checkpoint_writer *writer, const sr_manifest *manifest) {
    sr_stored_tensor *tensors =
        sr_alloc_array((size_t)count_tensors(e) + 1, sizeof *tensors, "checkpoint tensors");
    if (!tensors)
        return SR_E_MEMORY;
    int count = list_tensors(e, host, SR_SET_VALUES, &manifest->step, tensors);
    sr_status status =
        sr_checkpoint_write_model(writer, SR_WEIGHTS_MODEL, tensors, count, manifest);
    if (status == SR_OK && has_average(e)) {
        count = list_tensors(e, host, SR_SET_AVERAGE, &manifest->step, tensors);
        status = sr_checkpoint_write_model(writer, SR_WEIGHTS_EMA, tensors, count, manifest);
    }
    sr_free(tensors);
    return status;
}

static sr_status write_weights(const sr_engine *e, sr_checkpoint_writer *writer,
                               const sr_manifest *manifest) {
    host_arrays host;
    SR_TRY(map(e, SR_SET_VALUES, SR_SET_AVERAGE + 1, &host));
    return unmap(e, &host, false, write_models(e, &host, writer, manifest));
}

typedef struct write_result {
    int32_t status;
    char message[508];
} write_result;

// All ranks meet here after writing, whether or not they succeeded: until then rank 0 must not
// remove the generation, or a rank that is still writing would fail. All return the error of the
// first rank that failed.
static sr_status agree_written(sr_engine *e, sr_status status) {
    int ranks = sr_comm_size(e->comm), rank = sr_comm_rank(e->comm);
    write_result mine = {.status = (int32_t)status};
    sr_kept_error own = {.status = SR_OK};
    sr_error_keep(&own, status);
    if (status != SR_OK)
        (void)snprintf(mine.message, sizeof mine.message, "%s", sr_error_message());
    write_result *all = sr_alloc_array((size_t)ranks, sizeof *all, "results of writing");
    if (!all)
        return SR_E_MEMORY;
    status = sr_comm_all_gather(e->comm, &mine, sizeof mine, all, "checkpoint written");
    for (int r = 0; r < ranks && status == SR_OK; r++) {
        status = (sr_status)all[r].status;
        if (status != SR_OK && r == rank)
            status = sr_error_restore(&own);
        else if (status != SR_OK)
            status = SR_FAIL(status, "rank %d (%s): %s", r, sr_comm_peer_name(e->comm, r),
                             all[r].message);
    }
    sr_free(all);
    return status;
}

// A rank that fails after agree_written returns its error; its caller aborts the communicator,
// which ends the waits of the others.
static sr_status write_generation(sr_engine *e, sr_checkpoint_writer *writer,
                                  const sr_manifest *manifest, int keep) {
    bool first = sr_comm_rank(e->comm) == 0;
    sr_status status = write_shard(e, writer);
    if (status == SR_OK && first)
        status = write_weights(e, writer, manifest);
    SR_TRY(agree_written(e, status));
    if (first)
        SR_TRY(sr_checkpoint_commit(writer, manifest, keep));
    return sr_comm_barrier(e->comm, "checkpoint committed");
}

sr_status sr_state_save(sr_engine *e, const char *run, sr_manifest *manifest, int keep,
                        char digest[SR_SHA256_HEX]) {
    int64_t generation = 0;
    sr_checkpoint_writer *writer;
    SR_TRY(sr_state_digest(e, manifest->position, manifest->step, digest));
    manifest->digest = digest;
    if (sr_comm_rank(e->comm) == 0)
        SR_TRY(sr_checkpoint_next_generation(run, &generation));
    SR_TRY(sr_comm_broadcast(e->comm, 0, &generation, sizeof generation, "checkpoint number"));
    manifest->generation = generation;
    SR_TRY(sr_checkpoint_begin(run, generation, sr_comm_rank(e->comm), sr_comm_size(e->comm),
                               &writer));
    sr_status status = write_generation(e, writer, manifest, keep);
    sr_checkpoint_writer_free(writer);
    return status;
}

// ---- Loading ----

// What a file is loaded into.
typedef struct load_target {
    const char *part; // as of sr_weights_load
    const sr_string_list *reset;
    int array;
    bool verbose;
} load_target;

static sr_status load_arrays(const sr_engine *e, const host_arrays *host, sr_safetensors *file,
                             const load_target *to) {
    sr_model_values models[SR_MAX_SETS];
    sr_text report;
    int count = 0;
    for (int s = 0; s < e->set_count; s++)
        if (host->flat[s][to->array])
            models[count++] =
                (sr_model_values){.model = e->models[s], .flat = host->flat[s][to->array]};
    assert(count > 0);
    sr_text_init(&report);
    const sr_status status = sr_weights_load(models, count, to->part, file, to->reset, &report);
    if (report.data[0] && to->verbose)
        SR_INFO("%s%s%s: %s", sr_safetensors_path(file), to->part ? " into " : "",
                to->part ? to->part : "", report.data);
    sr_text_release(&report);
    return status;
}

// Reads one array of all sets that have it from a file.
static sr_status load_file(const sr_engine *e, sr_safetensors *file, const load_target *to) {
    host_arrays host;
    SR_TRY(map(e, to->array, to->array + 1, &host));
    return unmap(e, &host, true, load_arrays(e, &host, file, to));
}

sr_status sr_state_load_weights(sr_engine *e, sr_safetensors *file, const char *part,
                                const sr_string_list *reset) {
    SR_TRY(load_file(
        e, file,
        &(load_target){.part = part, .reset = reset, .array = SR_SET_VALUES, .verbose = true}));
    for (int s = 0; s < e->set_count; s++)
        SR_TRY(sr_param_set_start_average(e->sets[s]));
    return SR_OK;
}

sr_status sr_state_try_weights(sr_engine *e, sr_safetensors *file, const char *part,
                               const sr_string_list *reset) {
    return load_file(e, file, &(load_target){.part = part, .reset = reset, .array = SR_SET_VALUES});
}

#define INTENDED "; if that is intended, name the last layer in weights_reset"

sr_status sr_state_check_classes(sr_safetensors *file, const char *const *classes, int count) {
    const char *text = sr_safetensors_metadata(file, "serried.classes");
    const sr_json *list = NULL;
    sr_arena arena;
    if (!text)
        return SR_OK;
    sr_arena_init(&arena);
    sr_status status = sr_json_parse(text, strlen(text), (size_t)1 << 22, sr_safetensors_path(file),
                                     &arena, &list);
    const sr_json *item = status == SR_OK ? list->first : NULL;
    for (int i = 0; status == SR_OK && (item || i < count); i++, item = item ? item->next : NULL) {
        const char *theirs = item ? sr_json_string(item) : NULL,
                   *ours = i < count ? classes[i] : NULL;
        if (theirs && ours && strcmp(theirs, ours) == 0)
            continue;
        if (theirs && ours)
            status = SR_FAIL(SR_E_USAGE, "%s: class %d is '%s' in it and '%s' in the data" INTENDED,
                             sr_safetensors_path(file), i, theirs, ours);
        else
            status = SR_FAIL(SR_E_USAGE, "%s has %d classes and the data %d; only %s '%s'" INTENDED,
                             sr_safetensors_path(file), (int)list->count, count,
                             ours ? "the data has" : "the file has", ours ? ours : theirs);
    }
    sr_arena_release(&arena);
    return status;
}

static sr_status read_set_states(sr_param_set *set, float *const flat[ARRAYS],
                                 sr_checkpoint *checkpoint) {
    int ranges;
    const sr_range *owned = sr_exchange_owned(set->exchange, &ranges);
    char name[SR_NAME_BYTES];
    for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++) {
        if (!sr_param_set_has_state(set, s))
            continue;
        state_name(set, s, name);
        SR_TRY(sr_checkpoint_read_state(checkpoint, name, SR_F32, set->elements, owned, ranges,
                                        false, flat[SR_SET_STATE + s]));
    }
    set_name(set, LOSS_SCALE, name);
    return scales_loss(set)
               ? sr_checkpoint_read_state(checkpoint, name, SR_F64, SR_LOSS_SCALE_NUMBERS,
                                          &loss_scale_range, 1, false, &set->loss_scale)
               : SR_OK;
}

static sr_status read_states(const sr_engine *e, const host_arrays *host,
                             sr_checkpoint *checkpoint) {
    for (int s = 0; s < e->set_count; s++)
        SR_TRY(read_set_states(e->sets[s], host->flat[s], checkpoint));
    return SR_OK;
}

static sr_status load_states(const sr_engine *e, sr_checkpoint *checkpoint) {
    host_arrays host;
    SR_TRY(map(e, SR_SET_STATE, ARRAYS, &host));
    return unmap(e, &host, true, read_states(e, &host, checkpoint));
}

sr_status sr_state_load(sr_engine *e, sr_checkpoint *checkpoint) {
    sr_safetensors *file;
    SR_TRY(sr_checkpoint_weights(checkpoint, SR_WEIGHTS_MODEL, &file));
    SR_TRY(load_file(e, file, &(load_target){.array = SR_SET_VALUES}));
    if (has_average(e)) {
        SR_TRY(sr_checkpoint_weights(checkpoint, SR_WEIGHTS_EMA, &file));
        SR_TRY(load_file(e, file, &(load_target){.array = SR_SET_AVERAGE}));
    }
    return load_states(e, checkpoint);
}
