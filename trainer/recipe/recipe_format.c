// SPDX-License-Identifier: Apache-2.0
// Text in the arena of a recipe.
#include <stdio.h>

#include "trainer/recipe/recipe_internal.h"

const char *sr_recipe_format_list(sr_recipe_internal *in, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, fmt, args);
    char *text = length < 0 ? NULL : sr_arena_alloc(&in->arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, fmt, again);
    va_end(again);
    in->out_of_memory = in->out_of_memory || !text;
    return text ? text : "";
}

const char *sr_recipe_format(sr_recipe_internal *in, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *text = sr_recipe_format_list(in, fmt, args);
    va_end(args);
    return text;
}
