// SPDX-License-Identifier: Apache-2.0
// Recipes in tests: a working folder under /tmp with shipped recipes of its own.
#ifndef SR_TESTS_RECIPE_FIXTURE_H
#define SR_TESTS_RECIPE_FIXTURE_H

#include "trainer/recipe/recipe.h"

#define RECIPE_BASIS "model: net\nepochs: 2\noptimizer: {name: sgd, lr: 0.1}\n"

// Of a group: the folder becomes the working folder, with shipped/plain.yaml, shipped/planar.yaml
// and an empty folder deep.
int recipe_enter(void **state);
int recipe_leave(void **state);
void recipe_put(const char *path, const char *text);
// A recipe that loads.
sr_recipe *recipe_load(const char *path, const char *const *overrides, int count);
// The same of r.yaml with this text.
sr_recipe *recipe_load_text(const char *text);

#endif
