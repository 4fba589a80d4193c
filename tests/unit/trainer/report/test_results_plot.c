// SPDX-License-Identifier: Apache-2.0
// Plots of results: both files appear, in the specified size, with the curves' colours; malformed
// metrics files do no harm. A build without cairo reports it.
#include <math.h>
#include <unistd.h>

#include <spng.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"
#include "trainer/draw/plots.h"
#include "trainer/report/csv_file.h"

static char folder[64], csv_path[96];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/serried-plot-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(csv_path, sizeof csv_path, "%s/metrics.csv", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void needs_cairo(void) {
    if (!sr_plots_available(NULL))
        test_skip("built without cairo");
}

// Decodes FOLDER/name; counts the pixels close to a colour.
static int count_pixels(const char *name, uint32_t color, uint32_t *width, uint32_t *height) {
    char path[128];
    void *png;
    size_t bytes, size;
    struct spng_ihdr header;
    int n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sr_file_read(path, 1 << 24, &png, &bytes), SR_OK);
    spng_ctx *context = spng_ctx_new(0);
    assert_int_equal(spng_set_png_buffer(context, png, bytes), 0);
    assert_int_equal(spng_get_ihdr(context, &header), 0);
    assert_int_equal(spng_decoded_image_size(context, SPNG_FMT_RGB8, &size), 0);
    uint8_t *pixels = sr_alloc(size, "test");
    assert_int_equal(spng_decode_image(context, pixels, size, SPNG_FMT_RGB8, 0), 0);
    for (size_t i = 0; i < size; i += 3)
        n += abs(pixels[i] - (int)(color >> 16)) < 6 &&
             abs(pixels[i + 1] - (int)(color >> 8 & 255)) < 6 &&
             abs(pixels[i + 2] - (int)(color & 255)) < 6;
    *width = header.width;
    *height = header.height;
    spng_ctx_free(context);
    sr_free(pixels);
    sr_free(png);
    return n;
}

static void assert_svg(const char *name) {
    char path[128];
    void *text;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sr_file_read(path, 1 << 24, &text, &bytes), SR_OK);
    assert_non_null(strstr(text, "<svg"));
    assert_non_null(strstr(text, "</svg>"));
    sr_free(text);
}

static void write_metrics(int rows, double epochs) {
    sr_csv *csv;
    assert_int_equal(
        sr_csv_open(csv_path, sr_metrics_column_names, SR_METRICS_COLUMNS, 1, -1, &csv), SR_OK);
    for (int i = 1; i <= rows; ++i) {
        double row[SR_METRICS_COLUMNS];
        for (int c = 0; c < SR_METRICS_COLUMNS; ++c)
            row[c] = (double)NAN;
        row[SR_COLUMN_STEP] = i;
        row[SR_COLUMN_SAMPLES] = 64 * i;
        row[SR_COLUMN_EPOCH] = epochs * i / rows;
        row[SR_COLUMN_TRAIN_LOSS] = 2.3 / i + (i % 3) * 0.1;
        row[SR_COLUMN_LR] = 0.1;
        row[SR_COLUMN_IMAGES_PER_S] = 1000;
        if (i % 10 == 0) {
            row[SR_COLUMN_VAL_LOSS] = 2.5 / i;
            row[SR_COLUMN_VAL_TOP1] = 1.0 - 0.5 / i;
        }
        assert_int_equal(sr_csv_add_numbers(csv, row), SR_OK);
    }
    sr_csv_close(csv);
}

static void draws_results(void **state) {
    (void)state;
    uint32_t width, height;
    needs_cairo();
    write_metrics(100, 10);
    assert_int_equal(sr_results_plot(folder), SR_OK);
    assert_true(count_pixels("results.png", 0x2f6fde, &width, &height) > 200); // train loss
    assert_int_equal(width, 1200);
    assert_int_equal(height, 800);
    assert_true(count_pixels("results.png", 0xee7b1a, &width, &height) > 100); // val
    assert_true(count_pixels("results.png", 0x8250c4, &width, &height) > 100); // lr
    assert_true(count_pixels("results.png", 0xffffff, &width, &height) > 1200 * 800 * 8 / 10);
    assert_svg("results.svg");
}

static void *read_results(size_t *bytes) {
    char path[128];
    void *data;
    snprintf(path, sizeof path, "%s/results.png", folder);
    assert_int_equal(sr_results_plot(folder), SR_OK);
    assert_int_equal(sr_file_read(path, 1 << 24, &data, bytes), SR_OK);
    return data;
}

// Runs of less than two epochs are drawn over steps, whatever fraction of an epoch these are.
static void axis_of_steps(void **state) {
    (void)state;
    const double epochs[] = {0.5, 1.5, 2};
    void *data[3];
    size_t bytes[3];
    needs_cairo();
    for (int i = 0; i < 3; ++i) {
        write_metrics(20, epochs[i]);
        data[i] = read_results(&bytes[i]);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(data[0], data[1], bytes[0]);
    assert_true(bytes[0] != bytes[2] || memcmp(data[0], data[2], bytes[0]) != 0);
    for (int i = 0; i < 3; ++i)
        sr_free(data[i]);
}

static void put(const char *text) {
    assert_int_equal(sr_file_write_atomic(csv_path, text, strlen(text)), SR_OK);
}

static void odd_metrics(void **state) {
    (void)state;
    uint32_t width, height;
    needs_cairo();
    assert_int_equal(sr_results_plot(folder), SR_E_NOT_FOUND);
    for (int rows = 0; rows < 3; ++rows) {
        write_metrics(rows, 1);
        assert_int_equal(sr_results_plot(folder), SR_OK);
    }
    static const char *const texts[] = {
        "a,b\n1,2\n", // no known column
        "epoch,train/loss\n0,0\n1,0\n2,0\n",
        "epoch,train/loss\n0,1e308\n1,-1e308\n2,inf\n3,nan\n",
        "epoch,train/loss\n5,1e-300\n5,2e-300\n5,1e-300\n",
        "epoch,train/loss\n-3,-7\n-2,-8\n",
        "epoch,train/loss\n1,1e16\n1.0000000000000002,10000000000000002\n",
        "samples,val/loss,val/a,val/b,val/c,val/d,val/e,val/f\n1,2,3,4,5,6,7,8\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        put(texts[i]);
        if (sr_results_plot(folder) != SR_OK)
            fail_msg("text %zu: %s", i, sr_error_message());
        assert_true(count_pixels("results.png", 0x1f2933, &width, &height) > 100); // titles
    }
}

static void draws_confusion(void **state) {
    (void)state;
    uint32_t width, height;
    static const char *const names[] = {"cat", "a class with a name that goes on and on \xc3\xa4",
                                        "dog"};
    needs_cairo();
    for (int n = 1; n <= 300; n = n < 3 ? n + 1 : n * 5) {
        sr_confusion confusion;
        assert_int_equal(sr_confusion_create(n, &confusion), SR_OK);
        for (int c = 0; c < n; ++c)
            confusion.counts[(int64_t)c * n + c] = 10;
        assert_int_equal(sr_confusion_plot(&confusion, n == 3 ? names : NULL, folder), SR_OK);
        assert_true(count_pixels("confusion.png", 0x2f6fde, &width, &height) > 500);
        assert_true(width < 1500 && height < 1400);
        assert_svg("confusion.svg");
        sr_confusion_release(&confusion);
    }
}

// A matrix without names lists its most frequent confusions.
static void lists_mistakes(void **state) {
    (void)state;
    uint32_t width, height;
    sr_confusion confusion;
    needs_cairo();
    assert_int_equal(sr_confusion_create(60, &confusion), SR_OK);
    assert_int_equal(sr_confusion_plot(&confusion, NULL, folder), SR_OK);
    assert_int_equal(count_pixels("confusion.png", 0xb85c0e, &width, &height), 0);
    int before = 0;
    for (int pairs = 1; pairs <= 40; pairs *= 2) {
        confusion.counts[pairs] = pairs; // of class 0
        assert_int_equal(sr_confusion_plot(&confusion, NULL, folder), SR_OK);
        const int now = count_pixels("confusion.png", 0xb85c0e, &width, &height);
        assert_true(now > before);
        before = now;
    }
    for (int c = 1; c < 60; ++c)
        confusion.counts[60 * c] = 7;
    assert_int_equal(sr_confusion_plot(&confusion, NULL, folder), SR_OK);
    assert_true(count_pixels("confusion.png", 0xb85c0e, &width, &height) > before);
    assert_true(height < 1400);
    sr_confusion_release(&confusion);
}

static void reports_what_is_missing(void **state) {
    (void)state;
    if (sr_plots_available(NULL))
        return;
    sr_confusion none = {0};
    assert_int_equal(sr_results_plot(folder), SR_E_UNSUPPORTED);
    assert_non_null(strstr(sr_error_message(), "cairo"));
    assert_int_equal(sr_confusion_plot(&none, NULL, folder), SR_E_UNSUPPORTED);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(draws_results),   CASE(odd_metrics),    CASE(axis_of_steps),
        CASE(draws_confusion), CASE(lists_mistakes), CASE(reports_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
