// SPDX-License-Identifier: Apache-2.0
// Renames tensors between layouts of weights (weight_names.h).
#include "trainer/models/weight_names.h"

#include <stdio.h>
#include <string.h>

enum { MOST_STARS = 4 };

// What the asterisks of a pattern stand for, and what follows the pattern.
typedef struct name_match {
    const char *text[MOST_STARS], *rest;
    size_t length[MOST_STARS];
    int stars;
} name_match;

static int match(const char *pattern, const char *name, name_match *out) {
    *out = (name_match){.stars = 0};
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*name++ != *pattern)
                return 0;
            continue;
        }
        const size_t length = strcspn(name, ".");
        if (length == 0 || out->stars == MOST_STARS)
            return 0;
        out->text[out->stars] = name;
        out->length[out->stars++] = length;
        name += length;
    }
    out->rest = name;
    return *name == '\0' || *name == '.';
}

static void append(char out[SR_WEIGHT_NAME_BYTES], size_t *used, const char *text, size_t length) {
    const size_t left = SR_WEIGHT_NAME_BYTES - 1 - *used;
    length = length < left ? length : left;
    memcpy(out + *used, text, length);
    *used += length;
    out[*used] = '\0';
}

static void write_name(const char *pattern, const name_match *m, char out[SR_WEIGHT_NAME_BYTES]) {
    size_t used = 0;
    int star = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*')
            append(out, &used, pattern, 1);
        else if (star < m->stars)
            append(out, &used, m->text[star], m->length[star]);
        star += *pattern == '*';
    }
    append(out, &used, m->rest, strlen(m->rest));
}

static const char *in_layout(const sr_weight_name_row *row, int layout) {
    return row->name[layout] ? row->name[layout] : row->name[0];
}

void sr_weight_name(const sr_weight_names *names, int from, int to, const char *name,
                    char out[SR_WEIGHT_NAME_BYTES]) {
    name_match m;
    for (int i = 0; i < names->count && from != to; i++) {
        if (match(in_layout(&names->rows[i], from), name, &m)) {
            write_name(in_layout(&names->rows[i], to), &m, out);
            return;
        }
    }
    (void)snprintf(out, SR_WEIGHT_NAME_BYTES, "%s", name);
}
