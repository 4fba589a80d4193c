// SPDX-License-Identifier: Apache-2.0
// What a mistyped or foreign word in a recipe may have meant.
//
// Words that other libraries have for a key or a name are rows of a table: they are suggested,
// never accepted, since a recipe has one name for each thing.
#include <string.h>

#include "kernels/base/text.h"
#include "trainer/recipe/recipe_internal.h"

// Lists of names are printed up to this length, so that they are never cut.
enum { LIST_MAX = 600, BEGINNING_MIN = 3 };

// A word of PyTorch, torchvision, timm or Lightning, and what it is called here. Case, dashes and
// underscores do not count.
typedef struct foreign_word {
    const char *word, *name;
} foreign_word;

static const foreign_word foreign_keys[] = {
    {"batch_size", "batch"},
    {"train_batch_size", "batch"},
    {"bs", "batch"},
    {"val_batch_size", "eval.batch"},
    {"validation_batch_size", "eval.batch"},
    {"num_epochs", "epochs"},
    {"max_epochs", "epochs"},
    {"nepochs", "epochs"},
    {"max_steps", "steps"},
    {"num_steps", "steps"},
    {"max_iter", "steps"},
    {"iterations", "steps"},
    {"iters", "steps"},
    {"random_seed", "seed"},
    {"manual_seed", "seed"},
    {"arch", "model"},
    {"architecture", "model"},
    {"network", "model"},
    {"net", "model"},
    {"pretrained", "weights"},
    {"checkpoint_path", "weights"},
    {"initial_checkpoint", "weights"},
    {"finetune", "weights"},
    {"dataset", "data.train"},
    {"data_path", "data.train"},
    {"data_dir", "data.train"},
    {"train_dir", "data.train"},
    {"train_data", "data.train"},
    {"val_dir", "data.val"},
    {"val_data", "data.val"},
    {"num_workers", "data.workers"},
    {"shuffle", "data.order"},
    {"class_weights", "data.balance"},
    {"img_size", "image"},
    {"image_size", "image"},
    {"input_size", "image"},
    {"imgsz", "image"},
    {"train_crop_size", "image"},
    {"crop_pct", "eval.resize"},
    {"val_resize_size", "eval.resize"},
    {"val_crop_size", "eval.crop"},
    {"tta", "eval.flip"},
    {"amp", "precision"},
    {"amp_dtype", "precision"},
    {"dtype", "precision"},
    {"bf16", "precision"},
    {"fp16", "precision"},
    {"half", "precision"},
    {"tf32", "numerics.tf32"},
    {"allow_tf32", "numerics.tf32"},
    {"opt", "optimizer"},
    {"optim", "optimizer"},
    {"learning_rate", "optimizer.lr"},
    {"base_lr", "optimizer.lr"},
    {"lr_base", "optimizer.lr"},
    {"lr_base_size", "optimizer.lr_per"},
    {"wd", "optimizer.weight_decay"},
    {"decay", "optimizer.weight_decay"},
    {"norm_weight_decay", "optimizer.no_decay"},
    {"clip_grad", "optimizer.clip_norm"},
    {"clip_grad_norm", "optimizer.clip_norm"},
    {"max_norm", "optimizer.clip_norm"},
    {"gradient_clip_val", "optimizer.clip_norm"},
    {"clip_grad_value", "optimizer.clip_value"},
    {"param_groups", "optimizer.groups"},
    {"momentum", "optimizer.momentum"},
    {"nesterov", "optimizer.nesterov"},
    {"betas", "optimizer.betas"},
    {"eps", "optimizer.eps"},
    {"beta1", "optimizer.betas"},
    {"beta2", "optimizer.betas"},
    {"opt_betas", "optimizer.betas"},
    {"epsilon", "optimizer.eps"},
    {"sched", "schedule"},
    {"scheduler", "schedule"},
    {"lr_scheduler", "schedule"},
    {"warmup_epochs", "schedule.warmup"},
    {"warmup_steps", "schedule.warmup"},
    {"lr_warmup_epochs", "schedule.warmup"},
    {"warmup_lr", "schedule.warmup_start"},
    {"gamma", "schedule.gamma"},
    {"milestones", "schedule.milestones"},
    {"min_lr", "schedule.end"},
    {"eta_min", "schedule.end"},
    {"lr_step_size", "schedule.milestones"},
    {"step_size", "schedule.milestones"},
    {"decay_rate", "schedule.gamma"},
    {"criterion", "loss"},
    {"loss_fn", "loss"},
    {"loss_decode", "loss"},
    {"loss_weight", "weight"},
    {"loss_name", "as"},
    {"label_smoothing", "loss.label_smoothing"},
    {"smoothing", "loss.label_smoothing"},
    {"transforms", "augment"},
    {"transform", "augment"},
    {"augmentation", "augment"},
    {"augmentations", "augment"},
    {"mixup_alpha", "mix.mixup"},
    {"cutmix_alpha", "mix.cutmix"},
    {"mixup_prob", "mix.probability"},
    {"mixup_off_epoch", "mix.until"},
    {"model_ema", "ema"},
    {"model_ema_decay", "ema.decay"},
    {"ema_decay", "ema.decay"},
    {"model_ema_steps", "ema.every"},
    {"eval_metric", "checkpoint.metric"},
    {"monitor", "checkpoint.metric"},
    {"save_top_k", "checkpoint.keep"},
    {"detect_anomaly", "debug.nan"},
    {"bucket_cap_mb", "exchange.bucket"},
    {"drop_path_rate", "model.drop_path"},
    {"drop_path", "model.stochastic_depth_prob"},
    {"drop_path_rate", "model.stochastic_depth_prob"},
    {"dropout", "model.dropout"},
    {"drop", "model.dropout"},
    {"drop_rate", "model.dropout"},
};
// The same for schedules, losses and transforms.
static const foreign_word foreign_names[] = {
    {"CosineAnnealingLR", "cosine"},
    {"CosineLRScheduler", "cosine"},
    {"MultiStepLR", "step"},
    {"StepLR", "step"},
    {"ExponentialLR", "exponential"},
    {"LinearLR", "linear"},
    {"PolynomialLR", "poly"},
    {"ConstantLR", "constant"},
    {"OneCycleLR", "triangular"},
    {"CyclicLR", "triangular"},
    {"CrossEntropyLoss", "cross-entropy"},
    {"LabelSmoothingCrossEntropy", "cross-entropy"},
    {"SoftTargetCrossEntropy", "cross-entropy"},
    {"BCEWithLogitsLoss", "bce"},
    {"BCELoss", "bce"},
    {"MultiMarginLoss", "margin"},
    {"SigmoidFocalLoss", "focal"},
    {"FocalLoss", "focal"},
    {"DiceLoss", "dice"},
    {"LovaszLoss", "lovasz"},
    {"RandomHorizontalFlip", "flip"},
    {"horizontal_flip", "flip"},
    {"hflip", "flip"},
    {"RandomVerticalFlip", "vertical_flip"},
    {"vflip", "vertical_flip"},
    {"RandomCrop", "pad_crop"},
    {"RandomRotation", "rotate"},
    {"RandomGrayscale", "grayscale"},
    {"RandomInvert", "invert"},
    {"RandomPosterize", "posterize"},
    {"RandomSolarize", "solarize"},
    {"RandomAutocontrast", "autocontrast"},
    {"RandomEqualize", "equalize"},
    {"RandomAdjustSharpness", "sharpness"},
    {"TrivialAugmentWide", "trivial_augment"},
    {"RandomZoomOut", "expand"},
    {"RandomIoUCrop", "iou_crop"},
    {"RandomShortestSize", "multi_scale"},
    {"re_prob", "random_erasing"},
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *suggest(sr_recipe_internal *in, const char *section, const char *name) {
    return sr_recipe_format(in, "; did you mean '%s%s%s'?", section, *section ? "." : "", name);
}

// Whether a path of keys, such as "optimizer.lr", is this name or ends in it.
static bool ends_with(const char *path, const char *name) {
    const size_t whole = strlen(path), length = strlen(name);
    if (length > whole || strcmp(path + whole - length, name) != 0)
        return false;
    return length == whole || path[whole - length - 1] == '.';
}

// The candidate that a foreign word of a list stands for, or NULL.
static const char *translate(const foreign_word *list, size_t rows, const char *word,
                             const char *const *candidates, size_t count) {
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < count && sr_text_same_word(word, list[i].word); k++) {
            if (ends_with(list[i].name, candidates[k]))
                return candidates[k];
        }
    }
    return NULL;
}

const char *sr_recipe_hint(sr_recipe_internal *in, const char *word, const char *const *candidates,
                           size_t count) {
    const char *name = sr_text_nearest(word, candidates, count);
    const char *translated = translate(foreign_keys, COUNT(foreign_keys), word, candidates, count);
    if (!translated)
        translated = translate(foreign_names, COUNT(foreign_names), word, candidates, count);
    if (translated && !(name && sr_text_same_word(word, name)))
        name = translated;
    return name ? suggest(in, "", name) : "";
}

// ---- Keys ---------------------------------------------------------------------------------------

// The first row whose last name is the word: "lr" is optimizer.lr.
static const char *find_row(sr_recipe_internal *in, const char *word) {
    const sr_option_table *tables[] = {sr_recipe_keys(), sr_recipe_optimizer_keys(),
                                       sr_recipe_schedule_keys()};
    for (size_t t = 0; t < COUNT(tables); t++) {
        for (size_t i = 0; i < tables[t]->count; i++) {
            const char *name = tables[t]->options[i].name, *dot = strrchr(name, '.');
            if (sr_text_same_word(dot ? dot + 1 : name, word))
                return suggest(in, t ? tables[t]->name : "", name);
        }
    }
    return "";
}

const char *sr_recipe_hint_elsewhere(sr_recipe_internal *in, const char *key) {
    size_t count;
    const sr_recipe_section *sections = sr_recipe_sections(&count);
    for (size_t i = 0; i < count; i++) {
        const char *dot = strchr(sections[i].name, '.');
        if (dot && sr_text_same_word(dot + 1, key))
            return suggest(in, "", sections[i].name);
    }
    const char *hint = find_row(in, key);
    if (*hint)
        return hint;
    for (size_t i = 0; i < COUNT(foreign_keys); i++) {
        if (sr_text_same_word(key, foreign_keys[i].word))
            return suggest(in, "", foreign_keys[i].name);
    }
    return "";
}

const char *sr_recipe_hint_at_key(sr_recipe_internal *in, const char *prefix, const char *key) {
    const sr_option_table *table = sr_recipe_keys();
    size_t section_count, count = 0;
    const sr_recipe_section *sections = sr_recipe_sections(&section_count);
    const char **names = sr_arena_alloc(&in->arena, (table->count + section_count) * sizeof *names);
    if (!names)
        return "";
    for (size_t i = 0; i < table->count; i++) {
        if (strncmp(table->options[i].name, prefix, strlen(prefix)) != 0)
            continue;
        const char *rest = table->options[i].name + strlen(prefix);
        names[count++] = sr_recipe_format(in, "%.*s", (int)strcspn(rest, "."), rest);
    }
    for (size_t i = 0; *prefix == '\0' && i < section_count; i++)
        names[count++] = sections[i].name;
    const char *hint = sr_recipe_hint(in, key, names, count);
    return *hint ? hint : sr_recipe_hint_elsewhere(in, key);
}

// ---- Lists of names -----------------------------------------------------------------------------

static bool begins_with(const char *name, const char *beginning, size_t length) {
    return strncmp(name, beginning, length) == 0;
}

// The names that begin with these letters of the word, with commas between them.
static const char *join(sr_recipe_internal *in, const char *word, size_t length,
                        const char *const *names, size_t count) {
    const char *list = "";
    for (size_t i = 0; i < count; i++) {
        if (begins_with(names[i], word, length))
            list = sr_recipe_format(in, "%s%s%s", list, *list ? ", " : "", names[i]);
    }
    return list;
}

const char *sr_recipe_hint_at_beginning(sr_recipe_internal *in, const char *word,
                                        const char *const *names, size_t count) {
    const size_t length = strlen(word);
    const char *some = length >= BEGINNING_MIN ? join(in, word, length, names, count) : "";
    return *some ? sr_recipe_format(in, "; there are %s", some) : "";
}

const char *sr_recipe_hint_at_list(sr_recipe_internal *in, const char *what, const char *word,
                                   const char *const *names, size_t count) {
    const char *list = join(in, word, 0, names, count);
    if (strlen(list) <= LIST_MAX)
        return sr_recipe_format(in, "; available: %s", list);
    const char *plural = what[strlen(what) - 1] == 's' ? "es" : "s", *some = "";
    size_t length = strlen(word);
    for (; length >= BEGINNING_MIN && *some == '\0'; length--)
        some = join(in, word, length, names, count);
    if (*some && strlen(some) <= LIST_MAX)
        return sr_recipe_format(in, "; available are %s, and others: 'serried info %s%s'", some,
                                what, plural);
    return sr_recipe_format(in, "; 'serried info %s%s' lists all %zu", what, plural, count);
}
