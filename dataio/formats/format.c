// SPDX-License-Identifier: Apache-2.0
// The table of formats (format.h).
#include "dataio/formats/format.h"

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

static sr_status find_format(sr_source *source) {
    const sr_format *format;
    for (size_t i = 0; (format = sr_format_at(i)) != NULL; i++) {
        bool fits = false;
        SR_TRY(format->recognises(source, &fits));
        if (fits) {
            source->format = format;
            return SR_OK;
        }
    }
    return SR_FAIL(SR_E_INTERNAL, "%s: no format", source->path); // the last one accepts everything
}

sr_status sr_format_open(const char *path, const char *list, const char *spool_folder,
                         const sr_source_limits *limits, sr_source **out) {
    sr_source *source;
    SR_TRY(sr_source_open(path, list, spool_folder, limits, some_wants, &source));
    sr_status status = find_format(source);
    if (status != SR_OK) {
        sr_source_free(source);
        return status;
    }
    *out = source;
    return SR_OK;
}
