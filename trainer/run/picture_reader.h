// SPDX-License-Identifier: Apache-2.0
// Turns picture files into a model's input, as in evaluation (trainer/tasks/eval_view.h).
#ifndef SR_TRAINER_PICTURE_READER_H
#define SR_TRAINER_PICTURE_READER_H

#include "trainer/run/inference.h"

#ifdef __cplusplus
extern "C" {
#endif

// One thread at a time.
typedef struct sr_picture_reader sr_picture_reader;

// options: of the task. Task and recipe must stay valid.
SR_NODISCARD sr_status sr_picture_reader_create(const sr_task_desc *task, const sr_recipe *recipe,
                                                const void *options, sr_picture_reader **out);
// NULL is legal.
void sr_picture_reader_free(sr_picture_reader *reader);
// The view of pictures. Borrowed until free.
const sr_eval_view *sr_picture_reader_view(const sr_picture_reader *reader);
// A picture of a view of one size: u8 [height,width,3] to 'pixels'. SR_E_DATA, SR_E_LIMIT.
SR_NODISCARD sr_status sr_picture_reader_decode(const sr_picture_reader *reader,
                                                const sr_picture_file *file, uint8_t *pixels);
// A picture of any view as a slot of one sample, in memory of the reader until the next call.
SR_NODISCARD sr_status sr_picture_reader_read(sr_picture_reader *reader,
                                              const sr_picture_file *file, sr_slot *out);

#ifdef __cplusplus
}
#endif
#endif
