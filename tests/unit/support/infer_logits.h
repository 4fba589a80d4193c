// SPDX-License-Identifier: Apache-2.0
// The logits of a slot, copied out of the engine.
#ifndef SR_TESTS_UNIT_INFER_LOGITS_H
#define SR_TESTS_UNIT_INFER_LOGITS_H

#include <string.h>

#include "trainer/engine/engine.h"

// SR_E_SHAPE unless they are 'bytes' bytes.
static inline sr_status infer_logits(sr_engine *engine, const sr_slot *slot, float *out,
                                     size_t bytes) {
    sr_task_outputs outputs;
    const sr_task_output *logits;
    SR_TRY(sr_engine_infer(engine, slot, &outputs));
    SR_TRY(sr_task_outputs_get(&outputs, "logits", &logits));
    if ((size_t)sr_info_count(&logits->info) * sizeof *out != bytes)
        return SR_FAIL(SR_E_SHAPE, "%lld logits", (long long)sr_info_count(&logits->info));
    memcpy(out, logits->data, bytes);
    return SR_OK;
}

#endif
