// SPDX-License-Identifier: Apache-2.0
// Metrics: counts, ties and NaN, cross-entropy, order of sums, confusion; and the progress line.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "trainer/report/progress.h"
#include "trainer/tasks/metric_topk.h"

typedef struct totals {
    sr_metric_result result; // without values
    double values[SR_TOPK_COLUMNS];
} totals;

static totals total(const sr_topk_block *blocks, int64_t count) {
    const sr_topk_block *all[16];
    totals t = {0};
    sr_metric_result result = {.values = t.values};
    for (int64_t i = 0; i < count; ++i)
        all[i] = &blocks[i];
    sr_topk_total(all, count, &result);
    t.result = result;
    t.result.values = NULL;
    return t;
}

static void counts_by_hand(void **state) {
    (void)state;
    const float logits[5][7] = {
        {9, 1, 2, 3, 4, 5, 6}, // label 0: first
        {9, 1, 2, 3, 4, 5, 6}, // label 3: beaten by 4: in the top 5
        {9, 1, 2, 3, 4, 5, 6}, // label 2: beaten by 5
        {0, 0, 0, 0, 0, 0, 0}, // label 0: ties go to the lower index
        {0, 0, 0, 0, 0, 0, 0}, // label 5: five lower ones tie
    };
    const int32_t labels[5] = {0, 3, 2, 0, 5};
    sr_topk_block block = {0};
    sr_confusion confusion;
    assert_int_equal(sr_confusion_create(7, &confusion), SR_OK);
    assert_int_equal(sr_topk_add(&block, logits[0], 7, labels, 5, &confusion), SR_OK);
    assert_int_equal(block.samples, 5);
    assert_int_equal(block.top1, 2);
    assert_int_equal(block.top5, 3);
    assert_int_equal(confusion.counts[0], 2);
    assert_int_equal(confusion.counts[3 * 7 + 0], 1);
    double z = 0;
    for (int c = 0; c < 7; ++c)
        z += exp((double)logits[0][c]);
    double want = (log(z) - 9) + (log(z) - 3) + (log(z) - 2) + 2 * log(7.0);
    assert_true(fabs(block.loss - want) < 1e-12 * want);
    const totals all = total(&block, 1);
    assert_true(all.values[SR_TOPK_TOP1] == 2.0 / 5 && all.values[SR_TOPK_TOP5] == 3.0 / 5);
    assert_true(all.values[SR_TOPK_LOSS] == block.loss / 5);
    sr_confusion_release(&confusion);
}

static void unusual_values(void **state) {
    (void)state;
    const float nan = NAN;
    const float logits[4][3] = {{nan, 1, 2}, {1, nan, 2}, {1e30f, -1e30f, 0}, {1, 2, 3}};
    const int32_t labels[4] = {1, 1, 0, -1};
    sr_topk_block block = {0};
    assert_int_equal(sr_topk_add(&block, logits[0], 3, labels, 1, NULL), SR_OK);
    assert_int_equal(block.top1, 0); // a NaN never makes a hit of another class
    assert_true(isnan(block.loss));
    assert_int_equal(block.not_finite, 1);
    assert_int_equal(block.first_not_finite, 0);
    block = (sr_topk_block){0};
    assert_int_equal(sr_topk_add(&block, logits[2], 3, labels + 2, 2, NULL), SR_OK);
    assert_int_equal(block.samples, 1); // a negative label does not count
    assert_int_equal(block.top1, 1);
    assert_true(block.loss == 0);
    assert_int_equal(block.not_finite, 0);
    const int32_t wrong = 3;
    assert_int_equal(sr_topk_add(&block, logits[2], 3, &wrong, 1, NULL), SR_E_DATA);
    assert_true(isnan(total(NULL, 0).values[SR_TOPK_TOP1]));
}

// The first sample whose loss is not finite has the lowest number; the others count, too.
static void names_what_is_not_finite(void **state) {
    (void)state;
    const float inf = INFINITY, nan = NAN;
    const float logits[6][3] = {{1, 2, 3},    {nan, 0, 0}, {1, -inf, 0},
                                {1, -inf, 0}, {inf, 0, 0}, {0, 0, 0}};
    const int32_t labels[6] = {0, -1, 0, 1, 0, 2}; // without a label; impossible, but not the label
    sr_topk_block blocks[3] = {0};
    assert_int_equal(sr_topk_add(&blocks[1], logits[0], 3, labels, 6, NULL), SR_OK);
    assert_int_equal(blocks[1].not_finite, 2);
    assert_int_equal(blocks[1].first_not_finite, 3);
    blocks[1].first_not_finite += 10;
    blocks[2] = (sr_topk_block){.samples = 4, .not_finite = 1, .first_not_finite = 20};
    const sr_metric_result all = total(blocks, 3).result;
    assert_int_equal(all.samples, 9);
    assert_int_equal(all.not_finite, 3);
    assert_int_equal(all.first_not_finite, 13);
}

// Blocks give the same bits when they are added in block order, whichever rank computes them and
// when.
static void blocks_do_not_depend_on_ranks(void **state) {
    (void)state;
    enum { ROWS = 96, CLASSES = 10, BLOCKS = 12 };
    static float logits[ROWS * CLASSES];
    static int32_t labels[ROWS];
    sr_rng rng;
    sr_rng_init(&rng, 3, 0, 0, 0);
    for (int i = 0; i < ROWS * CLASSES; ++i)
        logits[i] = (float)sr_rng_normal(&rng);
    for (int i = 0; i < ROWS; ++i)
        labels[i] = (int32_t)sr_rng_below(&rng, CLASSES);
    sr_topk_block forward[BLOCKS] = {0}, backward[BLOCKS] = {0};
    for (int b = 0; b < BLOCKS; ++b) {
        ptrdiff_t f = b, r = BLOCKS - 1 - b;
        assert_int_equal(
            sr_topk_add(&forward[f], &logits[f * 8 * CLASSES], CLASSES, &labels[f * 8], 8, NULL),
            SR_OK);
        assert_int_equal(
            sr_topk_add(&backward[r], &logits[r * 8 * CLASSES], CLASSES, &labels[r * 8], 8, NULL),
            SR_OK);
    }
    const totals x = total(forward, BLOCKS), y = total(backward, BLOCKS);
    assert_int_equal(x.result.samples, ROWS);
    assert_memory_equal(x.values, y.values, sizeof x.values);
    assert_true(x.values[SR_TOPK_LOSS] > 2 && x.values[SR_TOPK_LOSS] < 4);
}

static void confusion_file(void **state) {
    (void)state;
    static const char *const classes[] = {"cat\x1b", "a \"b\", c"};
    const int64_t more[4] = {1, 0, 5, 2};
    sr_confusion confusion;
    char path[64];
    void *text;
    size_t bytes;
    snprintf(path, sizeof path, "/tmp/serried-confusion-%ld.csv", (long)getpid());
    assert_int_equal(sr_confusion_create(2, &confusion), SR_OK);
    for (int i = 0; i < 4; ++i)
        confusion.counts[i] = 2 * more[i];
    assert_int_equal(sr_confusion_write_csv(&confusion, classes, path), SR_OK);
    assert_int_equal(sr_file_read(path, 1000, &text, &bytes), SR_OK);
    unlink(path);
    assert_string_equal(text, "truth,predicted,count\ncat\\x1b,cat\\x1b,2\n"
                              "\"a \"\"b\"\", c\",cat\\x1b,10\n"
                              "\"a \"\"b\"\", c\",\"a \"\"b\"\", c\",4\n");
    sr_free(text);
    sr_confusion_release(&confusion);
}

static void progress_line(void **state) {
    (void)state;
    char line[320], text[24];
    sr_progress p = {.epoch = 3.25,
                     .epochs = 90,
                     .step = 1200,
                     .steps = 36000,
                     .eta_seconds = 3753,
                     .loss = 2.31449,
                     .val = (double)NAN,
                     .lr = 0.0987,
                     .images_per_s = 1032.4,
                     .data_wait = 0.0031,
                     .comm_exposed = 0.0122,
                     .mfu = (double)NAN,
                     .memory_bytes = (uint64_t)1288490189};
    assert_string_equal(sr_progress_format(&p, line, sizeof line),
                        "epoch 3.25/90  step 1200/36000  ETA 1:02:33  loss 2.3145  lr 0.0987  "
                        "1032 images/s  data 0.3 %  comm 1.2 %  1.2 GiB");
    assert_string_equal(sr_progress_format(&p, line, 12),
                        "epoch 3.25/"); // truncated, never overrun
    p = (sr_progress){.what = "val",
                      .step = 7,
                      .val = 0.93125,
                      .val_column = &sr_metric_topk.columns[SR_TOPK_TOP1],
                      .val_epoch = 4,
                      .mfu = 0.4126};
    p.loss = p.lr = p.images_per_s = p.data_wait = p.comm_exposed = p.eta_seconds = (double)NAN;
    assert_string_equal(sr_progress_format(&p, line, sizeof line),
                        "val  step 7  MFU 41.3 %  val top-1 93.12 % (epoch 4)");
    p.val_epoch = 0;
    p.val_step = 5;
    assert_string_equal(sr_progress_format(&p, line, sizeof line),
                        "val  step 7  MFU 41.3 %  val top-1 93.12 % (step 5)");
    assert_string_equal(sr_progress_duration(4.4, text), "4 s");
    assert_string_equal(sr_progress_duration(187, text), "3:07");
    assert_string_equal(sr_progress_duration(2 * 86400 + 3 * 3600 + 240, text), "2 d 03:04");
}

static void rates(void **state) {
    (void)state;
    sr_rate rate = {0};
    assert_true(isnan(sr_rate_get(&rate)));
    sr_rate_mark(&rate, 0, 0);
    assert_true(isnan(sr_rate_get(&rate)));
    for (int64_t i = 1; i < 100; ++i) // 64 samples each 0.5 s, after a slow first half
        sr_rate_mark(&rate, i * 64, i < 50 ? i * 1000000000 : 25000000000 + i * 500000000);
    assert_true(fabs(sr_rate_get(&rate) - 128) < 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_by_hand),
        cmocka_unit_test(unusual_values),
        cmocka_unit_test(names_what_is_not_finite),
        cmocka_unit_test(blocks_do_not_depend_on_ranks),
        cmocka_unit_test(confusion_file),
        cmocka_unit_test(progress_line),
        cmocka_unit_test(rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
