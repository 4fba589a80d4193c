// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of records and their side files. The first byte selects: a record, a protocol,
// a text-format Meta, an index. What parses must be the same after it was written and parsed again.
#include <stdlib.h>
#include <string.h>

#include "dataio/record/protocol.h"
#include "dataio/record/record.h"
#include "kernels/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool fine) {
    if (!fine)
        abort();
}

static bool same_bytes(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

static bool same_number(double a, double b) {
    return a == b || (a != a && b != b);
}

static void check_same(const sr_sample *a, const sr_sample *b) {
    require(same_bytes(a->data, a->bytes, b->data, b->bytes));
    require(same_bytes(a->segments, 4 * a->segment_count, b->segments, 4 * b->segment_count));
    require(a->name == NULL || same_bytes(a->name, a->name_bytes, b->name, b->name_bytes));
    require(a->height == b->height && a->width == b->width && a->channels == b->channels);
    require(a->encoded == b->encoded && a->orientation == b->orientation);
    require(a->label < 0 ? b->label == -1 : a->label == b->label);
}

static void fuzz_sample(const uint8_t *data, size_t size, sr_record_writer *writer) {
    sr_sample first, second;
    if (sr_sample_read(data, size, &first) != SR_OK)
        return;
    require(sr_sample_write(writer, &first) == SR_OK);
    require(sr_sample_read(writer->data, writer->bytes, &second) == SR_OK);
    check_same(&first, &second);
    for (size_t i = 0; i < first.segment_count; i++)
        require(sr_sample_segment(&first, i) == sr_sample_segment(&second, i));
}

enum { OBJECTS = 64 };

static size_t read_objects(sr_detection *detection, sr_object objects[OBJECTS]) {
    size_t count = 0;
    for (bool more = true; count < OBJECTS; count++)
        if (sr_detection_next(detection, &objects[count], &more) != SR_OK || !more)
            break;
    return count;
}

static void fuzz_detection(const uint8_t *data, size_t size, sr_record_writer *writer) {
    sr_detection first, second;
    sr_object objects[OBJECTS], again[OBJECTS];
    if (sr_detection_read(data, size, &first) != SR_OK)
        return;
    size_t count = read_objects(&first, objects);
    require(sr_detection_write(writer, &first.picture, objects, count) == SR_OK);
    require(sr_detection_read(writer->data, writer->bytes, &second) == SR_OK);
    first.picture.name = first.picture.name_bytes ? first.picture.name : NULL;
    check_same(&first.picture, &second.picture);
    require(read_objects(&second, again) == count);
    for (size_t i = 0; i < count; i++) {
        require(same_number(objects[i].xmin, again[i].xmin));
        require(same_number(objects[i].ymin, again[i].ymin));
        require(same_number(objects[i].xmax, again[i].xmax));
        require(same_number(objects[i].ymax, again[i].ymax));
        require(objects[i].difficult == again[i].difficult);
        require(
            same_bytes(objects[i].name, objects[i].name_bytes, again[i].name, again[i].name_bytes));
    }
}

static void fuzz_record(const uint8_t *data, size_t size, sr_arena *arena) {
    const char *const texts[] = {SR_SAMPLE_PROTOCOL, SR_SEGMENTATION_PROTOCOL,
                                 SR_DETECTION_PROTOCOL};
    sr_record_writer writer = {0};
    for (int i = 0; i < 3; i++) {
        const sr_type *protocol;
        require(sr_protocol_parse(texts[i], arena, &protocol) == SR_OK);
        (void)!sr_protocol_check(protocol, data, size);
    }
    fuzz_sample(data, size, &writer);
    fuzz_detection(data, size, &writer);
    sr_record_writer_release(&writer);
}

static void print(const sr_type *type, bool meta, sr_text *out) {
    if (meta)
        sr_meta_print(type, "root", out);
    else
        sr_protocol_print(type, out);
    require(sr_text_check(out) == SR_OK);
}

static sr_status parse(const char *text, size_t size, bool meta, sr_arena *arena,
                       const sr_type **out) {
    return meta ? sr_meta_parse(text, size, arena, out) : sr_protocol_parse(text, arena, out);
}

static void fuzz_text(const uint8_t *data, size_t size, bool meta, sr_arena *arena) {
    const sr_type *type;
    sr_text first, second;
    char *text = sr_arena_alloc(arena, size + 1);
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    if (parse(text, size, meta, arena, &type) != SR_OK)
        return;
    sr_text_init(&first);
    sr_text_init(&second);
    print(type, meta, &first);
    require(parse(first.data, first.length, meta, arena, &type) == SR_OK);
    print(type, meta, &second);
    require(strcmp(first.data, second.data) == 0);
    sr_text_release(&first);
    sr_text_release(&second);
}

static void fuzz_index(const uint8_t *data, size_t size) {
    uint64_t *offsets, *again;
    size_t count, count_again;
    sr_text text;
    if (sr_index_parse(data, size, &offsets, &count) != SR_OK)
        return;
    sr_text_init(&text);
    require(sr_index_write(offsets, count, &text) == SR_OK);
    require(sr_index_parse(text.data, text.length, &again, &count_again) == SR_OK);
    require(same_bytes(offsets, 8 * (count + 1), again, 8 * (count_again + 1)));
    sr_free(offsets);
    sr_free(again);
    sr_text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    sr_arena arena;
    sr_arena_init(&arena);
    if (data[0] % 4 == 0)
        fuzz_record(data + 1, size - 1, &arena);
    else if (data[0] % 4 == 3)
        fuzz_index(data + 1, size - 1);
    else
        fuzz_text(data + 1, size - 1, data[0] % 4 == 2, &arena);
    sr_arena_release(&arena);
    return 0;
}
