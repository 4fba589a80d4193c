// SPDX-License-Identifier: Apache-2.0
// Event files, which TensorBoard reads: scalars, pictures and settings of a run, as events of
// protobuf in TFRecord framing.
//
// Sources: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto,
// tensorboard/plugins/hparams/plugin_data.proto, and the TFRecord format (lengths and contents with
// masked CRC-32C).
#ifndef SR_TRAINER_EVENT_FILE_H
#define SR_TRAINER_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// One thread at a time. An event that cannot be written is missing from the file; the first such
// failure is a warning.
typedef struct sr_event_file sr_event_file;

// Creates FOLDER/events.out.tfevents.SECONDS.HOST.PID.0. Of the events that earlier files of the
// folder have, readers ignore those of 'step' and later steps.
SR_NODISCARD sr_status sr_event_file_create(const char *folder, int64_t step, sr_event_file **out);
// NULL is legal here and below, and writes nothing.
void sr_event_file_free(sr_event_file *file);

// Values of a step, as f32; those that are NaN are left out.
void sr_event_file_add_scalars(sr_event_file *file, int64_t step, const char *const *names,
                               const double *values, size_t count);
// A picture of a step from a PNG file.
void sr_event_file_add_picture(sr_event_file *file, int64_t step, const char *name,
                               const char *path);

typedef enum sr_event_setting_type {
    SR_EVENT_NUMBER = 0,
    SR_EVENT_BOOL,
    SR_EVENT_STRING,
} sr_event_setting_type;

// A hyper-parameter of the run.
typedef struct sr_event_setting {
    const char *name;
    sr_event_setting_type type;
    double number;    // 0 or 1 of a bool
    const char *text; // of a string, UTF-8
} sr_event_setting;

// The hyper-parameters, once in each file.
void sr_event_file_add_settings(sr_event_file *file, const sr_event_setting *settings,
                                size_t count);

#ifdef __cplusplus
}
#endif
#endif
