// SPDX-License-Identifier: Apache-2.0
// Classification with the loss of the recipe; top-1 and top-5 hits are counted.
//
// If the recipe mixes samples (mixup, CutMix), the loss of a sample is that for its mixed target,
// or the weighted sum of the losses for its own label and its partner's; hits in training count its
// own label only. A model's auxiliary outputs have losses of the same kind.
#include <math.h>
#include <stdio.h>

#include "graph/op.h"
#include "trainer/models/built_model.h"
#include "trainer/tasks/metric_topk.h"
#include "trainer/tasks/task.h"

#define LOGITS "logits"       // the model's output
#define MIX_SCOPE 0x6d780000u // models use numbers from set << 16 on

enum { IMAGE, LABEL };          // inputs
enum { HEIGHT = 1, WIDTH = 2 }; // dimensions of pictures

static sr_tensor images(const sr_lane_recording *r) {
    return sr_normalize(r->inputs[IMAGE], r->mean, r->std, r->dtype);
}

static sr_tensor infer_view(sr_lane_recording *r, sr_tensor x) {
    return sr_cast(sr_task_forward(r, 0, &x, LOGITS, r->training), SR_F32);
}

static sr_tensor infer_mirrored(sr_lane_recording *r, sr_tensor x) {
    const sr_tensor logits = infer_view(r, x);
    return r->flip ? sr_scale(sr_add(logits, infer_view(r, sr_flip(x, WIDTH))), 0.5, 0) : logits;
}

// The pixels of a padded picture from a row and column on.
static sr_tensor cut(sr_tensor padded, int from, int64_t height, int64_t width) {
    return sr_slice(sr_slice(padded, HEIGHT, from, height, 1), WIDTH, from, width, 1);
}

static void infer(sr_lane_recording *r) {
    const sr_tensor x = images(r);
    const int shift = r->shift;
    sr_info info;
    r->results[0] = infer_mirrored(r, x);
    if (shift == 0 || !sr_tensor_info(x, &info))
        return;
    const int64_t height = info.dim[HEIGHT], width = info.dim[WIDTH];
    const sr_tensor padded = sr_pad2d(
        x,
        (sr_pad2d_opts){
            .top = shift, .bottom = shift, .left = shift, .right = shift, .mode = SR_PAD_REFLECT});
    const sr_tensor down = infer_mirrored(r, cut(padded, 0, height, width)),
                    up = infer_mirrored(r, cut(padded, 2 * shift, height, width));
    r->results[0] = sr_scale(sr_add(r->results[0], sr_scale(sr_add(down, up), 0.5, 0)), 0.5, 0);
}

// Records the loss of the model's logits, of mixed samples or of those of the lane, and by their
// weights those of auxiliary outputs.
static void record_loss(sr_lane_recording *r, sr_tensor logits, const sr_mixed *mixed) {
    const sr_tensor labels = r->inputs[LABEL];
    r->loss = sr_task_loss(r, logits, labels, mixed, 1);
    for (int i = 0; i < r->outputs.count; i++) {
        const sr_output *o = &r->outputs.item[i];
        if (o->weight > 0)
            r->loss = sr_add(r->loss, sr_task_loss(r, o->tensor, labels, mixed, o->weight));
    }
}

static sr_mixed mix(sr_lane_recording *r) {
    sr_mix_opts opts = r->mix;
    opts.scope = MIX_SCOPE;
    return sr_mix_batch(images(r), r->inputs[LABEL], r->key, opts);
}

// [N,K]; a model for segmentation has those of each pixel.
static sr_tensor logits_of(sr_lane_recording *r, sr_tensor x) {
    const sr_tensor logits = sr_task_forward(r, 0, &x, LOGITS, r->training);
    sr_info info;
    if (!sr_tensor_info(logits, &info) || info.rank == 2)
        return logits;
    const sr_status status = SR_FAIL(SR_E_USAGE,
                                     "model %s classifies each pixel, but task classify the whole "
                                     "picture: give task=segment or another model",
                                     r->models[0]->desc->name);
    return sr_op_refused(status, "classify");
}

static sr_tensor record_mixed(sr_lane_recording *r) {
    sr_mixed mixed = mix(r);
    sr_tensor logits = logits_of(r, mixed.x);
    record_loss(r, logits, &mixed);
    return logits;
}

static sr_tensor record_plain(sr_lane_recording *r) {
    sr_tensor logits = logits_of(r, images(r));
    record_loss(r, logits, NULL);
    return logits;
}

static void record(sr_lane_recording *r) {
    const bool mixes = r->mix.mixup > 0 || r->mix.cutmix > 0;
    sr_tensor logits = mixes ? record_mixed(r) : record_plain(r);
    sr_info info;
    if (sr_tensor_info(logits, &info))
        r->classes = info.dim[info.rank - 1];
    r->scalars[0] = sr_topk_hits(logits, r->inputs[LABEL]);
}

// ---- Evaluation ----

enum { FIXED, BEST, WORST }; // rows

// The best of those that are right, and the worst, by their loss.
static void offer_sample(sr_examples *examples, const sr_prediction *p, bool right,
                         const sr_example *sample) {
    const double loss = isnan(p->loss) ? (double)INFINITY : p->loss;
    const double keys[] = {[FIXED] = 0, [BEST] = loss, [WORST] = -loss};
    for (int row = FIXED; row <= WORST; row++) {
        sr_example example = *sample;
        example.key = keys[row];
        if (row != BEST || right)
            sr_examples_offer(examples, row, &example);
    }
}

static sr_status offer(const sr_metric_samples *samples, const sr_metric_setting *setting,
                       sr_examples *examples) {
    const sr_slot *slot = samples->slot;
    const sr_array *image, *label;
    const sr_task_output *logits;
    SR_TRY(sr_slot_get(slot, "image", &image));
    SR_TRY(sr_slot_get(slot, "label", &label));
    SR_TRY(sr_task_outputs_get(samples->outputs, LOGITS, &logits));
    const int classes = (int)logits->info.dim[1];
    const int64_t pixels = image->shape[1] * image->shape[2] * 3;
    for (int64_t i = 0; i < slot->valid; i++) {
        const int32_t truth = ((const int32_t *)label->data)[i];
        char note[SR_EXAMPLE_TEXT];
        if (truth < 0)
            continue;
        const sr_prediction p =
            sr_topk_predict((const float *)logits->data + i * classes, classes, truth);
        const bool right = p.predicted == truth;
        (void)snprintf(note, sizeof note, "%.*f %% %.140s", p.probability < 0.0995,
                       100 * p.probability, setting->class_names[p.predicted]);
        const sr_example example = {.position = slot->first_position + i,
                                    .height = image->shape[1],
                                    .width = image->shape[2],
                                    .rgb = (const uint8_t *)image->data + i * pixels,
                                    .caption = setting->class_names[truth],
                                    .note = note,
                                    .verdict = right ? SR_VERDICT_RIGHT : SR_VERDICT_WRONG};
        offer_sample(examples, &p, right, &example);
    }
    return SR_OK;
}

static const sr_example_desc examples = {
    .what = "each above its class and its prediction",
    .rows = {[FIXED] = {.title = "the same samples after each evaluation", .fixed = true},
             [BEST] = {.title = "correct, with the lowest loss"},
             [WORST] = {.title = "the highest loss"}},
    .offer = offer};

static const sr_metric_desc *const metrics[] = {&sr_metric_topk, NULL};

extern const sr_task_desc sr_task_classify;
const sr_task_desc sr_task_classify = {
    .struct_size = sizeof(sr_task_desc),
    .abi = SR_TASK_ABI,
    .name = "classify",
    .help = "classes of pictures: a class for each",
    .transformer = "classify",
    .inputs = {[IMAGE] = {.name = "image"},
               [LABEL] = {.name = "label", .target = true, .is_class = true}},
    .sets = {{.name = ""}},
    .phases = {{.name = ""}},
    .uses_loss = true,
    .scalar_count = 1,
    .scalars = {{.name = "hits", .mean = {"top1", "top-1", SR_UNIT_FRACTION, SR_BETTER_HIGHER}}},
    .record = record,
    .mix = mix,
    .infer = infer,
    .outputs = {LOGITS},
    .metrics = metrics,
    .best = "top1",
    .fractions = "Accuracy",
    .examples = &examples,
    .view = sr_eval_view_of};
