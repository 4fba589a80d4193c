// SPDX-License-Identifier: Apache-2.0
// results.png and results.svg: the four main plots of a run, from metrics.csv.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "trainer/draw/plot_internal.h"
#include "trainer/report/csv_file.h"
#include "trainer/report/progress.h"

enum { WIDTH = 1200, HEIGHT = 800 };

typedef struct results {
    sr_csv_table table;
    char title[160], facts[256];
    const char *x; // column of the x axis
} results;

static double cell(const sr_csv_table *table, int64_t row, const char *column) {
    int c = sr_csv_table_column(table, column);
    return c < 0 ? (double)NAN : table->values[row * table->columns + c];
}

// The last number in a column; NaN if there is none.
static double last_of(const sr_csv_table *table, const char *column) {
    for (int64_t row = table->rows; row-- > 0;)
        if (!isnan(cell(table, row, column)))
            return cell(table, row, column);
    return (double)NAN;
}

// -- title and facts -------------------------------------------------------------------------

// "cifar10-fast / 20260131-120000": the last two components of the folder's path.
static void make_title(const char *folder, char *out, size_t bytes) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        --length;
    size_t from = length, slashes = 0;
    while (from > 0 && (folder[from - 1] != '/' || ++slashes < 2))
        --from;
    size_t used = 0;
    for (size_t i = from; i < length && used + 4 < bytes; ++i) {
        if (folder[i] == '/') {
            memcpy(out + used, " / ", 3);
            used += 3;
        } else {
            out[used++] = folder[i];
        }
    }
    out[used] = 0;
}

static void add_fact(char *out, size_t bytes, const char *text) {
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, "%s%s", used > 0 ? "   ·   " : "", text);
}

// "5,000 steps · 640,000 images · 12:30 · best val/top1 94.12 %"
static void make_facts(results *r) {
    char number[48], text[128];
    const sr_csv_table *t = &r->table;
    double steps = last_of(t, "step"), samples = last_of(t, "samples");
    double seconds = last_of(t, "seconds"), best = (double)NAN;
    for (int64_t row = 0; row < t->rows; ++row)
        best = fmax(best, cell(t, row, "val/top1"));
    if (!isnan(steps)) {
        sr_plot_number(steps, 1, number, sizeof number);
        snprintf(text, sizeof text, "%s steps", number);
        add_fact(r->facts, sizeof r->facts, text);
    }
    if (!isnan(samples)) {
        sr_plot_number(samples, 1, number, sizeof number);
        snprintf(text, sizeof text, "%s images", number);
        add_fact(r->facts, sizeof r->facts, text);
    }
    if (!isnan(seconds))
        add_fact(r->facts, sizeof r->facts, sr_progress_duration(seconds, number));
    if (!isnan(best)) {
        snprintf(text, sizeof text, "best top-1 %.2f %%", best);
        add_fact(r->facts, sizeof r->facts, text);
    }
}

// metrics.csv contains fractions.
static void to_percent(sr_csv_table *table) {
    for (int c = 0; c < table->columns; ++c) {
        const char *name = table->names[c];
        if (strcmp(name, "val/loss") == 0 ||
            (strcmp(name, "train/top1") != 0 && strncmp(name, "val/", 4) != 0))
            continue;
        for (int64_t row = 0; row < table->rows; ++row)
            table->values[row * table->columns + c] *= 100;
    }
}

// -- panels ----------------------------------------------------------------------------------

// Epochs, or steps for a run of less than two epochs; only columns that the table has.
static void choose_axis(results *r) {
    const bool has_epochs = sr_csv_table_column(&r->table, "epoch") >= 0;
    const bool has_steps = sr_csv_table_column(&r->table, "step") >= 0;
    if (has_epochs && (last_of(&r->table, "epoch") >= 2 || !has_steps))
        r->x = "epoch";
    else
        r->x = has_steps ? "step" : "samples";
}

static void add_series(sr_plot_panel *panel, const results *r, const char *column, const char *name,
                       uint32_t color, bool smooth) {
    const sr_csv_table *table = &r->table;
    const int x = sr_csv_table_column(table, r->x), y = sr_csv_table_column(table, column);
    if (x < 0 || y < 0 || panel->series_count == SR_PANEL_SERIES)
        return;
    panel->series[panel->series_count++] = (sr_plot_series){.name = name,
                                                            .color = color,
                                                            .x = table->values + x,
                                                            .y = table->values + y,
                                                            .stride = table->columns,
                                                            .count = table->rows,
                                                            .smooth = smooth,
                                                            .marks = !smooth};
}

// Accuracies: training top-1, and what the task measures on the val split.
static void add_accuracies(sr_plot_panel *panel, const results *r) {
    const sr_csv_table *table = &r->table;
    static const uint32_t colors[] = {SR_ORANGE, SR_GREEN, SR_PURPLE, 0xc0392b, 0x0e8a9c};
    size_t used = 0;
    add_series(panel, r, "train/top1", "train top-1", SR_BLUE, true);
    for (int c = 0; c < table->columns; ++c) {
        const char *name = table->names[c];
        if (strncmp(name, "val/", 4) != 0 || strcmp(name, "val/loss") == 0)
            continue;
        const char *shown = strcmp(name, "val/top1") == 0   ? "val top-1"
                            : strcmp(name, "val/top5") == 0 ? "val top-5"
                                                            : name;
        add_series(panel, r, name, shown, colors[used++ % 5], false);
    }
}

static void draw(cairo_t *cr, double width, double height, const void *user) {
    const results *r = user;
    sr_plot_panel loss = {.title = "Loss", .x_unit = 1, .cap = (double)NAN};
    sr_plot_panel accuracy = {.title = "Accuracy, %", .x_unit = 1, .cap = 100};
    sr_plot_panel rate = {.title = "Learning rate",
                          .x_title = r->x,
                          .x_unit = 1,
                          .from_zero = true,
                          .cap = (double)NAN};
    sr_plot_panel speed = {.title = "Images per second",
                           .x_title = r->x,
                           .x_unit = 1,
                           .from_zero = true,
                           .cap = (double)NAN};
    add_series(&loss, r, "train/loss", "train", SR_BLUE, true);
    add_series(&loss, r, "val/loss", "val", SR_ORANGE, false);
    add_accuracies(&accuracy, r);
    add_series(&rate, r, "lr", "lr", SR_PURPLE, false);
    add_series(&speed, r, "images_per_s", "all ranks", SR_GREEN, true);
    rate.series[0].marks = false;

    const double margin = 40, header = 84, gap = 48, middle = 24, foot = 40;
    double w = (width - 2 * margin - gap) / 2, h = height - header - middle - foot;
    double upper = 0.58 * h, lower = h - upper;
    sr_plot_text(cr, margin, 46, 22, true, SR_INK, SR_ALIGN_LEFT, r->title);
    sr_plot_text(cr, width - margin - 8, 45, 13, false, SR_SOFT, SR_ALIGN_RIGHT, r->facts);
    sr_plot_panel_draw(cr, margin, header, w, upper, &loss);
    sr_plot_panel_draw(cr, margin + w + gap, header, w, upper, &accuracy);
    sr_plot_panel_draw(cr, margin, header + upper + middle, w, lower, &rate);
    sr_plot_panel_draw(cr, margin + w + gap, header + upper + middle, w, lower, &speed);
}

sr_status sr_plot_results(const char *folder) {
    results r = {.title = ""};
    char *path = sr_path_join(folder, "metrics.csv");
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_csv_read(path, &r.table);
    sr_free(path);
    SR_TRY(status);
    to_percent(&r.table);
    make_title(folder, r.title, sizeof r.title);
    make_facts(&r);
    choose_axis(&r);
    status = sr_plot_write(folder, "results", WIDTH, HEIGHT, draw, &r);
    sr_csv_table_release(&r.table);
    return status;
}
