// SPDX-License-Identifier: Apache-2.0
// Sums of a block's errors in double, added in block order (metric_error.h).
#include "trainer/tasks/metric_error.h"

#include <math.h>

typedef struct block_sums {
    int64_t samples;
    double error;
} block_sums;

static sr_status add(void *state, const sr_metric_samples *samples, sr_text *bytes) {
    const sr_task_output *predicted, *truth;
    block_sums sums = {.samples = samples->slot->valid};
    (void)state;
    SR_TRY(sr_task_outputs_get(samples->outputs, "predicted", &predicted));
    SR_TRY(sr_task_outputs_get(samples->outputs, "truth", &truth));
    for (int64_t i = 0; i < sums.samples; i++)
        sums.error += fabs((double)((const float *)predicted->data)[i] -
                           (double)((const float *)truth->data)[i]);
    sr_text_add_bytes(bytes, &sums, sizeof sums);
    return sr_text_check(bytes);
}

static sr_status result(void *state, const sr_metric_blocks *blocks, sr_metric_result *out) {
    double error = 0;
    (void)state;
    for (int64_t i = 0; i < blocks->count; i++) {
        const block_sums *sums = blocks->data[i];
        out->samples += sums->samples;
        error += sums->error;
    }
    out->values[0] = error / (double)out->samples;
    return SR_OK;
}

static const sr_column columns[] = {{"error", "error", SR_UNIT_NUMBER, SR_BETTER_LOWER}};

const sr_metric_desc sr_metric_error = {.struct_size = sizeof(sr_metric_desc),
                                        .abi = SR_METRIC_ABI,
                                        .name = "error",
                                        .columns = columns,
                                        .column_count = 1,
                                        .add = add,
                                        .result = result};
