// SPDX-License-Identifier: Apache-2.0
// The four main plots of a run, from metrics.csv.
#include "trainer/report/results_plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/plot_ticks.h"
#include "trainer/report/csv_file.h"
#include "trainer/report/progress.h"

enum { WIDTH = 1200, HEIGHT = 800, SERIES_MAX = 6 };

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

// How a column is shown among the accuracies; NULL: it is not one of them. metrics.csv contains
// fractions, the panel shows percent.
static const char *accuracy_name(const char *column) {
    if (strcmp(column, "train/top1") == 0)
        return "train top-1";
    if (strcmp(column, "val/top1") == 0)
        return "val top-1";
    if (strcmp(column, "val/top5") == 0)
        return "val top-5";
    return strncmp(column, "val/", 4) == 0 && strcmp(column, "val/loss") != 0 ? column : NULL;
}

static void to_percent(sr_csv_table *table) {
    for (int c = 0; c < table->columns; ++c)
        for (int64_t row = 0; accuracy_name(table->names[c]) && row < table->rows; ++row)
            table->values[row * table->columns + c] *= 100;
}

// The curves of a panel.
typedef struct curves {
    const results *from;
    sr_panel_series list[SERIES_MAX];
    int count;
} curves;

// A curve over the x axis, if the table has its column.
static void add_curve(curves *to, const char *column, const char *name, uint32_t color,
                      bool smooth) {
    const results *r = to->from;
    const sr_csv_table *table = &r->table;
    const int x = sr_csv_table_column(table, r->x), y = sr_csv_table_column(table, column);
    if (x < 0 || y < 0 || to->count == SERIES_MAX)
        return;
    to->list[to->count++] = (sr_panel_series){.name = name,
                                              .color = color,
                                              .x = table->values + x,
                                              .y = table->values + y,
                                              .stride = table->columns,
                                              .count = table->rows,
                                              .smooth = smooth,
                                              .marks = !smooth};
}

// Where a panel is: rows are of different height.
static sr_panel place_panel(int column, int row, const char *title) {
    const double margin = 40, header = 84, gap = 48, middle = 24, foot = 40;
    const double width = (WIDTH - 2 * margin - gap) / 2, height = HEIGHT - header - middle - foot;
    const double upper = 0.58 * height;
    return (sr_panel){.title = title,
                      .x = margin + column * (width + gap),
                      .y = header + row * (upper + middle),
                      .width = width,
                      .height = row == 0 ? upper : height - upper,
                      .x_unit = 1};
}

static void add_panel(sr_figure *figure, sr_panel panel, const curves *shown) {
    panel.series = shown->list;
    panel.series_count = shown->count;
    sr_figure_add_panel(figure, panel);
}

static void add_losses(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    add_curve(&shown, "train/loss", "train", SR_BLUE, true);
    add_curve(&shown, "val/loss", "val", SR_ORANGE, false);
    add_panel(figure, place_panel(0, 0, "Loss"), &shown);
}

// Of training, and what the task measures on the val split.
static void add_accuracies(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    sr_panel panel = place_panel(1, 0, "Accuracy, %");
    int used = 0;
    panel.cap = 100;
    add_curve(&shown, "train/top1", accuracy_name("train/top1"), SR_BLUE, true);
    for (int c = 0; c < r->table.columns; ++c) {
        const char *column = r->table.names[c], *name = accuracy_name(column);
        if (name && strncmp(column, "val/", 4) == 0)
            add_curve(&shown, column, name, sr_color_series(used++), false);
    }
    add_panel(figure, panel, &shown);
}

static void add_rate(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    sr_panel panel = place_panel(0, 1, "Learning rate");
    panel.x_title = r->x;
    panel.from_zero = true;
    add_curve(&shown, "lr", "lr", SR_PURPLE, false);
    shown.list[0].marks = false;
    add_panel(figure, panel, &shown);
}

static void add_speed(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    sr_panel panel = place_panel(1, 1, "Images per second");
    panel.x_title = r->x;
    panel.from_zero = true;
    add_curve(&shown, "images_per_s", "all ranks", SR_GREEN, true);
    add_panel(figure, panel, &shown);
}

static void add_heading(const results *r, sr_figure *figure) {
    sr_figure_add_text(
        figure, (sr_figure_text){
                    .text = r->title, .x = 40, .y = 46, .size = 22, .bold = true, .color = SR_INK});
    sr_figure_add_text(figure, (sr_figure_text){.text = r->facts,
                                                .x = WIDTH - 48,
                                                .y = 45,
                                                .size = 13,
                                                .color = SR_SOFT,
                                                .align = SR_ALIGN_RIGHT});
}

static sr_status read_results(const char *folder, results *r) {
    char *path = sr_path_join(folder, "metrics.csv");
    if (path == NULL)
        return SR_E_MEMORY;
    const sr_status status = sr_csv_read(path, &r->table);
    sr_free(path);
    SR_TRY(status);
    to_percent(&r->table);
    make_title(folder, r->title, sizeof r->title);
    make_facts(r);
    choose_axis(r);
    return SR_OK;
}

sr_status sr_results_figure(const char *folder, sr_figure *out) {
    results r = {.title = ""};
    SR_TRY(read_results(folder, &r));
    sr_figure_init(out, WIDTH, HEIGHT);
    add_heading(&r, out);
    add_losses(&r, out);
    add_accuracies(&r, out);
    add_rate(&r, out);
    add_speed(&r, out);
    sr_csv_table_release(&r.table);
    return SR_OK;
}

void sr_results_draw(const char *folder, sr_drawing *drawing) {
    sr_figure figure;
    if (!drawing)
        return;
    if (sr_results_figure(folder, &figure) != SR_OK) {
        SR_WARN("results.png was not drawn: %s", sr_error_message());
        return;
    }
    sr_drawing_figure(drawing, &figure, "results", folder);
    sr_figure_release(&figure);
}
