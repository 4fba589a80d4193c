// SPDX-License-Identifier: Apache-2.0
// A model inside another (model.h, sr_build_child): it is built by its own descriptor into the same
// flat space, below a prefix of names.
#include "trainer/models/builder_internal.h"

#include <stdio.h>
#include <string.h>

#include "graph/op.h"

enum { MOST_INNER = 8 }; // models inside each other

static const void *all_models(size_t *count) {
    return sr_models(count);
}

static const sr_option_table *options_of(const void *descriptor) {
    return ((const sr_model_desc *)descriptor)->options;
}

const sr_alternatives sr_model_alternatives = {
    .what = "model", .all = all_models, .options = options_of};

static const sr_model_desc *find(sr_builder *b, const char *name, const sr_alternative *choice,
                                 int64_t classes) {
    const sr_model_desc *desc = choice->name ? sr_model_find(choice->name) : NULL;
    const char *near = choice->name && !desc ? sr_model_nearest(choice->name) : NULL;
    if (!desc)
        sr_build_fail(b, "%s: %s%s%s%s", name, choice->name ? "there is no model " : "no model",
                      choice->name ? choice->name : " is chosen", near ? "; did you mean " : "",
                      near ? near : "");
    else if (classes == 0 && !desc->features)
        sr_build_fail(b, "%s: model %s has no stages of features; choose another, such as resnet50",
                      name, desc->name);
    return desc;
}

// Those of the choice, or defaults. NULL after a failure.
static const void *choose_options(sr_builder *b, const sr_model_desc *desc,
                                  const sr_alternative *choice) {
    if (choice->options)
        return choice->options;
    void *options = sr_build_memory(b, desc->options ? desc->options->struct_size + 1 : 1);
    if (options && desc->options)
        sr_build_stick(b, sr_options_defaults(desc->options, options, &b->model->arena));
    return options;
}

static int inner_count(const sr_builder *b) {
    int count = 0;
    for (int i = b->part.index; i >= 0; i = b->model->parts[i].parent)
        count++;
    return count;
}

static int begin_part(sr_builder *b, const sr_model_desc *desc, const char *name) {
    char path[SR_WEIGHT_NAME_BYTES], prefix[SR_WEIGHT_NAME_BYTES];
    const char *outer = b->model->parts[b->part.index].path;
    if (inner_count(b) == MOST_INNER) {
        sr_build_fail(b, "%s: more than %d models inside each other", name, MOST_INNER);
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s%s%s%s", outer, *outer ? "." : "", b->part.scope, name);
    (void)snprintf(prefix, sizeof prefix, "%s%s.", b->part.scope, name);
    return sr_build_add_part(b, desc, b->part.index, path, prefix);
}

void sr_build_child(sr_builder *b, sr_child *child, const char *name, const sr_alternative *choice,
                    int64_t classes) {
    *child = (sr_child){.classes = classes, .stage_count = SR_STAGES_MAX};
    for (int i = 0; i < SR_STAGES_MAX; i++)
        child->stages[i] = (sr_model_stage){.channels = 1, .stride = 1};
    const sr_model_desc *desc = find(b, name, choice, classes);
    const void *options = b->status == SR_OK ? choose_options(b, desc, choice) : NULL;
    void *state = options ? sr_build_memory(b, desc->state_size + 1) : NULL;
    const int index = state ? begin_part(b, desc, name) : -1;
    if (index < 0)
        return;
    const sr_build_part outer = b->part;
    b->part = (sr_build_part){.index = index,
                              .classes = classes,
                              .first_layer = outer.layer == SR_NO_DEPTH ? 0 : outer.layer,
                              .layer = outer.layer,
                              .stages = child->stages,
                              .stage_count = &child->stage_count};
    child->stage_count = 0;
    desc->build(b, options, state);
    const int next = b->part.next_layer;
    b->part = outer;
    if (next > 0)
        b->part.layer = b->part.next_layer = next;
    child->desc = desc;
    child->state = state;
    child->depth = b->part.layer;
}

void sr_child_features(sr_forward *forward, const sr_child *child, sr_tensor x, sr_tensor *stages) {
    child->desc->features(forward, child->state, x, stages);
}

void sr_child_forward(sr_forward *forward, const sr_child *child, const sr_tensor *inputs,
                      sr_outputs *outputs) {
    sr_outputs *own = forward->outputs;
    outputs->count = 0;
    if (child->classes == 0) {
        (void)sr_op_refused(
            SR_FAIL(SR_E_USAGE, "model %s was built for its features alone", child->desc->name),
            "sr_child_forward");
        return;
    }
    forward->outputs = outputs;
    child->desc->forward(forward, child->state, inputs);
    forward->outputs = own;
}
