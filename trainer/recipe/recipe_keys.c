// SPDX-License-Identifier: Apache-2.0
// The keys that a recipe itself reads: one row each, for parsing, printing, identity and listings.
//
// `numerics` rows are part of a run's identity, `neutral` ones never change a bit of a result. The
// options of a model, loss, optimiser, schedule or transform are in the table of its descriptor.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "dataio/transforms/transform.h"
#include "trainer/recipe/recipe_internal.h"

static const char *const precisions[] = {"fp32", "bf16", "fp16", NULL};
static const char *const residents[] = {"auto", "always", "never", NULL};
static const char *const recomputes[] = {"auto", "always", "never", NULL};
static const char *const choosers[] = {"on", "off", "class", NULL};
static const char *const orders[] = {"sequential", "examples", "chunks", NULL};

#define AT(field) offsetof(sr_recipe_values, field)
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NEUTRAL SR_OPTION_NEUTRAL
#define NUMERICS SR_OPTION_NUMERICS
#define MANY 9.0e15         // below 2^53: exact where a YAML reader stores numbers as doubles
#define MANY_BYTES 0x1.0p53 // the same, in bytes

static const sr_option recipe_options[] = {
    {"about", "one line that says what the recipe is for", SR_OPT_STRING, AT(recipe.about), NULL, 0,
     0, NULL, NEUTRAL},
    {"weights_reset",
     "tensors to initialise instead of loading them from the file: names, or prefixes of names up "
     "to a dot",
     SR_OPT_STRINGS, AT(recipe.weights_reset), NULL, 0, 0, NULL, NUMERICS},
    {"data.train", "packed data set to train on", SR_OPT_STRING, AT(recipe.data.train), NULL, 0, 0,
     NULL, NEUTRAL},
    {"data.val", "packed data set to evaluate on (default: the val split of data.train)",
     SR_OPT_STRING, AT(recipe.data.val), NULL, 0, 0, NULL, NEUTRAL},
    {"data.order",
     "order of training samples: sequential: as stored, in every epoch; examples: a "
     "new permutation every epoch; chunks: a new permutation of chunks that are read "
     "whole, with a shuffle buffer for each lane",
     SR_OPT_ENUM, AT(recipe.data.order), "examples", 0, 0, orders, NUMERICS},
    {"data.repeats",
     "copies of each sample in a batch, each in another lane and with its own augmentation; an "
     "epoch has as many samples as without (Hoffer et al. 2020)",
     SR_OPT_INT, AT(recipe.data.repeats), "1", 1, 64, NULL, NUMERICS},
    {"data.balance",
     "draw samples with replacement, from a class of n samples in proportion to n^(1 - balance); "
     "1: all classes equally often; 0: no draw, every sample once per epoch",
     SR_OPT_FLOAT, AT(recipe.data.balance), "0", 0, 1, NULL, NUMERICS},
    {"data.mean", "mean of each channel, of pixels scaled to 0..1", SR_OPT_FLOATS,
     AT(recipe.data.mean), "[0.485, 0.456, 0.406]", -10, 10, NULL, NUMERICS},
    {"data.std", "standard deviation of each channel, of pixels scaled to 0..1", SR_OPT_FLOATS,
     AT(recipe.data.std), "[0.229, 0.224, 0.225]", 1e-6, 10, NULL, NUMERICS},
    {"data.workers", "decoding processes per rank (0: one per core)", SR_OPT_INT,
     AT(recipe.data.workers), "0", 0, 1024, NULL, NEUTRAL},
    {"data.processes",
     "run the stages of the data pipeline as processes (1) or, for debugging, as threads (0)",
     SR_OPT_INT, AT(raw_processes), "1", 0, 1, NULL, NEUTRAL},
    {"data.memory", "memory of the data pipeline per rank (0: 256 MiB)", SR_OPT_SIZE,
     AT(recipe.data.memory), "0", 0, MANY_BYTES, NULL, NEUTRAL},
    {"data.resident",
     "keep the training pictures in the device's memory, where all of them have the image's size "
     "and augmentation only crops, mirrors or pads; auto: on GPUs, if they take at most a 16th of "
     "it. It changes no bit",
     SR_OPT_ENUM, AT(recipe.data.resident), "auto", 0, 0, residents, NEUTRAL},
    {"data.boxes_per_sample", "most boxes of a picture, where a task reads boxes", SR_OPT_INT,
     AT(recipe.data.boxes_per_sample), "64", 1, 65536, NULL, NEUTRAL},
    {"data.on_corrupt", "what to do with a damaged sample: stop, or skip:N to skip up to N samples",
     SR_OPT_STRING, AT(raw_on_corrupt), "stop", 0, 0, NULL, NEUTRAL},
    {"image", "side of training images, or [height, width]", SR_OPT_INTS, AT(raw_image), "224", 1,
     65536, NULL, NUMERICS},
    {"progressive.from",
     "side of square training images at the start, from which it grows to 'image' (0: it does not "
     "grow)",
     SR_OPT_INT, AT(recipe.progressive.from), "0", 0, 65536, NULL, NUMERICS},
    {"progressive.step", "sides are 'from' plus a multiple of this", SR_OPT_INT,
     AT(recipe.progressive.step), "32", 1, 65536, NULL, NUMERICS},
    {"progressive.begin", "length of training after which images start to grow", SR_OPT_LENGTH,
     AT(recipe.progressive.begin), "0it", 0, MANY, NULL, NUMERICS},
    {"progressive.end", "length of training after which images have their full size", SR_OPT_LENGTH,
     AT(recipe.progressive.end), "100%", 0, MANY, NULL, NUMERICS},
    {"batch", "samples per step, over all ranks", SR_OPT_INT, AT(recipe.batch), "256", 1, 1 << 24,
     NULL, NUMERICS},
    {"lanes",
     "equal shares of a batch, each with its own BatchNorm statistics; results depend on it, and "
     "it "
     "limits the number of ranks (default: a power of two, with 32 samples or more in each)",
     SR_OPT_INT, AT(recipe.lanes), NULL, 1, 65536, NULL, NUMERICS},
    {"sync_bn",
     "lanes that share the BatchNorm statistics of their samples: a number that divides lanes, or "
     "all; so many lanes are computed side by side",
     SR_OPT_STRING, AT(raw_sync_bn), "1", 0, 0, NULL, NUMERICS},
    {"lanes_at_once",
     "lanes that a GPU computes side by side, at most; a rank takes a number that divides its "
     "lanes (0: as many as memory has room for)",
     SR_OPT_INT, AT(recipe.lanes_at_once), "0", 0, 256, NULL, NEUTRAL},
    {"recompute",
     "recompute cheap values in the backward pass instead of keeping them, which takes less memory "
     "and more time: auto: on CPUs, and on a GPU whose memory would not suffice",
     SR_OPT_ENUM, AT(recipe.recompute), "auto", 0, 0, recomputes, NEUTRAL},
    {"epochs", "length of training, in passes over the data; this or steps is required",
     SR_OPT_FLOAT, AT(recipe.epochs), NULL, 1e-9, 1e9, NULL, NUMERICS},
    {"steps", "length of training in steps, instead of epochs", SR_OPT_INT, AT(recipe.steps), NULL,
     1, MANY, NULL, NUMERICS},
    {"seed", "seed of all random numbers", SR_OPT_INT, AT(recipe.seed), "0", 0, MANY, NULL,
     NUMERICS},
    {"precision", "precision of activations and their gradients", SR_OPT_ENUM, AT(recipe.precision),
     "fp32", 0, 0, precisions, NUMERICS},
    {"loss_scale.initial",
     "with precision fp16: loss scale at the start, which keeps small gradients from underflowing "
     "to zero; it is halved when gradients overflow, and that step is skipped",
     SR_OPT_FLOAT, AT(recipe.loss_scale.initial), "65536", 0x1p-16, 0x1p24, NULL, NUMERICS},
    {"loss_scale.every", "steps without overflow after which the loss scale is doubled (0: never)",
     SR_OPT_INT, AT(recipe.loss_scale.every), "2000", 0, MANY, NULL, NUMERICS},
    {"numerics.portable",
     "compute the same bits on every processor, with slower kernels; ranks may then run on "
     "different processors",
     SR_OPT_BOOL, AT(recipe.numerics_portable), "false", 0, 0, NULL, NUMERICS},
    {"numerics.strict",
     "stop if hosts differ in processor features, instead of using the common ones", SR_OPT_BOOL,
     AT(recipe.numerics_strict), "false", 0, 0, NULL, NEUTRAL},
    {"numerics.tf32",
     "with precision fp32, let GPUs round the factors of products to TF32 (10 bits behind the "
     "point), for their tensor cores; processors do not",
     SR_OPT_BOOL, AT(recipe.numerics_tf32), "false", 0, 0, NULL, NUMERICS},
    {"device", "auto, or a device of 'serried info devices'", SR_OPT_STRING, AT(recipe.device),
     "auto", 0, 0, NULL, NEUTRAL},
    {"mix.mixup",
     "alpha of mixup: training samples are blended with a weight drawn from Beta(alpha, alpha); 0: "
     "no mixup",
     SR_OPT_FLOAT, AT(recipe.mix.mixup), "0", 0, 1000, NULL, NUMERICS},
    {"mix.cutmix",
     "alpha of CutMix: a box of another sample is pasted in; 0: no CutMix; if mixup is also on, "
     "each is used half of the time",
     SR_OPT_FLOAT, AT(recipe.mix.cutmix), "0", 0, 1000, NULL, NUMERICS},
    {"mix.probability", "probability that a lane's samples are mixed in a step", SR_OPT_FLOAT,
     AT(recipe.mix.probability), "1", 0, 1, NULL, NUMERICS},
    {"mix.until", "length of training after which mixing stops; 0: never", SR_OPT_LENGTH,
     AT(recipe.mix.until), "0it", 0, MANY, NULL, NUMERICS},
    {"eval.resize",
     "shorter side before the evaluation crop, or [height, width], which ignores the aspect ratio "
     "(default: 8/7 of the crop; up to 64 pixels the crop); 0: as pictures are, if the task "
     "evaluates whole ones, which is its default",
     SR_OPT_INTS, AT(raw_resize), NULL, 0, 65536, NULL, NEUTRAL},
    {"eval.crop",
     "side of the evaluation crop, or [height, width] (default: image); 0: none, the only choice "
     "of tasks that evaluate whole pictures",
     SR_OPT_INTS, AT(raw_crop), NULL, 0, 65536, NULL, NEUTRAL},
    {"eval.filter",
     "interpolation of evaluation's resizing: bilinear and bicubic are antialiased; fast "
     "interpolates between the nearest pixels",
     SR_OPT_ENUM, AT(recipe.eval.filter), "bilinear", 0, 0, sr_resize_filter_names, NEUTRAL},
    {"eval.exact",
     "decode JPEGs at full size in evaluation, even where a scaled decode would be enough",
     SR_OPT_BOOL, AT(recipe.eval.exact), "false", 0, 0, NULL, NEUTRAL},
    {"eval.batch", "samples per evaluation step (default: batch)", SR_OPT_INT,
     AT(recipe.eval.batch), NULL, 1, 1 << 24, NULL, NEUTRAL},
    {"eval.every", "epochs from one evaluation to the next; there is one at the end in any case",
     SR_OPT_INT, AT(recipe.eval.every), "1", 1, MANY, NULL, NEUTRAL},
    {"eval.flip", "average the results of each image and its mirror image", SR_OPT_BOOL,
     AT(recipe.eval.flip), "false", 0, 0, NULL, NEUTRAL},
    {"eval.shift",
     "for classes of pictures: average the results of each image with those of two copies that are "
     "moved by this many pixels, up and left, and down and right, with mirrored borders; the image "
     "itself counts half (0: no copies)",
     SR_OPT_INT, AT(recipe.eval.shift), "0", 0, 64, NULL, NEUTRAL},
    {"ema.decay", "decay of the moving average of the parameters (0: no average)", SR_OPT_FLOAT,
     AT(recipe.ema.decay), "0", 0, 1, NULL, NUMERICS},
    {"ema.every", "steps between updates of the average", SR_OPT_INT, AT(recipe.ema.every), "1", 1,
     1000000, NULL, NUMERICS},
    {"ema.warmup", "length of training over which the decay rises from 1/10 to its value",
     SR_OPT_LENGTH, AT(recipe.ema.warmup), "0it", 0, MANY, NULL, NUMERICS},
    {"ema.lookahead",
     "set the parameters to the average at each update; the decay grows with the cube of the run's "
     "progress",
     SR_OPT_BOOL, AT(recipe.ema.lookahead), "false", 0, 0, NULL, NUMERICS},
    {"ema.buffers",
     "also average the running statistics, as timm and torchvision do; false: use those of the "
     "last step",
     SR_OPT_BOOL, AT(recipe.ema.buffers), "true", 0, 0, NULL, NUMERICS},
    {"ema.sets", "parameter sets that have an average (default: the one that the task infers with)",
     SR_OPT_STRINGS, AT(recipe.ema.sets), NULL, 0, 0, NULL, NUMERICS},
    {"exchange.bucket", "bytes of gradients sent at once (0: 4 MiB)", SR_OPT_SIZE,
     AT(recipe.exchange.bucket), "0", 0, 1 << 30, NULL, NEUTRAL},
    {"checkpoint.every",
     "intervals between checkpoints, by progress and by time; each new best evaluation also writes "
     "one",
     SR_OPT_STRINGS, AT(raw_every), "[1ep, 10min]", 0, 0, NULL, NEUTRAL},
    {"checkpoint.keep", "number of checkpoints to keep", SR_OPT_INT, AT(recipe.checkpoint.keep),
     "2", 1, 1000000, NULL, NEUTRAL},
    {"checkpoint.metric",
     "metric that selects the best checkpoint: val/top1, val/top5 or val/loss (default: val/top1)",
     SR_OPT_STRING, AT(recipe.checkpoint.metric), NULL, 0, 0, NULL, NEUTRAL},
    {"stop.metric", "metric of stop.patience (default: that of checkpoint.metric)", SR_OPT_STRING,
     AT(recipe.stop.metric), NULL, 0, 0, NULL, NEUTRAL},
    {"stop.patience",
     "evaluations in a row without a better value of stop.metric after which the run ends (0: it "
     "has its full length)",
     SR_OPT_INT, AT(recipe.stop.patience), "0", 0, MANY, NULL, NEUTRAL},
    {"chooser",
     "on: time kernels that give the same bits and use the fastest; off: time nothing (class: old "
     "name of on)",
     SR_OPT_ENUM, AT(recipe.chooser), "on", 0, 0, choosers, NEUTRAL},
    {"chooser_workspace", "maximum workspace of a chosen kernel", SR_OPT_SIZE,
     AT(recipe.chooser_workspace), "256MiB", 1, MANY_BYTES, NULL, NEUTRAL},
    {"deadline.report",
     "a wait longer than this is reported, with what is being waited for; at most half of "
     "deadline.act",
     SR_OPT_DURATION, AT(recipe.deadline_report), "10s", 0.01, 1e6, NULL, NEUTRAL},
    {"deadline.act", "a wait longer than this ends the job", SR_OPT_DURATION,
     AT(recipe.deadline_act), "120s", 0.01, 1e6, NULL, NEUTRAL},
    {"plugins",
     "shared libraries with models, losses, transforms, operators, optimizers, schedules or tasks",
     SR_OPT_STRINGS, AT(recipe.plugins), NULL, 0, 0, NULL, NEUTRAL},
    {"debug.nan",
     "stop at the first value that is not finite and name the operator, layer and tensor; slow",
     SR_OPT_BOOL, AT(recipe.debug_nan), "false", 0, 0, NULL, NEUTRAL},
    {"profile", "steps to trace into trace.json, such as 20:30, which excludes step 30",
     SR_OPT_STRING, AT(raw_profile), NULL, 0, 0, NULL, NEUTRAL},
};

static const sr_option optimizer_options[] = {
    {"lr", "learning rate, absolute or for a batch of lr_per samples; required", SR_OPT_FLOAT,
     offsetof(sr_recipe_optimizer, lr_given), NULL, 0, 1e6, NULL, NUMERICS},
    // Neutral: the identity contains the absolute rate, through 'lr'.
    {"lr_per", "batch that lr is meant for, such as 256; 0: lr is absolute", SR_OPT_FLOAT,
     offsetof(sr_recipe_optimizer, lr_per), "0", 0, 1e9, NULL, NEUTRAL},
    {"weight_decay", "weight decay of every parameter, scaled by decay_scale of its group",
     SR_OPT_FLOAT, offsetof(sr_recipe_optimizer, weight_decay), "0", 0, 1e6, NULL, NUMERICS},
    {"clip_norm", "largest Euclidean norm of all gradients together (0: no limit)", SR_OPT_FLOAT,
     offsetof(sr_recipe_optimizer, clip_norm), "0", 0, 1e30, NULL, NUMERICS},
    {"clip_value", "largest absolute value of a gradient (0: no limit)", SR_OPT_FLOAT,
     offsetof(sr_recipe_optimizer, clip_value), "0", 0, 1e30, NULL, NUMERICS},
    {"no_decay",
     "parameters without weight decay: kinds, such as [bias, norm, embedding, scale], or names as "
     "in "
     "groups",
     SR_OPT_STRINGS, offsetof(sr_recipe_optimizer, no_decay), NULL, 0, 0, NULL, NUMERICS},
    {"layer_decay",
     "factor of the learning rate from each layer to the one before it; the last has the full rate",
     SR_OPT_FLOAT, offsetof(sr_recipe_optimizer, layer_decay), "1", 0, 1, NULL, NUMERICS},
};

static const sr_option schedule_options[] = {
    {"warmup", "length of the linear rise to the learning rate, such as 5ep", SR_OPT_LENGTH,
     offsetof(sr_recipe_schedule, warmup), "0it", 0, MANY, NULL, NUMERICS},
    {"warmup_start", "factor of the learning rate at the start of the warm-up", SR_OPT_FLOAT,
     offsetof(sr_recipe_schedule, warmup_start), "0", 0, 1, NULL, NUMERICS},
};

static const sr_option group_options[] = {
    {"match",
     "tensor names, prefixes of names up to a dot such as layer1, shell patterns, or the kinds "
     "bias, norm, embedding and scale",
     SR_OPT_STRINGS, offsetof(sr_recipe_group, match), NULL, 0, 0, NULL, NUMERICS},
    {"lr_scale", "factor of the learning rate", SR_OPT_FLOAT, offsetof(sr_recipe_group, lr_scale),
     "1", 0, 1e6, NULL, NUMERICS},
    {"decay_scale", "factor of the weight decay", SR_OPT_FLOAT,
     offsetof(sr_recipe_group, decay_scale), "1", 0, 1e6, NULL, NUMERICS},
    {"until", "length of training after which the parameters are frozen; 0: never", SR_OPT_LENGTH,
     offsetof(sr_recipe_group, until), "0it", 0, MANY, NULL, NUMERICS},
    {"elementwise",
     "with muon: update these weights as parameters that are no matrices, as is usual for the "
     "first and the last layer",
     SR_OPT_BOOL, offsetof(sr_recipe_group, elementwise), "false", 0, 0, NULL, NUMERICS},
    {"frozen", "do not update these parameters", SR_OPT_BOOL, offsetof(sr_recipe_group, frozen),
     "false", 0, 0, NULL, NUMERICS},
};

static const sr_option phase_options[] = {
    {"set", "parameter set that the phase trains (default: the set of the phase's own name)",
     SR_OPT_STRING, offsetof(sr_recipe_phase, set_name), NULL, 0, 0, NULL, NUMERICS},
    {"every",
     "the phase runs in steps whose number, from 0, is a multiple of this (default: as the task "
     "says, which is 1 for most)",
     SR_OPT_INT, offsetof(sr_recipe_phase, every), NULL, 1, MANY, NULL, NUMERICS},
};

static const sr_option loss_options[] = {
    {"weight", "factor of the loss in the sum of those of the list", SR_OPT_FLOAT,
     offsetof(sr_recipe_loss, weight), "1", 1e-6, 1e6, NULL, NUMERICS},
    {"as",
     "name by which the loss is logged; needed where the list has two of one name (default: name)",
     SR_OPT_STRING, offsetof(sr_recipe_loss, name), NULL, 0, 0, NULL, NEUTRAL},
};

static const sr_option transform_options[] = {
    {"from", "length of training after which the transform is first applied", SR_OPT_LENGTH,
     offsetof(sr_recipe_span, from), "0it", 0, MANY, NULL, NUMERICS},
    {"until",
     "length of training after which the transform is no longer applied; 0: applied to the end",
     SR_OPT_LENGTH, offsetof(sr_recipe_span, until), "0it", 0, MANY, NULL, NUMERICS},
};

static const sr_recipe_section recipe_sections[] = {
    {"base", "recipe, or list of recipes", NULL,
     "what this recipe is based on; looked up in the file's folder, then among the shipped recipes",
     NEUTRAL},
    {"task", "name, or map of name and its options", SR_RECIPE_TASK, "what the model learns to do",
     NUMERICS},
    {"model", "name, or map of name and its options", NULL, "the network", NUMERICS},
    {"weights", "file, or map of a model inside the model: file", NULL,
     "safetensors file to start from; its content is part of the run's identity", NEUTRAL},
    {"loss", "name, map of name and its options, or list of them", "cross-entropy",
     "what is minimised; of a list, the sum; not for tasks that have their own loss", NUMERICS},
    {"optimizer", "name, or map of name and its options", "sgd", "how parameters are updated",
     NUMERICS},
    {"optimizer.groups", "list of maps", NULL,
     "parameters with settings of their own; the first group that matches applies", NUMERICS},
    {"schedule", "name, or map of name and its options", "constant",
     "the learning rate over the run, as a factor of optimizer.lr", NUMERICS},
    {"phases", "map of name: {set, every, model, loss, optimizer, schedule}", NULL,
     "what is trained in turn in each step; defaults are the sections of the top level", NUMERICS},
    {"augment", "list of names, or of name: {options}", NULL,
     "transforms of training images, in this order", NUMERICS},
    {"expected", "anything", NULL, "notes on expected results; kept, but not interpreted", NEUTRAL},
};

#define TABLE(name_, rows_, type_)                                                                 \
    { .name = (name_), .options = (rows_), .count = COUNT(rows_), .struct_size = sizeof(type_) }
static const sr_option_table recipe_table = TABLE("recipe", recipe_options, sr_recipe_values);
static const sr_option_table optimizer_table =
    TABLE("optimizer", optimizer_options, sr_recipe_optimizer);
static const sr_option_table schedule_table =
    TABLE("schedule", schedule_options, sr_recipe_schedule);
static const sr_option_table phase_table = TABLE("phase", phase_options, sr_recipe_phase);
static const sr_option_table group_table = TABLE("group", group_options, sr_recipe_group);
static const sr_option_table loss_table = TABLE("loss", loss_options, sr_recipe_loss);
static const sr_option_table transform_table =
    TABLE("transform", transform_options, sr_recipe_span);

const sr_option_table *sr_recipe_keys(void) {
    return &recipe_table;
}

const sr_option_table *sr_recipe_optimizer_keys(void) {
    return &optimizer_table;
}

const sr_option_table *sr_recipe_schedule_keys(void) {
    return &schedule_table;
}

const sr_option_table *sr_recipe_group_keys(void) {
    return &group_table;
}

const sr_option_table *sr_recipe_phase_keys(void) {
    return &phase_table;
}

const sr_option_table *sr_recipe_loss_keys(void) {
    return &loss_table;
}

const sr_option_table *sr_recipe_transform_keys(void) {
    return &transform_table;
}

const sr_recipe_section *sr_recipe_sections(size_t *count) {
    *count = COUNT(recipe_sections);
    return recipe_sections;
}

static bool reads(const sr_option_table *table, const char *key) {
    return sr_options_find(table, key) != NULL;
}

bool sr_recipe_knows(const char *section_path, const char *key) {
    const char *dot = strrchr(section_path, '.');
    const char *section = dot ? dot + 1 : section_path;
    if (strncmp(section, "augment[", 8) == 0)
        return reads(sr_recipe_transform_keys(), key);
    if (strncmp(section, "loss[", 5) == 0)
        return strcmp(key, "name") == 0 || reads(sr_recipe_loss_keys(), key);
    if (strcmp(key, "name") == 0)
        return sr_recipe_node_is_choice(section);
    if (strcmp(section, "optimizer") == 0)
        return strcmp(key, "groups") == 0 || reads(sr_recipe_optimizer_keys(), key);
    return strcmp(section, "schedule") == 0 && reads(sr_recipe_schedule_keys(), key);
}
