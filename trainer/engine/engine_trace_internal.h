// SPDX-License-Identifier: Apache-2.0
// The state of an engine that is being traced. If it is NULL, these functions do nothing.
#ifndef SR_TRAINER_ENGINE_TRACE_INTERNAL_H
#define SR_TRAINER_ENGINE_TRACE_INTERNAL_H

#include "kernels/base/trace.h"

// The parts of a step on the thread that calls sr_engine_step.
typedef enum sr_step_part {
    SR_STEP_RECORDS = 0,
    SR_STEP_LANES,
    SR_STEP_WAITS,
    SR_STEP_PARTS
} sr_step_part;

typedef struct sr_engine_trace {
    sr_trace_row *row;
    const sr_trace_label *labels[SR_STEP_PARTS];
    int64_t since_ns; // end of the part before
} sr_engine_trace;

// A step begins.
SR_NODISCARD sr_status sr_engine_trace_begin(sr_engine_trace *trace);
// A part of it ends.
void sr_engine_trace_end(sr_engine_trace *trace, sr_step_part part);

#endif
