// SPDX-License-Identifier: Apache-2.0
// Fuzzes the parsers of importers; the first byte selects one. What was parsed is written in a
// plain form and parsed again, to the same result. Pixels and labels of CIFAR and IDX are compared
// with the bytes.
#include <math.h>

#include "dataio/formats/class_map.h"
#include "dataio/formats/coco_json.h"
#include "dataio/formats/format.h"
#include "dataio/formats/layout.h"
#include "dataio/formats/rle.h"
#include "dataio/formats/voc_xml.h"
#include "dataio/formats/yolo_text.h"
#include "dataio/image/mask_png.h"
#include "dataio/import/list_file.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "tests/fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_refusal(sr_status status) {
    require(status == SR_E_DATA || status == SR_E_LIMIT);
    require(sr_error_message()[0] != 0);
}

// -- run lengths -------------------------------------------------------------------------------

static void fuzz_rle(const uint8_t *data, size_t size) {
    sr_rle first = {0}, second = {0};
    sr_status status = sr_rle_parse(&first, data, size);
    if (status == SR_OK) {
        require(sr_rle_print(&first) == SR_OK);
        require(sr_rle_parse(&second, first.text, first.text_bytes) == SR_OK);
        require(first.count == second.count &&
                (first.count == 0 || memcmp(first.counts, second.counts, 4 * first.count) == 0));
    } else {
        require_refusal(status);
    }
    sr_rle_release(&first);
    sr_rle_release(&second);
}

// -- COCO --------------------------------------------------------------------------------------

typedef struct coco {
    const uint8_t *data;
    size_t size;
    uint64_t digest, events;
    sr_text images, annotations, categories;
} coco;

static void digest(coco *c, const void *data, size_t bytes) {
    c->digest = sr_hash64_seed(data, bytes, c->digest);
}

static sr_status read_bytes(void *user, uint64_t offset, void *out, size_t bytes) {
    const coco *c = user;
    require(offset + bytes <= c->size);
    memcpy(out, c->data + offset, bytes);
    return SR_OK;
}

static const char *comma(const sr_text *text) {
    return text->length > 0 ? "," : "";
}

static sr_status on_image(void *user, const sr_coco_image *image) {
    coco *c = user;
    c->events += sr_hash64_seed(image->file_name, strlen(image->file_name), (uint64_t)image->id) +
                 image->width + 31 * (uint64_t)image->height;
    sr_text_add(&c->images, "%s{\"id\": %lld, \"width\": %u, \"height\": %u, \"file_name\": ",
                comma(&c->images), (long long)image->id, image->width, image->height);
    sr_text_add_json_string(&c->images, image->file_name);
    sr_text_add(&c->images, "}");
    return SR_OK;
}

static void add_numbers(sr_text *text, const double *numbers, size_t count) {
    sr_text_add(text, "[");
    for (size_t i = 0; i < count; i++)
        sr_text_add(text, "%s%.17g", i ? ", " : "", numbers[i]);
    sr_text_add(text, "]");
}

static void add_segmentation(sr_text *text, const sr_annotation *annotation) {
    const double *points = annotation->points;
    if (annotation->mask != NULL) {
        sr_text_add(text, ", \"segmentation\": {\"counts\": \"");
        for (uint32_t i = 0; i < annotation->mask_bytes; i++) {
            const char at = ((const char *)annotation->mask)[i];
            sr_text_add(text, at == '\\' || at == '"' ? "\\%c" : "%c", at);
        }
        sr_text_add(text, "\", \"size\": [%u, %u]}", annotation->mask_height,
                    annotation->mask_width);
        return;
    }
    sr_text_add(text, ", \"segmentation\": [");
    for (uint32_t i = 0; i < annotation->polygon_count; i++) {
        sr_text_add(text, "%s", i ? ", " : "");
        add_numbers(text, points, annotation->polygon_sizes[i]);
        points += annotation->polygon_sizes[i];
    }
    sr_text_add(text, "]");
}

static sr_status on_annotation(void *user, const sr_coco_annotation *a) {
    coco *c = user;
    const sr_annotation *annotation = &a->object;
    const double sides[4] = {annotation->box[0], annotation->box[1],
                             annotation->box[2] - annotation->box[0],
                             annotation->box[3] - annotation->box[1]};
    digest(c, &a->image, sizeof a->image);
    digest(c, &a->category, sizeof a->category);
    digest(c, &annotation->crowd, 1);
    if (annotation->mask != NULL)
        digest(c, annotation->mask, annotation->mask_bytes);
    else
        digest(c, annotation->points, 8 * annotation->point_count);
    for (int i = 0; i < 4; i++)
        if (!isfinite(sides[i]))
            return SR_FAIL(SR_E_DATA, "a box of infinite size");
    sr_text_add(&c->annotations,
                "%s{\"image_id\": %lld, \"category_id\": %lld, \"iscrowd\": %d, \"bbox\": ",
                comma(&c->annotations), (long long)a->image, (long long)a->category,
                annotation->crowd);
    add_numbers(&c->annotations, sides, 4);
    if (annotation->mask != NULL || annotation->point_count > 0)
        add_segmentation(&c->annotations, annotation);
    sr_text_add(&c->annotations, "}");
    return SR_OK;
}

static sr_status on_category(void *user, int64_t id, const char *name) {
    coco *c = user;
    c->events += sr_hash64_seed(name, strlen(name), (uint64_t)id + 1);
    sr_text_add(&c->categories, "%s{\"id\": %lld, \"name\": ", comma(&c->categories),
                (long long)id);
    sr_text_add_json_string(&c->categories, name);
    sr_text_add(&c->categories, "}");
    return SR_OK;
}

static sr_status on_flaw(void *user, const sr_coco_flaw *flaw) {
    (void)user;
    require(flaw->reason[0] >= '1' && flaw->reason[0] <= '9' && flaw->file_name != NULL);
    return SR_OK;
}

static sr_status read_coco(coco *c, const void *data, size_t size) {
    c->data = data;
    c->size = size;
    sr_text_init(&c->images);
    sr_text_init(&c->annotations);
    sr_text_init(&c->categories);
    const sr_coco_reading reading = {.path = "x.json",
                                     .bytes = size,
                                     .user = c,
                                     .read = read_bytes,
                                     .image = on_image,
                                     .annotation = on_annotation,
                                     .category = on_category,
                                     .flaw = on_flaw};
    const sr_coco_verdict verdict = sr_coco_probe(&reading);
    const sr_status status = sr_coco_read(&reading);
    require(status != SR_OK || verdict == SR_COCO_YES);
    return status;
}

static void release_coco(coco *c) {
    sr_text_release(&c->images);
    sr_text_release(&c->annotations);
    sr_text_release(&c->categories);
}

static void fuzz_coco(const uint8_t *data, size_t size) {
    coco first = {0}, second = {0};
    sr_status status = read_coco(&first, data, size);
    if (status == SR_OK) {
        sr_text plain;
        sr_text_init(&plain);
        sr_text_add(&plain, "{\"categories\": [%s], \"annotations\": [%s], \"images\": [%s]}",
                    first.categories.data, first.annotations.data, first.images.data);
        require(sr_text_check(&plain) == SR_OK);
        require(read_coco(&second, plain.data, plain.length) == SR_OK);
        require(first.digest == second.digest && first.events == second.events);
        sr_text_release(&plain);
        release_coco(&second);
    } else {
        require_refusal(status);
        require(strncmp(sr_error_message(), "x.json:", 7) == 0);
    }
    release_coco(&first);
}

// -- VOC ---------------------------------------------------------------------------------------

static void add_xml(sr_text *text, const char *value) {
    for (const char *p = value; *p; p++)
        if (strchr("<>&\r", *p) != NULL)
            sr_text_add(text, "&#%d;", *p);
        else
            sr_text_add(text, "%c", *p);
}

static bool same_voc(const sr_voc *a, const sr_voc *b) {
    bool same = strcmp(a->filename, b->filename) == 0 && a->width == b->width &&
                a->height == b->height && a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++) {
        same = strcmp(a->objects[i].name, b->objects[i].name) == 0 &&
               a->objects[i].difficult == b->objects[i].difficult &&
               a->objects[i].box[0] == b->objects[i].box[0] &&
               a->objects[i].box[1] == b->objects[i].box[1] &&
               a->objects[i].box[2] == b->objects[i].box[2] &&
               a->objects[i].box[3] == b->objects[i].box[3];
    }
    return same;
}

static void print_voc(const sr_voc *voc, sr_text *out) {
    static const char *const corners[] = {"xmin", "ymin", "xmax", "ymax"};
    sr_text_add(out, "<annotation><filename>");
    add_xml(out, voc->filename);
    sr_text_add(out, "</filename><size><width>%u</width><height>%u</height></size>", voc->width,
                voc->height);
    for (size_t i = 0; i < voc->count; i++) {
        sr_text_add(out, "<object><name>");
        add_xml(out, voc->objects[i].name);
        sr_text_add(out, "</name><difficult>%d</difficult><bndbox>", voc->objects[i].difficult);
        for (int k = 0; k < 4; k++)
            sr_text_add(out, "<%s>%.17g</%s>", corners[k], voc->objects[i].box[k], corners[k]);
        sr_text_add(out, "</bndbox></object>");
    }
    sr_text_add(out, "</annotation>");
}

static void fuzz_voc(const uint8_t *data, size_t size) {
    sr_arena arena;
    sr_voc first, second;
    sr_text plain;
    sr_arena_init(&arena);
    sr_status status = sr_voc_parse(data, size, &arena, &first);
    if (status == SR_OK) {
        sr_text_init(&plain);
        print_voc(&first, &plain);
        require(sr_text_check(&plain) == SR_OK);
        require(sr_voc_parse(plain.data, plain.length, &arena, &second) == SR_OK);
        require(same_voc(&first, &second));
        sr_text_release(&plain);
        sr_free(first.objects);
        sr_free(second.objects);
    } else {
        require_refusal(status);
    }
    sr_arena_release(&arena);
}

static void *copy_text(const void *data, size_t size) {
    char *text = sr_alloc(size + 1, "text");
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    return text;
}

// -- YOLO --------------------------------------------------------------------------------------

static void print_yolo(const sr_yolo_data *data, sr_text *out) {
    if (data->root.text != NULL) {
        sr_text_add(out, "path: ");
        sr_text_add_json_string(out, data->root.text);
        sr_text_add(out, "\n");
    }
    for (int s = 0; s < SR_SPLIT_COUNT; s++) {
        const sr_yolo_value *paths = data->paths[s];
        sr_text_add(out, "%s:\n", sr_split_names[s]);
        for (size_t i = 0; i < data->path_count[s]; i++) {
            sr_text_add(out, "  - ");
            sr_text_add_json_string(out, paths[i].text);
            sr_text_add(out, "\n");
        }
    }
    sr_text_add(out, "nc: %d\n%s", data->class_count, data->names ? "names:\n" : "");
    for (int i = data->names ? data->class_count : 0; i-- > 0;) {
        sr_text_add(out, "  %d: ", i);
        sr_text_add_json_string(out, data->names[i]);
        sr_text_add(out, "\n");
    }
}

static void compare_yolo(const sr_yolo_data *a, const sr_yolo_data *b) {
    require(a->class_count == b->class_count && (a->names == NULL) == (b->names == NULL));
    for (int i = 0; a->names != NULL && i < a->class_count; i++)
        require(strcmp(a->names[i], b->names[i]) == 0);
    for (int s = 0; s < SR_SPLIT_COUNT; s++) {
        const sr_yolo_value *x = a->paths[s], *y = b->paths[s];
        require(a->path_count[s] == b->path_count[s]);
        for (size_t i = 0; i < a->path_count[s]; i++)
            require(strcmp(x[i].text, y[i].text) == 0);
    }
}

static void fuzz_yolo_data(const uint8_t *data, size_t size) {
    sr_arena arena;
    sr_yolo_data first, second;
    sr_text plain;
    char *text = copy_text(data, size);
    sr_arena_init(&arena);
    sr_status status = sr_yolo_data_parse("x.yaml", text, size, &arena, &first);
    sr_free(text);
    if (status == SR_OK) {
        sr_text_init(&plain);
        print_yolo(&first, &plain);
        require(sr_text_check(&plain) == SR_OK);
        require(sr_yolo_data_parse("x.yaml", plain.data, plain.length, &arena, &second) == SR_OK);
        compare_yolo(&first, &second);
        sr_text_release(&plain);
        sr_yolo_data_release(&first);
        sr_yolo_data_release(&second);
    } else {
        require_refusal(status);
        require(strncmp(sr_error_message(), "x.yaml:", 7) == 0);
    }
    sr_arena_release(&arena);
}

// Writing the numbers gives the same line, with and without what follows the box.
static void fuzz_yolo_line(const uint8_t *data, size_t size) {
    sr_yolo_object object = {0}, again = {0};
    const bool key_points = size > 0 && data[0] % 2 == 0;
    sr_status status = sr_yolo_line_parse((const char *)data, size, key_points, &object);
    if (status == SR_OK && object.point_count > 0) {
        sr_text plain;
        sr_text_init(&plain);
        sr_text_add(&plain, "%d", object.label);
        for (size_t i = 0; i < object.point_count; i++)
            sr_text_add(&plain, " %.17g", ((double *)object.points)[i]);
        require(sr_text_check(&plain) == SR_OK);
        require(sr_yolo_line_parse(plain.data, plain.length, false, &again) == SR_OK);
        require(again.label == object.label && again.point_count == object.point_count);
        for (int i = 0; i < 4; i++)
            require(again.box[i] == object.box[i]);
        sr_text_release(&plain);
    } else if (status == SR_OK) {
        require(object.label >= 0 && object.label < SR_YOLO_MAX_CLASSES);
        require(object.box[0] >= -1 && object.box[2] <= 2);
    } else {
        require_refusal(status);
    }
    sr_free(object.points);
    sr_free(again.points);
}

// -- lists -------------------------------------------------------------------------------------

static void fuzz_list(const uint8_t *data, size_t size) {
    sr_list_file first, second;
    sr_text plain;
    sr_status status = sr_list_file_parse("x.tsv", copy_text(data, size), size, &first);
    if (status != SR_OK) {
        require_refusal(status);
        return;
    }
    const sr_listed_picture *a = first.entries;
    sr_text_init(&plain);
    for (size_t i = 0; i < first.count; i++)
        sr_text_add(&plain, "%s\t%s%s%s\r\n", a[i].path, a[i].label, a[i].split < 0 ? "" : "\t",
                    a[i].split < 0 ? "" : sr_split_names[a[i].split]);
    require(sr_list_file_parse("x.tsv", copy_text(plain.data, plain.length), plain.length,
                               &second) == SR_OK);
    const sr_listed_picture *b = second.entries;
    require(first.count == second.count);
    for (size_t i = 0; i < first.count; i++)
        require(strcmp(a[i].path, b[i].path) == 0 && strcmp(a[i].label, b[i].label) == 0 &&
                a[i].split == b[i].split);
    sr_text_release(&plain);
    sr_list_file_release(&first);
    sr_list_file_release(&second);
}

// -- pixels ------------------------------------------------------------------------------------

// Every sample's bytes are those of its position in the file, and its label is the byte for it.
static void check_samples(const sr_source *source, const sr_layout *layout, const uint8_t *data,
                          size_t size, const uint8_t *labels, size_t stride) {
    void *buffer = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const sr_source_file *file = &source->files.items[i];
        require(file->bytes ==
                (uint64_t)(layout->pixels.height * layout->pixels.width * layout->pixels.channels));
        require(sr_source_read(source, file, &buffer, &capacity) == SR_OK);
        if (data == NULL)
            continue; // what is read comes from elsewhere
        require(file->offset + file->bytes <= size);
        require(memcmp(buffer, data + file->offset, (size_t)file->bytes) == 0);
        require(layout->files[i].label == labels[i * stride]);
        require(layout->files[i].label < layout->class_count);
    }
    sr_free(buffer);
}

static void fuzz_pixels(const char *const *names, const uint8_t *data, size_t size,
                        const uint8_t *labels, size_t label_bytes, bool moved) {
    sr_source *source;
    sr_layout layout;
    scratch_write(names[0], data, size);
    if (names[1] != NULL)
        scratch_write(names[1], labels, label_bytes);
    sr_status status =
        sr_format_open(scratch_folder(), NULL, NULL, scratch_folder(), NULL, &source);
    require(status == SR_OK);
    status = sr_layout_make(source, NULL, &layout);
    if (status == SR_OK && layout.pixels.height > 0) {
        const size_t stride = names[1] != NULL ? 1 : layout.class_count == 10 ? 3073 : 3074;
        const uint8_t *first = names[1] != NULL ? labels + 8 : stride == 3073 ? data : data + 1;
        check_samples(source, &layout, moved ? NULL : data, size, first, stride);
    }
    if (status == SR_OK)
        sr_layout_release(&layout);
    sr_source_free(source);
    (void)unlink(scratch_file(names[0]));
    if (names[1] != NULL)
        (void)unlink(scratch_file(names[1]));
}

static void fuzz_cifar(const uint8_t *data, size_t size) {
    static const char *const names[2] = {"data.bin", NULL};
    fuzz_pixels(names, data, size, NULL, 0, false);
}

// The input contains both files: the length of the labels file, then this file, then the pictures
// file.
static void fuzz_idx(const uint8_t *data, size_t size) {
    static const char *const names[2] = {"a-images-idx3", "a-labels-idx1"};
    if (size < 2)
        return;
    const size_t n = data[0] | (size_t)data[1] << 8, labels = n < size - 2 ? n : size - 2;
    const uint8_t *pictures = data + 2 + labels;
    const size_t bytes = size - 2 - labels;
    // The positions of samples are known for uncompressed IDX files; other files may count as
    // CIFAR.
    const bool plain = bytes > 4 && memcmp(pictures, "\0\0\x08\x03", 4) == 0;
    fuzz_pixels(names, pictures, bytes, data + 2, labels,
                !plain || (labels > 1 && data[2] == 0x1f));
}

// A mask's pixels do not depend on the previous contents of the buffer.
static void fuzz_mask_kind(const uint8_t *data, size_t size, sr_mask_kind kind) {
    void *ids[2] = {NULL, NULL};
    size_t capacity[2] = {0, 0};
    int64_t width = 0, height = 0;
    sr_status status = sr_mask_png_read(data, size, kind, &ids[0], &capacity[0], &width, &height);
    if (status == SR_OK) {
        const size_t bytes = (size_t)(width * height) * (kind == SR_MASK_COLORS ? 3 : 1);
        require(sr_grow(&ids[1], &capacity[1], bytes, 1, "mask") == SR_OK);
        memset(ids[1], 0xa5, bytes);
        require(sr_mask_png_read(data, size, kind, &ids[1], &capacity[1], &width, &height) ==
                SR_OK);
        require(memcmp(ids[0], ids[1], bytes) == 0);
    } else {
        require(sr_error_message()[0] != 0);
    }
    sr_free(ids[0]);
    sr_free(ids[1]);
}

static void fuzz_mask(const uint8_t *data, size_t size) {
    fuzz_mask_kind(data, size, SR_MASK_NUMBERS);
    fuzz_mask_kind(data, size, SR_MASK_COLORS);
}

// Classes of a map are named, and every value has one of them, none or is unknown.
static void fuzz_class_map(const uint8_t *data, size_t size) {
    sr_arena arena;
    sr_class_map map;
    sr_arena_init(&arena);
    char *text = sr_arena_alloc(&arena, size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (sr_class_map_parse("map", text, &arena, &map) == SR_OK) {
        require(map.class_count > 0 && map.class_count <= SR_MASK_VOID);
        for (int i = 0; i < map.class_count; i++)
            require(map.names[i][0] != '\0');
        for (int i = 0; i < 256; i++)
            require(map.ids[i] == SR_CLASS_UNKNOWN || map.ids[i] == SR_MASK_VOID ||
                    (map.ids[i] >= 0 && map.ids[i] < map.class_count));
        for (size_t i = 0; i < map.color_count; i++)
            require(sr_class_map_color(&map, map.colors[i].rgb) == map.colors[i].class_number);
    } else {
        require(sr_error_message()[0] != 0);
    }
    sr_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const targets[])(const uint8_t *, size_t) = {
        fuzz_rle, fuzz_coco, fuzz_voc,       fuzz_list,      fuzz_cifar,
        fuzz_idx, fuzz_mask, fuzz_yolo_data, fuzz_yolo_line, fuzz_class_map};
    if (size > 0)
        targets[data[0] % (sizeof targets / sizeof *targets)](data + 1, size - 1);
    return 0;
}
