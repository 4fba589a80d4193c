// SPDX-License-Identifier: Apache-2.0
// Runs the stage of a process or thread by its number: reader, iterator or a transformer.
#include "dataio/pipeline/stage_internal.h"
#include "kernels/base/float_control.h"

void sr_stage_run(sr_stage *stage) {
    sr_status status;
    sr_float_control();
    if (stage->number == SR_STAGE_READER)
        status = sr_reader_run(stage);
    else if (stage->number == SR_STAGE_ITERATOR)
        status = sr_iterator_run(stage);
    else
        status = sr_transformer_run(stage);
    if (status != SR_OK)
        sr_stage_error_set(&stage->state->error, status, stage->blamed);
    sr_stage_activity(stage, SR_ACTIVITY_DONE, -1);
}
