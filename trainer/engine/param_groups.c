// SPDX-License-Identifier: Apache-2.0
// Matches the words of parameter groups (param_groups.h). A word is a kind (bias, norm), a shell
// pattern for whole names, or a prefix up to a dot: "layer1" matches everything in layer1.
#include "trainer/engine/param_groups.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"

#define MAX_LISTED 12 // prefixes in a message

static bool is_kind(const char *word) {
    return strcmp(word, "bias") == 0 || strcmp(word, "norm") == 0;
}

static bool matches(const sr_param *param, const char *word) {
    const size_t n = strlen(word);
    if (strcmp(word, "bias") == 0 && param->kind == SR_PARAM_BIAS)
        return true;
    if (strcmp(word, "norm") == 0 && param->kind == SR_PARAM_NORM)
        return true;
    if (strncmp(param->name, word, n) == 0 && param->name[n] == '.')
        return true;
    return fnmatch(word, param->name, 0) == 0;
}

int sr_param_group_of(const sr_recipe_optimizer *settings, const sr_param *param) {
    for (int i = 0; i < settings->group_count; i++)
        for (size_t k = 0; k < settings->groups[i].match.count; k++)
            if (matches(param, settings->groups[i].match.items[k]))
                return i + 1;
    return 0;
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

sr_status sr_param_groups_check(sr_recipe *recipe, int phase, const sr_model *model) {
    const sr_recipe_optimizer *settings = &recipe->phases[phase].optimizer;
    for (int i = 0; i < settings->group_count; i++) {
        const sr_string_list *words = &settings->groups[i].match;
        for (size_t k = 0; k < words->count; k++) {
            // A recipe for several models may name kinds that one of them does not have.
            if (is_kind(words->items[k]) || matches_any(model, words->items[k]))
                continue;
            char path[256];
            (void)snprintf(path, sizeof path, "%s.groups[%d].match", settings->choice.path, i);
            return refuse(recipe, path, words->items[k], model);
        }
    }
    return SR_OK;
}

// ---- The report ----

static void add_treatment(const sr_recipe_group *group, sr_text *out) {
    static const char *const units[] = {
        [SR_LENGTH_EPOCHS] = "ep", [SR_LENGTH_STEPS] = "it", [SR_LENGTH_SAMPLES] = " samples"};
    if (group->frozen) {
        sr_text_add(out, "frozen");
        return;
    }
    sr_text_add(out, "learning rate x %g, weight decay x %g", group->lr_scale, group->decay_scale);
    if (group->until.count > 0)
        sr_text_add(out, ", until %g%s", group->until.count, units[group->until.unit]);
}

static void add_group(const sr_recipe_optimizer *settings, const sr_model *model, int group,
                      sr_text *out) {
    int tensors = 0;
    int64_t elements = 0;
    for (int i = 0; i < model->param_count; i++) {
        const sr_param *p = &model->params[i];
        if (p->kind == SR_PARAM_BUFFER || p->kind == SR_PARAM_FROZEN ||
            sr_param_group_of(settings, p) != group)
            continue;
        tensors++;
        elements += sr_info_count(&p->info);
    }
    sr_text_add(out, "%4d tensors, %10lld elements: ", tensors, (long long)elements);
    if (group > 0)
        add_treatment(&settings->groups[group - 1], out);
    else
        sr_text_add(out, "as set for the optimizer");
    sr_text_add(out, "\n");
}

void sr_param_groups_describe(const sr_recipe_optimizer *settings, const sr_model *model,
                              sr_text *out) {
    if (settings->group_count == 0)
        return;
    sr_text_add(out, "\ngroups of parameters\n");
    for (int i = 0; i <= settings->group_count; i++) {
        const int group = (i + 1) % (settings->group_count + 1); // the rest comes last
        char words[64] = "the rest";
        size_t used = 0;
        for (size_t k = 0; group > 0 && k < settings->groups[group - 1].match.count; k++)
            if (used < sizeof words)
                used +=
                    (size_t)snprintf(words + used, sizeof words - used, "%s%s", k > 0 ? ", " : "",
                                     settings->groups[group - 1].match.items[k]);
        sr_text_add(out, "  %-30s ", words);
        add_group(settings, model, group, out);
    }
}
