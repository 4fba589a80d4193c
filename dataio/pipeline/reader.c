// SPDX-License-Identifier: Apache-2.0
// DataReader: reads samples from disk in the sampler's order and distributes them to the
// transformers' rings.
//
// In chunk-wise order it reads each run of consecutive samples of a lane's stream at once and keeps
// the records until the shuffle buffer draws them. The readers of one host take turns, so that a
// spinning disk sees one sequential reader at a time. Each advises the kernel of a whole run before
// its first record, so that the disk receives large requests. If the data set is larger than
// memory, runs are dropped from the page cache after use, because each is read again only after all
// others. A restarted reader takes its position from the rings' counters; records that its
// predecessor had read ahead are read again one by one.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "dataio/pipeline/bundle_internal.h"
#include "dataio/pipeline/class_members_internal.h"
#include "dataio/pipeline/reader_cache_internal.h"
#include "dataio/pipeline/stage_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"

#define TURN_WAIT_NS (500 * SR_NS_PER_MS)
#define TURN_POLL_NS (2 * SR_NS_PER_MS)

typedef struct lane_ahead {
    bool placed;
    int64_t next; // next input of the lane's stream to read
} lane_ahead;

typedef struct reader {
    sr_stage *stage;
    const sr_stage_plan *plan;
    sr_dataset *dataset;
    sr_sampler *sampler;
    sr_class_draws classes; // of the sampler
    sr_reader_cache cache;
    sr_bundler bundler; // for transforms that combine samples
    lane_ahead *ahead;  // of all lanes
    int turn;           // descriptor that is locked while a run is read; -1: none
    bool impatient;     // the last wait for the lock timed out: its holder makes no progress
    int shard;          // where the last read ended, to count seeks
    uint64_t offset;
} reader;

static sr_status read_record(reader *r, int64_t sample, const void **data, size_t *bytes) {
    int shard;
    uint64_t offset, length;
    int64_t begin = sr_clock_ns();
    sr_stage_activity(r->stage, SR_ACTIVITY_READING, sample);
    SR_TRY(sr_dataset_locate(r->dataset, sample, &shard, &offset, &length));
    if (shard != r->shard || offset != r->offset)
        atomic_fetch_add_explicit(&r->stage->state->seeks, 1, memory_order_relaxed);
    r->shard = shard;
    r->offset = offset + length;
    const sr_reader_disk *disk = r->stage->disk;
    sr_status status = disk ? disk->read(disk->user, r->dataset, sample, data, bytes)
                            : sr_dataset_read(r->dataset, sample, data, bytes);
    atomic_fetch_add_explicit(&r->stage->state->bytes, (int64_t)length, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->stage->state->first_ns, sr_clock_ns() - begin,
                              memory_order_relaxed);
    return status;
}

// The lock is advisory: it is released when its holder dies, waits are short, and after a timeout
// the reader does not wait again until it has had the lock once.
static void take_turn(reader *r) {
    if (r->stage->disk) {
        r->stage->disk->take_turn(r->stage->disk->user);
        return;
    }
    const int64_t deadline = sr_clock_ns() + (r->impatient ? 0 : TURN_WAIT_NS);
    r->impatient = false;
    while (r->turn >= 0 && flock(r->turn, LOCK_EX | LOCK_NB) < 0 && !r->impatient) {
        if (errno != EWOULDBLOCK && errno != EINTR) { // NFS and others do not support flock
            (void)close(r->turn);
            r->turn = -1;
            return;
        }
        r->impatient = sr_clock_ns() >= deadline || sr_stage_stopped(r->stage);
        if (!r->impatient)
            sr_clock_sleep_ns(TURN_POLL_NS);
    }
}

static void give_turn(reader *r) {
    if (r->stage->disk)
        r->stage->disk->give_turn(r->stage->disk->user);
    else if (r->turn >= 0)
        (void)flock(r->turn, LOCK_UN);
}

static sr_status read_piece(reader *r, const sr_piece *piece) {
    sr_status status = SR_OK;
    take_turn(r);
    sr_dataset_advise(r->dataset, piece->sample, piece->count, SR_DATASET_SOON);
    for (int64_t i = 0; i < piece->count && status == SR_OK; i++) {
        const void *data;
        size_t bytes;
        status = read_record(r, piece->sample + i, &data, &bytes);
        if (status == SR_OK)
            status = sr_reader_cache_put(&r->cache, piece->epoch, piece->sample + i, data, bytes);
        else if (sr_stage_is_damage(r->stage, status))
            status = SR_OK; // reported when the sample is drawn
    }
    give_turn(r);
    if (r->plan->beyond_memory)
        sr_dataset_advise(r->dataset, piece->sample, piece->count, SR_DATASET_DONE);
    return status;
}

// Fills a lane's window, including the beginning of the next epoch.
static sr_status read_ahead(reader *r, int lane, int64_t dealt) {
    lane_ahead *ahead = &r->ahead[lane];
    if (!ahead->placed) {
        ahead->next = sr_sampler_first_unread(r->sampler, lane, dealt);
        ahead->placed = true;
    }
    while (ahead->next < dealt + sr_sampler_window(r->sampler)) {
        sr_piece piece;
        sr_sampler_piece(r->sampler, lane, ahead->next, &piece);
        SR_TRY(read_piece(r, &piece));
        ahead->next += piece.count;
        if (sr_stage_stopped(r->stage))
            break;
    }
    return SR_OK;
}

// Reserves room in a ring. If it is full, waits until half of it is free, so that the reader wakes
// rarely.
static uint8_t *wait_room(reader *r, sr_ring *ring, uint64_t bytes, sr_cell **cell) {
    uint64_t capacity = sr_stage_ring_capacity(r->plan);
    uint8_t *room = sr_ring_reserve(ring, capacity, bytes, cell);
    if (room)
        return room;
    sr_bell_ring(&ring->published_bell);
    for (;;) {
        uint32_t seen = sr_bell_read(&ring->consumed_bell);
        if (sr_ring_fill(ring) <= 0.5 &&
            (room = sr_ring_reserve(ring, capacity, bytes, cell)) != NULL)
            return room;
        sr_stage_activity(r->stage, SR_ACTIVITY_WAITING_ROOM, -1);
        if (!sr_stage_wait(r->stage, &ring->consumed_bell, seen))
            return NULL;
    }
}

static bool send(reader *r, sr_ring *ring, const sr_draw *draw, sr_status status, const void *data,
                 size_t bytes) {
    sr_cell *cell;
    uint8_t *room = wait_room(r, ring, bytes, &cell);
    if (!room)
        return false;
    memcpy(room, data, bytes);
    cell->position = draw->position;
    cell->sample = draw->sample;
    cell->epoch = draw->epoch;
    cell->status = (int32_t)status;
    sr_ring_publish(ring);
    return true;
}

static sr_status fetch(reader *r, const sr_draw *draw, int lane, int64_t dealt, const void **data,
                       size_t *bytes, uint8_t **owned) {
    if (r->ahead) {
        SR_TRY(read_ahead(r, lane, dealt));
        sr_reader_cache_take(&r->cache, draw->epoch, draw->sample, owned, bytes);
        *data = *owned;
        if (*owned)
            return SR_OK;
    }
    return read_record(r, draw->sample, data, bytes);
}

// The record at a position, or its error.
static sr_status draw_record(reader *r, int64_t position, int lane, int64_t dealt,
                             sr_drawn_record *out) {
    *out = (sr_drawn_record){.data = ""};
    SR_TRY(sr_sampler_at(r->sampler, position, &out->draw));
    if (out->draw.sample >= 0)
        out->status = fetch(r, &out->draw, lane, dealt, &out->data, &out->bytes, &out->owned);
    if (out->status == SR_OK || !sr_stage_is_damage(r->stage, out->status))
        return out->status;
    out->data = sr_error_message();
    out->bytes = strlen(out->data) + 1;
    return SR_OK;
}

// The bundle at a position; reads all records of the slot first.
static sr_status draw_bundle(reader *r, int64_t slot, int64_t inside, sr_drawn_record *out) {
    const sr_stage_plan *plan = r->plan;
    int64_t step;
    int lane;
    const int64_t first = sr_stage_position(plan, slot, &step, &lane);
    if (r->bundler.slot != slot) {
        SR_TRY(sr_bundler_begin(&r->bundler, slot, plan->samples));
        for (int64_t i = 0; i < plan->samples; i++) {
            sr_drawn_record one;
            SR_TRY(draw_record(r, first + i, lane, step * plan->samples + i, &one));
            SR_TRY(sr_bundler_add(&r->bundler, &one));
        }
    }
    return sr_bundler_take(&r->bundler, r->stage->options.seed, inside, plan->foreign, out);
}

// Sends sample number 'index' of this rank. *more is false when the stage should end.
static sr_status deal(reader *r, int64_t index, bool *more) {
    const sr_stage_plan *plan = r->plan;
    int64_t slot = index / plan->samples, inside = index % plan->samples, step;
    int lane;
    int64_t position = sr_stage_position(plan, slot, &step, &lane) + inside;
    int64_t block = index / plan->block;
    sr_ring *ring = sr_stage_ring(plan, (int)(block % plan->workers));
    sr_drawn_record record;
    if (plan->foreign > 0)
        SR_TRY(draw_bundle(r, slot, inside, &record));
    else
        SR_TRY(draw_record(r, position, lane, step * plan->samples + inside, &record));
    *more = send(r, ring, &record.draw, record.status, record.data, record.bytes);
    sr_free(record.owned);
    if (index % plan->block == plan->block - 1)
        sr_bell_ring(&ring->published_bell);
    return SR_OK;
}

static int64_t dealt_so_far(const sr_stage_plan *plan) {
    uint64_t sum = 0;
    for (int w = 0; w < plan->workers; w++)
        sum += atomic_load_explicit(&sr_stage_ring(plan, w)->published, memory_order_relaxed);
    return (int64_t)sum;
}

static sr_status begin(reader *r) {
    const sr_stage_plan *plan = r->plan;
    const sr_pipeline_options *o = &r->stage->options;
    SR_TRY(sr_stage_sandbox(r->stage, SR_SANDBOX_READ));
    SR_TRY(sr_stage_dataset(r->stage, &r->dataset));
    sr_sampler_options options = sr_stage_draws(plan);
    if (o->balance > 0) {
        r->classes = sr_class_members_read(plan);
        options.classes = &r->classes;
    }
    SR_TRY(sr_sampler_create(&options, &r->sampler));
    if (o->order != SR_ORDER_CHUNKS)
        return SR_OK;
    r->turn = open(o->dataset, O_RDONLY | O_CLOEXEC);
    r->ahead = sr_alloc_array((size_t)o->lanes, sizeof *r->ahead, "lanes");
    return r->ahead ? SR_OK : SR_E_MEMORY;
}

sr_status sr_reader_run(sr_stage *stage) {
    reader r = {.stage = stage, .plan = &stage->plan, .turn = -1, .shard = -1, .bundler.slot = -1};
    sr_status status = begin(&r);
    int64_t samples = r.plan->samples;
    int64_t total = r.plan->total > INT64_MAX / samples ? INT64_MAX : r.plan->total * samples;
    int64_t dealt = dealt_so_far(r.plan);
    bool more = true;
    if (status == SR_OK && (dealt < 0 || dealt > total))
        status = sr_stage_corrupted("the number of records sent");
    for (int64_t i = dealt; status == SR_OK && more && i < total; i++)
        status = deal(&r, i, &more);
    sr_bundler_release(&r.bundler);
    sr_reader_cache_release(&r.cache);
    sr_sampler_free(r.sampler);
    sr_free(r.ahead);
    if (r.turn >= 0)
        close(r.turn);
    return status;
}
