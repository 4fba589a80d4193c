// SPDX-License-Identifier: Apache-2.0
// The table of formats (format.h).
#include "dataio/formats/format.h"

#include <string.h>

#include "dataio/formats/class_folders.h"
#include "kernels/base/text.h"

#define FORMAT(name) extern const sr_format sr_format_##name;
#include "dataio/formats/format_list.def"
#undef FORMAT

static const sr_format *const formats[] = {
#define FORMAT(name) &sr_format_##name,
#include "dataio/formats/format_list.def"
#undef FORMAT
};

const sr_format *sr_format_at(size_t index) {
    return index < sizeof formats / sizeof *formats ? formats[index] : NULL;
}

static bool some_wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    const sr_format *format;
    for (size_t i = 0; (format = sr_format_at(i)) != NULL; i++)
        if (format->wants != NULL && format->wants(path, head, head_bytes, bytes))
            return true;
    return false;
}

// -- choosing ----------------------------------------------------------------------------------

static sr_status fail_unknown(const char *name) {
    sr_text names;
    const char *candidates[32];
    const sr_format *format;
    size_t count = 0;
    sr_text_init(&names);
    for (; count < 32 && (format = sr_format_at(count)) != NULL; count++) {
        candidates[count] = format->name;
        sr_text_add(&names, "%s%s", count > 0 ? ", " : "", format->name);
    }
    const char *nearest = sr_text_nearest(name, candidates, count);
    const sr_status status = SR_FAIL(
        SR_E_USAGE, "unknown source format '%.40s'%s%s%s; available: %s", name,
        nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", names.data);
    sr_text_release(&names);
    return status;
}

static const sr_format *find_named(const char *name) {
    const sr_format *format = NULL;
    for (size_t i = 0; (format = sr_format_at(i)) != NULL; i++)
        if (strcmp(format->name, name) == 0)
            break;
    return format;
}

// Sets the format. other: what the source might be instead, or NULL.
static sr_status choose(sr_source *source, const sr_format *format, const sr_recognition *found,
                        const sr_format *other, const sr_recognition *instead) {
    sr_text line;
    sr_text_init(&line);
    sr_text_add_visible(&line, source->path);
    sr_text_add(&line, ": read as %s, %s: ", format->name, format->help);
    sr_text_add_visible(&line, found->why);
    if (other != NULL) {
        sr_text_add(&line, " (--format-in %s would take ", other->name);
        sr_text_add_visible(&line, instead->why);
        sr_text_add(&line, ")");
    }
    sr_status status = sr_text_check(&line);
    source->format = format;
    source->reading = status == SR_OK ? sr_arena_strdup(&source->arena, line.data) : NULL;
    if (status == SR_OK && source->reading == NULL)
        status = SR_E_MEMORY;
    sr_text_release(&line);
    return status;
}

static sr_status take_named(sr_source *source, const char *name) {
    const sr_format *format = find_named(name);
    sr_recognition found = {0};
    if (source->list != NULL && strcmp(name, "listed") != 0)
        return SR_FAIL(
            SR_E_USAGE,
            "--list states the classes, so --format-in has no effect: leave out one of them");
    SR_TRY(format->recognises(source, &found));
    if (found.certainty == SR_FORMAT_NO)
        return SR_FAIL(SR_E_DATA,
                       "%s: cannot be read as %s, %s; without --format-in the format is detected",
                       source->path, format->name, format->help);
    return choose(source, format, &found, NULL, NULL);
}

static sr_status find_format(sr_source *source) {
    const sr_format *format, *other = NULL;
    sr_recognition instead = {0};
    for (size_t i = 0; (format = sr_format_at(i)) != NULL; i++) {
        sr_recognition found = {0};
        sr_class_folders folders = {0};
        SR_TRY(format->recognises(source, &found));
        if (found.certainty == SR_FORMAT_BESIDE)
            SR_TRY(sr_class_folders_find(source, &folders));
        if (found.certainty == SR_FORMAT_YES ||
            (found.certainty == SR_FORMAT_BESIDE && folders.names.count < 2))
            return choose(source, format, &found, other, &instead);
        if (found.certainty != SR_FORMAT_NO && other == NULL) {
            other = format;
            instead = found;
        }
    }
    return SR_FAIL(SR_E_INTERNAL, "%s: no format", source->path); // the last one accepts everything
}

sr_status sr_format_open(const char *path, const char *list, const char *name,
                         const char *spool_folder, const sr_source_limits *limits,
                         sr_source **out) {
    sr_source *source;
    if (name != NULL && find_named(name) == NULL)
        return fail_unknown(name);
    SR_TRY(sr_source_open(path, list, spool_folder, limits, some_wants, &source));
    sr_status status = name != NULL ? take_named(source, name) : find_format(source);
    if (status != SR_OK) {
        sr_source_free(source);
        return status;
    }
    *out = source;
    return SR_OK;
}
