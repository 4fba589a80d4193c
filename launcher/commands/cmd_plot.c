// SPDX-License-Identifier: Apache-2.0
// serried plot RUN...: the curves of runs in one picture, each in its own colour.
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "launcher/commands/command.h"
#include "launcher/commands/run_names.h"
#include "trainer/draw/plots.h"
#include "trainer/report/compare_plot.h"
#include "trainer/run/run_results.h"

enum { KEY_METRIC = 0x100, KEY_BY, KEY_PLUGINS, KEY_JSON };
static const char *const endings[] = {".png", ".svg"};
#define ENDINGS ((int)(sizeof endings / sizeof *endings))
#define DRAWING_S 70 // more than the process that draws may take

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0,
     "file to write, .png or .svg; the other one is written beside it (default: plot.png)", 0},
    {"metric", KEY_METRIC, "COLUMN", 0,
     "column of metrics.csv in the second panel, such as val/top5 (default: the task's own)", 0},
    {"by", KEY_BY, "step|epoch|seconds", 0,
     "x axis (default: epoch, or step if no run has two epochs)", 0},
    {"allow-plugins", KEY_PLUGINS, NULL, 0, "load the plug-ins that recipes of the runs name", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0}};

static const char about[] =
    "Compare runs: draw the losses, a metric, the learning rates and the speed of up to six run "
    "folders into one picture, PNG and SVG, and print the best and the last value of the metric."
    "\v"
    "  serried plot runs/cifar10-fast/latest\n"
    "  serried plot runs/resnet18/latest runs/resnet34/latest --metric val/top5 -o depth.png\n";

typedef struct arguments {
    const char *runs[SR_COMPARED_RUNS];
    int count;
    const char *output, *metric, *by;
    bool allow_plugins, json;
} arguments;

static const char *parse_axis(struct argp_state *state, const char *text) {
    static const char *const axes[] = {"step", "epoch", "seconds"};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (strcmp(axes[i], text) == 0)
            return axes[i];
    argp_error(state, "--by: '%s' is not step, epoch or seconds", text);
    return NULL;
}

static error_t parse(int key, char *value, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'o':
        a->output = value;
        return 0;
    case KEY_METRIC:
        a->metric = value;
        return 0;
    case KEY_BY:
        a->by = parse_axis(state, value);
        return 0;
    case KEY_PLUGINS:
        a->allow_plugins = true;
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->count == SR_COMPARED_RUNS)
            argp_error(state, "more than %d runs: their colours could not be told apart",
                       SR_COMPARED_RUNS);
        a->runs[a->count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (a->count == 0)
            argp_error(state, "which run folders?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// -- what is printed -------------------------------------------------------------------------

typedef struct plot {
    const arguments *arguments;
    const char *output;        // without its ending
    const char *folder, *name; // of it
    const char *names[SR_COMPARED_RUNS];
    sr_results runs[SR_COMPARED_RUNS];
    sr_compared compared;
} plot;

static void add_json_pictures(const plot *p, sr_text *out) {
    sr_text path;
    sr_text_init(&path);
    for (int i = 0; i < ENDINGS; i++) {
        sr_text_clear(&path);
        sr_text_add(&path, "%s%s", p->output, endings[i]);
        sr_text_add(out, "%s", i > 0 ? ", " : "");
        sr_text_add_json_string(out, path.data);
    }
    out->failed = out->failed || path.failed;
    sr_text_release(&path);
}

static void add_json(const plot *p, sr_text *out) {
    sr_text_add(out, "{\"metric\": ");
    sr_text_add_json_string(out, p->compared.name);
    sr_text_add_json_string_member(out, "by", p->compared.by);
    sr_text_add(out, ", \"pictures\": [");
    add_json_pictures(p, out);
    sr_text_add(out, "], \"runs\": [");
    for (int i = 0; i < p->arguments->count; i++) {
        const sr_compared_run *run = &p->compared.runs[i];
        sr_text_add(out, "%s{\"name\": ", i > 0 ? ", " : "");
        sr_text_add_json_string(out, p->names[i]);
        sr_text_add_json_string_member(out, "folder", p->arguments->runs[i]);
        sr_text_add_json_number_member(out, "steps", run->steps);
        sr_text_add_json_number_member(out, "best", run->best);
        sr_text_add_json_number_member(out, "last", run->last);
        sr_text_add(out, "}");
    }
    sr_text_add(out, "]}\n");
}

static void add_value(const plot *p, const char *what, double value, sr_text *out) {
    char text[SR_COLUMN_TEXT];
    if (!isnan(value))
        sr_text_add(out, "  %s %s", what, sr_column_text(&p->compared.metric, value, text));
}

static void add_lines(const plot *p, sr_text *out) {
    for (int i = 0; i < p->arguments->count; i++) {
        const sr_compared_run *run = &p->compared.runs[i];
        sr_text_add(out, "%-24s", p->names[i]);
        if (!isnan(run->steps))
            sr_text_add(out, "  %.0f step%s", run->steps, run->steps == 1 ? "" : "s");
        sr_text_add(out, "  %s", p->compared.name);
        add_value(p, "best", run->best, out);
        add_value(p, "last", run->last, out);
        sr_text_add(out, "\n");
    }
    for (int i = 0; i < ENDINGS; i++)
        sr_text_add(out, "%s%s\n", p->output, endings[i]);
}

static sr_status print(const plot *p) {
    sr_text text;
    sr_text_init(&text);
    if (p->arguments->json)
        add_json(p, &text);
    else
        add_lines(p, &text);
    return sr_command_print(SR_OK, &text);
}

// -- drawing ---------------------------------------------------------------------------------

// Splits "FOLDER/NAME.png" or .svg.
static sr_status split_output(plot *p, sr_arena *arena) {
    const char *output = p->arguments->output;
    char *path = sr_arena_strdup(arena, output), *slash = path ? strrchr(path, '/') : NULL;
    if (!path)
        return SR_E_MEMORY;
    char *name = slash ? slash + 1 : path;
    if (!sr_text_ends_with(name, endings[0]) && !sr_text_ends_with(name, endings[1]))
        return SR_FAIL(SR_E_USAGE, "-o %s: the name must end in .png or .svg", output);
    name[strlen(name) - strlen(*endings)] = '\0';
    p->output = sr_arena_strdup(arena, path);
    if (!p->output)
        return SR_E_MEMORY;
    if (slash)
        *slash = '\0';
    p->name = name;
    p->folder = !slash ? "." : slash == path ? "/" : path;
    if (!sr_path_is_folder(p->folder))
        return SR_FAIL(SR_E_NOT_FOUND, "-o %s: there is no folder %s", output, p->folder);
    return SR_OK;
}

static sr_status draw(const plot *p, const sr_figure *figure) {
    sr_drawing *drawing;
    if (!sr_plots_installed()) // fails with what is missing
        return sr_figure_write(figure, p->folder, p->name);
    SR_TRY(sr_drawing_create(&drawing));
    sr_drawing_figure(drawing, figure, p->name, p->folder);
    const bool drawn = sr_drawing_finish(drawing, DRAWING_S);
    sr_drawing_free(drawing);
    return drawn ? SR_OK
                 : SR_FAIL(SR_E_SYSTEM, "%s.png and %s.svg: not all of it was drawn", p->output,
                           p->output);
}

static sr_status compare(plot *p, sr_arena *arena) {
    const arguments *a = p->arguments;
    sr_figure figure;
    SR_TRY(split_output(p, arena));
    SR_TRY(sr_run_names(a->runs, a->count, arena, p->names));
    for (int i = 0; i < a->count; i++)
        SR_TRY(sr_run_results(a->runs[i], a->allow_plugins, arena, &p->runs[i]));
    const sr_comparison comparison = {
        .runs = p->runs, .names = p->names, .count = a->count, .metric = a->metric, .by = a->by};
    SR_TRY(sr_compare_figure(&comparison, &figure, &p->compared));
    const sr_status status = draw(p, &figure);
    sr_figure_release(&figure);
    return status;
}

int sr_cmd_plot(int argc, char **argv) {
    static const struct argp parser = {options, parse, "RUN...", about, 0, 0, 0};
    arguments a = {.output = "plot.png"};
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        return 2;
    plot p = {.arguments = &a};
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status = compare(&p, &arena);
    if (status == SR_OK)
        status = print(&p);
    sr_arena_release(&arena);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
