// SPDX-License-Identifier: Apache-2.0
// data.yaml and label lines of YOLO data sets (yolo_text.h).
//
// data.yaml is parsed with the events of libfyaml. Only the keys names, nc, path, kpt_shape, train,
// val (or validation) and test of the top map are used; others (download scripts, versions) are
// skipped. Aliases are refused, so nothing can be expanded. A number of a label line may be one per
// cent outside the picture, which Ultralytics accepts too: tools round. Source:
// https://docs.ultralytics.com/datasets/detect/ and .../segment/.
#include "dataio/formats/yolo_text.h"

#include <libfyaml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text.h"

#define SLACK 0.01 // of the picture, by which a coordinate may be outside

// -- data.yaml ---------------------------------------------------------------------------------

// The keys that are used; splits have the numbers of split.h.
enum { KEY_PATH = SR_SPLIT_COUNT, KEY_NAMES, KEY_NC, KEY_POINTS, KEY_COUNT, KEY_OTHER = KEY_COUNT };
static const char *const keys[KEY_COUNT] = {"train", "val", "test",     "path",
                                            "names", "nc",  "kpt_shape"};

typedef struct named {
    int64_t number;
    const char *name;
    int line;
} named;

typedef struct yaml_reader {
    const char *path;
    sr_arena *arena;
    sr_yolo_data *data;
    sr_status status;
    int depth;
    bool map[3];   // whether a map, not a list, is open at depths 1 and 2
    bool keyed[3]; // a key was read and its value is next
    int key;       // of the top map
    int line_of[KEY_COUNT];
    int64_t nc;
    sr_yolo_value inner; // key at depth 2
    void *names;         // named
    size_t name_count, name_capacity;
} yaml_reader;

static void fail(yaml_reader *r, int line, const char *fmt, ...) SR_PRINTF(3, 4);
static void fail(yaml_reader *r, int line, const char *fmt, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    if (r->status == SR_OK)
        r->status = SR_FAIL(SR_E_DATA, "%s:%d: %s", r->path, line, text);
}

static void keep(yaml_reader *r, sr_status status) {
    if (r->status == SR_OK)
        r->status = status;
}

static int line_of(struct fy_token *token) {
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    return mark ? mark->line + 1 : 1;
}

// "" for an empty value.
static const char *text_of(yaml_reader *r, struct fy_token *token) {
    size_t bytes = 0;
    const char *text = token ? fy_token_get_text(token, &bytes) : NULL;
    char *copy = sr_arena_alloc(r->arena, bytes + 1);
    if (copy == NULL)
        r->status = SR_E_MEMORY;
    else if (bytes > 0)
        memcpy(copy, text, bytes);
    return copy ? copy : "";
}

// A whole number from 0 up to 'most', or -1.
static int64_t number_of(const char *text, int64_t most) {
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    const long long value = strtoll(text, &end, 10);
    return *end == '\0' && value <= most ? value : -1;
}

static void add_path(yaml_reader *r, int split, sr_yolo_value value) {
    sr_yolo_data *d = r->data;
    if (value.text[0] == '\0')
        return; // "test:" without a value is common
    sr_status status = sr_grow(&d->paths[split], &d->path_capacity[split], d->path_count[split] + 1,
                               sizeof value, "folders of pictures");
    if (status == SR_OK)
        ((sr_yolo_value *)d->paths[split])[d->path_count[split]++] = value;
    keep(r, status);
}

static void add_name(yaml_reader *r, int64_t number, sr_yolo_value value) {
    if (number < 0) {
        fail(r, value.line, "names: '%.40s' is not a class number from 0 to %d", r->inner.text,
             SR_YOLO_MAX_CLASSES - 1);
        return;
    }
    if (value.text[0] == '\0') {
        fail(r, value.line, "names: class %lld has no name", (long long)number);
        return;
    }
    sr_status status =
        sr_grow(&r->names, &r->name_capacity, r->name_count + 1, sizeof(named), "names of classes");
    if (status == SR_OK)
        ((named *)r->names)[r->name_count++] =
            (named){.number = number, .name = value.text, .line = value.line};
    keep(r, status);
}

static void take_top_value(yaml_reader *r, sr_yolo_value value) {
    if (r->key < SR_SPLIT_COUNT) {
        add_path(r, r->key, value);
    } else if (r->key == KEY_PATH) {
        r->data->root = value;
    } else if (r->key == KEY_NC) {
        r->nc = number_of(value.text, SR_YOLO_MAX_CLASSES);
        if (r->nc < 1)
            fail(r, value.line, "nc: '%.40s' is not a number of classes", value.text);
    } else if (r->key == KEY_NAMES && value.text[0] != '\0') {
        fail(r, value.line, "names: expected a list or a map of class names, not '%.40s'",
             value.text);
    }
}

static void take_key(yaml_reader *r, sr_yolo_value value) {
    r->key =
        strcmp(value.text, "validation") == 0 ? SR_SPLIT_VAL : KEY_OTHER; // as Ultralytics does
    for (int k = 0; k < KEY_COUNT; k++)
        if (strcmp(value.text, keys[k]) == 0)
            r->key = k;
    if (r->key == KEY_OTHER)
        return;
    if (r->line_of[r->key] > 0)
        fail(r, value.line, "%s appears twice, first in line %d; keep one", keys[r->key],
             r->line_of[r->key]);
    r->line_of[r->key] = value.line;
}

static void take_scalar(yaml_reader *r, struct fy_token *token) {
    const int depth = r->depth;
    if (depth == 0) {
        fail(r, line_of(token), "expected a map with names, train and val");
        return;
    }
    if (depth > 2)
        return;
    sr_yolo_value value = {.text = text_of(r, token), .line = line_of(token)};
    if (token == NULL || fy_token_start_mark(token) == NULL)
        value.line = r->key < KEY_COUNT ? r->line_of[r->key] : 1;
    if (r->map[depth] && !r->keyed[depth]) {
        r->keyed[depth] = true;
        if (depth == 1)
            take_key(r, value);
        r->inner = value;
        return;
    }
    r->keyed[depth] = false;
    const int64_t number =
        r->map[2] ? number_of(r->inner.text, SR_YOLO_MAX_CLASSES - 1) : (int64_t)r->name_count;
    if (depth == 1)
        take_top_value(r, value);
    else if (r->key == KEY_NAMES)
        add_name(r, number, value);
    else if (r->key < SR_SPLIT_COUNT && !r->map[2])
        add_path(r, r->key, value);
}

static void begin(yaml_reader *r, struct fy_token *token, bool map) {
    const int line = line_of(token);
    if (r->depth == 0 && !map)
        fail(r, line, "a list where a map with names, train and val was expected");
    if (r->depth == 1 && !r->keyed[1])
        fail(r, line, "a key that is a list or a map");
    if (r->depth == 2 && r->key == KEY_NAMES)
        fail(r, line, "names: a list or a map where a name was expected");
    if (r->depth == 1 && map && r->key <= KEY_PATH)
        fail(r, line, "%s: expected a folder, a list file, or a list of them", keys[r->key]);
    if (r->depth > 0 && r->depth <= 2)
        r->keyed[r->depth] = r->map[r->depth] && !r->keyed[r->depth];
    r->depth++;
    if (r->depth <= 2) {
        r->map[r->depth] = map;
        r->keyed[r->depth] = false;
    }
}

// False at the end of the document.
static bool take_event(yaml_reader *r, struct fy_event *event) {
    switch (event->type) {
    case FYET_SCALAR:
        take_scalar(r, event->scalar.value);
        break;
    case FYET_MAPPING_START:
        begin(r, fy_event_get_token(event), true);
        break;
    case FYET_SEQUENCE_START:
        begin(r, fy_event_get_token(event), false);
        break;
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        r->depth--;
        break;
    case FYET_ALIAS:
        fail(r, line_of(fy_event_get_token(event)), "an alias ('*...'); write its value out");
        break;
    case FYET_DOCUMENT_END:
        return false;
    case FYET_NONE:
    case FYET_STREAM_START:
    case FYET_STREAM_END:
    case FYET_DOCUMENT_START:
    default:
        break;
    }
    return true;
}

static void report_syntax(yaml_reader *r, struct fy_diag *diag) {
    void *previous = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &previous);
    fail(r, error && error->line > 0 ? error->line : 1, "not YAML: %s",
         error ? error->msg : "no text");
}

static void run_parser(yaml_reader *r, const char *text, size_t bytes) {
    struct fy_diag_cfg diag_options;
    fy_diag_cfg_default(&diag_options);
    struct fy_diag *diag = fy_diag_create(&diag_options);
    struct fy_parse_cfg options = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG, .diag = diag};
    if (diag != NULL)
        fy_diag_set_collect_errors(diag, true);
    struct fy_parser *parser = diag ? fy_parser_create(&options) : NULL;
    if (parser == NULL || fy_parser_set_string(parser, text, bytes) != 0) {
        r->status = SR_FAIL(SR_E_MEMORY, "libfyaml cannot start: out of memory");
    } else {
        bool more = true;
        struct fy_event *event;
        while (more && r->status == SR_OK && (event = fy_parser_parse(parser)) != NULL) {
            more = take_event(r, event);
            fy_parser_event_free(parser, event);
        }
        if (r->status == SR_OK && fy_parser_get_stream_error(parser))
            report_syntax(r, diag);
    }
    fy_parser_destroy(parser);
    fy_diag_destroy(diag);
}

static int by_number(const void *a, const void *b) {
    const named *x = a, *y = b;
    const int order = (x->number > y->number) - (x->number < y->number);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static sr_status settle_names(yaml_reader *r) {
    named *names = r->names;
    const size_t count = r->name_count;
    const int line = r->line_of[KEY_NAMES];
    if (count > 0)
        qsort(names, count, sizeof *names, by_number);
    for (size_t i = 0; i < count && r->status == SR_OK; i++) {
        if (i > 0 && names[i].number == names[i - 1].number)
            fail(r, names[i].line, "names: class %lld appears twice, first in line %d",
                 (long long)names[i].number, names[i - 1].line);
        else if (names[i].number != (int64_t)i)
            fail(r, line, "names: class %zu has no name; classes are numbered from 0 without gaps",
                 i);
    }
    if (count > 0 && r->nc > 0 && r->nc != (int64_t)count)
        fail(r, r->line_of[KEY_NC], "nc is %lld, but names has %zu; correct the one that is wrong",
             (long long)r->nc, count);
    if (count > SR_YOLO_MAX_CLASSES)
        fail(r, line, "names: more than %d classes", SR_YOLO_MAX_CLASSES);
    SR_TRY(r->status);
    r->data->class_count = (int)(count > 0 ? (int64_t)count : r->nc > 0 ? r->nc : 0);
    if (count == 0)
        return SR_OK;
    r->data->names = sr_arena_alloc(r->arena, count * sizeof *r->data->names);
    if (r->data->names == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < count; i++)
        r->data->names[i] = names[i].name;
    return SR_OK;
}

sr_status sr_yolo_data_parse(const char *path, const char *text, size_t bytes, sr_arena *arena,
                             sr_yolo_data *out) {
    yaml_reader r = {.path = path, .arena = arena, .data = out, .key = KEY_OTHER};
    *out = (sr_yolo_data){0};
    int line = 1;
    for (size_t i = 0, n; i < bytes && r.status == SR_OK; i += n) {
        n = text[i] == '\0' ? 0 : sr_text_utf8_length(text + i);
        line += text[i] == '\n';
        if (n == 0)
            fail(&r, line, "byte 0x%02x is not part of UTF-8 text; save the file as UTF-8",
                 (unsigned char)text[i]);
    }
    if (r.status == SR_OK)
        run_parser(&r, text, bytes);
    if (r.status == SR_OK && r.name_count == 0 && r.nc == 0)
        fail(&r, r.line_of[KEY_NAMES] > 0 ? r.line_of[KEY_NAMES] : 1,
             "neither names nor nc; add names: [first class, second class, ...]");
    out->key_points = r.line_of[KEY_POINTS] > 0;
    const sr_status status = r.status == SR_OK ? settle_names(&r) : r.status;
    sr_free(r.names);
    if (status != SR_OK)
        sr_yolo_data_release(out);
    return status;
}

void sr_yolo_data_release(sr_yolo_data *data) {
    for (int split = 0; split < SR_SPLIT_COUNT; split++)
        sr_free(data->paths[split]);
    *data = (sr_yolo_data){0};
}

// Where the next key may begin: at the beginning of a line or, in a flow map ("{a: 1, b: 2}"),
// after '{' and ','.
static const char *next_key(const char *at, bool flow) {
    at += strcspn(at, flow ? "{," : "\n");
    if (*at != '\0')
        at++;
    return flow ? at + strspn(at, " \t\r\n") : at;
}

bool sr_yolo_data_is(const char *text) {
    const bool flow = text[strspn(text, " \t\r\n")] == '{';
    bool classes = false, pictures = false;
    for (const char *at = flow ? next_key(text, flow) : text; *at != '\0';
         at = next_key(at, flow)) {
        for (int k = 0; k < KEY_COUNT; k++) {
            const size_t n = strlen(keys[k]);
            const bool met = strncmp(at, keys[k], n) == 0 && at[n + strspn(at + n, " ")] == ':';
            classes = classes || (met && (k == KEY_NAMES || k == KEY_NC));
            pictures = pictures || (met && k <= KEY_PATH);
        }
    }
    return classes && pictures;
}

// -- label lines -------------------------------------------------------------------------------

// The next number of a line; false at its end. NaN for a text that is not a number.
static bool next_number(const char **at, const char *end, double *out) {
    char copy[64];
    while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
        (*at)++;
    const char *begin = *at;
    while (*at < end && **at != ' ' && **at != '\t' && **at != '\r')
        (*at)++;
    const size_t n = (size_t)(*at - begin);
    if (n == 0)
        return false;
    *out = (double)NAN;
    if (n >= sizeof copy)
        return true;
    memcpy(copy, begin, n);
    copy[n] = '\0';
    char *stop = copy;
    if (strspn(copy, "0123456789+-.eE") == n)
        *out = strtod(copy, &stop);
    if (stop != copy + n)
        *out = (double)NAN;
    return true;
}

static sr_status add_number(sr_yolo_object *o, double value) {
    SR_TRY(sr_grow(&o->points, &o->point_capacity, o->point_count + 1, sizeof value, "outlines"));
    ((double *)o->points)[o->point_count++] = value;
    return SR_OK;
}

// The box around the points.
static void bound(sr_yolo_object *o) {
    const double *p = o->points;
    memcpy(o->box, (double[4]){p[0], p[1], p[0], p[1]}, sizeof o->box);
    for (size_t i = 0; i < o->point_count; i++) {
        double *low = &o->box[i % 2], *high = &o->box[2 + i % 2];
        *low = p[i] < *low ? p[i] : *low;
        *high = p[i] > *high ? p[i] : *high;
    }
}

sr_status sr_yolo_line_parse(const char *line, size_t bytes, bool key_points, sr_yolo_object *out) {
    const char *at = line, *end = line + bytes;
    double value, label;
    out->point_count = 0;
    if (!next_number(&at, end, &label))
        return SR_FAIL(SR_E_DATA, "an empty line");
    if (!(label >= 0 && label < SR_YOLO_MAX_CLASSES) || label != floor(label))
        return SR_FAIL(SR_E_DATA, "the line does not begin with a class number from 0");
    out->label = (int32_t)label;
    while (next_number(&at, end, &value)) {
        if (key_points && out->point_count == 4)
            break;
        if (!isfinite(value))
            return SR_FAIL(SR_E_DATA, "value %zu is not a number", out->point_count + 2);
        if (!(value >= -SLACK && value <= 1 + SLACK))
            return SR_FAIL(SR_E_DATA,
                           "%g is not normalised: coordinates are fractions of the picture, 0 to 1",
                           value);
        SR_TRY(add_number(out, value));
    }
    const size_t n = out->point_count;
    if (n != 4 && (n < 6 || n % 2 != 0))
        return SR_FAIL(SR_E_DATA,
                       "a class and %zu numbers, where x y width height, or the points of an "
                       "outline, were expected",
                       n);
    if (n > 4) {
        bound(out);
        return SR_OK;
    }
    const double *p = out->points, half_width = p[2] / 2, half_height = p[3] / 2;
    const double box[4] = {p[0] - half_width, p[1] - half_height, p[0] + half_width,
                           p[1] + half_height};
    memcpy(out->box, box, sizeof box);
    out->point_count = 0;
    return SR_OK;
}
