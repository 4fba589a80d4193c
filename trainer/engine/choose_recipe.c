// SPDX-License-Identifier: Apache-2.0
// Loads a recipe by name; a model's name, which is easily taken for one, is explained.
#include <string.h>

#include "kernels/base/text.h"
#include "trainer/engine/choices.h"

// The recipe of models whose family has none.
static const char usual[] = "resnet50";

typedef struct candidate {
    const char *name;
    bool own;  // it trains this model
    int score; // letters that both names begin with; -1: another family
} candidate;

static int common_beginning(const char *a, const char *b) {
    int n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

// Models of one family share their forward pass.
static candidate rate(const sr_recipe *recipe, const sr_model_desc *model, const char *name) {
    const char *chosen = recipe->set_count == 1 ? recipe->sets[0].model.name : NULL;
    const sr_model_desc *other = chosen ? sr_model_find(chosen) : NULL;
    const bool family = other && other->forward == model->forward;
    return (candidate){.name = name,
                       .own = other == model,
                       .score = family ? common_beginning(name, model->name) : -1};
}

// The shipped recipe that suits the model best; its name has memory of the arena.
static candidate recipe_for(const sr_model_desc *model, sr_arena *arena) {
    sr_recipe_listing *items;
    int count = 0;
    candidate best = {.name = usual, .score = -1};
    if (sr_recipe_list(arena, &items, &count) != SR_OK)
        return best;
    for (int i = 0; i < count; i++) {
        sr_recipe *recipe;
        if (sr_recipe_load(items[i].path, NULL, 0, &recipe) != SR_OK)
            continue;
        const candidate c = rate(recipe, model, items[i].name);
        if (c.own > best.own || (c.own == best.own && c.score > best.score))
            best = c;
        sr_recipe_free(recipe);
    }
    return best;
}

static sr_status explain_model(const sr_model_desc *model) {
    sr_arena arena;
    sr_arena_init(&arena);
    const candidate c = recipe_for(model, &arena);
    const sr_status status =
        SR_FAIL(SR_E_NOT_FOUND,
                "'%s' is a model, not a recipe: %s '%s%s%s' ('serried recipe list' lists recipes)",
                model->name, c.own ? "it is trained by" : "give it to one, as in", c.name,
                c.own ? "" : " model=", c.own ? "" : model->name);
    sr_arena_release(&arena);
    return status;
}

sr_status sr_choose_recipe(const char *name, const char *const *overrides, int override_count,
                           sr_recipe **out) {
    const sr_status status = sr_recipe_load(name, overrides, override_count, out);
    if (status != SR_E_NOT_FOUND)
        return status;
    const sr_model_desc *model = sr_model_find(name);
    if (model)
        return explain_model(model);
    const char *near = sr_model_nearest(name);
    const bool other = strstr(sr_error_message(), "did you mean") != NULL; // a recipe
    if (near && !other && sr_text_same_word(near, name))
        return explain_model(sr_model_find(near));
    if (near && (!other || strncmp(near, name, strlen(name)) == 0))
        return SR_FAIL(SR_E_NOT_FOUND, "%s; '%s' is a model, for 'model=' of a recipe",
                       sr_error_message(), near);
    return status;
}
