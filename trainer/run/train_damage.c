// SPDX-License-Identifier: Apache-2.0
// Damaged samples that a run skips (data.on_corrupt: skip:N).
//
// Each rank finds those in its own lanes, but the number of ranks must not decide whether a run
// ends. At the end of every epoch, all ranks therefore exchange the samples that they newly found
// and compare the union with the limit: after an epoch it is the same for any number of ranks. Rank
// 0 reports when it has grown. Within an epoch, a rank's own pipeline enforces the limit.
#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "trainer/run/training_internal.h"

typedef struct new_damage {
    int64_t count;
    char last[320];
} new_damage;

static bool is_known(const sr_damage *d, int64_t sample) {
    for (size_t i = 0; i < d->count; i++)
        if (((const int64_t *)d->samples)[i] == sample)
            return true;
    return false;
}

static sr_status merge(sr_damage *d, const int64_t *samples, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (is_known(d, samples[i]))
            continue;
        SR_TRY(
            sr_grow(&d->samples, &d->capacity, d->count + 1, sizeof(int64_t), "damaged samples"));
        ((int64_t *)d->samples)[d->count++] = samples[i];
    }
    return SR_OK;
}

static sr_status gather(sr_training *t, const new_damage *of_rank, const sr_pipeline_damage *own,
                        int64_t total) {
    int64_t *all = sr_alloc_array((size_t)total, sizeof *all, "damaged samples");
    size_t *offset = sr_alloc_array((size_t)t->ranks, 2 * sizeof *offset, "damaged samples");
    sr_status status = all && offset ? SR_OK : SR_E_MEMORY;
    size_t *size = offset ? offset + t->ranks : NULL;
    for (int r = 0; r < t->ranks && status == SR_OK; r++) {
        offset[r] = r == 0 ? 0 : offset[r - 1] + size[r - 1];
        size[r] = (size_t)of_rank[r].count * sizeof *all;
    }
    if (status == SR_OK) {
        if (size[t->rank] > 0)
            memcpy((uint8_t *)all + offset[t->rank], own->samples + t->damage.shared,
                   size[t->rank]);
        status = sr_comm_all_gather_v(t->comm, all, offset, size, "damaged samples");
    }
    if (status == SR_OK)
        status = merge(&t->damage, all, (size_t)total);
    sr_free(all);
    sr_free(offset);
    return status;
}

static sr_status share(sr_training *t, new_damage *of_rank) {
    const sr_pipeline_damage own = sr_feed_get_damage(t->feed);
    size_t before = t->damage.count;
    new_damage mine = {.count = (int64_t)(own.count - t->damage.shared)};
    (void)snprintf(mine.last, sizeof mine.last, "%s", own.last);
    SR_TRY(sr_comm_all_gather(t->comm, &mine, sizeof mine, of_rank, "counts of damaged samples"));
    int64_t total = 0;
    const char *last = "";
    for (int r = 0; r < t->ranks; r++) {
        last = of_rank[r].count > 0 ? of_rank[r].last : last;
        total += of_rank[r].count;
    }
    if (total == 0)
        return SR_OK;
    SR_TRY(gather(t, of_rank, &own, total));
    t->damage.shared = own.count;
    if (t->damage.count == before)
        return SR_OK;
    long long count = (long long)t->damage.count, limit = t->recipe->data.skip_limit;
    if (count > limit)
        return SR_FAIL(SR_E_DATA,
                       "%lld damaged sample%s, more than on_corrupt: skip:%lld allows; %s", count,
                       count == 1 ? "" : "s", limit, last);
    if (t->rank == 0)
        SR_WARN("skipped %lld damaged sample%s so far (on_corrupt: skip:%lld); %s", count,
                count == 1 ? "" : "s", limit, last);
    return SR_OK;
}

sr_status sr_training_share_damage(sr_training *t) {
    if (t->recipe->data.on_corrupt != SR_CORRUPT_SKIP)
        return SR_OK;
    new_damage *of_rank = sr_alloc_array((size_t)t->ranks, sizeof *of_rank, "damaged samples");
    if (!of_rank)
        return SR_E_MEMORY;
    sr_status status = share(t, of_rank);
    sr_free(of_rank);
    return status;
}

void sr_training_release_damage(sr_training *t) {
    sr_free(t->damage.samples);
    t->damage = (sr_damage){0};
}
