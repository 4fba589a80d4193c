// SPDX-License-Identifier: Apache-2.0
// Writing a generation: each file is made durable and read back, then the manifest, then the links;
// last, old generations are removed.
//
// A generation is a new folder under a number that never existed, so a failure or a kill at any
// point affects only that folder; without manifest.json it is not a checkpoint. Ranks other than 0
// leave the checksums of their shard in a small side file ("...safetensors.sums"), which rank 0
// copies into the manifest at commit, so ranks need only a barrier. After a failed write or fsync
// the same file is not tried again; the whole generation is given up (Rebello et al., ATC'20: pages
// may be marked clean after a failed fsync).
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/checkpoint/checkpoint_internal.h"

struct sr_checkpoint_writer {
    char *run, *folder;
    int64_t generation;
    int rank, ranks;
    bool optimizer_written, committed;
    sr_manifest_files files; // of this rank; at commit those of all ranks
};

sr_status sr_checkpoint_next_generation(const char *run, int64_t *generation) {
    int64_t *list;
    size_t count;
    SR_TRY(sr_generations_list(run, &list, &count));
    *generation = count > 0 ? list[0] + 1 : 1;
    sr_free(list);
    return SR_OK;
}

// Makes the folder, and its entry in every parent, durable before anything is written in it.
// A run folder that was removed or moved is not made again.
static sr_status make_generation_folder(const sr_checkpoint_writer *writer) {
    if (!sr_path_is_folder(writer->run))
        return SR_FAIL(SR_E_IO, "%s was removed or moved while the run was writing to it",
                       writer->run);
    SR_TRY(sr_make_folders(writer->folder));
    char *parent = sr_path_join(writer->run, CHECKPOINTS_FOLDER);
    if (parent == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_sync_folder(parent);
    if (status == SR_OK)
        status = sr_sync_folder(writer->run);
    sr_free(parent);
    return status;
}

sr_status sr_checkpoint_begin(const char *run, int64_t generation, int rank, int ranks,
                              sr_checkpoint_writer **out) {
    char name[64];
    if (generation < 1 || ranks < 1 || ranks > MAX_RANKS || rank < 0 || rank >= ranks)
        return SR_FAIL(SR_E_ARGUMENT,
                       "checkpoint: invalid generation %" PRId64 ", or invalid rank %d of %d",
                       generation, rank, ranks);
    sr_checkpoint_writer *writer = sr_alloc(sizeof *writer, "checkpoint writer");
    if (writer == NULL)
        return SR_E_MEMORY;
    writer->generation = generation;
    writer->rank = rank;
    writer->ranks = ranks;
    writer->run = sr_strdup(run);
    writer->folder = sr_path_join(run, sr_generation_name(generation, name));
    sr_status status = SR_E_MEMORY;
    if (writer->run != NULL && writer->folder != NULL)
        status = make_generation_folder(writer);
    if (status != SR_OK) {
        sr_checkpoint_writer_free(writer);
        return status;
    }
    *out = writer;
    return SR_OK;
}

// Reads a file back, compares it with the sums computed from memory while writing, and lists it.
static sr_status verify_and_list(sr_checkpoint_writer *writer, const char *name, const char *path,
                                 sr_file_sums *sums) {
    SR_TRY(sr_file_sums_check(path, sums, NULL));
    return sr_manifest_files_add(&writer->files, name, sums);
}

static sr_status write_tensors(sr_checkpoint_writer *writer, const char *name,
                               const sr_stored_tensor *tensors, int count,
                               const sr_metadata *metadata, int metadata_count) {
    sr_file_sums sums = {0};
    char *path = sr_path_join(writer->folder, name);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_safetensors_write(path, tensors, count, metadata, metadata_count, &sums);
    if (status == SR_OK)
        status = verify_and_list(writer, name, path, &sums);
    sr_file_sums_release(&sums);
    sr_free(path);
    return status;
}

// -- optimiser shards ------------------------------------------------------------------------

static sr_status check_state(const sr_checkpoint_state *state, int64_t *owned) {
    int64_t end = 0;
    *owned = 0;
    for (int i = 0; i < state->range_count; ++i) {
        const sr_range *range = &state->ranges[i];
        if (range->begin < end || range->end < range->begin || range->end > state->elements) {
            return SR_FAIL(SR_E_ARGUMENT,
                           "optimiser state '%s': range [%" PRId64 ", %" PRId64
                           ") is not in order within "
                           "%" PRId64 " elements",
                           state->name, range->begin, range->end, state->elements);
        }
        end = range->end;
        *owned += range->end - range->begin;
    }
    return SR_OK;
}

static void add_state_ranges(const sr_checkpoint_state *state, bool first, sr_text *text) {
    sr_text_add(text, first ? "" : ",");
    sr_text_add_json_string(text, state->name);
    sr_text_add(text, ":{\"elements\":%" PRId64 ",\"ranges\":[", state->elements);
    for (int i = 0; i < state->range_count; ++i)
        sr_text_add(text, "%s[%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "", state->ranges[i].begin,
                    state->ranges[i].end);
    sr_text_add(text, "]}");
}

static sr_status put_state(sr_safetensors_writer *file, const sr_checkpoint_state *state) {
    size_t size = sr_dtype_size(state->dtype);
    const uint8_t *data = state->data;
    int64_t packed_at = 0;
    for (int i = 0; i < state->range_count; ++i) {
        int64_t count = state->ranges[i].end - state->ranges[i].begin;
        int64_t at = state->packed ? packed_at : state->ranges[i].begin;
        SR_TRY(sr_safetensors_put(file, data + (size_t)at * size, (uint64_t)count * size));
        packed_at += count;
    }
    return SR_OK;
}

static sr_status write_shard(sr_checkpoint_writer *writer, const char *name,
                             const sr_checkpoint_state *states, const sr_stored_tensor *tensors,
                             int count, const char *ranges) {
    sr_safetensors_writer *file;
    sr_file_sums sums = {0};
    const sr_metadata metadata = {.key = STATES_KEY, .value = ranges};
    char *path = sr_path_join(writer->folder, name);
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_safetensors_create(path, tensors, count, &metadata, 1, &file);
    if (status == SR_OK) {
        for (int k = 0; k < count && status == SR_OK; ++k)
            status = put_state(file, &states[sr_safetensors_order(file, k)]);
        if (status == SR_OK)
            status = sr_safetensors_commit(file, &sums);
        sr_safetensors_writer_free(file);
    }
    if (status == SR_OK)
        status = verify_and_list(writer, name, path, &sums);
    sr_file_sums_release(&sums);
    sr_free(path);
    return status;
}

static char *sums_path(const sr_checkpoint_writer *writer, int rank) {
    char name[64], with_suffix[80];
    snprintf(with_suffix, sizeof with_suffix, "%s.sums",
             sr_checkpoint_shard_name(rank, writer->ranks, name));
    return sr_path_join(writer->folder, with_suffix);
}

static sr_status write_side_file(const sr_checkpoint_writer *writer) {
    sr_text text;
    sr_text_init(&text);
    sr_manifest_file_format(&writer->files.items[writer->files.count - 1], &text);
    sr_status status = sr_text_check(&text);
    char *path = sums_path(writer, writer->rank);
    if (path == NULL)
        status = SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_file_write_atomic(path, text.data, text.length);
    sr_free(path);
    sr_text_release(&text);
    return status;
}

sr_status sr_checkpoint_write_optimizer(sr_checkpoint_writer *writer,
                                        const sr_checkpoint_state *states, int count) {
    char name[64];
    if (writer->optimizer_written || count < 0)
        return SR_FAIL(SR_E_ARGUMENT,
                       "checkpoint: the optimiser shard of rank %d can be written only once",
                       writer->rank);
    sr_stored_tensor *tensors = sr_alloc_array((size_t)count, sizeof *tensors, "state tensors");
    if (tensors == NULL)
        return SR_E_MEMORY;
    sr_text ranges;
    sr_text_init(&ranges);
    sr_text_add(&ranges, "{");
    sr_status status = SR_OK;
    for (int i = 0; i < count && status == SR_OK; ++i) {
        tensors[i] =
            (sr_stored_tensor){.name = states[i].name, .dtype = states[i].dtype, .rank = 1};
        status = check_state(&states[i], &tensors[i].shape[0]);
        add_state_ranges(&states[i], i == 0, &ranges);
    }
    sr_text_add(&ranges, "}");
    if (status == SR_OK)
        status = sr_text_check(&ranges);
    if (status == SR_OK)
        status = write_shard(writer, sr_checkpoint_shard_name(writer->rank, writer->ranks, name),
                             states, tensors, count, ranges.data);
    if (status == SR_OK && writer->rank != 0)
        status = write_side_file(writer);
    sr_text_release(&ranges);
    sr_free(tensors);
    writer->optimizer_written = status == SR_OK;
    return status;
}

// -- weights ---------------------------------------------------------------------------------

static void format_doubles(const double *values, int count, sr_text *out) {
    sr_text_add(out, "[");
    for (int i = 0; i < count; ++i) {
        sr_text_add(out, i > 0 ? "," : "");
        sr_text_add_json_number(out, values[i]);
    }
    sr_text_add(out, "]");
}

static void format_classes(const char *const *classes, int count, sr_text *out) {
    sr_text_add(out, "[");
    for (int i = 0; i < count; ++i) {
        sr_text_add(out, i > 0 ? "," : "");
        sr_text_add_json_string(out, classes[i]);
    }
    sr_text_add(out, "]");
}

sr_status sr_checkpoint_check_classes(const char *const *classes, int count) {
    const size_t most = SR_SAFETENSORS_MAX_HEADER / 5 * 4; // the rest is for tensors
    sr_text list, string;
    sr_text_init(&list);
    sr_text_init(&string);
    format_classes(classes, count, &list);
    sr_text_add_json_string(&string, list.data);
    sr_status status = sr_text_check(&list);
    if (status == SR_OK)
        status = sr_text_check(&string);
    if (status == SR_OK && string.length > most)
        status = SR_FAIL(SR_E_LIMIT,
                         "the names of %d classes take %zu bytes, but the header of a checkpoint "
                         "has %zu for them; pack the data with shorter names",
                         count, string.length, most);
    sr_text_release(&list);
    sr_text_release(&string);
    return status;
}

sr_status sr_checkpoint_write_model(sr_checkpoint_writer *writer, sr_weights_kind kind,
                                    const sr_stored_tensor *tensors, int count,
                                    const sr_manifest *manifest) {
    sr_text classes, mean, std;
    sr_text_init(&classes);
    sr_text_init(&mean);
    sr_text_init(&std);
    format_classes(manifest->classes, manifest->class_count, &classes);
    format_doubles(manifest->mean, manifest->channels, &mean);
    format_doubles(manifest->std, manifest->channels, &std);
    sr_status status = sr_text_check(&classes);
    if (status == SR_OK)
        status = sr_text_check(&mean);
    if (status == SR_OK)
        status = sr_text_check(&std);
    if (status == SR_OK) {
        const sr_metadata metadata[] = {
            {"serried.model", manifest->model == NULL ? "" : manifest->model},
            {"serried.data", manifest->data_identity == NULL ? "" : manifest->data_identity},
            {"serried.classes", classes.data},
            {"serried.mean", mean.data},
            {"serried.std", std.data},
        };
        status = write_tensors(writer, sr_weights_file_name(kind), tensors, count, metadata,
                               (int)(sizeof metadata / sizeof *metadata));
    }
    sr_text_release(&std);
    sr_text_release(&mean);
    sr_text_release(&classes);
    return status;
}

// -- commit ----------------------------------------------------------------------------------

// Takes the sums of another rank's shard from its side file, and compares the length with the
// file's.
static sr_status collect_shard(sr_checkpoint_writer *writer, int rank) {
    char name[64];
    void *text = NULL;
    size_t bytes;
    struct stat info;
    char *path = sums_path(writer, rank);
    char *shard = sr_path_join(writer->folder, sr_checkpoint_shard_name(rank, writer->ranks, name));
    sr_status status = path == NULL || shard == NULL ? SR_E_MEMORY : SR_OK;
    if (status == SR_OK) {
        status = sr_file_read(path, (size_t)64 << 20, &text, &bytes);
        if (status == SR_E_NOT_FOUND)
            sr_error_prefix("checkpoint: rank %d has not written its shard", rank);
    }
    if (status == SR_OK)
        status = sr_manifest_file_parse(text, bytes, path, &writer->files);
    if (status == SR_OK) {
        const sr_manifest_file *file = sr_manifest_files_find(&writer->files, name);
        if (file == NULL || stat(shard, &info) != 0 || (uint64_t)info.st_size != file->sums.bytes)
            status =
                SR_FAIL(SR_E_IO, "%s: the shard is not the one that rank %d wrote", shard, rank);
    }
    sr_free(text);
    sr_free(shard);
    sr_free(path);
    return status;
}

static sr_status collect_shards(sr_checkpoint_writer *writer) {
    if (!writer->optimizer_written ||
        sr_manifest_files_find(&writer->files, sr_weights_file_name(SR_WEIGHTS_MODEL)) == NULL)
        return SR_FAIL(SR_E_ARGUMENT,
                       "checkpoint: commit before model and optimiser state were written");
    for (int r = 1; r < writer->ranks; ++r)
        SR_TRY(collect_shard(writer, r));
    return SR_OK;
}

// Writes the manifest, reads it back and compares it: only then is the generation durable.
static sr_status write_manifest(const char *folder, const sr_manifest *manifest,
                                const sr_manifest_files *files) {
    sr_manifest back;
    sr_manifest_files files_back = {0};
    sr_text text;
    sr_arena arena;
    sr_text_init(&text);
    sr_arena_init(&arena);
    char *path = sr_path_join(folder, MANIFEST_NAME);
    sr_status status = path == NULL ? SR_E_MEMORY : sr_manifest_format(manifest, files, &text);
    if (status == SR_OK)
        status = sr_file_write_atomic(path, text.data, text.length);
    if (status == SR_E_NO_SPACE)
        sr_error_prefix("%zu bytes needed", text.length);
    if (status == SR_OK)
        status = sr_manifest_read(folder, &arena, &back, &files_back);
    if (status == SR_OK && back.generation != manifest->generation)
        status = SR_FAIL(SR_E_IO, "%s: reads back as another generation", path);
    sr_manifest_files_release(&files_back);
    sr_arena_release(&arena);
    sr_text_release(&text);
    sr_free(path);
    return status;
}

static void remove_side_files(const sr_checkpoint_writer *writer) {
    for (int r = 1; r < writer->ranks; ++r) {
        char *path = sums_path(writer, r);
        if (path != NULL)
            (void)unlink(path); // harmless if it remains
        sr_free(path);
    }
}

// The step in a generation's manifest; -1 if it has no readable one.
static int64_t step_of(const char *run, int64_t generation) {
    char name[64];
    sr_arena arena;
    sr_manifest manifest = {.step = -1};
    sr_manifest_files files = {0};
    char *folder = sr_path_join(run, sr_generation_name(generation, name));
    sr_arena_init(&arena);
    if (folder == NULL || sr_manifest_read(folder, &arena, &manifest, &files) != SR_OK)
        manifest.step = -1;
    sr_manifest_files_release(&files);
    sr_arena_release(&arena);
    sr_free(folder);
    return manifest.step;
}

static sr_status link_generation(const char *run, const char *name, int64_t generation) {
    char target[64];
    char *link = sr_path_join(run, name);
    if (link == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_link_atomic(link, sr_generation_name(generation, target));
    sr_free(link);
    return status;
}

// Repairs 'best' after a crash between a manifest and its links, or after a link that failed: every
// manifest says which step is the best.
static sr_status link_best(const char *run, int64_t newest, int64_t best_step) {
    int64_t *list, linked = sr_generation_linked(run, "best");
    size_t count;
    if (best_step <= 0 || (linked > 0 && linked <= newest && step_of(run, linked) == best_step))
        return SR_OK;
    SR_TRY(sr_generations_list(run, &list, &count));
    int64_t found = 0;
    for (size_t i = 0; i < count && found == 0; ++i)
        if (list[i] <= newest && step_of(run, list[i]) == best_step)
            found = list[i];
    sr_free(list);
    return found > 0 ? link_generation(run, "best", found) : SR_OK;
}

sr_status sr_checkpoint_link(const char *run, const sr_manifest *manifest) {
    const sr_status last = link_generation(run, "last", manifest->generation);
    // Even if an older generation has this step: it may be damaged.
    const sr_status best = manifest->step == manifest->best_step
                               ? link_generation(run, "best", manifest->generation)
                               : link_best(run, manifest->generation, manifest->best_step);
    return last != SR_OK ? last : best;
}

// Removes a generation's folder, its manifest first, so that a partly removed one is no checkpoint.
static void remove_generation(const char *folder) {
    char *manifest = sr_path_join(folder, MANIFEST_NAME);
    DIR *dir = NULL;
    if (manifest == NULL)
        return;
    sr_status status = SR_OK;
    if (unlink(manifest) == 0)
        status = sr_sync_folder(folder);
    else if (errno != ENOENT)
        status = sr_file_fail(manifest, "cannot be removed", errno);
    if (status != SR_OK) { // a manifest that remains needs its files
        SR_WARN("%s", sr_error_message());
        goto done;
    }
    dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (rmdir(folder) != 0)
        SR_WARN("%s: cannot be removed: %s", folder, strerror(errno));
done:
    if (dir != NULL)
        closedir(dir);
    sr_free(manifest);
}

// Reads an older generation again. SR_OK: complete; damage: it may be removed; else: unknown.
static sr_status check_generation(const char *folder) {
    sr_generation g;
    sr_status status = sr_generation_open(folder, &g);
    if (status == SR_OK)
        status = sr_generation_check(&g);
    sr_generation_release(&g);
    return status;
}

typedef struct pruning {
    int64_t newest, best;
    int keep, kept; // kept: finished ones so far, including the newest
    int whole;      // of these, known to be undamaged
} pruning;

// Whether a generation is kept. The newest has just been read back. The one before it is read
// again, since it is the fall-back of a damaged newest one; if it is damaged it does not count, and
// the search continues. Beyond these two a manifest is enough, so that a large 'keep' does not read
// everything at every checkpoint.
static bool is_kept(pruning *p, int64_t generation, const char *folder, bool finished) {
    bool best = generation == p->best;
    if (generation >= p->newest)
        return true;
    if (!finished || p->kept >= p->keep) // unfinished: no writer will finish it
        return best;
    sr_status status = p->whole < 2 ? check_generation(folder) : SR_OK;
    if (sr_generation_is_damage(status) && status != SR_E_IO) {
        SR_WARN("checkpoint %s is damaged%s: %s", folder, best ? "" : " and will be removed",
                sr_error_message());
        return best;
    }
    p->whole += status == SR_OK;
    p->kept += status == SR_OK;
    return true;
}

// The generation that is the best: by its link, or by its step if something else is in its place.
static int64_t find_best(const char *run, int64_t best_step, const int64_t *list, size_t count) {
    const int64_t linked = sr_generation_linked(run, "best");
    if (best_step <= 0 || (linked > 0 && step_of(run, linked) == best_step))
        return linked;
    for (size_t i = 0; i < count; ++i)
        if (step_of(run, list[i]) == best_step)
            return list[i];
    return linked;
}

static sr_status prune(const char *run, const sr_manifest *newest, int keep) {
    int64_t *list;
    size_t count;
    char name[64];
    pruning p = {.newest = newest->generation, .keep = keep < 2 ? 2 : keep, .kept = 1, .whole = 1};
    SR_TRY(sr_generations_list(run, &list, &count));
    p.best = find_best(run, newest->best_step, list, count);
    for (size_t i = 0; i < count; ++i) {
        char *folder = sr_path_join(run, sr_generation_name(list[i], name));
        char *manifest = folder == NULL ? NULL : sr_path_join(folder, MANIFEST_NAME);
        if (manifest != NULL && !is_kept(&p, list[i], folder, sr_path_exists(manifest)))
            remove_generation(folder);
        sr_free(manifest);
        sr_free(folder);
    }
    sr_free(list);
    return SR_OK;
}

sr_status sr_checkpoint_commit(sr_checkpoint_writer *writer, const sr_manifest *manifest,
                               int keep) {
    if (writer->rank != 0 || writer->committed)
        return SR_FAIL(SR_E_ARGUMENT, "checkpoint: only rank 0 can commit, and only once");
    SR_TRY(collect_shards(writer));
    remove_side_files(writer); // first: a finished generation has no such files
    sr_manifest own = *manifest;
    own.generation = writer->generation;
    own.ranks = writer->ranks;
    SR_TRY(write_manifest(writer->folder, &own, &writer->files));
    writer->committed = true;
    sr_status status = sr_checkpoint_link(writer->run, &own);
    if (status != SR_OK)
        SR_WARN("checkpoint %s is complete, but: %s", writer->folder, sr_error_message());
    // Links are for people: without them generations are found by number and step, for which there
    // must be memory.
    if (status != SR_E_MEMORY && prune(writer->run, &own, keep) != SR_OK)
        SR_WARN("%s: older generations are kept: %s", writer->run, sr_error_message());
    return SR_OK;
}

sr_status sr_checkpoint_amend(const char *run, const sr_manifest *manifest, int keep) {
    char name[64];
    sr_manifest own = *manifest, before;
    sr_manifest_files files = {0};
    sr_arena arena;
    sr_arena_init(&arena);
    char *folder = sr_path_join(run, sr_generation_name(manifest->generation, name));
    sr_status status =
        folder == NULL ? SR_E_MEMORY : sr_manifest_read(folder, &arena, &before, &files);
    if (status == SR_OK) {
        own.ranks = before.ranks;
        status = write_manifest(folder, &own, &files);
    }
    if (status == SR_OK) {
        sr_status links = sr_checkpoint_link(run, &own);
        if (links == SR_OK && own.step == own.best_step) // the previous best may be removed
            links = prune(run, &own, keep);
        if (links != SR_OK)
            SR_WARN("checkpoint %s is complete, but: %s", folder, sr_error_message());
    }
    sr_manifest_files_release(&files);
    sr_arena_release(&arena);
    sr_free(folder);
    return status;
}

void sr_checkpoint_writer_free(sr_checkpoint_writer *writer) {
    if (writer == NULL)
        return;
    if (!writer->committed && writer->rank == 0 && writer->folder != NULL &&
        sr_path_exists(writer->folder))
        remove_generation(writer->folder);
    sr_manifest_files_release(&writer->files);
    sr_free(writer->folder);
    sr_free(writer->run);
    sr_free(writer);
}
