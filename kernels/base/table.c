// SPDX-License-Identifier: Apache-2.0
// Tables of descriptors (table.h). Pointers are read with memcpy: a list is an array of pointers to
// a descriptor type that is unknown here. Scans are linear: tables have a few dozen rows and are
// searched when recipes are read and plans are made, never in a step.
#include "kernels/base/table.h"

#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/text.h"

static const void *item(const void *list, size_t index) {
    const void *pointer;
    memcpy(&pointer, (const char *)list + index * sizeof pointer, sizeof pointer);
    return pointer;
}

static sr_descriptor head(const void *descriptor) {
    sr_descriptor d;
    memcpy(&d, descriptor, sizeof d);
    return d;
}

sr_descriptor sr_table_item(const void *all, size_t i) {
    return head(item(all, i));
}

const void *sr_table_all(const sr_table *table, size_t *count) {
    *count = table->all ? table->count : table->built_in_count;
    return table->all ? table->all : table->built_in;
}

static const void *find(const sr_table *table, const char *name, size_t *index) {
    size_t count;
    const void *all = sr_table_all(table, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(head(item(all, i)).name, name) == 0) {
            *index = i;
            return item(all, i);
        }
    }
    return NULL;
}

const void *sr_table_find(const sr_table *table, const char *name) {
    size_t index;
    return find(table, name, &index);
}

const char *sr_table_origin(const sr_table *table, const char *name) {
    size_t index;
    return find(table, name, &index) && table->origins ? table->origins[index] : NULL;
}

void sr_table_names(const void *all, size_t count, const char **names) {
    for (size_t i = 0; i < count; i++)
        names[i] = head(item(all, i)).name;
}

const char *sr_table_nearest(const sr_table *table, const char *word) {
    size_t count;
    const void *all = sr_table_all(table, &count);
    const char **names = sr_alloc_array(count, sizeof *names, "names");
    if (!names)
        return NULL;
    sr_table_names(all, count, names);
    const char *near = sr_text_nearest(word, names, count);
    sr_free(names);
    return near;
}

sr_status sr_table_choose(const sr_table *table, const char *name, const void **out) {
    const void *found = sr_table_find(table, name);
    if (found) {
        *out = found;
        return SR_OK;
    }
    const char *near = sr_table_nearest(table, name);
    if (near)
        return SR_FAIL(SR_E_USAGE, "unknown %s '%s'; did you mean '%s'?", table->what, name, near);
    return SR_FAIL(SR_E_USAGE, "unknown %s '%s'; see 'serried info %s%ss'", table->what, name,
                   table->what, table->what[strlen(table->what) - 1] == 's' ? "e" : "");
}

// Only the head is read before its size and ABI are known to match.
static sr_status check(const sr_table *table, const void *descriptor, const char *origin) {
    sr_descriptor d = head(descriptor);
    size_t index;
    if (d.abi != table->abi) {
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s: a %s for interface %u, but this serried has interface %u; rebuild it "
                       "against the installed headers",
                       origin, table->what, d.abi, table->abi);
    }
    if (d.struct_size != table->struct_size) {
        return SR_FAIL(
            SR_E_UNSUPPORTED,
            "%s: the descriptor of a %s has %u bytes, but this serried's has %u; rebuild "
            "it against the installed headers",
            origin, table->what, d.struct_size, table->struct_size);
    }
    if (!d.name || !d.name[0])
        return SR_FAIL(SR_E_USAGE, "%s: a %s has no name", origin, table->what);
    if (find(table, d.name, &index)) {
        const char *other = table->origins ? table->origins[index] : NULL;
        return SR_FAIL(SR_E_USAGE, "%s: the %s '%s' exists already, from %s; give it another name",
                       origin, table->what, d.name, other ? other : "serried itself");
    }
    if (!table->check)
        return SR_OK;
    sr_status status = table->check(descriptor);
    if (status != SR_OK)
        sr_error_prefix("%s: %s '%s'", origin, table->what, d.name);
    return status;
}

static sr_status grow(sr_table *table, size_t need) {
    void *origins = table->origins;
    bool first = !table->all;
    SR_TRY(sr_grow(&table->all, &table->capacity, need, sizeof(void *), table->what));
    sr_status status =
        sr_grow(&origins, &table->origin_capacity, need, sizeof *table->origins, table->what);
    table->origins = origins;
    if (first && status == SR_OK) {
        memcpy(table->all, table->built_in, table->built_in_count * sizeof(void *));
        table->count = table->built_in_count;
    } else if (first) {
        sr_free(table->all);
        table->all = NULL;
        table->capacity = 0;
    }
    return status;
}

sr_status sr_table_add(sr_table *table, const void *list, const char *origin) {
    size_t before;
    (void)sr_table_all(table, &before);
    for (size_t i = 0; list && item(list, i); i++) {
        const void *descriptor = item(list, i);
        sr_status status = check(table, descriptor, origin);
        if (status == SR_OK)
            status = grow(table, before + i + 1);
        if (status != SR_OK) {
            if (table->all)
                table->count = before;
            return status;
        }
        memcpy((char *)table->all + table->count * sizeof(void *), &descriptor, sizeof descriptor);
        table->origins[table->count++] = origin;
    }
    return SR_OK;
}
