// SPDX-License-Identifier: Apache-2.0
// COCO's JSON, parsed with the events of yajl (coco_json.h).
//
// A stack of frames tracks the position in the known structure; everything else is skipped.
// Reported positions are the end of the invalid value, as yajl reports tokens when they end. The
// first mistake in an image or annotation is kept until its object ends, which is then reported as
// a flaw; mistakes elsewhere end the parsing. yajl checks syntax and UTF-8; this file checks types,
// nesting and lengths. It is not a general JSON reader (trainer/checkpoint/json_tree.h is), and
// reads no captions or key points. Source: https://cocodataset.org/#format-data; RFC 8259; yajl
// 2.1.
#include "dataio/formats/coco_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_parse.h>

#include "dataio/formats/rle.h"
#include "kernels/base/memory.h"

#define CHUNK ((size_t)64 << 10)
#define MAX_DEPTH 64
#define MAX_TOKEN ((uint64_t)64 << 20) // bytes without a value: an unterminated string
#define MAX_KEY 32
#define MAX_NAME 4096
#define MAX_NUMBERS ((size_t)16 << 20) // of one annotation
#define PROBE_BYTES ((uint64_t)1 << 20)

typedef enum frame {
    FRAME_OTHER = 0, // skipped with its contents
    FRAME_TOP,
    FRAME_IMAGES,
    FRAME_IMAGE,
    FRAME_ANNOTATIONS,
    FRAME_ANNOTATION,
    FRAME_CATEGORIES,
    FRAME_CATEGORY,
    FRAME_BOX,
    FRAME_SEGMENTATION,
    FRAME_POLYGON,
    FRAME_RUNS, // segmentation as run lengths
    FRAME_COUNTS,
    FRAME_SIZE,
} frame;

// The known lists and objects, by their parents and keys.
static const struct {
    frame parent;
    const char *key; // NULL: an item of a list
    bool list;
    frame frame;
} structure[] = {
    {FRAME_TOP, "images", true, FRAME_IMAGES},
    {FRAME_TOP, "annotations", true, FRAME_ANNOTATIONS},
    {FRAME_TOP, "categories", true, FRAME_CATEGORIES},
    {FRAME_IMAGES, NULL, false, FRAME_IMAGE},
    {FRAME_ANNOTATIONS, NULL, false, FRAME_ANNOTATION},
    {FRAME_CATEGORIES, NULL, false, FRAME_CATEGORY},
    {FRAME_ANNOTATION, "bbox", true, FRAME_BOX},
    {FRAME_ANNOTATION, "segmentation", true, FRAME_SEGMENTATION},
    {FRAME_ANNOTATION, "segmentation", false, FRAME_RUNS},
    {FRAME_SEGMENTATION, NULL, true, FRAME_POLYGON},
    {FRAME_RUNS, "counts", true, FRAME_COUNTS},
    {FRAME_RUNS, "size", true, FRAME_SIZE},
};

enum { HAS_ID = 1, HAS_NAME = 2, HAS_IMAGE = 4, HAS_CATEGORY = 8, HAS_COUNTS = 16 };

typedef struct parser {
    const sr_coco_reading *reading;
    yajl_handle yajl;
    frame stack[MAX_DEPTH];
    int depth;
    char key[MAX_KEY];
    bool probing, met_list; // probing stops at the first known list of the top object
    uint64_t last_value;    // offset of the end of the last value
    uint64_t chunk;         // offset of the chunk that is read
    uint64_t counted;       // offset up to which lines are counted
    uint64_t lines, line;   // line breaks before it; offset after the last one
    const uint8_t *data;
    size_t bytes;
    bool in_string, escaped; // at the end of the chunk
    sr_status status;
    char flaw[512]; // of the open image or annotation; "": none
    // the open object
    unsigned seen; // HAS_...
    sr_coco_image image;
    sr_coco_annotation annotation;
    int64_t category;
    char name[MAX_NAME];
    double box[4], size[2];
    int box_count, size_count;
    void *points, *sizes; // double; uint32_t
    size_t point_count, point_capacity, size_capacity;
    sr_rle rle;
} parser;

// -- positions ---------------------------------------------------------------------------------

static uint64_t position(const parser *p) {
    const size_t consumed = yajl_get_bytes_consumed(p->yajl); // of the last chunk, also after it
    return p->chunk + (consumed < p->bytes ? consumed : p->bytes);
}

// Counts the lines up to an offset in the chunk; offsets increase from call to call.
static void count_lines(parser *p, uint64_t end) {
    if (p->data == NULL) // an empty file
        return;
    const uint8_t *at = p->data + (p->counted - p->chunk), *stop = p->data + (end - p->chunk);
    while (at < stop && (at = memchr(at, '\n', (size_t)(stop - at))) != NULL) {
        p->lines++;
        p->line = p->chunk + (uint64_t)(++at - p->data);
    }
    p->counted = end > p->counted ? end : p->counted;
}

// Prefixes the message of a failure with the position, with or without the path.
static void add_position(parser *p, bool path) {
    const uint64_t end = position(p);
    count_lines(p, end);
    sr_error_prefix("%s%s%llu:%llu", path ? p->reading->path : "", path ? ":" : "",
                    (unsigned long long)p->lines + 1, (unsigned long long)(end - p->line) + 1);
}

// Stops the parser; for callbacks.
static int stop(parser *p, sr_status status) {
    if (status != SR_OK && p->status == SR_OK) {
        p->status = status;
        add_position(p, true);
    }
    return status == SR_OK;
}

static bool is_object(frame which) {
    return which == FRAME_IMAGE || which == FRAME_ANNOTATION;
}

// The same, but a mistake in an image or annotation is kept until its end.
static int take(parser *p, sr_status status) {
    bool inside = false;
    for (int i = 0; i < p->depth; i++)
        inside = inside || is_object(p->stack[i]);
    if (!inside || (status != SR_E_DATA && status != SR_E_LIMIT))
        return stop(p, status);
    if (p->flaw[0] == '\0') {
        add_position(p, false);
        (void)snprintf(p->flaw, sizeof p->flaw, "%s", sr_error_message());
    }
    return 1;
}

static void pass_chunk(parser *p) {
    count_lines(p, p->chunk + p->bytes);
    p->chunk += p->bytes;
    p->bytes = 0;
}

// -- objects -----------------------------------------------------------------------------------

static void begin_annotation(parser *p) {
    p->annotation = (sr_coco_annotation){.object.number = -1};
    p->box_count = p->size_count = 0;
    p->point_count = 0;
    p->rle.count = 0;
}

static sr_status end_image(const parser *p) {
    if ((p->seen & HAS_ID) == 0 || (p->seen & HAS_NAME) == 0)
        return SR_FAIL(SR_E_DATA, "an image without %s", p->seen & HAS_ID ? "file_name" : "id");
    return SR_OK;
}

static sr_status end_runs(parser *p) {
    sr_annotation *annotation = &p->annotation.object;
    if ((p->seen & HAS_COUNTS) == 0 || p->size_count != 2)
        return SR_FAIL(SR_E_DATA, "run lengths without %s",
                       p->seen & HAS_COUNTS ? "size: [height, width]" : "counts");
    if (!(p->size[0] >= 1 && p->size[0] <= 1 << 20 && p->size[1] >= 1 && p->size[1] <= 1 << 20))
        return SR_FAIL(SR_E_DATA, "run lengths of a size of %g x %g", p->size[0], p->size[1]);
    annotation->mask_height = (uint32_t)p->size[0];
    annotation->mask_width = (uint32_t)p->size[1];
    SR_TRY(sr_rle_check(&p->rle, annotation->mask_height, annotation->mask_width));
    SR_TRY(sr_rle_print(&p->rle));
    annotation->mask = p->rle.text;
    annotation->mask_bytes = (uint32_t)p->rle.text_bytes;
    return SR_OK;
}

static sr_status end_annotation(parser *p) {
    sr_annotation *annotation = &p->annotation.object;
    if ((p->seen & HAS_IMAGE) == 0 || (p->seen & HAS_CATEGORY) == 0)
        return SR_FAIL(SR_E_DATA, "no %s", p->seen & HAS_IMAGE ? "category_id" : "image_id");
    if (p->box_count != 4)
        return SR_FAIL(SR_E_DATA, "no bbox: [x, y, width, height]");
    annotation->box[0] = p->box[0];
    annotation->box[1] = p->box[1];
    annotation->box[2] = p->box[0] + p->box[2];
    annotation->box[3] = p->box[1] + p->box[3];
    annotation->difficult = annotation->crowd;
    for (int i = 0; i < 4; i++)
        if (!isfinite(annotation->box[i]))
            return SR_FAIL(SR_E_DATA, "a box of infinite size");
    annotation->points = p->points;
    annotation->point_count = p->point_count;
    annotation->polygon_sizes = p->sizes;
    return SR_OK;
}

// Passes an image or annotation to the caller.
static sr_status finish_object(parser *p, frame which) {
    const bool annotation = which == FRAME_ANNOTATION;
    if (p->flaw[0] != '\0') {
        const sr_coco_flaw flaw = {
            .annotation = annotation,
            .has_id = annotation ? p->annotation.object.number >= 0 : (p->seen & HAS_ID) != 0,
            .has_image = annotation && (p->seen & HAS_IMAGE) != 0,
            .id = annotation ? p->annotation.object.number : p->image.id,
            .image = p->annotation.image,
            .file_name = annotation || (p->seen & HAS_NAME) == 0 ? "" : p->name,
            .reason = p->flaw};
        return p->reading->flaw(p->reading->user, &flaw);
    }
    if (annotation)
        return p->reading->annotation(p->reading->user, &p->annotation);
    p->image.file_name = p->name;
    return p->reading->image(p->reading->user, &p->image);
}

static sr_status end_category(parser *p) {
    if ((p->seen & HAS_ID) == 0 || (p->seen & HAS_NAME) == 0)
        return SR_FAIL(SR_E_DATA, "a category without %s", p->seen & HAS_ID ? "name" : "id");
    return p->reading->category(p->reading->user, p->category, p->name);
}

static sr_status end_polygon(parser *p) {
    const uint32_t numbers = ((uint32_t *)p->sizes)[p->annotation.object.polygon_count - 1];
    if (numbers % 2 != 0)
        return SR_FAIL(SR_E_DATA, "a polygon of %u numbers, which are not pairs of coordinates",
                       numbers);
    return SR_OK;
}

static sr_status end_frame(parser *p, frame which) {
    if (p->probing)
        return SR_OK;
    switch (which) {
    case FRAME_IMAGE:
        return end_image(p);
    case FRAME_ANNOTATION:
        return end_annotation(p);
    case FRAME_CATEGORY:
        return end_category(p);
    case FRAME_POLYGON:
        return end_polygon(p);
    case FRAME_RUNS:
        return end_runs(p);
    case FRAME_BOX:
        return p->box_count == 4 ? SR_OK
                                 : SR_FAIL(SR_E_DATA, "bbox of %d numbers, not 4", p->box_count);
    case FRAME_COUNTS:
        p->seen |= HAS_COUNTS;
        return SR_OK;
    case FRAME_OTHER:
    case FRAME_TOP:
    case FRAME_IMAGES:
    case FRAME_ANNOTATIONS:
    case FRAME_CATEGORIES:
    case FRAME_SEGMENTATION:
    case FRAME_SIZE:
        break;
    }
    return SR_OK;
}

static sr_status begin_polygon(parser *p) {
    sr_annotation *annotation = &p->annotation.object;
    SR_TRY(sr_grow(&p->sizes, &p->size_capacity, annotation->polygon_count + 1, sizeof(uint32_t),
                   "polygons"));
    ((uint32_t *)p->sizes)[annotation->polygon_count++] = 0;
    return SR_OK;
}

static sr_status begin_frame(parser *p, frame which) {
    p->met_list = p->met_list || which == FRAME_IMAGES || which == FRAME_ANNOTATIONS;
    if (is_object(which) || which == FRAME_CATEGORY)
        p->seen = 0;
    if (is_object(which))
        p->flaw[0] = '\0';
    if (which == FRAME_IMAGE)
        p->image = (sr_coco_image){0};
    if (which == FRAME_ANNOTATION)
        begin_annotation(p);
    if (which == FRAME_BOX)
        p->box_count = 0;
    if (which == FRAME_COUNTS)
        p->rle.count = 0;
    if (which == FRAME_SIZE)
        p->size_count = 0;
    return which == FRAME_POLYGON ? begin_polygon(p) : SR_OK;
}

// -- events ------------------------------------------------------------------------------------

static frame top(const parser *p) {
    return p->depth > 0 ? p->stack[p->depth - 1] : FRAME_OTHER;
}

static int open_frame(parser *p, bool list) {
    frame which = FRAME_OTHER;
    p->last_value = position(p);
    if (p->depth == MAX_DEPTH)
        return stop(p, SR_FAIL(SR_E_DATA, "nested deeper than %d levels", MAX_DEPTH));
    if (p->depth == 0 && list)
        return stop(p, SR_FAIL(SR_E_DATA, "a list where an object with images, annotations and "
                                          "categories was expected"));
    if (p->depth == 0)
        which = FRAME_TOP;
    for (size_t i = 0; i < sizeof structure / sizeof *structure; i++)
        if (p->depth > 0 && structure[i].parent == top(p) && structure[i].list == list &&
            (structure[i].key == NULL || strcmp(structure[i].key, p->key) == 0))
            which = structure[i].frame;
    p->stack[p->depth++] = which;
    const int go_on = take(p, begin_frame(p, which));
    return go_on && !(p->probing && p->met_list);
}

static int close_frame(parser *p) {
    const frame which = top(p);
    p->last_value = position(p);
    const int go_on = take(p, end_frame(p, which));
    p->depth--;
    return go_on && is_object(which) && !p->probing ? stop(p, finish_object(p, which)) : go_on;
}

static int on_map(void *user) {
    return open_frame(user, false);
}

static int on_list(void *user) {
    return open_frame(user, true);
}

static int on_end(void *user) {
    return close_frame(user);
}

static int on_key(void *user, const unsigned char *text, size_t bytes) {
    parser *p = user;
    p->last_value = position(p);
    const size_t kept = bytes < MAX_KEY ? bytes : 0;
    memcpy(p->key, text, kept);
    p->key[kept] = '\0';
    return 1;
}

static bool is_key(const parser *p, const char *key) {
    return strcmp(p->key, key) == 0;
}

static sr_status copy_name(parser *p, const unsigned char *text, size_t bytes) {
    if (bytes == 0 || bytes >= MAX_NAME || memchr(text, 0, bytes) != NULL)
        return SR_FAIL(SR_E_DATA, "a name of %zu bytes%s", bytes,
                       bytes > 0 && bytes < MAX_NAME ? " with a zero in it" : "");
    memcpy(p->name, text, bytes);
    p->name[bytes] = '\0';
    p->seen |= HAS_NAME;
    return SR_OK;
}

static bool wants_number(const parser *p, frame here) {
    const bool id = is_key(p, "id") && (here == FRAME_IMAGE || here == FRAME_CATEGORY);
    const bool of = is_key(p, "image_id") || is_key(p, "category_id");
    return here == FRAME_BOX || here == FRAME_POLYGON || here == FRAME_COUNTS ||
           here == FRAME_SIZE || id || (of && here == FRAME_ANNOTATION);
}

static int on_string(void *user, const unsigned char *text, size_t bytes) {
    parser *p = user;
    const frame here = top(p);
    p->last_value = position(p);
    if ((here == FRAME_IMAGE && is_key(p, "file_name")) ||
        (here == FRAME_CATEGORY && is_key(p, "name")))
        return take(p, copy_name(p, text, bytes));
    if (here == FRAME_RUNS && is_key(p, "counts")) {
        p->seen |= HAS_COUNTS;
        return take(p, sr_rle_parse(&p->rle, text, bytes));
    }
    if (wants_number(p, here))
        return take(p, SR_FAIL(SR_E_DATA, "%s where a number was expected",
                               bytes > 0 ? "a string" : "NaN, Infinity or an empty string"));
    return 1;
}

static sr_status take_id(double value, int64_t *out) {
    if (value != floor(value) || fabs(value) > 9007199254740992.0) // 2^53
        return SR_FAIL(SR_E_DATA, "%.17g is not a whole number", value);
    *out = (int64_t)value;
    return SR_OK;
}

static sr_status add_point(parser *p, double value) {
    if (p->point_count == MAX_NUMBERS)
        return SR_FAIL(SR_E_LIMIT, "an annotation of more than %zu numbers", MAX_NUMBERS);
    SR_TRY(sr_grow(&p->points, &p->point_capacity, p->point_count + 1, sizeof(double), "polygons"));
    ((double *)p->points)[p->point_count++] = value;
    ((uint32_t *)p->sizes)[p->annotation.object.polygon_count - 1]++;
    return SR_OK;
}

static sr_status add_count(parser *p, double value) {
    if (!(value >= 0 && value <= UINT32_MAX) || value != floor(value))
        return SR_FAIL(SR_E_DATA, "a run length of %g", value);
    if (p->rle.count == MAX_NUMBERS)
        return SR_FAIL(SR_E_LIMIT, "an annotation of more than %zu numbers", MAX_NUMBERS);
    return sr_rle_add(&p->rle, (uint32_t)value);
}

static sr_status take_image_number(parser *p, double value) {
    if (is_key(p, "id")) {
        SR_TRY(take_id(value, &p->image.id));
        p->seen |= HAS_ID;
    }
    const bool fits = value >= 1 && value <= 1 << 24;
    if (is_key(p, "width"))
        p->image.width = fits ? (uint32_t)value : 0;
    else if (is_key(p, "height"))
        p->image.height = fits ? (uint32_t)value : 0;
    return SR_OK;
}

static sr_status take_annotation_number(parser *p, double value) {
    if (is_key(p, "image_id")) {
        SR_TRY(take_id(value, &p->annotation.image));
        p->seen |= HAS_IMAGE;
    }
    if (is_key(p, "category_id")) {
        SR_TRY(take_id(value, &p->annotation.category));
        p->seen |= HAS_CATEGORY;
    }
    if (is_key(p, "iscrowd"))
        p->annotation.object.crowd = value != 0;
    if (is_key(p, "id") && value >= 0 && value <= 9007199254740992.0)
        p->annotation.object.number = (int64_t)value; // for messages only: any number is accepted
    return SR_OK;
}

static sr_status take_number(parser *p, double value) {
    const frame here = top(p);
    if (here == FRAME_IMAGE)
        return take_image_number(p, value);
    if (here == FRAME_ANNOTATION)
        return take_annotation_number(p, value);
    if (here == FRAME_CATEGORY && is_key(p, "id")) {
        p->seen |= HAS_ID;
        return take_id(value, &p->category);
    }
    if (here == FRAME_BOX) {
        if (p->box_count < 4)
            p->box[p->box_count] = value;
        p->box_count++;
    }
    if (here == FRAME_SIZE) {
        if (p->size_count < 2)
            p->size[p->size_count] = value;
        p->size_count++;
    }
    if (here == FRAME_POLYGON)
        return add_point(p, value);
    return here == FRAME_COUNTS ? add_count(p, value) : SR_OK;
}

static int on_number(void *user, const char *text, size_t bytes) {
    parser *p = user;
    char copy[64];
    p->last_value = position(p);
    if (top(p) == FRAME_OTHER || top(p) == FRAME_TOP)
        return 1;
    const size_t kept = bytes < sizeof copy ? bytes : 0;
    memcpy(copy, text, kept);
    copy[kept] = '\0';
    const double value = strtod(copy, NULL);
    if (kept == 0 || !isfinite(value))
        return take(p, SR_FAIL(SR_E_DATA, "a number that is too long or too large"));
    return take(p, take_number(p, value));
}

static int on_bool(void *user, int value) {
    parser *p = user;
    p->last_value = position(p);
    if (top(p) == FRAME_ANNOTATION && is_key(p, "iscrowd"))
        p->annotation.object.crowd = value != 0;
    return 1;
}

static int on_null(void *user) {
    parser *p = user;
    const frame here = top(p);
    p->last_value = position(p);
    if (here == FRAME_BOX || here == FRAME_POLYGON || here == FRAME_COUNTS || here == FRAME_SIZE)
        return take(p, SR_FAIL(SR_E_DATA, "null where a number was expected"));
    return 1;
}

static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                         .yajl_boolean = on_bool,
                                         .yajl_number = on_number,
                                         .yajl_string = on_string,
                                         .yajl_start_map = on_map,
                                         .yajl_map_key = on_key,
                                         .yajl_end_map = on_end,
                                         .yajl_start_array = on_list,
                                         .yajl_end_array = on_end};

// -- parsing -----------------------------------------------------------------------------------

// The message of yajl, without its line break.
static sr_status fail_syntax(parser *p, yajl_status code) {
    if (p->status != SR_OK || code == yajl_status_client_canceled)
        return p->status;
    unsigned char *text = yajl_get_error(p->yajl, 0, NULL, 0);
    const char *said = text ? (const char *)text : "broken JSON";
    size_t length = strcspn(said, "\n");
    length -= length > 0 && said[length - 1] == '.';
    p->status = SR_FAIL(
        SR_E_DATA, "%.*s; the file is not valid JSON from here on: export it again, or repair it",
        (int)length, said);
    add_position(p, true);
    if (text != NULL)
        yajl_free_error(p->yajl, text);
    return p->status;
}

// Python writes the bare words NaN and Infinity, which are not JSON: outside strings, no JSON token
// begins with these letters. They are replaced by empty strings of the same length. Returns the
// number of bytes before a word that is cut off by the end of the chunk and that the next chunk
// begins with.
static size_t hide_words(parser *p, uint8_t *data, size_t bytes, bool last) {
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    for (size_t i = 0; i < bytes; i++) {
        if (p->in_string) {
            p->in_string = p->escaped || data[i] != '"';
            p->escaped = !p->escaped && data[i] == '\\';
            continue;
        }
        p->in_string = data[i] == '"';
        if (data[i] != 'N' && data[i] != 'I' && data[i] != '-')
            continue;
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            const size_t n = strlen(words[w]), there = n < bytes - i ? n : bytes - i;
            if (memcmp(data + i, words[w], there) != 0)
                continue;
            if (there < n && !last && i > 0)
                return i;
            if (there < n)
                continue;
            memset(data + i, ' ', n);
            data[i] = data[i + 1] = '"';
            i += n - 1;
            break;
        }
    }
    return bytes;
}

static sr_status parse_all(parser *p, uint8_t *buffer, uint64_t bytes) {
    yajl_status code = yajl_status_ok;
    while (p->chunk < bytes && code == yajl_status_ok) {
        size_t n = bytes - p->chunk < CHUNK ? (size_t)(bytes - p->chunk) : CHUNK;
        SR_TRY(p->reading->read(p->reading->user, p->chunk, buffer, n));
        if (p->chunk == 0 && n >= 3 && memcmp(buffer, "\xef\xbb\xbf", 3) == 0)
            memset(buffer, ' ', 3); // a byte order mark
        n = hide_words(p, buffer, n, p->chunk + n == bytes);
        p->data = buffer;
        p->bytes = n;
        code = yajl_parse(p->yajl, buffer, n);
        if (code != yajl_status_ok)
            return fail_syntax(p, code);
        if (p->chunk + n - p->last_value > MAX_TOKEN && p->depth > 0) {
            p->status = SR_FAIL(SR_E_LIMIT, "a string of more than %llu MiB",
                                (unsigned long long)(MAX_TOKEN >> 20));
            add_position(p, true);
            return p->status;
        }
        pass_chunk(p);
    }
    if (p->probing)
        return SR_OK; // the rest is ignored
    code = yajl_complete_parse(p->yajl);
    if (code != yajl_status_ok)
        return fail_syntax(p, code);
    return p->met_list
               ? SR_OK
               : SR_FAIL(SR_E_DATA, "%s: no list 'images' or 'annotations' at the top level",
                         p->reading->path);
}

static sr_status run(parser *p, const sr_coco_reading *reading, bool probing) {
    uint8_t *buffer = sr_alloc(CHUNK, "JSON");
    if (buffer == NULL)
        return SR_E_MEMORY;
    p->reading = reading;
    p->probing = probing;
    p->yajl = yajl_alloc(&callbacks, NULL, p);
    const uint64_t bytes = probing && reading->bytes > PROBE_BYTES ? PROBE_BYTES : reading->bytes;
    sr_status status = p->yajl ? parse_all(p, buffer, bytes)
                               : SR_FAIL(SR_E_MEMORY, "out of memory for reading JSON");
    if (p->yajl != NULL)
        yajl_free(p->yajl);
    sr_rle_release(&p->rle);
    sr_free(p->points);
    sr_free(p->sizes);
    sr_free(buffer);
    return status;
}

sr_status sr_coco_read(const sr_coco_reading *reading) {
    parser *p = sr_alloc(sizeof *p, "JSON");
    if (p == NULL)
        return SR_E_MEMORY;
    sr_status status = run(p, reading, false);
    sr_free(p);
    return status;
}

// The text begins with an object that has one of COCO's keys.
static bool begins_like_coco(const sr_coco_reading *reading) {
    static const char *const keys[] = {"\"images\"", "\"annotations\"", "\"categories\"",
                                       "\"info\"", "\"licenses\""};
    char head[513] = {0};
    const size_t n = reading->bytes < 512 ? (size_t)reading->bytes : 512;
    if (reading->read(reading->user, 0, head, n) != SR_OK || strchr(head, '{') == NULL)
        return false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strstr(head, keys[i]) != NULL)
            return true;
    return false;
}

sr_coco_verdict sr_coco_probe(const sr_coco_reading *reading) {
    parser *p = sr_alloc(sizeof *p, "JSON");
    if (p == NULL)
        return SR_COCO_NO;
    const sr_status status = run(p, reading, true);
    const bool met = p->met_list;
    sr_free(p);
    if (met)
        return SR_COCO_YES;
    return status != SR_OK && begins_like_coco(reading) ? SR_COCO_BROKEN : SR_COCO_NO;
}
