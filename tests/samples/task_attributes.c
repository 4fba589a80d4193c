// SPDX-License-Identifier: Apache-2.0
// A custom task with its metric: several labels for each picture. Attribute k of a picture is bit k
// of the number of its class, so that any packed data set can be used; the model's first logits are
// those of the attributes. `task: {name: attributes, count: 3}`.
#include <math.h>
#include <serried.h>

#define LOGITS "logits"
enum { IMAGE, LABEL }; // inputs
enum { MOST = 8 };     // attributes

typedef struct options {
    int64_t count;
} options;

static const sr_option rows[] = {{.name = "count",
                                  .help = "attributes of a picture",
                                  .type = SR_OPT_INT,
                                  .offset = offsetof(options, count),
                                  .default_text = "3",
                                  .min = 1,
                                  .max = MOST}};
static const sr_option_table table = {
    .name = "task.attributes", .options = rows, .count = 1, .struct_size = sizeof(options)};

// ---- The lane program ----

static sr_tensor logits_of(sr_lane_recording *r) {
    const options *o = r->options;
    sr_tensor x = sr_normalize(r->inputs[IMAGE], r->mean, r->std, r->dtype);
    return sr_slice(sr_cast(sr_task_forward(r, 0, &x, LOGITS, r->training), SR_F32), 1, 0, o->count,
                    1);
}

// The bits of labels [N] as [N,count]: one-hot vectors times a table of all classes' bits.
static sr_tensor targets_of(const sr_lane_recording *r, int64_t count) {
    enum { CLASSES = 1 << MOST };
    static float bits[CLASSES * MOST];
    const sr_info info = {.dtype = SR_F32, .rank = 2, .dim = {CLASSES, count}};
    for (int64_t i = 0; i < CLASSES * count; i++)
        bits[i] = (float)(i / count >> i % count & 1);
    return sr_matmul(sr_one_hot(r->inputs[LABEL], CLASSES, SR_F32),
                     sr_constant(r->context, &info, bits), (sr_matmul_opts){0});
}

// The loss of a sample is the sum of those of its attributes.
static void record(sr_lane_recording *r) {
    static const float ones[MOST] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t count = ((const options *)r->options)->count;
    const sr_info column = {.dtype = SR_F32, .rank = 2, .dim = {count, 1}};
    sr_tensor losses = sr_loss_bce(logits_of(r), targets_of(r, count), 1);
    sr_tensor sums = sr_matmul(losses, sr_constant(r->context, &column, ones), (sr_matmul_opts){0});
    sr_info info;
    if (sr_tensor_info(sums, &info))
        r->loss = sr_reshape(sums, 1, info.dim);
}

static void infer(sr_lane_recording *r) {
    r->results[0] = logits_of(r);
}

// ---- The metric: F1 over all attributes of all samples ----

enum { HITS, PREDICTED, PRESENT, COUNTS };

typedef struct f1_state {
    int64_t counts[COUNTS]; // exact in any order
} f1_state;

static sr_status add(void *state, const sr_metric_samples *samples, sr_text *bytes) {
    f1_state *s = state;
    const sr_task_output *logits;
    const sr_array *label;
    sr_metric_result block = {0}; // of its samples; without values
    SR_TRY(sr_task_outputs_get(samples->outputs, LOGITS, &logits));
    SR_TRY(sr_slot_get(samples->slot, "label", &label));
    const int64_t count = logits->info.dim[1];
    const float *x = logits->data;
    for (int64_t i = 0; i < samples->slot->valid; i++, x += count) {
        const int32_t number = ((const int32_t *)label->data)[i];
        bool finite = true;
        for (int64_t k = 0; k < count && number >= 0; k++) {
            const bool predicted = x[k] > 0, present = number >> k & 1;
            s->counts[HITS] += predicted && present;
            s->counts[PREDICTED] += predicted;
            s->counts[PRESENT] += present;
            finite = finite && isfinite(x[k]);
        }
        block.samples += number >= 0;
        if (!finite && block.not_finite++ == 0)
            block.first_not_finite = samples->slot->first_position + i;
    }
    sr_text_add_bytes(bytes, &block, sizeof block);
    return sr_text_check(bytes);
}

static int64_t *counts(void *state, size_t *count) {
    *count = COUNTS;
    return ((f1_state *)state)->counts;
}

static sr_status result(void *state, const sr_metric_blocks *blocks, sr_metric_result *out) {
    const int64_t *n = ((f1_state *)state)->counts;
    for (int64_t i = 0; i < blocks->count; i++) {
        const sr_metric_result *block = blocks->data[i];
        out->samples += block->samples;
        if (out->not_finite == 0)
            out->first_not_finite = block->first_not_finite;
        out->not_finite += block->not_finite;
    }
    out->values[0] = 2 * (double)n[HITS] / (double)(n[PREDICTED] + n[PRESENT]);
    return SR_OK;
}

static const sr_column columns[] = {{"f1", "F1", SR_UNIT_FRACTION, SR_BETTER_HIGHER}};
static const sr_metric_desc f1 = {.struct_size = sizeof f1,
                                  .abi = SR_METRIC_ABI,
                                  .name = "f1",
                                  .columns = columns,
                                  .column_count = 1,
                                  .state_size = sizeof(f1_state),
                                  .add = add,
                                  .counts = counts,
                                  .result = result};
static const sr_metric_desc *const metrics[] = {&f1, NULL};

static const sr_task_desc task = {
    .struct_size = sizeof task,
    .abi = SR_TASK_ABI,
    .name = "attributes",
    .help = "several attributes of each picture",
    .options = &table,
    .transformer = "classify",
    .inputs = {[IMAGE] = {.name = "image"}, [LABEL] = {.name = "label", .target = true}},
    .sets = {{.name = ""}},
    .phases = {{.name = ""}},
    .record = record,
    .infer = infer,
    .outputs = {LOGITS},
    .view = sr_eval_view_of,
    .metrics = metrics,
    .best = "f1",
    .fractions = "F1"};
static const sr_task_desc *const tasks[] = {&task, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "attributes", .tasks = tasks};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
