// SPDX-License-Identifier: Apache-2.0
// Matches the words of parameter groups, and makes the groups of a model (param_groups.h). A word
// is a kind (bias, norm, embedding, scale), a shell pattern for whole names, or a prefix up to a
// dot: "layer1" matches everything in layer1.
#include "trainer/engine/param_groups.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"

#define MAX_LISTED 12 // prefixes in a message

static const struct {
    const char *word;
    sr_param_kind kind;
} kinds[] = {{"bias", SR_PARAM_BIAS},
             {"norm", SR_PARAM_NORM},
             {"embedding", SR_PARAM_EMBEDDING},
             {"scale", SR_PARAM_SCALE}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static bool is_kind(const char *word) {
    for (int i = 0; i < KINDS; i++)
        if (strcmp(word, kinds[i].word) == 0)
            return true;
    return false;
}

static bool matches(const sr_param *param, const char *word) {
    const size_t n = strlen(word);
    for (int i = 0; i < KINDS; i++)
        if (strcmp(word, kinds[i].word) == 0 && param->kind == kinds[i].kind)
            return true;
    if (strncmp(param->name, word, n) == 0 && param->name[n] == '.')
        return true;
    return fnmatch(word, param->name, 0) == 0;
}

static bool matches_one(const sr_param *param, const sr_string_list *words) {
    for (size_t k = 0; k < words->count; k++)
        if (matches(param, words->items[k]))
            return true;
    return false;
}

int sr_param_group_of(const sr_recipe_optimizer *settings, const sr_param *param) {
    for (int i = 0; i < settings->group_count; i++)
        if (matches_one(param, &settings->groups[i].match))
            return i + 1;
    return 0;
}

// ---- The groups of a model ----

static bool decays_by_layer(const sr_recipe_optimizer *settings) {
    return settings->layer_decay < 1;
}

static int deepest(const sr_model *model) {
    int most = 0;
    for (int i = 0; i < model->param_count; i++)
        if (model->params[i].depth > most)
            most = model->params[i].depth;
    return most;
}

// layer_decay for each layer between this one and the last; by products, so that all ranks have the
// same bits.
static double scale_of_layer(const sr_recipe_optimizer *settings, int layers) {
    double scale = 1;
    for (int i = 0; i < layers; i++)
        scale *= settings->layer_decay;
    return scale;
}

static sr_param_group group_of(const sr_recipe_optimizer *settings, const sr_param *param,
                               int last) {
    sr_param_group g = {.match = sr_param_group_of(settings, param),
                        .depth = SR_NO_DEPTH,
                        .no_decay = matches_one(param, &settings->no_decay),
                        .lr_scale = 1,
                        .decay_scale = 1};
    if (g.match > 0) {
        const sr_recipe_group *from = &settings->groups[g.match - 1];
        g.lr_scale = from->lr_scale;
        g.decay_scale = from->decay_scale;
        g.frozen = from->frozen;
        g.elementwise = from->elementwise;
        g.until = from->until;
    }
    if (g.no_decay)
        g.decay_scale = 0;
    if (decays_by_layer(settings) && !g.frozen) {
        g.depth = param->depth;
        g.lr_scale *= scale_of_layer(settings, last - param->depth);
    }
    return g;
}

// Order of groups: the rest comes last.
static int compare(const sr_param_group *a, const sr_param_group *b) {
    if (a->match != b->match)
        return a->match == 0 || (b->match != 0 && a->match > b->match) ? 1 : -1;
    if (a->no_decay != b->no_decay)
        return a->no_decay ? -1 : 1;
    return (a->depth > b->depth) - (a->depth < b->depth);
}

// The index in the list of a group like this one, which is appended if there is none.
static sr_status place(sr_param_groups *list, const sr_param_group *group, int *at) {
    int i = 0;
    while (i < list->count && compare(&list->items[i], group) < 0)
        i++;
    *at = i;
    if (i < list->count && compare(&list->items[i], group) == 0)
        return SR_OK;
    void *items = list->items;
    SR_TRY(sr_grow(&items, &list->capacity, (size_t)list->count + 1, sizeof *list->items,
                   "groups of parameters"));
    list->items = items;
    memmove(list->items + i + 1, list->items + i, (size_t)(list->count - i) * sizeof *list->items);
    list->items[i] = *group;
    list->count++;
    return SR_OK;
}

static bool is_trained(const sr_param *param) {
    return param->kind != SR_PARAM_BUFFER && param->kind != SR_PARAM_FROZEN;
}

// First collects all groups; their indices are assigned afterwards, when they no longer change.
static sr_status make_groups(const sr_recipe_optimizer *settings, const sr_model *model,
                             sr_param_groups *out) {
    const int last = deepest(model);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < model->param_count; i++) {
            const sr_param *p = &model->params[i];
            const sr_param_group group = group_of(settings, p, last);
            if (!is_trained(p))
                continue;
            SR_TRY(place(out, &group, &out->of[i]));
            if (pass == 1) {
                out->items[out->of[i]].tensors++;
                out->items[out->of[i]].elements += sr_info_count(&p->info);
            }
        }
    }
    return SR_OK;
}

sr_status sr_param_groups_make(const sr_recipe_optimizer *settings, const sr_model *model,
                               sr_param_groups *out) {
    *out = (sr_param_groups){0};
    out->of = sr_alloc_array((size_t)model->param_count + 1, sizeof *out->of, "groups");
    return out->of ? make_groups(settings, model, out) : SR_E_MEMORY;
}

void sr_param_groups_free(sr_param_groups *groups) {
    sr_free(groups->items);
    sr_free(groups->of);
    *groups = (sr_param_groups){0};
}

// ---- Words that match nothing ----

// The prefixes of the model's tensor names up to each dot, and the names, without duplicates.
typedef struct prefixes {
    sr_arena arena;
    const char **items;
    size_t count, capacity;
} prefixes;

static sr_status add_prefix(prefixes *p, const char *name, size_t length) {
    for (size_t i = 0; i < p->count; i++)
        if (strncmp(p->items[i], name, length) == 0 && p->items[i][length] == '\0')
            return SR_OK;
    void *items = p->items;
    SR_TRY(sr_grow(&items, &p->capacity, p->count + 1, sizeof *p->items, "names"));
    p->items = items;
    char *copy = sr_arena_alloc(&p->arena, length + 1);
    if (!copy)
        return SR_E_MEMORY;
    memcpy(copy, name, length);
    copy[length] = '\0';
    p->items[p->count++] = copy;
    return SR_OK;
}

static sr_status add_prefixes(prefixes *p, const sr_model *model) {
    for (int i = 0; i < model->param_count; i++) {
        const char *name = model->params[i].name;
        for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
            SR_TRY(add_prefix(p, name, (size_t)(dot - name)));
        SR_TRY(add_prefix(p, name, strlen(name)));
    }
    return SR_OK;
}

// Adds "; did you mean 'layer1'?", else the first components of the names.
static void add_hint(const prefixes *p, const char *word, sr_text *out) {
    const char *near = sr_text_nearest(word, p->items, p->count);
    int listed = 0;
    if (near) {
        sr_text_add(out, "; did you mean '%s'?", near);
        return;
    }
    for (size_t i = 0; i < p->count && listed <= MAX_LISTED; i++) {
        if (strchr(p->items[i], '.'))
            continue;
        sr_text_add(out, "%s%s", listed == 0 ? "; its tensors begin with " : ", ",
                    listed < MAX_LISTED ? p->items[i] : "...");
        listed++;
    }
    sr_text_add(out, "; 'groups: ~' removes the groups of a base");
}

static sr_status refuse(sr_recipe *recipe, const char *path, const char *word,
                        const sr_model *model) {
    prefixes p = {0};
    sr_text hint;
    sr_arena_init(&p.arena);
    sr_text_init(&hint);
    sr_status status = add_prefixes(&p, model);
    if (status == SR_OK)
        add_hint(&p, word, &hint);
    if (status == SR_OK)
        status = sr_recipe_fail(recipe, path, "'%s' matches no tensor of model %s%s", word,
                                model->desc->name, hint.data);
    sr_text_release(&hint);
    sr_free(p.items);
    sr_arena_release(&p.arena);
    return status;
}

static bool matches_any(const sr_model *model, const char *word) {
    for (int i = 0; i < model->param_count; i++)
        if (matches(&model->params[i], word))
            return true;
    return false;
}

// 'path' is the list's.
static sr_status check_words(sr_recipe *recipe, const char *path, const sr_string_list *words,
                             const sr_model *model) {
    for (size_t k = 0; k < words->count; k++) {
        // A recipe for several models may name kinds that one of them does not have.
        if (!is_kind(words->items[k]) && !matches_any(model, words->items[k]))
            return refuse(recipe, path, words->items[k], model);
    }
    return SR_OK;
}

static sr_status check_depths(sr_recipe *recipe, const char *path, const sr_model *model) {
    for (int i = 0; i < model->param_count; i++) {
        const sr_param *p = &model->params[i];
        if (is_trained(p) && p->depth == SR_NO_DEPTH) {
            return sr_recipe_fail(recipe, path,
                                  "model %s declares no depth for '%s', which layer_decay "
                                  "needs; remove it, set lr_scale in groups, or call "
                                  "sr_build_depth in the model",
                                  model->desc->name, p->name);
        }
    }
    return SR_OK;
}

sr_status sr_param_groups_check(sr_recipe *recipe, int set, const sr_model *model) {
    const sr_recipe_optimizer *settings = &recipe->sets[set].optimizer;
    char path[256];
    for (int i = 0; i < settings->group_count; i++) {
        (void)snprintf(path, sizeof path, "%s.groups[%d].match", settings->choice.path, i);
        SR_TRY(check_words(recipe, path, &settings->groups[i].match, model));
    }
    (void)snprintf(path, sizeof path, "%s.no_decay", settings->choice.path);
    SR_TRY(check_words(recipe, path, &settings->no_decay, model));
    (void)snprintf(path, sizeof path, "%s.layer_decay", settings->choice.path);
    return decays_by_layer(settings) ? check_depths(recipe, path, model) : SR_OK;
}

// ---- The report ----

static void add_treatment(const sr_param_group *group, sr_text *out) {
    static const char *const units[] = {[SR_LENGTH_EPOCHS] = "ep",
                                        [SR_LENGTH_STEPS] = "it",
                                        [SR_LENGTH_SAMPLES] = " samples",
                                        [SR_LENGTH_PERCENT] = " %"};
    if (group->frozen) {
        sr_text_add(out, "frozen");
        return;
    }
    if (group->match == 0 && group->lr_scale == 1 && group->decay_scale == 1) {
        sr_text_add(out, "as set for the optimizer");
        return;
    }
    sr_text_add(out, "learning rate x %g, weight decay x %g%s", group->lr_scale, group->decay_scale,
                group->elementwise ? ", elementwise" : "");
    if (group->until.count > 0)
        sr_text_add(out, ", until %g%s", group->until.count, units[group->until.unit]);
}

// "bias, norm" or "the rest", followed by what distinguishes them from others of the same recipe
// group.
static void add_words(const sr_recipe_optimizer *settings, const sr_param_group *group,
                      sr_text *out) {
    const sr_string_list *words = group->match ? &settings->groups[group->match - 1].match : NULL;
    for (size_t k = 0; words && k < words->count; k++)
        sr_text_add(out, "%s%s", k > 0 ? ", " : "", words->items[k]);
    if (!words)
        sr_text_add(out, "the rest");
    if (group->no_decay)
        sr_text_add(out, " (no_decay)");
    if (group->depth != SR_NO_DEPTH)
        sr_text_add(out, " at depth %d", group->depth);
}

static void add_group(const sr_recipe_optimizer *settings, const sr_param_group *group,
                      sr_text *out) {
    sr_text words;
    sr_text_init(&words);
    add_words(settings, group, &words);
    sr_text_add(out, "  %-30.63s %4d tensors, %10lld elements: ", words.data, group->tensors,
                (long long)group->elements);
    sr_text_release(&words);
    add_treatment(group, out);
    sr_text_add(out, "\n");
}

// Groups of the recipe that have no tensor of the model.
static void add_empty_groups(const sr_recipe_optimizer *settings, const sr_param_groups *groups,
                             sr_text *out) {
    for (int match = 1; match <= settings->group_count; match++) {
        const sr_recipe_group *from = &settings->groups[match - 1];
        const sr_param_group empty = {.match = match,
                                      .depth = SR_NO_DEPTH,
                                      .lr_scale = from->lr_scale,
                                      .decay_scale = from->decay_scale,
                                      .frozen = from->frozen,
                                      .elementwise = from->elementwise,
                                      .until = from->until};
        bool found = false;
        for (int i = 0; i < groups->count; i++)
            found = found || groups->items[i].match == match;
        if (!found)
            add_group(settings, &empty, out);
    }
}

sr_status sr_param_groups_describe(const sr_recipe_optimizer *settings, const sr_model *model,
                                   sr_text *out) {
    sr_param_groups groups;
    if (settings->group_count == 0 && settings->no_decay.count == 0 && !decays_by_layer(settings))
        return SR_OK;
    sr_status status = sr_param_groups_make(settings, model, &groups);
    if (status == SR_OK) {
        sr_text_add(out, "\ngroups of parameters\n");
        for (int i = 0; i < groups.count; i++)
            add_group(settings, &groups.items[i], out);
        add_empty_groups(settings, &groups, out);
        status = sr_text_check(out);
    }
    sr_param_groups_free(&groups);
    return status;
}
