// SPDX-License-Identifier: Apache-2.0
// KPLRecord: golden bytes both ways, schemas, protocols, and invalid records.
//
// The golden bytes were made with the original message definitions and protoc; the second record is
// what any writer of the classification schema stores.
#include "dataio/record/protocol.h"
#include "dataio/record/record.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

static const char golden_lists[] =
    "0a280a016112233a210a0921000000000000f03f0a092100000000000000400a092100000000000008400a130a0162"
    "120e3a0c0a0228040a0228050a0228060a160a016312113a0f0a031a01370a031a01380a031a0139";
static const char golden_picture[] =
    "0a0c0a046461746112041a02ffd80a0d0a07656e636f646564120228010a170a057368617065120e3a0c0a0228020a"
    "0228030a0228030a0f0a056c6162656c12063a040a022800";

static size_t unhex(const char *hex, uint8_t *out) {
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        assert_int_equal(1, sscanf(hex + 2 * i, "%2x", &byte));
        out[i] = (uint8_t)byte;
    }
    return n;
}

static void write_golden_lists(sr_record_writer *writer) {
    sr_record_begin(writer);
    sr_record_open_list(writer, "a");
    for (int i = 1; i <= 3; i++)
        sr_record_put_float64(writer, NULL, i);
    sr_record_close(writer);
    const int64_t b[] = {4, 5, 6};
    sr_record_put_int64s(writer, "b", b, 3);
    sr_record_open_list(writer, "c");
    sr_record_put_string(writer, NULL, "7");
    sr_record_put_string(writer, NULL, "8");
    sr_record_put_string(writer, NULL, "9");
    sr_record_close(writer);
}

static void test_golden_write(void **state) {
    (void)state;
    uint8_t golden[256];
    sr_record_writer writer = {0};
    write_golden_lists(&writer);
    assert_ok(sr_record_end(&writer));
    assert_int_equal(87, unhex(golden_lists, golden));
    assert_int_equal(87, writer.bytes);
    assert_memory_equal(golden, writer.data, 87);

    const int64_t shape[] = {2, 3, 3}, label = 0;
    sr_record_begin(&writer);
    sr_record_put_bytes(&writer, "data", "\xff\xd8", 2);
    sr_record_put_int64(&writer, "encoded", 1);
    sr_record_put_int64s(&writer, "shape", shape, 3);
    sr_record_put_int64s(&writer, "label", &label, 1);
    assert_ok(sr_record_end(&writer));
    assert_int_equal(71, unhex(golden_picture, golden));
    assert_int_equal(71, writer.bytes);
    assert_memory_equal(golden, writer.data, 71);
    sr_record_writer_release(&writer);
}

static void test_golden_read(void **state) {
    (void)state;
    uint8_t golden[256];
    size_t bytes = unhex(golden_lists, golden), count;
    sr_feature feature;
    int64_t ints[4];
    sr_record_cursor record = sr_record_entries(golden, bytes);
    assert_ok(sr_record_find(record, "b", &feature));
    assert_ok(sr_feature_int64s(&feature, ints, 4, &count));
    assert_int_equal(3, count);
    assert_true(ints[0] == 4 && ints[1] == 5 && ints[2] == 6);

    assert_ok(sr_record_find(record, "a", &feature));
    sr_record_cursor items = sr_feature_entries(&feature);
    for (int i = 1; i <= 4; i++) {
        const char *key;
        size_t key_bytes;
        bool more;
        assert_ok(sr_record_next(&items, &key, &key_bytes, &feature, &more));
        assert_int_equal(i <= 3, more);
        if (more)
            assert_true(feature.kind == SR_FEATURE_FLOAT64 && feature.f64 == i);
    }
    assert_ok(sr_record_find(record, "none", &feature));
    assert_int_equal(SR_FEATURE_NONE, feature.kind);

    sr_sample sample;
    bytes = unhex(golden_picture, golden);
    assert_ok(sr_sample_read(golden, bytes, &sample));
    assert_int_equal(2, sample.bytes);
    assert_memory_equal("\xff\xd8", sample.data, 2);
    assert_true(sample.encoded && sample.height == 2 && sample.width == 3 && sample.channels == 3);
    assert_int_equal(0, sample.label);
    assert_int_equal(1, sample.orientation);
    assert_null(sample.name);
}

static void test_sample_round_trip(void **state) {
    (void)state;
    const uint8_t segments[] = {1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 1, 0};
    sr_sample in = {.data = "picture",
                    .bytes = 7,
                    .encoded = true,
                    .height = 480,
                    .width = 640,
                    .channels = 3,
                    .label = 17,
                    .orientation = 6,
                    .segments = segments,
                    .segment_count = 3,
                    .name = "cat/1.jpg",
                    .name_bytes = 9},
              out;
    sr_record_writer writer = {0};
    for (int pass = 0; pass < 2; pass++) {
        assert_ok(sr_sample_write(&writer, &in));
        assert_ok(sr_sample_read(writer.data, writer.bytes, &out));
        assert_int_equal(out.bytes, 7);
        assert_memory_equal(out.data, "picture", 7);
        assert_int_equal(out.height, 480);
        assert_int_equal(out.width, 640);
        assert_int_equal(out.label, in.label);
        assert_int_equal(out.orientation, in.orientation);
        assert_int_equal(out.segment_count, 3);
        assert_int_equal(sr_sample_segment(&out, 0), 1);
        assert_int_equal(sr_sample_segment(&out, 1), 258);
        assert_int_equal(sr_sample_segment(&out, 2), 65536);
        assert_int_equal(out.name_bytes, 9);
        in.label = -1;
        in.orientation = 1;
    }
    sr_arena arena;
    const sr_type *protocol;
    sr_arena_init(&arena);
    assert_ok(sr_protocol_parse(SR_SAMPLE_PROTOCOL, &arena, &protocol));
    assert_ok(sr_protocol_check(protocol, writer.data, writer.bytes));
    sr_arena_release(&arena);
    sr_record_writer_release(&writer);
}

static void test_detection_round_trip(void **state) {
    (void)state;
    const sr_sample picture = {.data = "jpeg",
                               .bytes = 4,
                               .height = 5,
                               .width = 6,
                               .channels = 3,
                               .name = "id7",
                               .name_bytes = 3};
    const sr_object objects[] = {
        {.name = "RBC", .name_bytes = 3, .label = 2, .xmin = 1.5, .xmax = 3, .ymax = 4.25},
        {.name = "WBC",
         .name_bytes = 3,
         .label = -1,
         .difficult = true,
         .mask = "m",
         .mask_bytes = 1},
    };
    sr_record_writer writer = {0};
    assert_ok(sr_detection_write(&writer, &picture, objects, 2));
    sr_detection out;
    assert_ok(sr_detection_read(writer.data, writer.bytes, &out));
    assert_int_equal(4, out.picture.bytes);
    assert_int_equal(6, out.picture.width);
    assert_memory_equal("id7", out.picture.name, 3);
    sr_object object;
    bool more;
    assert_ok(sr_detection_next(&out, &object, &more));
    assert_true(more && object.label == 2 && object.xmin == 1.5 && object.ymax == 4.25);
    assert_ok(sr_detection_next(&out, &object, &more));
    assert_true(more && object.label == -1 && object.difficult && object.mask_bytes == 1);
    assert_ok(sr_detection_next(&out, &object, &more));
    assert_false(more);
    sr_arena arena;
    const sr_type *protocol;
    sr_arena_init(&arena);
    assert_ok(sr_protocol_parse(SR_DETECTION_PROTOCOL, &arena, &protocol));
    assert_ok(sr_protocol_check(protocol, writer.data, writer.bytes));
    sr_arena_release(&arena);
    sr_record_writer_release(&writer);
}

static void test_extreme_values(void **state) {
    (void)state;
    sr_record_writer writer = {0};
    sr_feature feature;
    sr_record_begin(&writer);
    sr_record_put_int64(&writer, "low", INT64_MIN);
    sr_record_put_int64(&writer, "minus", -1);
    sr_record_put_bytes(&writer, "empty", NULL, 0);
    sr_record_open_list(&writer, "none");
    sr_record_close(&writer);
    assert_ok(sr_record_end(&writer));
    sr_record_cursor record = sr_record_entries(writer.data, writer.bytes);
    assert_ok(sr_record_find(record, "low", &feature));
    assert_true(feature.i64 == INT64_MIN);
    assert_ok(sr_record_find(record, "minus", &feature));
    assert_true(feature.i64 == -1);
    assert_ok(sr_record_find(record, "empty", &feature));
    assert_true(feature.kind == SR_FEATURE_BYTES && feature.bytes == 0);
    assert_ok(sr_record_find(record, "none", &feature));
    assert_true(feature.kind == SR_FEATURE_LIST && feature.bytes == 0);
    sr_record_writer_release(&writer);
}

static void test_writer_mistakes(void **state) {
    (void)state;
    sr_record_writer writer = {0};
    sr_record_begin(&writer);
    sr_record_put_int64(&writer, NULL, 1);
    assert_status(SR_E_ARGUMENT, sr_record_end(&writer));
    sr_record_begin(&writer);
    sr_record_open_list(&writer, "l");
    assert_status(SR_E_ARGUMENT, sr_record_end(&writer));
    sr_record_begin(&writer);
    sr_record_close(&writer);
    assert_status(SR_E_ARGUMENT, sr_record_end(&writer));
    sr_record_begin(&writer);
    for (int i = 0; i <= SR_RECORD_MAX_DEPTH; i++)
        sr_record_open_map(&writer, "m");
    assert_status(SR_E_LIMIT, sr_record_end(&writer));
    sr_record_writer_release(&writer);
}

// Every truncation and every single flipped bit gives a result or SR_E_DATA, never a read out of
// bounds (the record ends at the end of its own allocation, so a sanitizer detects one byte too
// far).
static void test_hostile(void **state) {
    (void)state;
    uint8_t golden[256];
    const char *const texts[] = {golden_lists, golden_picture};
    for (size_t t = 0; t < 2; t++) {
        size_t bytes = unhex(texts[t], golden);
        for (size_t n = 0; n <= bytes; n++) {
            for (size_t bit = 0; bit < 8 * n; bit++) {
                uint8_t *copy = malloc(n);
                assert_non_null(copy);
                memcpy(copy, golden, n);
                copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
                sr_sample sample;
                sr_feature feature;
                (void)!sr_sample_read(copy, n, &sample);
                int64_t ints[2];
                size_t count;
                if (sr_record_find(sr_record_entries(copy, n), "b", &feature) == SR_OK)
                    (void)!sr_feature_int64s(&feature, ints, 2, &count);
                free(copy);
            }
        }
    }
    sr_feature feature;
    const uint8_t group[] = {0x0b, 0x0c},
                  endless[11] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    assert_status(SR_E_DATA, sr_record_find(sr_record_entries(group, 2), "a", &feature));
    assert_status(SR_E_DATA, sr_record_find(sr_record_entries(endless, 11), "a", &feature));
    // Unknown fields (9: varint, 10: fixed32) are skipped; of two equal keys the last one is used.
    const uint8_t odd[] = {0x48, 0x05, 0x55, 1,    2,    3,    4,    0x0a, 0x07,
                           0x0a, 0x01, 'k',  0x12, 0x02, 0x28, 0x01, 0x0a, 0x07,
                           0x0a, 0x01, 'k',  0x12, 0x02, 0x28, 0x02};
    assert_ok(sr_record_find(sr_record_entries(odd, sizeof odd), "k", &feature));
    assert_true(feature.kind == SR_FEATURE_INT64 && feature.i64 == 2);
}

static void test_protocol_text(void **state) {
    (void)state;
    sr_arena arena;
    const sr_type *type, *again;
    sr_text text, meta;
    sr_arena_init(&arena);
    sr_text_init(&text);
    sr_text_init(&meta);
    assert_ok(sr_protocol_parse("{ data: Bytes, 'object': [{x: FLOAT, p: [[int]]}] , s:string}",
                                &arena, &type));
    sr_protocol_print(type, &text);
    const char *canonical = "{data: bytes, object: [{x: float64, p: [[int64]]}], s: string}";
    assert_string_equal(canonical, text.data);
    sr_meta_print(type, "root", &meta);
    assert_ok(sr_meta_parse(meta.data, meta.length, &arena, &again));
    sr_text_clear(&text);
    sr_protocol_print(again, &text);
    assert_string_equal(canonical, text.data);
    sr_text_clear(&text); // keys that are not words are quoted
    assert_ok(sr_protocol_parse("{'a b': bytes, \"c'd\": [int]}", &arena, &type));
    sr_protocol_print(type, &text);
    assert_string_equal("{\"a b\": bytes, \"c'd\": [int64]}", text.data);
    assert_status(SR_E_USAGE, sr_protocol_parse("{a: bytes, a: int}", &arena, &type));
    assert_message("column 13");
    assert_status(SR_E_USAGE, sr_protocol_parse("{a: [int, int]}", &arena, &type));
    assert_status(SR_E_USAGE, sr_protocol_parse("[int]", &arena, &type));
    assert_status(SR_E_USAGE, sr_protocol_parse("{a: integer}", &arena, &type));
    sr_text_release(&text);
    sr_text_release(&meta);
    sr_arena_release(&arena);
}

static const char foreign_meta[] =
    "# as another writer may have it\n"
    "version: 1 id: 'ro\\157t' unknown_field { a: 1 b < c: \"}\" > }\n"
    "record_type < basicType: 5, properties { value: { basicType:"
    " list item { basicType: int64 } } key: \"b\" }\n"
    "properties { key: \"a\" value { basicType: bytes } };\n"
    "keys: \"a\" keys: \"b\" >";

static void test_meta(void **state) {
    (void)state;
    sr_arena arena;
    const sr_type *type;
    sr_text text;
    sr_arena_init(&arena);
    sr_text_init(&text);
    assert_ok(sr_meta_parse(foreign_meta, strlen(foreign_meta), &arena, &type));
    sr_protocol_print(type, &text);
    assert_string_equal("{a: bytes, b: [int64]}", text.data);
    for (size_t n = 0; n < strlen(foreign_meta);
         n++) { // truncated anywhere: an error, never a crash
        char *cut = malloc(n);
        assert_true(cut != NULL || n == 0);
        if (n > 0)
            memcpy(cut, foreign_meta, n);
        assert_status(SR_E_DATA, sr_meta_parse(cut, n, &arena, &type));
        free(cut);
    }
    assert_ok(sr_protocol_parse("{c: [bytes]}", &arena, &type));
    sr_text_clear(&text);
    sr_meta_print(type, "root", &text);
    assert_string_equal("version: 1\nid: \"root\"\nrecord_type {\n  basicType: map\n"
                        "  properties {\n    key: \"c\"\n    value {\n      basicType: list\n"
                        "      item {\n        basicType: bytes\n      }\n    }\n  }\n"
                        "  keys: \"c\"\n}\n",
                        text.data);
    sr_text_release(&text);
    sr_arena_release(&arena);
}

static void test_protocol_check(void **state) {
    (void)state;
    sr_arena arena;
    const sr_type *type;
    sr_record_writer writer = {0};
    sr_arena_init(&arena);
    write_golden_lists(&writer);
    assert_ok(sr_record_end(&writer));
    assert_ok(sr_protocol_parse("{a:[float64], b:[int64], c:[bytes], d: int}", &arena, &type));
    assert_ok(sr_protocol_check(type, writer.data, writer.bytes));
    assert_ok(sr_protocol_parse("{a:[float64], b:[int64]}", &arena, &type));
    assert_status(SR_E_DATA, sr_protocol_check(type, writer.data, writer.bytes));
    assert_message("'c' is not in the protocol");
    assert_ok(sr_protocol_parse("{a:[float64], b:[bytes], c:[bytes]}", &arena, &type));
    assert_status(SR_E_DATA, sr_protocol_check(type, writer.data, writer.bytes));
    assert_message("b[0]");
    sr_record_writer_release(&writer);
    sr_arena_release(&arena);
}

static void test_index(void **state) {
    (void)state;
    const uint64_t offsets[] = {0, 300, 100000};
    const uint8_t golden[] = {0x0a, 0x06, 0x00, 0xac, 0x02, 0xa0, 0x8d, 0x06};
    sr_text text;
    sr_text_init(&text);
    assert_ok(sr_index_write(offsets, 2, &text));
    assert_int_equal(sizeof golden, text.length);
    assert_memory_equal(golden, text.data, sizeof golden);
    uint64_t *back;
    size_t count;
    assert_ok(sr_index_parse(golden, sizeof golden, &back, &count));
    assert_int_equal(2, count);
    assert_memory_equal(offsets, back, sizeof offsets);
    sr_free(back);
    assert_status(SR_E_DATA, sr_index_parse(golden, 0, &back, &count));
    assert_message("stopped before");
    assert_status(SR_E_DATA, sr_index_parse(golden, 7, &back, &count));
    sr_text_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_write),
        cmocka_unit_test(test_golden_read),
        cmocka_unit_test(test_sample_round_trip),
        cmocka_unit_test(test_detection_round_trip),
        cmocka_unit_test(test_extreme_values),
        cmocka_unit_test(test_writer_mistakes),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_protocol_text),
        cmocka_unit_test(test_meta),
        cmocka_unit_test(test_protocol_check),
        cmocka_unit_test(test_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
