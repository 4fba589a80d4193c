// SPDX-License-Identifier: Apache-2.0
// Packing (rules and files: pack.h).
//
// Batches of pictures are normalised by a pool, each into its own slot; then the slots are appended
// in order by one thread, which costs little against the pool's work. So the bytes do not depend on
// the number of workers, and memory is bounded by the batch.
#include "dataio/pack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "dataio/dataset.h"
#include "dataio/pack_state.h"
#include "dataio/record.h"
#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/base/text.h"

#define BATCH_FILES 512
#define BATCH_BYTES (UINT64_C(64) << 20)
#define SAMPLED 1024 // pictures of a split, about, whose pixels go into the normalisation hints

typedef struct slot {
    uint32_t file; // index into layout.files
    bool sampled;
    void *source;
    size_t source_capacity;
    sr_record_writer record;
    sr_channel_sums sums;
    unsigned flags;
    sr_status status;
    char message[512];
} slot;

typedef struct packing {
    sr_pack_options options;
    sr_pack_report *report;
    sr_pack_state state;
    sr_source *source;
    sr_layout layout;
    sr_pool *pool;
    sr_picture_worker **workers;
    slot *slots;
    bool check_only; // find out which pictures are accepted; write nothing
    sr_writer *writer;
    uint64_t free_bytes; // of the destination when packing began
    bool created, begun; // the destination was made; something was written into it
    int64_t begin_ns;
    uint64_t done, total; // pictures, for the progress line
} packing;

// -- one picture, on a worker ------------------------------------------------------------------

static sr_status make_record(packing *p, slot *s, sr_picture_worker *worker) {
    const sr_layout_file *file = &p->layout.files[s->file];
    const sr_source_file *from = &p->source->files[file->source];
    const sr_picture_options options = {.max_side = p->options.max_side,
                                        .quality = p->options.quality,
                                        .raw = p->options.raw,
                                        .segments = p->options.segments};
    sr_sample sample = {.label = file->label, .name = from->path, .name_bytes = strlen(from->path)};
    SR_TRY(sr_source_read(p->source, file->source, &s->source, &s->source_capacity));
    if (p->check_only)
        return sr_picture_check(worker, s->source, (size_t)from->bytes);
    SR_TRY(
        sr_picture_normalise(worker, s->source, (size_t)from->bytes, &options, &sample, &s->flags));
    SR_TRY(sr_sample_write(&s->record, &sample));
    return s->sampled ? sr_picture_sum(worker, &sample, &s->sums) : SR_OK;
}

static void run_slot(void *user, int64_t item, int worker) {
    packing *p = user;
    slot *s = &p->slots[item];
    s->sums = (sr_channel_sums){0};
    s->flags = 0;
    s->status = make_record(p, s, p->workers[worker]);
    if (s->status != SR_OK)
        (void)snprintf(s->message, sizeof s->message, "%s", sr_error_message());
}

// -- batches -----------------------------------------------------------------------------------

// A bad file is refused; that the machine fails is not the file's fault.
static bool is_refusal(sr_status status) {
    return (status >= SR_E_DATA && status < SR_E_PEER) || status == SR_E_IO ||
           status == SR_E_NOT_FOUND;
}

static sr_status take_slot(packing *p, slot *s) {
    sr_layout_file *file = &p->layout.files[s->file];
    if (s->status != SR_OK) {
        if (!is_refusal(s->status))
            return sr_error_adopt(s->status, "pack", s->message);
        file->label = -1;
        return sr_source_refuse(p->source, p->source->files[file->source].path, s->message);
    }
    if (p->check_only)
        return SR_OK;
    SR_TRY(sr_writer_append(p->writer, s->record.data, s->record.bytes));
    sr_writer_add_sums(p->writer, &s->sums);
    p->report->records[file->split]++;
    for (int i = 0; i < SR_PICTURE_FLAG_COUNT; i++)
        p->report->met[i] += s->flags >> i & 1;
    return SR_OK;
}

static void show_progress(packing *p) {
    if (p->options.quiet)
        return;
    double seconds = (double)(sr_clock_ns() - p->begin_ns) / (double)SR_NS_PER_S;
    char line[160];
    (void)snprintf(line, sizeof line, "%s %llu/%llu pictures, %.0f/s",
                   p->check_only ? "checking" : "packing", (unsigned long long)p->done,
                   (unsigned long long)p->total, seconds > 0 ? (double)p->done / seconds : 0.0);
    sr_log_progress(line, 10.0);
}

// Runs the files order[0..count) of the layout through the pool.
static sr_status run_files(packing *p, const uint32_t *order, size_t count) {
    size_t stride = count / SAMPLED + 1;
    p->begin_ns = sr_clock_ns();
    p->done = 0;
    p->total = count;
    for (size_t next = 0; next < count;) {
        size_t n = 0;
        uint64_t bytes = 0;
        while (next + n < count && n < BATCH_FILES && (n == 0 || bytes < BATCH_BYTES)) {
            p->slots[n].file = order[next + n];
            p->slots[n].sampled = (next + n) % stride == 0;
            bytes += p->source->files[p->layout.files[order[next + n]].source].bytes;
            n++;
        }
        sr_pool_run(p->pool, (int64_t)n, run_slot, p);
        for (size_t i = 0; i < n; i++)
            SR_TRY(take_slot(p, &p->slots[i]));
        next += n;
        p->done = next;
        show_progress(p);
    }
    return SR_OK;
}

// -- splits ------------------------------------------------------------------------------------

// The files of a split in order of path (split < 0: all that have one), into order; their number.
static size_t files_of(const packing *p, int split, uint32_t *order) {
    size_t n = 0;
    for (size_t i = 0; i < p->layout.count; i++)
        if (p->layout.files[i].label >= 0 && (split < 0 || p->layout.files[i].split == split))
            order[n++] = (uint32_t)i;
    return n;
}

// The last tenth (or what was asked for) of each class of train goes to val.
static sr_status hold_out(packing *p, uint32_t *order) {
    p->check_only = true;
    sr_status status = run_files(p, order, files_of(p, SR_SPLIT_TRAIN, order));
    p->check_only = false;
    SR_TRY(status);
    size_t classes = (size_t)p->layout.class_count;
    uint64_t *left = sr_alloc_array(classes, sizeof *left, "classes");
    if (left == NULL)
        return SR_E_MEMORY;
    size_t count = files_of(p, SR_SPLIT_TRAIN, order);
    for (size_t i = 0; i < count; i++)
        left[p->layout.files[order[i]].label]++;
    for (size_t c = 0; c < classes; c++) // 1e-9: 0.1 * 10 is not below 1
        left[c] = (uint64_t)((double)left[c] * p->options.val_fraction + 1e-9);
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

static sr_status write_split(packing *p, int split, uint32_t *order) {
    size_t count = files_of(p, split, order);
    if (count == 0)
        return SR_OK;
    sr_rng rng;
    sr_rng_init(&rng, SR_PACK_SEED, (uint32_t)split, 0, 0);
    sr_rng_shuffle(&rng, order, (uint32_t)count);
    SR_TRY(sr_writer_open(&(sr_writer_options){.folder = p->state.folder,
                                               .split = sr_split_names[split],
                                               .classes = p->layout.classes,
                                               .class_count = p->layout.class_count,
                                               .target_bytes = p->options.shard_bytes,
                                               .format = p->options.format},
                          &p->writer));
    sr_status status = run_files(p, order, count);
    if (status == SR_OK && p->report->records[split] > 0)
        status = sr_writer_close(p->writer);
    else
        sr_writer_abort(p->writer);
    p->writer = NULL;
    return status;
}

static sr_status write_splits(packing *p) {
    uint32_t *order = sr_alloc_array(p->layout.count, sizeof *order, "order of pictures");
    if (order == NULL)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (p->options.val_fraction > 0 && !p->report->val_existed)
        status = hold_out(p, order);
    for (int split = 0; split < SR_SPLIT_COUNT && status == SR_OK; split++)
        status = write_split(p, split, order);
    sr_free(order);
    return status;
}

// -- the whole ---------------------------------------------------------------------------------

static sr_status check_options(sr_pack_options *o) {
    if (!(o->val_fraction >= 0 && o->val_fraction < 1))
        return SR_FAIL(SR_E_USAGE, "val-fraction %g is not in 0 <= F < 1", o->val_fraction);
    if (o->max_side < 0 || o->quality < 0 || o->quality > 100 || o->workers < 0)
        return SR_FAIL(SR_E_USAGE, "max-size and workers are at least 0, quality is 1 to 100");
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

// Transcoding saves some per cent, so only a clear lack stops before the start.
static sr_status check_space(packing *p) {
    char need[16], have[16];
    p->free_bytes = free_space(p->state.folder);
    if (p->options.max_side > 0 || p->options.raw || p->free_bytes >= p->source->bytes / 10 * 8)
        return SR_OK;
    return SR_FAIL(SR_E_NO_SPACE, "%s: about %s are needed, %s are free; nothing was written",
                   p->state.folder, sr_text_bytes(p->source->bytes, need),
                   sr_text_bytes(p->free_bytes, have));
}

static sr_status make_workers(packing *p) {
    int n = p->options.workers;
    p->slots = sr_alloc_array(BATCH_FILES, sizeof *p->slots, "pack slots");
    p->workers = sr_alloc_array((size_t)n, sizeof *p->workers, "pack workers");
    if (p->slots == NULL || p->workers == NULL)
        return SR_E_MEMORY;
    for (int i = 0; i < n; i++)
        SR_TRY(sr_picture_worker_create(&p->workers[i]));
    return sr_pool_create(n, NULL, NULL, &p->pool);
}

static sr_status sum_bytes(packing *p) {
    for (int split = 0; split < SR_SPLIT_COUNT; split++) {
        sr_dataset *dataset;
        if (p->report->records[split] == 0)
            continue;
        SR_TRY(sr_dataset_open_records(p->state.folder, sr_split_names[split], &dataset));
        for (int i = 0; i < sr_dataset_shard_count(dataset); i++)
            p->report->bytes += sr_dataset_shard(dataset, i)->file_bytes;
        sr_dataset_free(dataset);
    }
    return SR_OK;
}

static sr_status build(packing *p) {
    SR_TRY(check_space(p));
    SR_TRY(make_workers(p));
    p->begun = true;
    SR_TRY(sr_pack_state_begin(&p->state));
    SR_TRY(write_splits(p));
    p->report->refused = (int64_t)p->source->refused_count;
    p->report->ignored = (int64_t)(p->source->hidden + p->source->other);
    p->report->unlabelled = (int64_t)p->layout.unlabelled;
    if (p->report->records[0] + p->report->records[1] + p->report->records[2] == 0)
        return SR_FAIL(SR_E_DATA, "%s: none of %zu pictures could be read; the first: %s: %s",
                       p->source->path, p->source->count, p->source->refused[0].path,
                       p->source->refused[0].reason);
    SR_TRY(sum_bytes(p));
    return sr_pack_state_finish(&p->state, p->source, p->report);
}

static sr_status run(packing *p) {
    SR_TRY(check_options(&p->options));
    if (!sr_path_exists(p->options.source))
        return SR_FAIL(SR_E_NOT_FOUND, "%s: no such file or folder", p->options.source);
    p->created = !sr_path_exists(p->options.destination);
    SR_TRY(sr_pack_state_open(p->options.destination, &p->state));
    SR_TRY(sr_source_open(p->options.source, p->options.destination, &p->source));
    SR_TRY(sr_pack_state_compare(&p->state, &p->options, p->source, p->report));
    if (!p->state.complete) {
        SR_TRY(sr_layout_make(p->source, &p->layout));
        p->report->classes = p->layout.class_count;
        p->report->val_existed = p->layout.split_count[SR_SPLIT_VAL] > 0;
        SR_TRY(build(p));
    }
    if (p->report->refused > p->options.allow_refused) {
        long long refused = p->report->refused, allowed = p->options.allow_refused;
        return SR_FAIL(SR_E_DATA,
                       "%lld file%s refused, %lld allowed; everything else is packed. "
                       "%s/refused.csv tells which and why; to accept that: --allow-refused %lld",
                       refused, refused == 1 ? " was" : "s were", allowed, p->state.folder,
                       refused);
    }
    return SR_OK;
}

static void release(packing *p) {
    for (int i = 0; p->slots != NULL && i < BATCH_FILES; i++) {
        sr_free(p->slots[i].source);
        sr_record_writer_release(&p->slots[i].record);
    }
    for (int i = 0; p->workers != NULL && i < p->options.workers; i++)
        sr_picture_worker_free(p->workers[i]);
    sr_pool_free(p->pool);
    sr_free(p->slots);
    sr_free(p->workers);
    sr_layout_release(&p->layout);
    sr_source_free(p->source);
    sr_pack_state_close(&p->state);
}

sr_status sr_pack(const sr_pack_options *options, sr_pack_report *report) {
    packing p = {.options = *options, .report = report, .state = {.lock = -1}};
    int64_t begin = sr_clock_ns();
    *report = (sr_pack_report){0};
    sr_status status = run(&p);
    if (!p.options.quiet)
        sr_log_progress_end();
    if (status == SR_E_NO_SPACE && p.begun) {
        char need[16], have[16];
        sr_error_prefix("%s needs about %s and had %s free", options->destination,
                        sr_text_bytes(p.source->bytes, need), sr_text_bytes(p.free_bytes, have));
    }
    if (status != SR_OK && p.created && !p.begun)
        (void)rmdir(options->destination); // empty, and of no use to anybody
    release(&p);
    report->seconds = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
    return status;
}
