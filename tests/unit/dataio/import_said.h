// SPDX-License-Identifier: Apache-2.0
// Packs small sources and checks what was printed about them: the format and warnings.
#ifndef SR_TESTS_UNIT_IMPORT_SAID_H
#define SR_TESTS_UNIT_IMPORT_SAID_H

#include "tests/unit/dataio/import_fixture.h"

#include "dataio/record/split.h"
#include "kernels/base/log.h"

static char reading[1024]; // the line about the format

static inline void keep_reading(const char *line) {
    (void)snprintf(reading, sizeof reading, "%s", line);
}

// Packs src into dst, which is emptied before; what is said goes to 'log'.
static inline sr_pack_report pack_src(sr_pack_options options) {
    sr_pack_report report;
    run("rm -rf '%s' '%s'", in_top("dst"), in_top("log"));
    options.allow_refused = 100;
    options.recognised = keep_reading;
    assert_ok(sr_log_open_file(in_top("log")));
    assert_ok(pack(in_top("src"), in_top("dst"), options, &report));
    sr_log_close_file();
    return report;
}

static inline sr_pack_report pack_list(const char *text) {
    put_text("list.tsv", text);
    return pack_src((sr_pack_options){.list = in_top("list.tsv")});
}

static inline bool is_said(const char *words) {
    void *text;
    size_t bytes;
    assert_ok(sr_file_read(in_top("log"), 1 << 20, &text, &bytes));
    const bool found = strstr(text, words) != NULL;
    sr_free(text);
    return found;
}

static inline void check_said(const char *words) {
    if (!is_said(words))
        fail_msg("nothing says '%s'", words);
}

static inline void check_reading(const char *words) {
    if (strstr(reading, words) == NULL)
        fail_msg("'%s' lacks '%s'", reading, words);
}

static inline void check_splits(const sr_pack_report *r, int64_t train, int64_t val, int64_t test) {
    assert_int_equal(train, r->records[SR_SPLIT_TRAIN]);
    assert_int_equal(val, r->records[SR_SPLIT_VAL]);
    assert_int_equal(test, r->records[SR_SPLIT_TEST]);
}

static inline void check_class(int number, const char *name) {
    sr_dataset *set;
    assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
    assert_true(number < sr_dataset_class_count(set));
    assert_string_equal(name, sr_dataset_class_name(set, number));
    sr_dataset_free(set);
}

static inline void put_jpegs(const char *const *names, size_t count) {
    run("rm -rf '%s'", in_top("src"));
    for (size_t i = 0; i < count; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "src/%s", names[i]);
        put_jpeg(path, 20 + (unsigned)i, 20);
    }
}

#define PUT_JPEGS(...)                                                                             \
    put_jpegs((const char *const[]){__VA_ARGS__},                                                  \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#endif
