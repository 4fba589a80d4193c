// SPDX-License-Identifier: Apache-2.0
// Class names of any encoding as UTF-8 (class_name.h). Names that are UTF-8 stay as they are, with
// their control characters.
#include "dataio/record/class_name.h"

#include <string.h>

#include "kernels/base/text.h"

const char *sr_class_name_decode(const void *bytes, size_t n, sr_arena *arena) {
    char *name = sr_arena_alloc(arena, n + 1);
    if (name == NULL)
        return NULL;
    memcpy(name, bytes, n);
    name[n] = '\0';
    if (sr_text_is_utf8(name))
        return name;
    sr_text text;
    sr_text_init(&text);
    sr_text_add_visible(&text, name);
    name = sr_text_check(&text) == SR_OK ? sr_arena_strdup(arena, text.data) : NULL;
    sr_text_release(&text);
    return name;
}

static int64_t find(const char *const *names, int64_t count, const char *name, size_t bytes) {
    for (int64_t i = 0; i < count; i++)
        if (strlen(names[i]) == bytes && memcmp(names[i], name, bytes) == 0)
            return i;
    return -1;
}

int64_t sr_object_class(const sr_object *object, const char *const *names, int64_t count) {
    if (object->label >= 0 || object->name == NULL)
        return object->label >= 0 ? object->label : -1;
    int64_t found = find(names, count, object->name, object->name_bytes);
    if (found >= 0)
        return found;
    sr_arena arena;
    sr_arena_init(&arena);
    const char *name = sr_class_name_decode(object->name, object->name_bytes, &arena);
    if (name != NULL)
        found = find(names, count, name, strlen(name));
    sr_arena_release(&arena);
    return found;
}
