// SPDX-License-Identifier: Apache-2.0
// Renames tensors between layouts of weights (weight_names.h).
#include "trainer/models/weight_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STARS = 4 };

// What an asterisk or a caret stands for.
typedef struct name_star {
    const char *text;
    size_t length;
    bool caret;
} name_star;

typedef struct name_match {
    name_star stars[MOST_STARS];
    int count;
    const char *rest; // what follows the pattern
} name_match;

static bool is_star(char c) {
    return c == '*' || c == '^';
}

static bool match(const char *pattern, const char *name, name_match *out) {
    *out = (name_match){.count = 0};
    for (; *pattern; pattern++) {
        if (!is_star(*pattern)) {
            if (*name++ != *pattern)
                return false;
            continue;
        }
        const bool caret = *pattern == '^';
        const size_t length = caret ? strspn(name, "0123456789") : strcspn(name, ".");
        if (length == 0 || out->count == MOST_STARS)
            return false;
        out->stars[out->count++] = (name_star){.text = name, .length = length, .caret = caret};
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

static void append_star(char out[SR_WEIGHT_NAME_BYTES], size_t *used, const name_star *star,
                        bool caret) {
    char number[32];
    if (star->caret == caret) {
        append(out, used, star->text, star->length);
        return;
    }
    const unsigned long there = strtoul(star->text, NULL, 10);
    const int length = snprintf(number, sizeof number, "%lu", caret ? there + 1 : there - 1);
    append(out, used, number, (size_t)length);
}

static void write_name(const char *pattern, const name_match *m, char out[SR_WEIGHT_NAME_BYTES]) {
    size_t used = 0;
    int star = 0;
    for (; *pattern; pattern++) {
        if (!is_star(*pattern))
            append(out, &used, pattern, 1);
        else if (star < m->count)
            append_star(out, &used, &m->stars[star++], *pattern == '^');
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
