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

enum { ARRAYS = SR_PHASE_STATE + SR_OPTIMIZER_MAX_STATES };

// Arrays of all phases on the host; NULL: not mapped.
typedef struct host_arrays {
    float *flat[SR_MAX_PHASES][ARRAYS];
} host_arrays;

static bool exists(const sr_phase *phase, int array) {
    if (array == SR_PHASE_AVERAGE)
        return sr_phase_has_average(phase);
    return array < SR_PHASE_STATE || sr_phase_has_state(phase, array - SR_PHASE_STATE);
}

// Ends the access and returns 'status', that of the work on the arrays, or else a failure of its
// own.
static sr_status unmap(const sr_engine *e, const host_arrays *host, bool write, sr_status status) {
    for (int p = 0; p < e->phase_count; p++) {
        for (int a = 0; a < ARRAYS; a++) {
            if (!host->flat[p][a])
                continue;
            const sr_status other = sr_phase_unmap(e->phases[p], a, host->flat[p][a], write);
            status = status == SR_OK ? other : status;
        }
    }
    return status;
}

// Maps those of the arrays [first, end) of every phase that exist.
static sr_status map(const sr_engine *e, int first, int end, host_arrays *out) {
    *out = (host_arrays){0};
    for (int p = 0; p < e->phase_count; p++) {
        for (int a = first; a < end; a++) {
            if (!exists(e->phases[p], a))
                continue;
            const sr_status status = sr_phase_map(e->phases[p], a, &out->flat[p][a]);
            if (status != SR_OK)
                return unmap(e, out, false, status);
        }
    }
    return SR_OK;
}

// ---- Lists of tensors ----

static int count_tensors(const sr_engine *e) {
    int count = 0;
    for (int p = 0; p < e->phase_count; p++)
        count +=
            e->models[p]->param_count + e->models[p]->counter_count + e->models[p]->table_count;
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

// Parameters, buffers, and PyTorch's step counters and tables, with the values or the averages.
static int list_tensors(const sr_engine *e, const host_arrays *host, int array,
                        const int64_t *steps, sr_stored_tensor *out) {
    int count = 0;
    for (int p = 0; p < e->phase_count; p++) {
        const sr_model *model = e->models[p];
        const float *flat = host->flat[p][array];
        for (int i = 0; i < model->param_count; i++)
            out[count++] = stored_param(&model->params[i], flat);
        for (int i = 0; i < model->counter_count; i++)
            out[count++] = (sr_stored_tensor){
                .name = model->counters[i], .dtype = SR_I64, .rank = 0, .data = steps};
        for (int i = 0; i < model->table_count; i++)
            out[count++] = stored_table(&model->tables[i]);
    }
    return count;
}

static bool has_average(const sr_engine *e) {
    return sr_phase_has_average(e->phases[0]);
}

static sr_status gather_averages(sr_engine *e) {
    for (int p = 0; p < e->phase_count && has_average(e); p++)
        SR_TRY(sr_phase_gather_average(e->phases[p]));
    return SR_OK;
}

static sr_status gather_states(sr_engine *e) {
    for (int p = 0; p < e->phase_count; p++)
        for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++)
            if (sr_phase_has_state(e->phases[p], s))
                SR_TRY(sr_exchange_gather(e->phases[p]->exchange, e->phases[p]->states[s],
                                          "gather the optimiser state"));
    return SR_OK;
}

static void phase_name(const sr_phase *phase, const char *what, char out[SR_NAME_BYTES]) {
    (void)snprintf(out, SR_NAME_BYTES, "%s%s%s", phase->name, phase->name[0] ? "." : "", what);
}

static void state_name(const sr_phase *phase, int state, char out[SR_NAME_BYTES]) {
    phase_name(phase, phase->optimizer->state_names[state], out);
}

// The loss scale is a state of the optimiser that is equal on all ranks; rank 0 saves it.
#define LOSS_SCALE "loss_scale"
static const sr_range loss_scale_range = {0, SR_LOSS_SCALE_NUMBERS};

static bool scales_loss(const sr_phase *phase) {
    return phase->loss_scale.scale > 0;
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

static void add_model_arrays(digest_list *list, const sr_phase *phase, float *const flat[ARRAYS]) {
    for (int i = 0; i < phase->model->param_count; i++) {
        const sr_param *p = &phase->model->params[i];
        int64_t n = sr_info_count(&p->info);
        add_array(list, "", p->name, SR_F32, n, flat[SR_PHASE_VALUES] + p->offset);
        if (flat[SR_PHASE_AVERAGE])
            add_array(list, "ema", p->name, SR_F32, n, flat[SR_PHASE_AVERAGE] + p->offset);
        if (!sr_phase_trains(phase, i) || p->kind == SR_PARAM_BUFFER)
            continue;
        for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++) {
            char prefix[SR_NAME_BYTES];
            if (!sr_phase_has_state(phase, s))
                continue;
            state_name(phase, s, prefix);
            add_array(list, prefix, p->name, SR_F32, n, flat[SR_PHASE_STATE + s] + p->offset);
        }
    }
}

static sr_status digest_arrays(const sr_engine *e, const host_arrays *host, int64_t position,
                               int64_t steps, char hex[SR_SHA256_HEX]) {
    digest_list list = {.status = SR_OK};
    sr_arena_init(&list.arena);
    size_t most = (size_t)count_tensors(e) * (2 + SR_OPTIMIZER_MAX_STATES) + SR_MAX_PHASES + 1;
    list.arrays = sr_arena_alloc(&list.arena, most * sizeof *list.arrays);
    if (!list.arrays)
        list.status = SR_E_MEMORY;
    for (int p = 0; p < e->phase_count; p++)
        add_model_arrays(&list, e->phases[p], host->flat[p]);
    for (int p = 0; p < e->phase_count; p++)
        if (scales_loss(e->phases[p]))
            add_array(&list, e->phases[p]->name, LOSS_SCALE, SR_F64, SR_LOSS_SCALE_NUMBERS,
                      &e->phases[p]->loss_scale);
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
    enum { MOST = SR_MAX_PHASES * (SR_OPTIMIZER_MAX_STATES + 1) };
    sr_checkpoint_state states[MOST];
    char names[MOST][SR_NAME_BYTES];
    const bool first = sr_comm_rank(e->comm) == 0;
    int count = 0;
    for (int p = 0; p < e->phase_count; p++) {
        const sr_phase *phase = e->phases[p];
        for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++) {
            if (!sr_phase_has_state(phase, s))
                continue;
            state_name(phase, s, names[count]);
            states[count] = (sr_checkpoint_state){.name = names[count],
                                                  .dtype = SR_F32,
                                                  .elements = phase->elements,
                                                  .data = host->flat[p][SR_PHASE_STATE + s]};
            states[count].ranges = sr_exchange_owned(phase->exchange, &states[count].range_count);
            count++;
        }
        if (!scales_loss(phase))
            continue;
        phase_name(phase, LOSS_SCALE, names[count]);
        states[count] = (sr_checkpoint_state){.name = names[count],
                                              .dtype = SR_F64,
                                              .elements = SR_LOSS_SCALE_NUMBERS,
                                              .data = &phase->loss_scale,
                                              .ranges = &loss_scale_range,
                                              .range_count = first ? 1 : 0};
        count++;
    }
    return sr_checkpoint_write_optimizer(writer, states, count);
}

static sr_status write_shard(const sr_engine *e, sr_checkpoint_writer *writer) {
    host_arrays host;
    SR_TRY(map(e, SR_PHASE_STATE, ARRAYS, &host));
    return unmap(e, &host, false, write_states(e, &host, writer));
}

static sr_status write_models(const sr_engine *e, const host_arrays *host,
                              sr_checkpoint_writer *writer, const sr_manifest *manifest) {
    sr_stored_tensor *tensors =
        sr_alloc_array((size_t)count_tensors(e) + 1, sizeof *tensors, "checkpoint tensors");
    if (!tensors)
        return SR_E_MEMORY;
    int count = list_tensors(e, host, SR_PHASE_VALUES, &manifest->step, tensors);
    sr_status status =
        sr_checkpoint_write_model(writer, SR_WEIGHTS_MODEL, tensors, count, manifest);
    if (status == SR_OK && has_average(e)) {
        count = list_tensors(e, host, SR_PHASE_AVERAGE, &manifest->step, tensors);
        status = sr_checkpoint_write_model(writer, SR_WEIGHTS_EMA, tensors, count, manifest);
    }
    sr_free(tensors);
    return status;
}

static sr_status write_weights(const sr_engine *e, sr_checkpoint_writer *writer,
                               const sr_manifest *manifest) {
    host_arrays host;
    SR_TRY(map(e, SR_PHASE_VALUES, SR_PHASE_AVERAGE + 1, &host));
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

static sr_status load_arrays(const sr_engine *e, const host_arrays *host, sr_safetensors *file,
                             const sr_string_list *reset, int array, bool verbose) {
    sr_model_values models[SR_MAX_PHASES];
    sr_text report;
    for (int p = 0; p < e->phase_count; p++) {
        models[p] = (sr_model_values){.model = e->models[p], .flat = host->flat[p][array]};
        assert(models[p].flat);
    }
    sr_text_init(&report);
    const sr_status status = sr_weights_load(models, e->phase_count, file, reset, &report);
    if (report.data[0] && verbose)
        SR_INFO("%s: %s", sr_safetensors_path(file), report.data);
    sr_text_release(&report);
    return status;
}

// Reads one array of all phases from a file.
static sr_status load_file(const sr_engine *e, sr_safetensors *file, const sr_string_list *reset,
                           int array, bool verbose) {
    host_arrays host;
    SR_TRY(map(e, array, array + 1, &host));
    return unmap(e, &host, true, load_arrays(e, &host, file, reset, array, verbose));
}

sr_status sr_state_load_weights(sr_engine *e, sr_safetensors *file, const sr_string_list *reset) {
    SR_TRY(load_file(e, file, reset, SR_PHASE_VALUES, true));
    for (int p = 0; p < e->phase_count; p++)
        SR_TRY(sr_phase_start_average(e->phases[p]));
    return SR_OK;
}

sr_status sr_state_try_weights(sr_engine *e, sr_safetensors *file, const sr_string_list *reset) {
    return load_file(e, file, reset, SR_PHASE_VALUES, false);
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

static sr_status read_phase_states(sr_phase *phase, float *const flat[ARRAYS],
                                   sr_checkpoint *checkpoint) {
    int ranges;
    const sr_range *owned = sr_exchange_owned(phase->exchange, &ranges);
    char name[SR_NAME_BYTES];
    for (int s = 0; s < SR_OPTIMIZER_MAX_STATES; s++) {
        if (!sr_phase_has_state(phase, s))
            continue;
        state_name(phase, s, name);
        SR_TRY(sr_checkpoint_read_state(checkpoint, name, SR_F32, phase->elements, owned, ranges,
                                        false, flat[SR_PHASE_STATE + s]));
    }
    phase_name(phase, LOSS_SCALE, name);
    return scales_loss(phase)
               ? sr_checkpoint_read_state(checkpoint, name, SR_F64, SR_LOSS_SCALE_NUMBERS,
                                          &loss_scale_range, 1, false, &phase->loss_scale)
               : SR_OK;
}

static sr_status read_states(const sr_engine *e, const host_arrays *host,
                             sr_checkpoint *checkpoint) {
    for (int p = 0; p < e->phase_count; p++)
        SR_TRY(read_phase_states(e->phases[p], host->flat[p], checkpoint));
    return SR_OK;
}

static sr_status load_states(const sr_engine *e, sr_checkpoint *checkpoint) {
    host_arrays host;
    SR_TRY(map(e, SR_PHASE_STATE, ARRAYS, &host));
    return unmap(e, &host, true, read_states(e, &host, checkpoint));
}

sr_status sr_state_load(sr_engine *e, sr_checkpoint *checkpoint) {
    sr_safetensors *file;
    SR_TRY(sr_checkpoint_weights(checkpoint, SR_WEIGHTS_MODEL, &file));
    SR_TRY(load_file(e, file, NULL, SR_PHASE_VALUES, false));
    if (has_average(e)) {
        SR_TRY(sr_checkpoint_weights(checkpoint, SR_WEIGHTS_EMA, &file));
        SR_TRY(load_file(e, file, NULL, SR_PHASE_AVERAGE, false));
    }
    return load_states(e, checkpoint);
}
