// SPDX-License-Identifier: Apache-2.0
// Loading, checking, querying and freeing a recipe.
//
// Order of work: layers are merged into one tree (recipe_layers.c); table rows and sections are
// read (recipe_options.c, recipe_sections.c); then this file reports unknown keys, derives values
// from others and checks combinations.
#include "trainer/recipe/recipe.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/pipeline/pipeline.h"
#include "kernels/base/file.h"
#include "trainer/recipe/recipe_internal.h"

#define CHANNELS 3 // of every image: red, green, blue

// ---- unknown keys -------------------------------------------------------------------------------

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_prefix_of_rows(const char *prefix) {
    const sr_option_table *table = sr_recipe_keys();
    for (size_t i = 0; i < table->count; i++) {
        if (begins_with(table->options[i].name, prefix))
            return true;
    }
    return false;
}

static void refuse_unknown(sr_recipe_internal *in, const sr_recipe_node *map, const char *prefix) {
    for (const sr_recipe_node *node = map->first; node; node = node->next) {
        const char *inner = sr_recipe_format(in, "%s%s.", prefix, node->key);
        if (node->used)
            continue;
        if (!is_prefix_of_rows(inner))
            sr_recipe_mistake(in, node->key_at, "unknown key '%s'%s", node->key,
                              sr_recipe_hint_at_key(in, prefix, node->key));
        else if (node->kind == SR_RECIPE_NODE_MAP)
            refuse_unknown(in, node, inner);
        else if (!sr_recipe_node_is_null(node))
            sr_recipe_mistake(in, node->at, "'%s' is a section: give it a map of keys", node->key);
    }
}

// ---- values derived from others -----------------------------------------------------------------

// The resolved node of a row.
static sr_recipe_node *row(const sr_recipe_internal *in, const char *path) {
    return sr_recipe_node_find(in->resolved, path);
}

static void derive(const sr_recipe_internal *in, const char *path, const char *text,
                   const char *note) {
    sr_recipe_node *node = row(in, path);
    node->text = text;
    node->plain = true;
    node->note = note;
}

static void derive_number(sr_recipe_internal *in, const char *path, int64_t *value, int64_t derived,
                          const char *note) {
    if (*value != 0)
        return;
    *value = derived;
    derive(in, path, sr_recipe_format(in, "%lld", (long long)derived), note);
}

static void read_image(sr_recipe_internal *in) {
    const sr_int_list *image = &in->v.raw_image;
    sr_recipe *r = &in->v.recipe;
    sr_recipe_node *node = row(in, "image");
    if (image->count != 1 && image->count != 2) {
        sr_recipe_mistake(in, node->at, "'image' must be one number or [height, width]");
        return;
    }
    r->image_height = image->items[0];
    r->image_width = image->items[image->count - 1];
    node->counts_as =
        sr_recipe_format(in, "%lldx%lld", (long long)r->image_height, (long long)r->image_width);
    sr_recipe_read_evaluation(in);
}

// Recipes without growing images keep the identity that they had before the keys existed.
static void read_progressive(sr_recipe_internal *in) {
    static const char *const rows[] = {"progressive.from", "progressive.step", "progressive.begin",
                                       "progressive.end"};
    const sr_recipe *r = &in->v.recipe;
    const int64_t from = r->progressive.from, side = r->image_width;
    const sr_recipe_node *node = row(in, rows[0]);
    if (from == 0) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            row(in, rows[i])->option_class = SR_OPTION_NEUTRAL;
        return;
    }
    if (r->image_height != side)
        sr_recipe_mistake(in, node->at,
                          "images that grow must be square, but image is [%lld, %lld]",
                          (long long)r->image_height, (long long)side);
    else if (from > side || (side - from) % r->progressive.step != 0)
        sr_recipe_mistake(in, node->at, "images cannot grow from %lld to %lld in steps of %lld",
                          (long long)from, (long long)side, (long long)r->progressive.step);
}

// Recipes without mixing keep the identity that they had before mixing existed.
static void read_mix(const sr_recipe_internal *in) {
    static const char *const rows[] = {"mix.mixup", "mix.cutmix", "mix.probability", "mix.until"};
    const sr_recipe *r = &in->v.recipe;
    if (!(r->mix.until.count > 0))
        row(in, "mix.until")->option_class = SR_OPTION_NEUTRAL;
    if ((r->mix.mixup > 0 || r->mix.cutmix > 0) && r->mix.probability > 0)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        row(in, rows[i])->option_class = SR_OPTION_NEUTRAL;
}

// Recipes in which every sample is drawn once an epoch keep the identity that they had before the
// keys existed.
static void read_draws(sr_recipe_internal *in) {
    const sr_recipe *r = &in->v.recipe;
    sr_recipe_node *repeats = row(in, "data.repeats"), *balance = row(in, "data.balance");
    const bool repeated = r->data.repeats > 1, balanced = r->data.balance > 0;
    if (!repeated)
        repeats->option_class = SR_OPTION_NEUTRAL;
    if (!balanced)
        balance->option_class = SR_OPTION_NEUTRAL;
    if ((repeated || balanced) && r->data.order != SR_ORDER_EXAMPLES)
        sr_recipe_mistake(in, (repeated ? repeats : balance)->at,
                          "data.%s needs 'data.order: examples'", repeated ? "repeats" : "balance");
    else if (repeated && r->data.repeats > r->lanes)
        sr_recipe_mistake(in, repeats->at,
                          "%lld copies of a sample need as many lanes, but lanes is %lld",
                          (long long)r->data.repeats, (long long)r->lanes);
}

// Recipes without such numerics keep the identity that they had before the keys existed.
static void read_numerics(sr_recipe_internal *in) {
    const sr_recipe *r = &in->v.recipe;
    sr_recipe_node *tf32 = row(in, "numerics.tf32");
    if (!r->numerics_portable)
        row(in, "numerics.portable")->option_class = SR_OPTION_NEUTRAL;
    if (!r->numerics_tf32)
        tf32->option_class = SR_OPTION_NEUTRAL;
    else if (r->numerics_portable)
        sr_recipe_mistake(in, tf32->at,
                          "'numerics.portable' computes all bits of fp32: leave one of them out");
}

// Recipes whose average has averaged running statistics keep the identity that they had before.
static void read_average(const sr_recipe_internal *in) {
    if (in->v.recipe.ema.buffers)
        row(in, "ema.buffers")->option_class = SR_OPTION_NEUTRAL;
}

// Recipes without loss scaling keep the identity that they had before the keys existed.
static void read_loss_scale(const sr_recipe_internal *in) {
    if (in->v.recipe.precision == SR_PRECISION_FP16)
        return;
    row(in, "loss_scale.initial")->option_class = SR_OPTION_NEUTRAL;
    row(in, "loss_scale.every")->option_class = SR_OPTION_NEUTRAL;
}

static void read_lanes(sr_recipe_internal *in) {
    sr_recipe *r = &in->v.recipe;
    int64_t lanes = 1;
    while (2 * lanes * 32 <= r->batch)
        lanes *= 2;
    derive_number(in, "lanes", &r->lanes, lanes, "default (largest power of two up to batch / 32)");
    derive_number(in, "eval.batch", &r->eval.batch, r->batch, "default (batch)");
    if (r->batch <= 0 || r->batch % r->lanes == 0)
        return;
    long long batch = r->batch, cut = r->lanes, below = batch / cut * cut;
    const sr_recipe_node *node = row(in, row(in, "batch")->at.source ? "batch" : "lanes");
    if (below > 0) {
        sr_recipe_mistake(in, node->at,
                          "batch %lld cannot be divided into %lld equal lanes; use batch %lld or "
                          "%lld, or change lanes",
                          batch, cut, below, below + cut);
    } else {
        sr_recipe_mistake(in, node->at, "batch %lld has fewer samples than its %lld lanes", batch,
                          cut);
    }
}

static bool is_written(const sr_recipe_internal *in, const char *key) {
    const sr_recipe_node *node = sr_recipe_node_child(in->written, key);
    return node && !sr_recipe_node_is_null(node);
}

// An invalid length is reported where it is read.
static void read_length(sr_recipe_internal *in) {
    if (!is_written(in, "epochs") && !is_written(in, "steps") && !in->base_missing)
        sr_recipe_mistake(in, (sr_recipe_position){0},
                          "the length of training is missing: give 'epochs' or 'steps'");
}

static void read_on_corrupt(sr_recipe_internal *in) {
    sr_recipe *r = &in->v.recipe;
    const char *text = in->v.raw_on_corrupt;
    char *end = NULL;
    if (strcmp(text, "stop") == 0)
        return;
    errno = 0;
    if (begins_with(text, "skip:") && text[5] >= '0' && text[5] <= '9')
        r->data.skip_limit = strtoll(text + 5, &end, 10);
    if (end && *end == '\0' && errno == 0 && r->data.skip_limit > 0)
        r->data.on_corrupt = SR_CORRUPT_SKIP;
    else
        sr_recipe_mistake(in, row(in, "data.on_corrupt")->at,
                          "on_corrupt: expected stop, or skip:N with a number of samples, got '%s'",
                          text);
}

// Recipes whose lanes have their own statistics keep the identity that they had before the key
// existed.
static void read_sync_bn(sr_recipe_internal *in) {
    sr_recipe *r = &in->v.recipe;
    const char *text = in->v.raw_sync_bn;
    char *end = NULL;
    errno = 0;
    r->sync_bn = strcmp(text, "all") == 0 ? r->lanes : strtoll(text, &end, 10);
    if ((end && *end != '\0') || errno != 0 || r->sync_bn < 1)
        sr_recipe_mistake(in, row(in, "sync_bn")->at,
                          "sync_bn: expected a number of lanes, or all, got '%s'", text);
    else if (r->lanes % r->sync_bn != 0)
        sr_recipe_mistake(in, row(in, "sync_bn")->at,
                          "sync_bn: %lld lanes cannot be divided into groups of %lld; use a number "
                          "that divides lanes, or all",
                          (long long)r->lanes, (long long)r->sync_bn);
    if (r->sync_bn == 1)
        row(in, "sync_bn")->option_class = SR_OPTION_NEUTRAL;
}

static void read_profile(sr_recipe_internal *in) {
    sr_recipe *r = &in->v.recipe;
    const char *text = in->v.raw_profile;
    if (!text)
        return;
    long long begin = 0, last = 0;
    int length = 0;
    if (sscanf(text, "%lld:%lld%n", &begin, &last, &length) != 2 || text[length] != '\0' ||
        begin < 0 || last <= begin) {
        sr_recipe_mistake(in, row(in, "profile")->at,
                          "profile: expected FIRST:LAST steps, such as 20:30, got '%s'", text);
        return;
    }
    r->profile_begin = begin;
    r->profile_end = last;
}

// An interval in time has a unit of time ("10min"), one in progress a unit of progress ("1ep").
typedef struct interval {
    sr_length length;
    double seconds;
} interval;

static void read_interval(sr_recipe_internal *in, const sr_recipe_node *node, const char *text) {
    static const sr_option options[] = {
        {"every", "", SR_OPT_LENGTH, offsetof(interval, length), NULL, 0, 0, NULL,
         SR_OPTION_NEUTRAL},
        {"every_time", "", SR_OPT_DURATION, offsetof(interval, seconds), NULL, 0, 0, NULL,
         SR_OPTION_NEUTRAL},
    };
    static const sr_option_table table = {
        .name = "checkpoint", .options = options, .count = 2, .struct_size = sizeof(interval)};
    static const char *const times[] = {"ms", "s", "min", "h"};
    interval value = {.seconds = 0};
    char *unit;
    (void)strtod(text, &unit);
    bool is_time = false;
    for (size_t i = 0; i < 4; i++)
        is_time = is_time || strcmp(unit, times[i]) == 0;
    sr_status status =
        sr_options_set(&table, &value, is_time ? "every_time" : "every", text, &in->arena);
    if (status != SR_OK || (is_time ? value.seconds : value.length.count) <= 0)
        sr_recipe_mistake(
            in, node->at,
            "every: expected a length or a time above zero, such as [1ep, 10min], got '%s'", text);
    else if (is_time)
        in->v.recipe.checkpoint.seconds = value.seconds;
    else
        in->v.recipe.checkpoint.every = value.length;
}

static void read_every(sr_recipe_internal *in) {
    const sr_recipe_node *node = row(in, "checkpoint.every");
    for (size_t i = 0; i < in->v.raw_every.count; i++)
        read_interval(in, node, in->v.raw_every.items[i]);
}

static void read_channels(sr_recipe_internal *in) {
    size_t mean = in->v.recipe.data.mean.count, std = in->v.recipe.data.std.count;
    const sr_recipe_node *node = row(in, row(in, "data.std")->at.source ? "data.std" : "data.mean");
    if (mean != CHANNELS || std != CHANNELS) {
        sr_recipe_mistake(in, node->at,
                          "data.mean has %zu values and data.std %zu; both need three, one per "
                          "channel",
                          mean, std);
    }
}

// ---- load ---------------------------------------------------------------------------------------

static sr_status carry_expected(sr_recipe_internal *in) {
    sr_recipe_node *written = sr_recipe_node_child(in->written, "expected");
    if (!written)
        return SR_OK;
    written->used = true;
    sr_recipe_node *copy = sr_recipe_node_copy(in, written);
    if (!copy)
        return SR_E_MEMORY;
    copy->option_class = SR_OPTION_NEUTRAL;
    sr_recipe_node_append(in->resolved, copy);
    return SR_OK;
}

// Sorts the top level into the usual order of a recipe; keys that are not listed follow.
static void order_top(sr_recipe_node *root) {
    static const char *const order[] = {
        "about",    "task",    "model",       "phases",    "weights", "weights_reset",
        "data",     "image",   "progressive", "batch",     "lanes",   "sync_bn",
        "epochs",   "steps",   "seed",        "precision", "loss",    "optimizer",
        "schedule", "augment", "mix",         "eval",      "ema"};
    sr_recipe_node *rest = root->first;
    root->first = root->last = NULL;
    root->count = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        for (sr_recipe_node **link = &rest; *link; link = &(*link)->next) {
            sr_recipe_node *node = *link;
            if (strcmp(node->key, order[i]) != 0)
                continue;
            *link = node->next;
            sr_recipe_node_append(root, node);
            break;
        }
    }
    while (rest) {
        sr_recipe_node *next = rest->next;
        sr_recipe_node_append(root, rest);
        rest = next;
    }
}

static sr_status resolve(sr_recipe_internal *in) {
    sr_recipe *r = &in->v.recipe;
    in->resolved = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL, (sr_recipe_position){0});
    if (!in->resolved)
        return SR_E_MEMORY;
    SR_TRY(sr_recipe_read_table(in, sr_recipe_keys(), &in->v, in->written, in->resolved));
    r->internal = in;
    r->name = in->name;
    r->file = in->file;
    r->data.threads = in->v.raw_processes == 0;
    SR_TRY(sr_recipe_read_sections(in));
    SR_TRY(carry_expected(in));
    refuse_unknown(in, in->written, "");
    read_image(in);
    read_progressive(in);
    read_mix(in);
    read_loss_scale(in);
    read_numerics(in);
    read_average(in);
    read_lanes(in);
    read_draws(in);
    read_length(in);
    read_on_corrupt(in);
    read_sync_bn(in);
    read_profile(in);
    read_every(in);
    read_channels(in);
    if (r->deadline_report > r->deadline_act / 2)
        r->deadline_report = r->deadline_act / 2;
    order_top(in->resolved);
    return SR_OK;
}

static sr_recipe_internal *make(void) {
    sr_recipe_internal *in = sr_alloc(sizeof *in, "a recipe");
    if (!in)
        return NULL;
    sr_arena_init(&in->arena);
    in->v.recipe.internal = in;
    return in;
}

// What follows the reading, which ended with 'status'.
static sr_status finish(sr_recipe_internal *in, sr_status status, sr_recipe **out) {
    if (status == SR_OK)
        status = resolve(in);
    if (status == SR_OK)
        status = sr_recipe_verdict(in);
    if (status != SR_OK) {
        in->v.recipe.internal = in; // sr_options_defaults may have cleared it
        sr_recipe_free(&in->v.recipe);
        return status;
    }
    *out = &in->v.recipe;
    return SR_OK;
}

sr_status sr_recipe_load(const char *name_or_path, const char *const *overrides, int override_count,
                         sr_recipe **out) {
    sr_recipe_internal *in = make();
    if (!in)
        return SR_E_MEMORY;
    return finish(in, sr_recipe_read(in, name_or_path, overrides, override_count), out);
}

sr_status sr_recipe_for_model(const char *model, const char *const *overrides, int override_count,
                              sr_recipe **out) {
    sr_recipe_internal *in = make();
    if (!in)
        return SR_E_MEMORY;
    const char *text =
        sr_recipe_format(in,
                         "model: %s\nimage: 224\nbatch: 1\nlanes: 1\nepochs: 1\nchooser: off\n"
                         "optimizer: {name: sgd, lr: 0.1}\n",
                         model);
    const sr_status status = in->out_of_memory
                                 ? SR_E_MEMORY
                                 : sr_recipe_read_text(in, model, text, overrides, override_count);
    return finish(in, status, out);
}

void sr_recipe_free(sr_recipe *recipe) {
    if (!recipe)
        return;
    sr_recipe_internal *in = recipe->internal;
    sr_arena_release(&in->arena);
    sr_free(in);
}

// ---- queries ------------------------------------------------------------------------------------

// Position of a value, or of its nearest parent that was written.
static sr_recipe_position position_of(const sr_recipe_internal *in, const char *path) {
    char part[SR_RECIPE_MAX_PATH];
    snprintf(part, sizeof part, "%s", path);
    for (;;) {
        const sr_recipe_node *node = sr_recipe_node_find(in->resolved, part);
        if (node && node->at.source)
            return node->at;
        char *dot = strrchr(part, '.'), *bracket = strrchr(part, '[');
        char *cut = dot > bracket ? dot : bracket;
        if (!cut)
            return (sr_recipe_position){0};
        *cut = '\0';
    }
}

sr_status sr_recipe_fail(sr_recipe *recipe, const char *path, const char *fmt, ...) {
    char message[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    sr_recipe_internal *in = recipe->internal;
    sr_recipe_mistake(in, position_of(in, path), "%s", message);
    return sr_recipe_verdict(in);
}

const char *sr_recipe_get(const sr_recipe *recipe, const char *path) {
    const sr_recipe_node *node = sr_recipe_node_find(recipe->internal->resolved, path);
    return node && node->kind == SR_RECIPE_NODE_TEXT ? node->text : NULL;
}

bool sr_recipe_is_override(const sr_recipe *recipe, const char *path) {
    const sr_recipe_node *node = sr_recipe_node_find(recipe->internal->resolved, path);
    return node && node->at.source && node->at.source->is_override;
}

static sr_status use_folder(sr_recipe *r, const char *folder, const char *key, const char **path) {
    if (!*path || **path == '/' || sr_recipe_is_override(r, key))
        return SR_OK;
    const char *there = sr_recipe_format(r->internal, "%s/%s", folder, *path);
    if (r->internal->out_of_memory)
        return SR_FAIL(SR_E_MEMORY, "out of memory while reading a recipe");
    if (!sr_path_exists(there))
        return SR_OK;
    *path = there;
    row(r->internal, key)->text = there;
    return SR_OK;
}

sr_status sr_recipe_use_folder(sr_recipe *recipe, const char *folder) {
    SR_TRY(use_folder(recipe, folder, "data.train", &recipe->data.train));
    SR_TRY(use_folder(recipe, folder, "data.val", &recipe->data.val));
    for (int i = 0; i < recipe->weights_count; i++)
        SR_TRY(use_folder(recipe, folder, recipe->weights[i].key, &recipe->weights[i].path));
    return SR_OK;
}

sr_status sr_recipe_choose(sr_recipe *recipe, const char *path, const char *what,
                           const char *const *names, int count, int *index) {
    sr_recipe_internal *in = recipe->internal;
    const sr_recipe_node *node = sr_recipe_node_find(in->resolved, path);
    char name_path[SR_RECIPE_MAX_PATH];
    snprintf(name_path, sizeof name_path, "%s", path);
    const char *name = NULL;
    if (node && begins_with(path, "augment[")) {
        name = node->first->key;
    } else if (node && node->kind == SR_RECIPE_NODE_MAP) {
        snprintf(name_path, sizeof name_path, "%s.name", path);
        name = sr_recipe_get(recipe, name_path);
    } else if (node) {
        name = node->text;
    }
    for (int i = 0; name && i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            *index = i;
            return SR_OK;
        }
    }
    if (!name)
        return sr_recipe_fail(recipe, path, "'%s' is missing: name a %s", path, what);
    const char *hint = sr_recipe_hint(in, name, names, (size_t)count);
    if (*hint == '\0')
        hint = sr_recipe_hint_at_list(in, what, name, names, (size_t)count);
    return sr_recipe_fail(recipe, name_path, "unknown %s '%s'%s", what, name, hint);
}
