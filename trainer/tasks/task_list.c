// SPDX-License-Identifier: Apache-2.0
// The table of tasks from task_list.def, and functions that they share.
#include <stdio.h>
#include <string.h>

#include "graph/call_layers.h"
#include "graph/op.h"
#include "kernels/base/table.h"
#include "kernels/base/text.h"
#include "trainer/tasks/task.h"

#define SR_TASK(desc) extern const sr_task_desc desc;
#include "trainer/tasks/task_list.def"
#undef SR_TASK

static const sr_task_desc *const built_in[] = {
#define SR_TASK(desc) &(desc),
#include "trainer/tasks/task_list.def"
#undef SR_TASK
};

static bool measures(const sr_task_desc *task, const char *name) {
    const sr_column *columns[SR_TASK_COLUMNS];
    const int count = sr_task_columns(task, columns);
    for (int i = 0; i < count && name; i++)
        if (strcmp(columns[i]->name, name) == 0)
            return true;
    return false;
}

static sr_status check_metrics(const sr_task_desc *task) {
    int count = 0, sum = 0;
    for (; task->metrics && task->metrics[count]; count++) {
        const sr_metric_desc *m = task->metrics[count];
        if (count == SR_TASK_METRICS)
            return SR_FAIL(SR_E_USAGE, "it has more than %d metrics", SR_TASK_METRICS);
        if (m->abi != SR_METRIC_ABI || m->struct_size != sizeof *m)
            return SR_FAIL(SR_E_UNSUPPORTED, "its metric %d was built for another interface",
                           count + 1);
        if (!m->add || !m->result)
            return SR_FAIL(SR_E_USAGE, "its metric %s needs 'add' and 'result'", m->name);
        sum += m->column_count;
    }
    if (count > 0 && (sum > SR_TASK_COLUMNS || sum == 0))
        return SR_FAIL(SR_E_USAGE, "its metrics have %d columns; 1 to %d are possible", sum,
                       SR_TASK_COLUMNS);
    if (count > 0 && !measures(task, task->best))
        return SR_FAIL(SR_E_USAGE, "'best' is not a column of its metrics");
    return SR_OK;
}

static sr_status check_scalars(const sr_task_desc *task) {
    for (int i = 0; i < task->scalar_count; i++)
        if (task->scalars[i].phase < 0 || task->scalars[i].phase >= sr_task_phases(task))
            return SR_FAIL(SR_E_USAGE, "its scalar %s belongs to no phase", task->scalars[i].name);
    return SR_OK;
}

static sr_status check(const void *descriptor) {
    const sr_task_desc *task = descriptor;
    if (!task->record || !task->transformer || sr_task_phases(task) == 0)
        return SR_FAIL(SR_E_USAGE, "it needs a transformer, a set, a phase and 'record'");
    if (task->metrics && (!task->infer || !task->view))
        return SR_FAIL(SR_E_USAGE, "its metrics need 'infer' and 'view'");
    SR_TRY(check_scalars(task));
    return check_metrics(task);
}

static sr_table table = {.what = "task",
                         .struct_size = sizeof(sr_task_desc),
                         .abi = SR_TASK_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0],
                         .check = check};

const sr_task_desc *const *sr_tasks(size_t *count) {
    return sr_table_all(&table, count);
}

const sr_task_desc *sr_task_find(const char *name) {
    return sr_table_find(&table, name);
}

sr_status sr_tasks_add(const sr_task_desc *const *list, const char *origin) {
    return sr_table_add(&table, list, origin);
}

int sr_task_columns(const sr_task_desc *task, const sr_column *out[SR_TASK_COLUMNS]) {
    int count = 0;
    for (int m = 0; task->metrics && task->metrics[m]; m++)
        for (int c = 0; c < task->metrics[m]->column_count && count < SR_TASK_COLUMNS; c++)
            out[count++] = &task->metrics[m]->columns[c];
    return count;
}

int sr_task_best_column(const sr_task_desc *task) {
    const sr_column *columns[SR_TASK_COLUMNS];
    const int count = sr_task_columns(task, columns);
    for (int i = 0; i < count && task->best; i++)
        if (strcmp(columns[i]->name, task->best) == 0)
            return i;
    return 0;
}

void sr_task_add_loss(sr_lane_recording *r, sr_tensor part, double weight, int scalar) {
    const sr_tensor weighted = weight == 1 ? part : sr_scale(part, weight, 0);
    r->loss = sr_is_none(r->loss) ? weighted : sr_add(r->loss, weighted);
    r->scalars[scalar] = sr_reduce_sum(part);
}

// The output of the last pass, of a model that has it.
static sr_tensor output_of(const sr_lane_recording *recording, const sr_model *model,
                           const char *name) {
    const sr_outputs *outputs = &recording->outputs;
    const sr_tensor found = sr_output_find(outputs, name);
    if (!sr_is_none(found) || sr_context_status(recording->context) != SR_OK)
        return found;
    sr_text list;
    sr_text_init(&list);
    for (int i = 0; i < outputs->count; i++)
        sr_text_add(&list, "%s%s", i > 0 ? ", " : "; it has ", outputs->item[i].name);
    const sr_status status =
        SR_FAIL(SR_E_USAGE, "model %s has no output '%s', which the task asks for%s",
                model->desc->name, name, list.data);
    sr_text_release(&list);
    return sr_op_refused(status, "forward");
}

int64_t sr_task_usual_classes(const sr_task_desc *task) {
    return task->maps ? 21 : 1000;
}

bool sr_task_has_classes(const sr_task_desc *task) {
    for (int i = 0; i < SR_TASK_INPUTS && task->inputs[i].name; i++)
        if (task->inputs[i].is_class)
            return true;
    return false;
}

int sr_task_sets(const sr_task_desc *task) {
    int count = 0;
    while (count < SR_MAX_SETS && task->sets[count].name)
        count++;
    return count;
}

int sr_task_phases(const sr_task_desc *task) {
    int count = 0;
    while (count < SR_MAX_PHASES && task->phases[count].name)
        count++;
    return count;
}

sr_tensor sr_task_forward(sr_lane_recording *recording, int set, const sr_tensor *inputs,
                          const char *output, bool with_statistics) {
    const sr_model *model = recording->models[set];
    recording->outputs.count = 0;
    sr_forward forward = {.context = recording->context,
                          .training = recording->training,
                          .norm_lanes = recording->norm_lanes,
                          .dtype = recording->dtype,
                          .key = recording->key,
                          .next_scope = (uint32_t)set << 16,
                          .statistics = with_statistics ? recording->statistics : NULL,
                          .outputs = &recording->outputs};
    char name[SR_NAME_BYTES];
    const size_t length =
        model->prefix_length > 0 ? model->prefix_length - 1 : 0; // without the dot
    (void)snprintf(name, sizeof name, "%.*s", (int)length,
                   model->param_count > 0 ? model->params[0].name : "");
    const char *before = sr_layer_use(recording->context, name);
    model->desc->forward(&forward, model->state, inputs);
    (void)sr_layer_use(recording->context, before);
    return output_of(recording, model, output);
}
