// SPDX-License-Identifier: Apache-2.0
// Mistakes in recipes, reported like a compiler's: position, cause, cure, source line and caret.
//
// They are collected in the order of the files, so that one run shows all of them;
// sr_recipe_verdict puts the whole report into the error message.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trainer/recipe/recipe_internal.h"

static const char *line_of(const sr_recipe_source *source, int line, size_t *length) {
    const char *text = source->text;
    for (; line > 0; line--) {
        const char *end = strchr(text, '\n');
        if (!end)
            return NULL;
        text = end + 1;
    }
    *length = strcspn(text, "\r\n");
    return *length > 0 ? text : NULL;
}

// Adds the line and a caret. Long lines are cut to the part around the caret.
static void add_excerpt(sr_text *report, sr_recipe_position at) {
    size_t length = 0;
    const char *line = line_of(at.source, at.line, &length);
    if (!line)
        return;
    size_t caret = 0;
    for (int i = 0; i < at.column && caret < length; i++) {
        caret++;
        while (caret < length && ((unsigned char)line[caret] & 0xc0u) == 0x80u)
            caret++;
    }
    size_t from = caret > 100 ? caret - 60 : 0;
    while (from > 0 && ((unsigned char)line[from] & 0xc0u) == 0x80u)
        from--;
    size_t shown = length - from > 160 ? 160 : length - from;
    sr_text_add(report, "\n  ");
    sr_text_add_bytes(report, line + from, shown);
    sr_text_add(report, "\n  ");
    for (size_t i = from; i < caret; i++) {
        if (((unsigned char)line[i] & 0xc0u) != 0x80u)
            sr_text_add(report, "%c", line[i] == '\t' ? '\t' : ' ');
    }
    sr_text_add(report, "^");
}

static void add_mistake(const sr_recipe_internal *in, sr_text *report, sr_recipe_position at,
                        const char *message) {
    if (!at.source)
        sr_text_add(report, "%s: error: %s", in->file ? in->file : "recipe", message);
    else if (at.source->is_override)
        sr_text_add(report, "%s: error: %s", at.source->name, message);
    else
        sr_text_add(report, "%s:%d:%d: error: %s", at.source->name, at.line + 1, at.column + 1,
                    message);
    if (at.source)
        add_excerpt(report, at);
}

// Sources in the order of opening; mistakes without a position last.
static bool comes_before(sr_recipe_position a, sr_recipe_position b) {
    if (!a.source || !b.source)
        return a.source && !b.source;
    if (a.source != b.source)
        return a.source->order < b.source->order;
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

void sr_recipe_mistake(sr_recipe_internal *in, sr_recipe_position at, const char *fmt, ...) {
    if (++in->mistakes > SR_RECIPE_MAX_MISTAKES)
        return;
    sr_mistake *mistake = sr_arena_alloc(&in->arena, sizeof *mistake);
    if (!mistake) {
        in->out_of_memory = true;
        return;
    }
    va_list args;
    va_start(args, fmt);
    *mistake = (sr_mistake){at, sr_recipe_format_list(in, fmt, args), NULL};
    va_end(args);
    sr_mistake **link = &in->first_mistake;
    while (*link && !comes_before(at, (*link)->at))
        link = &(*link)->next;
    mistake->next = *link;
    *link = mistake;
}

// Replaces control characters of a recipe or argument, which a terminal would execute; columns
// stay.
static void hide_controls(sr_text *report) {
    for (size_t i = 0; i < report->length; i++) {
        const unsigned char c = (unsigned char)report->data[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            report->data[i] = '?';
    }
}

sr_status sr_recipe_verdict(const sr_recipe_internal *in) {
    if (in->out_of_memory)
        return SR_FAIL(SR_E_MEMORY, "out of memory while reading a recipe");
    if (in->mistakes == 0)
        return SR_OK;
    sr_text report;
    sr_text_init(&report);
    int shown = 0;
    for (const sr_mistake *m = in->first_mistake; m; m = m->next) {
        size_t before = report.length;
        sr_text_add(&report, "%s", before > 0 ? "\n" : "");
        add_mistake(in, &report, m->at, m->message);
        if (before > 0 && report.length > SR_RECIPE_MAX_REPORT && !report.failed) {
            report.length = before;
            break;
        }
        shown++;
    }
    hide_controls(&report);
    sr_status status = sr_text_check(&report);
    if (status == SR_OK && in->mistakes > shown)
        status = SR_FAIL(SR_E_USAGE, "%.*s\n(%d more mistakes)", (int)report.length, report.data,
                         in->mistakes - shown);
    else if (status == SR_OK)
        status = SR_FAIL(SR_E_USAGE, "%s", report.data);
    sr_text_release(&report);
    return status;
}
