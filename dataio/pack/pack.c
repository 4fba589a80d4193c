// SPDX-License-Identifier: Apache-2.0
// Packing (rules and files: pack.h).
//
// The records of a batch are made by a pool of threads; one thread then appends them in order,
// which costs little compared with the pool's work. So the bytes do not depend on the number of
// workers, and memory is bounded by the batch.
#include "dataio/pack/pack.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "dataio/formats/format.h"
#include "dataio/pack/pack_record.h"
#include "dataio/pack/pack_state.h"
#include "dataio/record/dataset.h"
#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/base/text.h"

#define BATCH_FILES 512
#define BATCH_BYTES (UINT64_C(64) << 20)
#define SAMPLED 1024 // approximate number of pictures of a split for the normalisation hints

typedef struct packing {
    sr_pack_job job;
    sr_pack_report *report;
    sr_pack_state state;
    sr_source *source;
    sr_layout layout;
    size_t listed; // refusals by listing and layout, which every run repeats
    sr_arena arena;
    char list_folder[4096]; // the source where only a list was given
    sr_pool *pool;
    sr_pack_worker *workers;
    sr_pack_sample *samples;
    bool check_only; // find out which pictures are accepted; write nothing
    int met_classes; // 1 + largest id of the masks that were checked
    sr_writer *writer;
    uint64_t free_bytes; // at the destination when packing began
    bool created, begun; // the destination was created; something was written to it
    int64_t begin_ns;
    uint64_t first, done, total; // samples, for the progress line
} packing;

static void run_sample(void *user, int64_t item, int worker) {
    packing *p = user;
    sr_pack_sample *s = &p->samples[item];
    s->error.status = SR_OK;
    const sr_status status = p->check_only ? sr_pack_record_check(&p->job, &p->workers[worker], s)
                                           : sr_pack_record_make(&p->job, &p->workers[worker], s);
    sr_error_keep(&s->error, status);
}

// -- batches -----------------------------------------------------------------------------------

// Whether the file is refused: errors of the machine are not the file's fault.
static bool is_refusal(sr_status status) {
    return (status >= SR_E_DATA && status < SR_E_PEER) || status == SR_E_IO ||
           status == SR_E_NOT_FOUND;
}

// Saves that everything before sample 'position' of the split's order is in finished shards or
// refused.
static sr_status save_progress(packing *p, int split, uint64_t position, uint32_t shards) {
    sr_pack_progress *progress = &p->state.progress;
    progress->split = split;
    progress->position = position;
    progress->shards = shards;
    progress->report = *p->report;
    return sr_pack_state_save(&p->state, p->source, p->listed);
}

static void count_record(packing *p, const sr_pack_sample *s) {
    p->report->records[p->layout.files[s->file].split]++;
    p->report->objects += s->objects;
    p->report->degenerate += s->degenerate;
    for (int i = 0; i < SR_PICTURE_FLAG_COUNT; i++)
        p->report->flagged[i] += s->flags >> i & 1;
}

static sr_status take_sample(packing *p, sr_pack_sample *s, uint64_t position) {
    sr_layout_file *file = &p->layout.files[s->file];
    if (s->error.status != SR_OK) {
        if (!is_refusal(s->error.status))
            return sr_error_restore(&s->error);
        if (p->check_only)
            file->split = -1;
        return sr_source_refuse(p->source, p->source->files.items[file->source].path,
                                s->error.message);
    }
    if (p->check_only) {
        p->met_classes = s->classes > p->met_classes ? s->classes : p->met_classes;
        return SR_OK;
    }
    const uint32_t shard = sr_writer_shard(p->writer);
    SR_TRY(sr_writer_append(p->writer, s->data, s->bytes));
    if (sr_writer_shard(p->writer) != shard)
        SR_TRY(save_progress(p, file->split, position, sr_writer_shard(p->writer)));
    sr_writer_add_sums(p->writer, &s->sums);
    count_record(p, s);
    return SR_OK;
}

static void show_progress(packing *p) {
    if (p->job.options.quiet)
        return;
    double seconds = (double)(sr_clock_ns() - p->begin_ns) / (double)SR_NS_PER_S;
    double rate = seconds > 0 ? (double)(p->done - p->first) / seconds : 0.0;
    long long left = rate > 0 ? (long long)((double)(p->total - p->done) / rate + 0.5) : 0;
    char line[160];
    (void)snprintf(line, sizeof line, "%s %llu/%llu pictures, %.0f/s, %lld:%02lld:%02lld left",
                   p->check_only ? "checking" : "packing", (unsigned long long)p->done,
                   (unsigned long long)p->total, rate, left / 3600, left / 60 % 60, left % 60);
    sr_log_progress(line, 10.0);
}

static const sr_source_file *source_of(const packing *p, uint32_t file) {
    return &p->source->files.items[p->layout.files[file].source];
}

// The approximate memory of a sample: its file and, on average, its annotations, which are somewhat
// larger in a record than in the temporary file.
static uint64_t bytes_of(const packing *p, uint32_t file) {
    const uint64_t annotations = p->layout.annotations.spool.bytes;
    return source_of(p, file)->bytes + 2 * (annotations / (p->layout.count ? p->layout.count : 1));
}

// Runs the samples order[first..count) of the layout through the pool.
static sr_status run_files(packing *p, const uint32_t *order, size_t first, size_t count) {
    size_t stride = count / SAMPLED + 1;
    p->begin_ns = sr_clock_ns();
    p->first = p->done = first;
    p->total = count;
    for (size_t next = first; next < count;) {
        size_t n = 0;
        uint64_t bytes = 0;
        while (next + n < count && n < BATCH_FILES && (n == 0 || bytes < BATCH_BYTES)) {
            p->samples[n].file = order[next + n];
            p->samples[n].sampled =
                (next + n) % stride == 0 && p->layout.schema != SR_SCHEMA_RECORD;
            bytes += bytes_of(p, order[next + n]);
            n++;
        }
        sr_pool_run(p->pool, (int64_t)n, run_sample, p);
        for (size_t i = 0; i < n; i++)
            SR_TRY(take_sample(p, &p->samples[i], next + i));
        next += n;
        p->done = next;
        show_progress(p);
    }
    return SR_OK;
}

// -- splits ------------------------------------------------------------------------------------

// Writes the samples of a split in order of path (split < 0: all that have one) to order; returns
// their number.
static size_t files_of(const packing *p, int split, uint32_t *order) {
    size_t n = 0;
    for (size_t i = 0; i < p->layout.count; i++)
        if (p->layout.files[i].split >= 0 && (split < 0 || p->layout.files[i].split == split))
            order[n++] = (uint32_t)i;
    return n;
}

// Moves the last part (val_fraction) of each class of train to val.
static sr_status hold_out(packing *p, uint32_t *order) {
    const bool by_class = p->layout.schema == SR_SCHEMA_CLASS && p->layout.class_count > 0;
    const size_t classes = by_class ? (size_t)p->layout.class_count : 1;
    uint64_t *left = sr_alloc_array(classes, sizeof *left, "classes");
    if (left == NULL)
        return SR_E_MEMORY;
    size_t count = files_of(p, SR_SPLIT_TRAIN, order);
    for (size_t i = 0; i < count; i++)
        left[p->layout.files[order[i]].label]++;
    for (size_t c = 0; c < classes; c++) { // 1e-9: 0.1 * 10 is not below 1
        const uint64_t part = (uint64_t)((double)left[c] * p->job.options.val_fraction + 1e-9);
        left[c] = part < left[c] || part == 0 ? part : left[c] - 1; // never the whole class
    }
    for (size_t i = count; i-- > 0;) {
        sr_layout_file *file = &p->layout.files[order[i]];
        if (left[file->label] > 0) {
            left[file->label]--;
            file->split = SR_SPLIT_VAL;
        }
    }
    sr_free(left);
    return SR_OK;
}

// Finds what must be known of all samples before the first is packed.
static sr_status check_files(packing *p, uint32_t *order) {
    const bool holds_out = p->job.options.val_fraction > 0 && !p->report->val_existed;
    if (!holds_out && !p->layout.count_classes)
        return SR_OK;
    sr_pack_progress *progress = &p->state.progress;
    if (!progress->checked) {
        p->check_only = true;
        sr_status status = run_files(
            p, order, 0, files_of(p, p->layout.count_classes ? -1 : SR_SPLIT_TRAIN, order));
        p->check_only = false;
        SR_TRY(status);
        progress->checked = true;
        progress->classes = p->met_classes;
        progress->refused_checked = p->source->refused_count - p->listed;
        SR_TRY(save_progress(p, 0, 0, 0));
    }
    if (p->layout.count_classes) {
        SR_TRY(sr_layout_number_classes(&p->layout, progress->classes));
        p->report->classes = p->layout.class_count;
    }
    return holds_out ? hold_out(p, order) : SR_OK;
}

static size_t subset_of(const packing *p, size_t count) {
    const sr_pack_options *o = &p->job.options;
    size_t kept = count;
    if (o->subset > 0 && (uint64_t)o->subset < count)
        kept = (size_t)o->subset;
    if (o->subset_part > 0)
        kept = (size_t)((double)count * o->subset_part + 1e-9);
    return kept == 0 ? 1 : kept;
}

static sr_status open_writer(packing *p, int split) {
    static const char *const protocols[] = {[SR_SCHEMA_CLASS] = SR_SAMPLE_PROTOCOL,
                                            [SR_SCHEMA_OBJECTS] = SR_DETECTION_PROTOCOL,
                                            [SR_SCHEMA_MASK] = SR_SEGMENTATION_PROTOCOL,
                                            [SR_SCHEMA_OUTLINES] = SR_SEGMENTATION_PROTOCOL};
    const sr_layout *layout = &p->layout;
    const bool kept = layout->schema == SR_SCHEMA_RECORD;
    const sr_pack_progress *progress = &p->state.progress;
    const bool resumed = p->state.begun && split == progress->split;
    return sr_writer_open(
        &(sr_writer_options){.folder = p->state.folder,
                             .split = sr_split_names[split],
                             .classes = layout->classes,
                             .class_count = layout->class_count,
                             .protocol = kept ? layout->protocol : protocols[layout->schema],
                             .target_bytes = p->job.options.shard_bytes,
                             .format = p->job.options.format,
                             .first_shard = resumed ? progress->shards : 0,
                             .first_record = (uint64_t)p->report->records[split]},
        &p->writer);
}

static sr_status write_split(packing *p, int split, uint32_t *order) {
    size_t count = files_of(p, split, order);
    if (count == 0)
        return SR_OK;
    const sr_pack_progress *progress = &p->state.progress;
    const size_t first = split == progress->split ? (size_t)progress->position : 0;
    sr_rng rng;
    sr_rng_init(&rng, SR_PACK_SEED, (uint32_t)split, 0, 0);
    sr_rng_shuffle(&rng, order, (uint32_t)count);
    const size_t kept = subset_of(p, count);
    p->report->outside += first == 0 ? (int64_t)(count - kept) : 0;
    SR_TRY(open_writer(p, split));
    sr_status status = run_files(p, order, first, kept);
    if (status == SR_OK && p->report->records[split] > 0)
        status = sr_writer_close(p->writer);
    else
        sr_writer_abort(p->writer);
    p->writer = NULL;
    return status == SR_OK ? save_progress(p, split + 1, 0, 0) : status;
}

static sr_status write_splits(packing *p) {
    uint32_t *order = sr_alloc_array(p->layout.count, sizeof *order, "order of pictures");
    if (order == NULL)
        return SR_E_MEMORY;
    sr_status status = check_files(p, order);
    for (int split = p->state.progress.split; split < SR_SPLIT_COUNT && status == SR_OK; split++)
        status = write_split(p, split, order);
    sr_free(order);
    return status;
}

// -- resuming ----------------------------------------------------------------------------------

// Do shards 0..count of the split exist, with this total number of records? count 0: up to the
// last.
static bool has_shards(const packing *p, int split, uint32_t count, int64_t records) {
    bool last = false;
    for (uint32_t i = 0; count > 0 ? i < count : records > 0 && !last; i++) {
        char name[SR_SHARD_NAME_MAX];
        sr_data_file shard;
        char *path =
            sr_path_join(p->state.folder, sr_shard_file_name(sr_split_names[split], i, name));
        sr_status status = path ? sr_shard_load(path, &shard) : SR_E_MEMORY;
        sr_free(path);
        if (status != SR_OK)
            return false;
        last = shard.last;
        records -= shard.count;
        sr_data_file_release(&shard);
    }
    return records == 0;
}

static bool progress_is_there(const packing *p) {
    const sr_pack_progress *progress = &p->state.progress;
    if (!p->state.begun || progress->split < 0 || progress->split > SR_SPLIT_COUNT)
        return false;
    for (int split = 0; split < progress->split; split++)
        if (!has_shards(p, split, 0, progress->report.records[split]))
            return false;
    return progress->split == SR_SPLIT_COUNT || progress->shards == 0 ||
           has_shards(p, progress->split, progress->shards,
                      progress->report.records[progress->split]);
}

// Resumes an interrupted pack.
static sr_status take_progress(packing *p) {
    sr_pack_progress *progress = &p->state.progress;
    if (!progress_is_there(p)) { // nothing is left, or it was changed: begins anew
        p->state.begun = false;
        progress->checked = false;
        progress->split = 0;
        progress->shards = 0;
        progress->position = 0;
        return SR_OK;
    }
    for (size_t i = 0; i + 1 < progress->refused_count; i += 2) {
        const sr_source_file *file = sr_file_list_find(&p->source->files, progress->refused[i]);
        if (i / 2 < progress->refused_checked && file != NULL)
            p->layout.files[file - p->source->files.items].split = -1;
        SR_TRY(sr_source_refuse(p->source, progress->refused[i], progress->refused[i + 1]));
    }
    const sr_pack_report now = *p->report;
    *p->report = progress->report;
    p->report->classes = now.classes;
    p->report->val_existed = now.val_existed;
    for (int split = 0; split < SR_SPLIT_COUNT; split++)
        p->report->resumed += p->report->records[split];
    return SR_OK;
}

// -- packing -----------------------------------------------------------------------------------

static sr_status check_options(sr_pack_options *o) {
    if (!(o->val_fraction >= 0 && o->val_fraction < 1))
        return SR_FAIL(SR_E_USAGE, "val-fraction %g is not a fraction, 0 <= F < 1",
                       o->val_fraction);
    if (o->max_side < 0 || o->quality < 0 || o->quality > 100 || o->workers < 0)
        return SR_FAIL(SR_E_USAGE, "max-size and workers must be at least 0, quality 1 to 100");
    if (o->subset < 0 || !(o->subset_part >= 0 && o->subset_part < 1))
        return SR_FAIL(SR_E_USAGE, "a subset must be a number of samples or a fraction, 0 < F < 1");
    if (o->ignore_value < 0 || o->ignore_value > 256)
        return SR_FAIL(SR_E_USAGE, "the ignored value of masks must be 0 to 255");
    if (o->quality == 0)
        o->quality = 90;
    if (o->shard_bytes == 0)
        o->shard_bytes = SR_SHARD_TARGET_BYTES;
    if (o->workers == 0)
        o->workers = sr_cpu_count();
    return SR_OK;
}

static uint64_t free_space(const char *folder) {
    struct statvfs info;
    return statvfs(folder, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : UINT64_MAX;
}

// Transcoding saves a few per cent, so only a clear lack of space is an error here.
static sr_status check_space(packing *p) {
    char need[16], have[16];
    const sr_pack_options *o = &p->job.options;
    p->free_bytes = free_space(p->state.folder);
    const bool unclear = o->max_side > 0 || o->raw || o->zstd || o->subset > 0 ||
                         o->subset_part > 0 || p->state.begun;
    if (unclear || p->free_bytes >= p->source->bytes / 10 * 8)
        return SR_OK;
    return SR_FAIL(SR_E_NO_SPACE, "%s: about %s are needed, %s are free; nothing was written",
                   p->state.folder, sr_text_bytes(p->source->bytes, need),
                   sr_text_bytes(p->free_bytes, have));
}

static sr_status make_workers(packing *p) {
    int n = p->job.options.workers;
    p->samples = sr_alloc_array(BATCH_FILES, sizeof *p->samples, "samples of a batch");
    p->workers = sr_alloc_array((size_t)n, sizeof *p->workers, "pack workers");
    if (p->samples == NULL || p->workers == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < n; i++)
        SR_TRY(sr_pack_worker_init(&p->workers[i]));
    return sr_pool_create(n, NULL, NULL, &p->pool);
}

static sr_status sum_bytes(packing *p) {
    p->report->bytes = 0;
    for (int split = 0; split < SR_SPLIT_COUNT; split++) {
        sr_dataset *dataset;
        if (p->report->records[split] == 0)
            continue;
        SR_TRY(sr_dataset_open_records(p->state.folder, sr_split_names[split], &dataset));
        for (int i = 0; i < sr_dataset_file_count(dataset); i++)
            p->report->bytes += sr_dataset_file(dataset, i)->file_bytes;
        sr_dataset_free(dataset);
    }
    return SR_OK;
}

static void take_counts(packing *p) {
    const sr_source *source = p->source;
    p->report->refused = (int64_t)source->refused_count;
    p->report->ignored = (int64_t)(source->hidden + source->other + source->wanted.count -
                                   source->read - source->wanted_refused);
    p->report->annotations = (int64_t)(source->read + p->layout.masks);
    p->report->unlabelled = (int64_t)p->layout.unlabelled;
}

static sr_status build(packing *p) {
    SR_TRY(take_progress(p));
    SR_TRY(check_space(p));
    SR_TRY(make_workers(p));
    p->begun = true;
    SR_TRY(sr_pack_state_begin(&p->state));
    SR_TRY(write_splits(p));
    take_counts(p);
    if (p->report->records[0] + p->report->records[1] + p->report->records[2] == 0)
        return SR_FAIL(SR_E_DATA, "%s: none of %zu pictures could be read; the first: %s: %s",
                       p->source->path, p->source->files.count, p->source->refused[0].path,
                       p->source->refused[0].reason);
    SR_TRY(sum_bytes(p));
    return sr_pack_state_finish(&p->state, p->source, p->report);
}

static sr_status lay_out(packing *p) {
    const sr_pack_options *o = &p->job.options;
    SR_TRY(sr_layout_make(p->source,
                          &(sr_layout_options){.class_names = o->classes,
                                               .class_map = o->class_map,
                                               .reduce_zero_label = o->reduce_zero_label,
                                               .ignore_value = o->ignore_value},
                          &p->layout));
    p->listed = p->source->refused_count;
    p->report->classes = p->layout.class_count;
    p->report->val_existed = p->layout.split_count[SR_SPLIT_VAL] > 0;
    if (p->layout.schema != SR_SCHEMA_RECORD)
        return SR_OK;
    if (o->max_side > 0 || o->raw || o->zstd)
        return SR_FAIL(
            SR_E_USAGE,
            "%s: KPLRecords are packed unchanged: leave out --max-size, --raw and --zstd",
            p->source->path);
    return sr_protocol_parse(p->layout.protocol, &p->arena, &p->job.protocol);
}

// Writes the folder of a path to out.
static void folder_of(const char *path, char *out, size_t capacity) {
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, capacity, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (slash == path)
        (void)snprintf(out, capacity, "/");
}

static sr_status run(packing *p) {
    sr_pack_options *o = &p->job.options;
    SR_TRY(check_options(o));
    if (o->source == NULL && o->list != NULL) {
        folder_of(o->list, p->list_folder, sizeof p->list_folder);
        o->source = p->list_folder;
    }
    if (!sr_path_exists(o->source))
        return SR_FAIL(SR_E_NOT_FOUND, "%s: no such file or folder", o->source);
    p->created = !sr_path_exists(o->destination);
    SR_TRY(sr_pack_state_open(o->destination, &p->state));
    SR_TRY(sr_format_open(o->source, o->list, o->source_format, o->destination, &o->limits,
                          &p->source));
    if (o->recognised != NULL)
        o->recognised(p->source->reading);
    p->job.source = p->source;
    p->job.layout = &p->layout;
    SR_TRY(sr_pack_state_compare(&p->state, o, p->source, p->report));
    // Files may have been removed since then.
    if (p->state.complete && sr_pack_find_missing(p->state.folder, p->report) >= 0) {
        SR_WARN("%s: a part of what was packed is missing or damaged; it is packed again",
                p->state.folder);
        p->state.complete = false;
        *p->report = (sr_pack_report){0};
    }
    if (!p->state.complete) {
        SR_TRY(lay_out(p));
        SR_TRY(build(p));
    }
    if (p->report->refused > o->allow_refused) {
        long long refused = p->report->refused, allowed = o->allow_refused;
        return SR_FAIL(
            SR_E_DATA,
            "%lld file%s refused, %lld allowed; everything else is packed. "
            "%s/refused.csv lists them with the reasons; to accept that: --allow-refused %lld",
            refused, refused == 1 ? " was" : "s were", allowed, p->state.folder, refused);
    }
    return SR_OK;
}

static void release(packing *p) {
    for (int i = 0; p->samples != NULL && i < BATCH_FILES; i++)
        sr_pack_sample_release(&p->samples[i]);
    for (int i = 0; p->workers != NULL && i < p->job.options.workers; i++)
        sr_pack_worker_release(&p->workers[i]);
    sr_pool_free(p->pool);
    sr_free(p->samples);
    sr_free(p->workers);
    sr_layout_release(&p->layout);
    sr_source_free(p->source);
    sr_pack_state_close(&p->state);
    sr_arena_release(&p->arena);
}

sr_status sr_pack(const sr_pack_options *options, sr_pack_report *report) {
    packing p = {.job.options = *options, .report = report, .state = {.lock = -1, .lock_file = -1}};
    int64_t begin = sr_clock_ns();
    sr_arena_init(&p.arena);
    *report = (sr_pack_report){0};
    sr_status status = run(&p);
    if (!p.job.options.quiet)
        sr_log_progress_end();
    if (status == SR_E_NO_SPACE && p.begun) {
        char need[16], have[16];
        sr_error_prefix("%s needs about %s and had %s free", options->destination,
                        sr_text_bytes(p.source->bytes, need), sr_text_bytes(p.free_bytes, have));
    }
    // Only while the folder is locked: another pack may have begun in it.
    if (status != SR_OK && p.created && !p.begun && p.state.lock >= 0)
        (void)rmdir(options->destination); // it is empty
    release(&p);
    report->seconds = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
    return status;
}
