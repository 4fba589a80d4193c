// SPDX-License-Identifier: Apache-2.0
// Learns how bright a picture is, from the model's first logit; it needs no labels.
#include "trainer/losses/loss_functions.h"
#include "trainer/tasks/metric_error.h"
#include "trainer/tasks/task.h"

enum { IMAGE };            // inputs
enum { PREDICTED, TRUTH }; // outputs

static sr_tensor images(const sr_lane_recording *r) {
    return sr_normalize(r->inputs[IMAGE], r->mean, r->std, SR_F32);
}

// The mean of green, [N,1].
static sr_tensor truth(sr_tensor x) {
    return sr_slice(sr_global_avgpool(x), 1, 1, 1, 1);
}

static sr_tensor predict(sr_lane_recording *r, sr_tensor x) {
    sr_tensor rounded = sr_cast(x, r->dtype);
    return sr_slice(sr_cast(sr_task_forward(r, 0, &rounded, "logits", r->training), SR_F32), 1, 0,
                    1, 1);
}

static void record(sr_lane_recording *r) {
    sr_tensor x = images(r), loss = sr_loss_l1(predict(r, x), truth(x));
    sr_info info;
    if (sr_tensor_info(loss, &info))
        r->loss = sr_reshape(loss, 1, info.dim);
}

static void infer(sr_lane_recording *r) {
    sr_tensor x = images(r);
    r->results[PREDICTED] = predict(r, x);
    r->results[TRUTH] = truth(x);
}

static const sr_metric_desc *const metrics[] = {&sr_metric_error, NULL};

extern const sr_task_desc sr_task_brightness;
const sr_task_desc sr_task_brightness = {.struct_size = sizeof(sr_task_desc),
                                         .abi = SR_TASK_ABI,
                                         .name = "brightness",
                                         .help = "how bright pictures are",
                                         .transformer = "classify",
                                         .inputs = {[IMAGE] = {.name = "image"}},
                                         .sets = {{.name = ""}},
                                         .phases = {{.name = ""}},
                                         .record = record,
                                         .infer = infer,
                                         .outputs = {[PREDICTED] = "predicted", [TRUTH] = "truth"},
                                         .metrics = metrics,
                                         .best = "error",
                                         .fractions = "Error",
                                         .view = sr_eval_view_of};
