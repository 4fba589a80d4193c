// SPDX-License-Identifier: Apache-2.0
// Semantic segmentation: the class of each pixel, with the loss of the recipe. Models give logits
// as maps of any size, which are resized bilinearly (align_corners false): in training to the size
// of the pictures, in inference to that of the picture as it is stored.
//
// Inference takes each picture whole, or windows of it whose logits are averaged, and averages the
// probabilities of several scales and of mirror images, as mmsegmentation does.
#include <math.h>
#include <stdio.h>

#include "dataio/image/canvas.h"
#include "dataio/image/mask_png.h"
#include "kernels/base/text.h"
#include "trainer/draw/palette.h"
#include "trainer/tasks/metric_iou.h"
#include "trainer/tasks/segment_views.h"
#include "trainer/tasks/task.h"

enum { IMAGE, MASK };     // inputs
enum { MAIN, AUXILIARY }; // scalars
enum { CLASSES, MEAN };   // outputs

// ---- Options ----

enum { STORED, INPUT }; // sizes at which pixels are counted

typedef struct segment_options {
    int measure;
    sr_segment_views views;
} segment_options;

static const char *const measures[] = {[STORED] = "stored", [INPUT] = "input", NULL};

static const sr_option rows[] = {
    {.name = "measure",
     .help = "pixels that an evaluation counts: those of the masks as they are stored, or of masks "
             "resized with their pictures",
     .type = SR_OPT_ENUM,
     .offset = offsetof(segment_options, measure),
     .default_text = "stored",
     .choices = measures,
     .option_class = SR_OPTION_NEUTRAL},
    {.name = "window",
     .help = "side of the windows in which pictures are evaluated, or [height, width]; 0: whole",
     .type = SR_OPT_INTS,
     .offset = offsetof(segment_options, views.window),
     .default_text = "0",
     .max = 65536,
     .option_class = SR_OPTION_NEUTRAL},
    {.name = "stride",
     .help = "pixels from one window to the next, or [down, right]; 0: two thirds of the window",
     .type = SR_OPT_INTS,
     .offset = offsetof(segment_options, views.stride),
     .default_text = "0",
     .max = 65536,
     .option_class = SR_OPTION_NEUTRAL},
    {.name = "scales",
     .help = "factors of the sizes in which a picture is evaluated, whose results are averaged",
     .type = SR_OPT_FLOATS,
     .offset = offsetof(segment_options, views.scales),
     .default_text = "1",
     .min = 0.05,
     .max = 20,
     .option_class = SR_OPTION_NEUTRAL},
};

static const sr_option_table table = {.name = "task.segment",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(segment_options)};

// ---- Training ----

static sr_tensor images(const sr_lane_recording *r) {
    return sr_normalize(r->inputs[IMAGE], r->mean, r->std, r->dtype);
}

// i32 [N,H,W]: -1 where the mask has no class.
static sr_tensor labels_of(const sr_lane_recording *r) {
    const sr_tensor mask = sr_cast(r->inputs[MASK], SR_F32);
    const sr_tensor zero = sr_scale(mask, 0, 0);
    const sr_tensor ignored = sr_equal(mask, sr_scale(zero, 1, SR_MASK_IGNORE));
    return sr_cast(sr_where(ignored, sr_scale(zero, 1, -1), mask), SR_I32);
}

// Of a map of logits, times the weight.
static sr_tensor loss_of(sr_lane_recording *r, sr_tensor logits, sr_tensor labels, double weight) {
    return sr_task_loss(r, sr_segment_resize(logits, r->height, r->width), labels, NULL, weight);
}

static void record(sr_lane_recording *r) {
    const sr_tensor x = images(r), labels = labels_of(r);
    const sr_tensor logits = sr_segment_logits(r, x);
    sr_tensor auxiliary = SR_NONE;
    sr_info info;
    if (sr_tensor_info(logits, &info))
        r->classes = info.dim[info.rank - 1];
    for (int i = 0; i < r->outputs.count; i++) {
        const sr_output *o = &r->outputs.item[i];
        if (!(o->weight > 0))
            continue;
        const sr_tensor loss = loss_of(r, o->tensor, labels, o->weight);
        auxiliary = sr_is_none(auxiliary) ? loss : sr_add(auxiliary, loss);
    }
    const sr_tensor loss = loss_of(r, logits, labels, 1);
    if (sr_is_none(auxiliary))
        auxiliary = sr_scale(loss, 0, 0);
    sr_task_add_loss(r, loss, 1, MAIN);
    sr_task_add_loss(r, auxiliary, 1, AUXILIARY);
}

// ---- Inference ----

static void infer(sr_lane_recording *r) {
    const segment_options *o = r->options;
    const sr_segment_map map = sr_segment_infer(r, images(r), &o->views);
    r->results[CLASSES] = sr_cast(sr_argmax(map.values, 3, false), SR_U8);
    r->results[MEAN] = map.mean;
}

static void view(const sr_recipe *recipe, const void *options, sr_eval_view *out) {
    sr_eval_view_whole(recipe, out);
    out->mask_follows = ((const segment_options *)options)->measure == INPUT;
}

// ---- Examples ----

enum { PREDICTED, LABELLED, WORST }; // rows

// Share of the pixels with a class that are right; NaN without any.
static double accuracy(const uint8_t *mask, const uint8_t *classes, int64_t pixels) {
    int64_t right = 0, all = 0;
    for (int64_t i = 0; i < pixels; i++) {
        all += mask[i] != SR_MASK_IGNORE;
        right += mask[i] != SR_MASK_IGNORE && mask[i] == classes[i];
    }
    return all > 0 ? (double)right / (double)all : (double)NAN;
}

static sr_status offer(const sr_metric_samples *samples, const sr_metric_setting *setting,
                       sr_examples *examples) {
    const sr_slot *slot = samples->slot;
    const sr_array *image, *mask;
    const sr_task_output *classes;
    (void)setting;
    SR_TRY(sr_slot_get(slot, "image", &image));
    SR_TRY(sr_slot_get(slot, "mask", &mask));
    SR_TRY(sr_task_outputs_get(samples->outputs, "classes", &classes));
    const int64_t pixels = mask->shape[1] * mask->shape[2];
    for (int64_t i = 0; i < slot->valid; i++) {
        const uint8_t *truth = (const uint8_t *)mask->data + i * pixels;
        const uint8_t *found = (const uint8_t *)classes->data + i * pixels;
        const double right = accuracy(truth, found, pixels);
        char note[SR_EXAMPLE_TEXT];
        if (isnan(right))
            continue;
        (void)snprintf(note, sizeof note, "%.1f %% of pixels", 100 * right);
        for (int row = PREDICTED; row <= WORST; row++) {
            const sr_example example = {.position = slot->first_position + i,
                                        .key = right,
                                        .height = image->shape[1],
                                        .width = image->shape[2],
                                        .rgb = (const uint8_t *)image->data +
                                               i * image->shape[1] * image->shape[2] * 3,
                                        .mask_height = mask->shape[1],
                                        .mask_width = mask->shape[2],
                                        .mask = row == LABELLED ? truth : found,
                                        .note = row == LABELLED ? NULL : note};
            sr_examples_offer(examples, row, &example);
        }
    }
    return SR_OK;
}

static const sr_example_desc examples = {
    .what = "with the classes of their pixels",
    .rows = {[PREDICTED] = {.title = "the same pictures after each evaluation: predicted",
                            .fixed = true},
             [LABELLED] = {.title = "their masks", .fixed = true},
             [WORST] = {.title = "the fewest pixels right: predicted"}},
    .offer = offer};

// ---- Predictions ----

// Classes by their pixels, most first; of equal ones the lower number first. Returns how many there
// are.
static int order_classes(const int64_t *pixels, int classes, int order[SR_MASK_IGNORE + 1]) {
    int count = 0;
    for (int c = 0; c < classes; c++) {
        int at = count;
        if (pixels[c] == 0)
            continue;
        for (; at > 0 && pixels[c] > pixels[order[at - 1]]; at--)
            order[at] = order[at - 1];
        order[at] = c;
        count++;
    }
    return count;
}

static void add_class(const char *name, double share, bool json, bool first, sr_text *out) {
    if (!json) {
        sr_text_add(out, "%s%s:%.4f", first ? "" : " ", name, share);
        return;
    }
    sr_text_add(out, "%s{\"class\": ", first ? "" : ", ");
    sr_text_add_json_string(out, name);
    sr_text_add(out, ", \"share\": %.6f}", share);
}

// The classes with most pixels, and their shares.
static sr_status describe(const sr_metric_samples *picture, const sr_metric_setting *setting,
                          int top, bool json, sr_text *out) {
    const sr_task_output *classes, *mean;
    int64_t pixels[SR_MASK_IGNORE + 1] = {0};
    int order[SR_MASK_IGNORE + 1];
    sr_text list;
    SR_TRY(sr_task_outputs_get(picture->outputs, "classes", &classes));
    SR_TRY(sr_task_outputs_get(picture->outputs, "mean", &mean));
    if (!isfinite(((const float *)mean->data)[0]))
        return SR_FAIL(SR_E_NON_FINITE, "the model's result is not finite");
    const int64_t all = sr_info_count(&classes->info);
    for (int64_t i = 0; i < all; i++)
        pixels[((const uint8_t *)classes->data)[i]]++;
    const int count = order_classes(pixels, setting->classes, order);
    sr_text_init(&list);
    for (int k = 0; k < count && k < top; k++)
        add_class(setting->class_names[order[k]], (double)pixels[order[k]] / (double)all, json,
                  k == 0, &list);
    if (json) {
        sr_text_add(out, ", \"classes\": [%s]", list.data);
    } else {
        sr_text_add(out, ",");
        sr_text_add_csv_cell(out, list.data);
    }
    const sr_status status = sr_text_check(&list);
    sr_text_release(&list);
    return status;
}

static sr_status write(const sr_metric_samples *picture, const sr_metric_setting *setting,
                       const char *path) {
    const sr_task_output *classes;
    uint32_t colors[SR_MASK_IGNORE + 1];
    SR_TRY(sr_task_outputs_get(picture->outputs, "classes", &classes));
    for (int c = 0; c < setting->classes && c <= SR_MASK_IGNORE; c++)
        colors[c] = sr_color_class(c);
    return sr_mask_png_write(classes->data, classes->info.dim[2], classes->info.dim[1], colors,
                             setting->classes, path);
}

static const sr_task_prediction prediction = {
    .columns = "classes", .describe = describe, .write = write, .suffix = ".png"};

static const sr_metric_desc *const metrics[] = {&sr_metric_iou, NULL};

extern const sr_task_desc sr_task_segment;
const sr_task_desc sr_task_segment = {
    .struct_size = sizeof(sr_task_desc),
    .abi = SR_TASK_ABI,
    .name = "segment",
    .help = "semantic segmentation: a class for each pixel",
    .options = &table,
    .transformer = "segment",
    .inputs =
        {[IMAGE] = {.name = "image"},
         [MASK] = {.name = "mask", .target = true, .is_class = true, .ignored = SR_MASK_IGNORE}},
    .sets = {{.name = ""}},
    .phases = {{.name = ""}},
    .uses_loss = true,
    .maps = true,
    .scalar_count = 2,
    .scalars = {[MAIN] = {.name = "main",
                          .mean = {"loss_main", "main loss", SR_UNIT_LOSS, SR_BETTER_LOWER}},
                [AUXILIARY] = {.name = "auxiliary",
                               .mean = {"loss_auxiliary", "auxiliary loss", SR_UNIT_LOSS,
                                        SR_BETTER_LOWER}}},
    .record = record,
    .infer = infer,
    .outputs = {[CLASSES] = "classes", [MEAN] = "mean"},
    .metrics = metrics,
    .best = "mIoU",
    .fractions = "mIoU and accuracy",
    .examples = &examples,
    .prediction = &prediction,
    .whole_pictures = true,
    .view = view};
