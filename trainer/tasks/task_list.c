// SPDX-License-Identifier: Apache-2.0
// The table of tasks from task_list.def, and functions that they share.
#include <stdio.h>
#include <string.h>

#include "graph/call_layers.h"
#include "trainer/tasks/task.h"

#define SR_TASK(desc) extern const sr_task_desc desc;
#include "trainer/tasks/task_list.def"
#undef SR_TASK

static const sr_task_desc *const tasks[] = {
#define SR_TASK(desc) &desc,
#include "trainer/tasks/task_list.def"
#undef SR_TASK
};

const sr_task_desc *sr_task_find(const char *name) {
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (strcmp(tasks[i]->name, name) == 0)
            return tasks[i];
    return NULL;
}

sr_tensor sr_task_forward(sr_lane_recording *recording, int phase, const sr_tensor *inputs,
                          bool with_statistics) {
    const sr_model *model = recording->models[phase];
    recording->auxiliaries.count = 0;
    sr_forward forward = {.context = recording->context,
                          .training = recording->training,
                          .dtype = recording->dtype,
                          .key = recording->key,
                          .next_scope = (uint32_t)phase << 16,
                          .statistics = with_statistics ? recording->statistics : NULL,
                          .auxiliaries = recording->training ? &recording->auxiliaries : NULL};
    char name[SR_NAME_BYTES];
    const size_t length =
        model->prefix_length > 0 ? model->prefix_length - 1 : 0; // without the dot
    (void)snprintf(name, sizeof name, "%.*s", (int)length,
                   model->param_count > 0 ? model->params[0].name : "");
    const char *before = sr_layer_use(recording->context, name);
    sr_tensor result = model->desc->forward(&forward, model->state, inputs);
    (void)sr_layer_use(recording->context, before);
    return result;
}
