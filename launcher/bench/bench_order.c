// SPDX-License-Identifier: Apache-2.0
// serried bench data --order-hash: the delivered samples of each epoch as a count and a hash.
//
// Equal lines on two machines, or with other numbers of ranks and workers, show that both delivered
// the same samples at the same positions with the same augmentation (sr_pipeline_get_order). Ranks
// run one after the other; their hashes are added.
#include <inttypes.h>
#include <stdio.h>

#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "launcher/bench/bench_pipeline_internal.h"

typedef struct order {
    sr_pipeline_order *epochs; // 0, 1, ...
    int64_t count;
} order;

static void add(const sr_pipeline *pipeline, order *sum) {
    size_t count;
    const sr_pipeline_order *part = sr_pipeline_get_order(pipeline, &count);
    for (size_t i = 0; i < count; i++) {
        if (part[i].epoch >= sum->count)
            continue; // the last step reaches into the next epoch
        sum->epochs[part[i].epoch].samples += part[i].samples;
        sum->epochs[part[i].epoch].hash += part[i].hash;
    }
}

static sr_status run(const sr_pipeline_options *options, order *sum) {
    sr_pipeline *pipeline;
    sr_status status;
    bool end = false;
    SR_TRY(sr_pipeline_open(options, &pipeline));
    do {
        sr_slot slot;
        status = sr_pipeline_next(pipeline, &slot, &end);
        if (status == SR_OK && !end)
            sr_pipeline_release(pipeline, &slot);
    } while (status == SR_OK && !end);
    if (status == SR_OK)
        add(pipeline, sum);
    sr_pipeline_close(pipeline);
    return status;
}

// Number of steps in which every lane completes the epochs; lanes differ by at most one sample.
static sr_status count_steps(const sr_pipeline_options *o, int64_t epochs, int64_t *steps) {
    sr_dataset *dataset;
    SR_TRY(sr_dataset_open(o->dataset, o->split, &dataset));
    *steps = (epochs * sr_dataset_count(dataset) + o->lanes + o->batch - 1) / o->batch;
    sr_dataset_free(dataset);
    return SR_OK;
}

static sr_status print(const order *sum, const sr_pipeline_options *o, bool json) {
    sr_text text;
    if (!json) {
        for (int64_t e = 0; e < sum->count; e++)
            printf("epoch %" PRId64 ": %" PRId64 " samples, order %016" PRIx64 "\n", e,
                   sum->epochs[e].samples, sum->epochs[e].hash);
        return SR_OK;
    }
    sr_text_init(&text);
    sr_text_add(&text, "{\"bench\": \"order\", \"dataset\": ");
    sr_text_add_json_string(&text, o->dataset);
    for (int64_t e = 0; e < sum->count; e++)
        sr_text_add(&text, "%s{\"samples\": %" PRId64 ", \"order\": \"%016" PRIx64 "\"}",
                    e ? ", " : ", \"epochs\": [", sum->epochs[e].samples, sum->epochs[e].hash);
    sr_text_add(&text, "]}");
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        printf("%s\n", text.data);
    sr_text_release(&text);
    return status;
}

sr_status sr_bench_order(const sr_pipeline_options *options, int64_t epochs, int ranks, bool json) {
    sr_pipeline_options o = *options;
    if (ranks < 1 || ranks > o.lanes)
        return SR_FAIL(SR_E_USAGE, "%d lanes cannot be divided among %d ranks", o.lanes, ranks);
    if (o.batch > 0)
        SR_TRY(count_steps(&o, epochs, &o.steps));
    order sum = {.count = epochs};
    sum.epochs = sr_alloc_array((size_t)epochs, sizeof *sum.epochs, "epochs");
    sr_status status = sum.epochs ? SR_OK : SR_E_MEMORY;
    for (int r = 0; status == SR_OK && r < ranks; r++) {
        o.lane_begin = r * o.lanes / ranks;
        o.lane_end = (r + 1) * o.lanes / ranks;
        status = run(&o, &sum);
    }
    if (status == SR_OK)
        status = print(&sum, &o, json);
    sr_free(sum.epochs);
    return status;
}
