// SPDX-License-Identifier: Apache-2.0
// Fuzzes recipes from text to the resolved tree. What loads must print as YAML that loads again to
// the same text and the same identity.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trainer/recipe/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A recipe is loaded by path: the text is in a file without a name.
static sr_recipe *load(const void *data, size_t size) {
    int fd = memfd_create("recipe", MFD_CLOEXEC);
    sr_recipe *recipe = NULL;
    char path[64];
    if (fd < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool written = write(fd, data, size) == (ssize_t)size;
    if (!written || sr_recipe_load(path, NULL, 0, &recipe) != SR_OK)
        recipe = NULL;
    (void)close(fd);
    return recipe;
}

// Weights are files of this machine; a recipe that names some is not evaluated further.
static void describe(const sr_recipe *recipe, sr_text *text, char identity[65]) {
    if (sr_recipe_print_yaml(recipe, false, text) != SR_OK)
        abort();
    if (recipe->weights_count == 0 && sr_recipe_identity(recipe, "data", identity) != SR_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sr_recipe *recipe = load(data, size);
    if (!recipe)
        return 0;
    char first_identity[65] = "", second_identity[65] = "";
    sr_text first, second;
    sr_text_init(&first);
    sr_text_init(&second);
    describe(recipe, &first, first_identity);
    sr_recipe_free(recipe);
    recipe = load(first.data, first.length);
    if (!recipe)
        abort();
    describe(recipe, &second, second_identity);
    sr_recipe_free(recipe);
    if (strcmp(first.data, second.data) != 0 || strcmp(first_identity, second_identity) != 0)
        abort();
    sr_text_release(&first);
    sr_text_release(&second);
    return 0;
}
