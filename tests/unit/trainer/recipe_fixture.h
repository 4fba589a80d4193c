// SPDX-License-Identifier: Apache-2.0
// Recipes in tests: a working folder under /tmp with its own shipped recipes.
#ifndef SR_TESTS_RECIPE_FIXTURE_H
#define SR_TESTS_RECIPE_FIXTURE_H

#include "trainer/recipe/recipe.h"

#define RECIPE_BASIS "model: net\nepochs: 2\noptimizer: {name: sgd, lr: 0.1}\n"

// Set-up of a group of tests: the folder becomes the working folder, with shipped/plain.yaml,
// shipped/planar.yaml and an empty folder deep.
int recipe_enter(void **state);
int recipe_leave(void **state);
void recipe_put(const char *path, const char *text);
// Loads a recipe, which must succeed.
sr_recipe *recipe_load(const char *path, const char *const *overrides, int count);
// Writes this text to r.yaml and loads it.
sr_recipe *recipe_load_text(const char *text);

#endif
