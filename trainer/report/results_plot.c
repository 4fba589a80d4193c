// SPDX-License-Identifier: Apache-2.0
// The four main plots of a run, from metrics.csv.
#include "trainer/report/results_plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/plot_ticks.h"
#include "trainer/report/csv_file.h"
#include "trainer/report/progress.h"

enum { WIDTH = 1200, HEIGHT = 800, SERIES_MAX = 6, NAME_BYTES = 48 };

typedef struct results {
    const sr_results *run;
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

static void add_best(results *r) {
    const sr_column *column = r->run->best;
    char value[SR_COLUMN_TEXT], text[128];
    double best = (double)NAN;
    if (!column)
        return;
    for (int64_t row = 0; row < r->table.rows; ++row) {
        const double now = cell(&r->table, row, column->name);
        best = sr_column_is_better(column, now, best) ? now : best;
    }
    snprintf(text, sizeof text, "best %s %s", column->label ? column->label : column->name,
             sr_column_text(column, best, value));
    if (!isnan(best))
        add_fact(r->facts, sizeof r->facts, text);
}

// "5,000 steps · 640,000 images · 12:30 · best top-1 94.12 %"
static void make_facts(results *r) {
    char number[48], text[128];
    const sr_csv_table *t = &r->table;
    double steps = last_of(t, "step"), samples = last_of(t, "samples");
    double seconds = last_of(t, "seconds");
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
    add_best(r);
}

// -- columns ---------------------------------------------------------------------------------

static bool is_in(const sr_column *column, const char *group) {
    return strncmp(column->name, group, strlen(group)) == 0;
}

// Whether training or an evaluation measured it, in this unit.
static bool is_measured(const sr_column *column, sr_unit unit) {
    return column->unit == unit && (is_in(column, "train/") || is_in(column, "val/"));
}

static bool has_measured(const results *r, sr_unit unit) {
    for (int i = 0; i < r->run->count; ++i)
        if (is_measured(&r->run->columns[i], unit) &&
            sr_csv_table_column(&r->table, r->run->columns[i].name) >= 0)
            return true;
    return false;
}

// "train top-1"; of losses "train", "val", "train D" of the phase D.
static void name_curve(const sr_column *column, char out[NAME_BYTES]) {
    const char *rest = strchr(column->name, '/') + 1, *what = rest;
    size_t length;
    if (column->unit != SR_UNIT_LOSS && column->label)
        what = column->label;
    length = strlen(what);
    if (column->unit == SR_UNIT_LOSS && length >= 4 && strcmp(what + length - 4, "loss") == 0)
        for (length -= 4; length > 0 && strchr("._", what[length - 1]);)
            --length;
    snprintf(out, NAME_BYTES, "%.*s%s%.*s", (int)(rest - 1 - column->name), column->name,
             length > 0 ? " " : "", (int)length, what);
}

// Files contain fractions, pictures show percent.
static void to_percent(results *r) {
    for (int i = 0; i < r->run->count; ++i) {
        const int c = sr_csv_table_column(&r->table, r->run->columns[i].name);
        if (c < 0 || r->run->columns[i].unit != SR_UNIT_FRACTION)
            continue;
        for (int64_t row = 0; row < r->table.rows; ++row)
            r->table.values[row * r->table.columns + c] *= 100;
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

// The curves of a panel.
typedef struct curves {
    const results *from;
    sr_panel_series list[SERIES_MAX];
    char names[SERIES_MAX][NAME_BYTES];
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
    char *kept = to->names[to->count];
    (void)snprintf(kept, NAME_BYTES, "%s", name);
    to->list[to->count++] = (sr_panel_series){.name = kept,
                                              .color = color,
                                              .x = table->values + x,
                                              .y = table->values + y,
                                              .stride = table->columns,
                                              .count = table->rows,
                                              .smooth = smooth,
                                              .marks = !smooth};
}

// What was measured in a unit: the first curve of training in blue, all others in the colours
// beside it.
static void add_measured(curves *to, sr_unit unit) {
    const results *r = to->from;
    int used = 0;
    for (int i = 0; i < r->run->count; ++i) {
        const sr_column *column = &r->run->columns[i];
        const bool training = is_in(column, "train/");
        char name[NAME_BYTES];
        if (!is_measured(column, unit))
            continue;
        name_curve(column, name);
        add_curve(to, column->name, name,
                  training && to->count == 0 ? SR_BLUE : sr_color_series(used++), training);
    }
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
    add_measured(&shown, SR_UNIT_LOSS);
    add_panel(figure, place_panel(0, 0, "Loss"), &shown);
}

// Fractions, or else numbers.
static void add_measures(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    const bool numbers = !has_measured(r, SR_UNIT_FRACTION);
    sr_panel panel = place_panel(1, 0, numbers ? "Measures" : "Accuracy, %");
    panel.cap = numbers ? 0 : 100;
    add_measured(&shown, numbers ? SR_UNIT_NUMBER : SR_UNIT_FRACTION);
    add_panel(figure, panel, &shown);
}

static void add_rates(const results *r, sr_figure *figure) {
    curves shown = {.from = r};
    sr_panel panel = place_panel(0, 1, "Learning rate");
    panel.x_title = r->x;
    panel.from_zero = true;
    for (int i = 0; i < r->run->count; ++i) {
        const char *name = r->run->columns[i].name;
        if (strcmp(name, "lr") == 0 || sr_text_ends_with(name, ".lr"))
            add_curve(&shown, name, name,
                      shown.count == 0 ? SR_PURPLE : sr_color_series(shown.count - 1), false);
    }
    for (int i = 0; i < shown.count; ++i)
        shown.list[i].marks = false;
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

static sr_status read_results(results *r) {
    char *path = sr_path_join(r->run->folder, "metrics.csv");
    if (path == NULL)
        return SR_E_MEMORY;
    const sr_status status = sr_csv_read(path, &r->table);
    sr_free(path);
    SR_TRY(status);
    make_title(r->run->folder, r->title, sizeof r->title);
    make_facts(r);
    choose_axis(r);
    to_percent(r);
    return SR_OK;
}

sr_status sr_results_figure(const sr_results *run, sr_figure *out) {
    results r = {.run = run};
    SR_TRY(read_results(&r));
    sr_figure_init(out, WIDTH, HEIGHT);
    add_heading(&r, out);
    add_losses(&r, out);
    add_measures(&r, out);
    add_rates(&r, out);
    add_speed(&r, out);
    sr_csv_table_release(&r.table);
    return SR_OK;
}

void sr_results_draw(const sr_results *run, sr_drawing *drawing) {
    sr_figure figure;
    if (!drawing)
        return;
    if (sr_results_figure(run, &figure) != SR_OK) {
        SR_WARN("results.png was not drawn: %s", sr_error_message());
        return;
    }
    sr_drawing_figure(drawing, &figure, "results", run->folder);
    sr_figure_release(&figure);
}
