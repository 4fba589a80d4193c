// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/trainer/recipe_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/support/test_support.h"

static char folder[256];

void recipe_put(const char *path, const char *text) {
    assert_ok(sr_file_write_atomic(path, text, strlen(text)));
}

int recipe_enter(void **state) {
    (void)state;
    test_folder_make(folder);
    if (chdir(folder) != 0 || mkdir("shipped", 0700) != 0 || mkdir("deep", 0700) != 0)
        return -1;
    recipe_put("shipped.d-keep", "");
    recipe_put("shipped/plain.yaml", "about: 'a \"plain\" one'\n" RECIPE_BASIS "batch: 64\n");
    recipe_put("shipped/planar.yaml", "base: plain\nbatch: 32\n");
    return setenv("SERRIED_RECIPES", "shipped", 1);
}

int recipe_leave(void **state) {
    (void)state;
    test_folder_remove(folder);
    return chdir("/");
}

sr_recipe *recipe_load(const char *path, const char *const *overrides, int count) {
    sr_recipe *recipe = NULL;
    assert_ok(sr_recipe_load(path, overrides, count, &recipe));
    return recipe;
}

sr_recipe *recipe_load_text(const char *text) {
    recipe_put("r.yaml", text);
    return recipe_load("r.yaml", NULL, 0);
}
