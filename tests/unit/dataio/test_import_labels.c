// SPDX-License-Identifier: Apache-2.0
// What labels in lists and beside pictures mean: numbers of classes, names, or no class; and the
// warnings where they might mean something else.
#include "tests/unit/dataio/import_said.h"

static void test_numbers(void **state) {
    (void)state;
    PUT_JPEGS("0.jpg", "1.jpg", "2.jpg", "3.jpg");
    sr_pack_report r = pack_list("0.jpg\t0\n1.jpg\t1\n2.jpg\t2\n3.jpg\t3.0\n");
    assert_int_equal(4, r.classes);
    assert_int_equal(3, label_of("train", "3.jpg"));
    check_said("(3.0): they are treated as whole numbers");
    r = pack_list("0.jpg\t2019\n1.jpg\t2020\n2.jpg\t2021\n3.jpg\t10000\n");
    assert_int_equal(4, r.classes);
    check_class(0, "2019");
    check_class(3, "10000"); // in the order of the numbers
    check_said("few of the numbers up to 10000 occur as labels: they are treated as class names");
    r = pack_list("0.jpg\t1\n1.jpg\t2\n2.jpg\t4\n3.jpg\t4\n"); // gaps are said
    assert_int_equal(5, r.classes);
    assert_int_equal(4, label_of("train", "2.jpg"));
    check_said("no picture has classes 0, 3; the data set still has 5 classes");
    r = pack_list("0.jpg\t0007\n1.jpg\t0042\n2.jpg\t0042\n3.jpg\t0007\n");
    check_class(1, "0042");
    r = pack_list("0.jpg\t1\n1.jpg\t10\n2.jpg\t2\n3.jpg\tcat\n");
    assert_int_equal(4, r.classes);
    check_class(1, "10");
    check_said("3 labels are whole numbers and 1 are not (cat): all are treated as names");
    r = pack_list("0.jpg\t 0\n1.jpg\t-1\n2.jpg\t\n3.jpg\t1 \n"); // no class
    check_splits(&r, 2, 0, 0);
    assert_int_equal(2, r.classes);
    check_refused("\n1.jpg,\"label -1, which is not a class\"\n2.jpg,its label is blank\n");
    r = pack_list("0.jpg\t1.0\n1.jpg\tnan\n2.jpg\t0.0\n3.jpg\t2.0\n");
    assert_int_equal(3, r.classes);
    check_refused("\n1.jpg,\"label nan, which is not a class\"");
    r = pack_list("0.jpg\t0\n1.jpg\t1\n2.jpg\t2.5\n3.jpg\t3\n");
    check_said("3 labels are whole numbers and 1 are not (2.5)");
    put_text("names.txt", "2021\n2019\n2020\n"); // names are names, and other numbers ids
    put_text("list.tsv", "0.jpg\t2019\n1.jpg\t2020\n");
    r = pack_src((sr_pack_options){.list = in_top("list.tsv"), .classes = in_top("names.txt")});
    assert_int_equal(1, label_of("train", "0.jpg"));
    put_text("list.tsv", "0.jpg\t2\n1.jpg\t0\n");
    r = pack_src((sr_pack_options){.list = in_top("list.tsv"), .classes = in_top("names.txt")});
    assert_int_equal(2, label_of("train", "0.jpg"));
    check_said("no picture has class 2019; the data set still has 3 classes");
}

// How other programs write labels: of three pictures, with the class names that result.
static void test_label_texts(void **state) {
    (void)state;
    static const struct {
        const char *labels[3], *classes, *said; // said: NULL: nothing
    } rows[] = {
        {{"0", "1.00e+00", "2E0"}, "0 1 2", "(1.00e+00, 2E0): they are treated as whole numbers"},
        {{"+1", "0", "00"}, "0 1", "(0, 00, +1): they are treated as whole numbers"},
        {{"\"1\"", "\"0\"", "1"}, "0 1", NULL}, // as R writes texts
        {{"\"a \"\"b\"\"\"", "c", "\"c\""}, "a \"b\" c", NULL},
        {{"0.5", "1.5", "1e-3"}, "0.5 1.5 1e-3", "numbers, but not whole (0.5, 1.5, 1e-3)"},
        {{"1e300", "0", "1"}, "0 1 1e300", "2 labels are whole numbers and 1 are not (1e300)"},
        {{"1e", "e1", "."}, ". 1e e1", NULL}, // no numbers
        {{"cat", "None", "NA"}, "NA None cat", "may stand for a missing one (None, NA)"},
        {{"true", "false", "true"}, "false true", NULL},
    };
    PUT_JPEGS("0.jpg", "1.jpg", "2.jpg");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256], names[256] = "";
        const char *const *l = rows[i].labels;
        sr_dataset *set;
        (void)snprintf(text, sizeof text, "0.jpg\t%s\n\"1.jpg\"\t%s\n2.jpg\t%s\n", l[0], l[1],
                       l[2]);
        const sr_pack_report r = pack_list(text);
        check_splits(&r, 3, 0, 0);
        assert_ok(sr_dataset_open(in_top("dst"), "train", &set));
        for (int c = 0; c < sr_dataset_class_count(set); c++)
            (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                           c > 0 ? " " : "", sr_dataset_class_name(set, c));
        sr_dataset_free(set);
        assert_string_equal(rows[i].classes, names);
        if (rows[i].said != NULL)
            check_said(rows[i].said);
        else
            assert_false(is_said("warning"));
    }
    sr_pack_report r;
    static const struct {
        const char *list, *message;
    } refused[] = {
        {"0.jpg,cat\n", "list.tsv:1: expected: path TAB label [TAB split]; the line has no TAB"},
        {"0.jpg\tcaf\xe9\n", "class 0, 'caf\xe9', is not UTF-8; save its file as UTF-8"},
        {"0.jpg\tcat\tdev\n", "list.tsv:1: split 'dev' is not train, val or test"},
        {"\n0.jpg\ta\ttrain\tx\n", "list.tsv:2: expected: path TAB label"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        put_text("list.tsv", refused[i].list);
        const sr_pack_options o = {.list = in_top("list.tsv")};
        assert_status(SR_E_DATA, pack(in_top("src"), in_top("no"), o, &r));
        assert_message(refused[i].message);
    }
}

// The same in files beside pictures.
static void test_numbers_beside(void **state) {
    (void)state;
    PUT_JPEGS("0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg");
    put_text("src/4.cls", "1\n2\n");
    put_text("src/0.json", "{\"label\": 0}");
    put_text("src/1.json", "{\"label\": 1.0}");
    put_text("src/2.json", "{\"label\": -1}");
    put_text("src/3.json", "{\"label\": null}");
    sr_pack_report r = pack_src((sr_pack_options){0});
    check_reading("read as webdataset");
    check_splits(&r, 2, 0, 0);
    assert_int_equal(1, label_of("train", "1.jpg"));
    check_refused("2.jpg,\"label -1, which is not a class\"");
    check_refused("3.jpg,a picture without a label");
    check_refused("4.jpg,its label has line breaks");
    PUT_JPEGS("0.jpg", "1.jpg", "2.jpg");
    put_text("src/0.json", "{\"label\": true}");
    put_text("src/1.json", "{\"label\": false}");
    put_text("src/2.json", "{\"label\": \"true\"}");
    r = pack_src((sr_pack_options){0});
    check_splits(&r, 3, 0, 0);
    assert_int_equal(1, label_of("train", "2.jpg"));
    assert_int_equal(2, r.classes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_top, remove_top)
        TEST(test_numbers),
        TEST(test_label_texts),
        TEST(test_numbers_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
