// SPDX-License-Identifier: Apache-2.0
// serried show PATH: draws pictures of a data set with their labels, to a file and in the terminal;
// lists every tensor of a checkpoint or run folder.
#include <argp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "dataio/pack/inspect.h"
#include "launcher/commands/command.h"
#include "launcher/commands/show_samples.h"
#include "launcher/commands/subject.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/draw/drawing.h"

enum { KEY_SPLIT = 0x100, KEY_FIRST, KEY_COLUMNS, KEY_SIZE, KEY_TERMINAL };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "file to write, .png or .jpg (default: show.png)", 0},
    {"count", 'n', "N", 0, "number of pictures (default: 24)", 0},
    {"first", KEY_FIRST, "I", 0, "index of the first sample (default: 0)", 0},
    {"split", KEY_SPLIT, "NAME", 0, "train, val or test (default: the first one in the data set)",
     0},
    {"columns", KEY_COLUMNS, "N", 0, "pictures per row (default: 6)", 0},
    {"size", KEY_SIZE, "PX", 0, "longer side of a shown picture (default: 160)", 0},
    {"terminal", KEY_TERMINAL, NULL, 0,
     "also draw in the terminal, even if it is not known to support pictures", 0},
    {0}};

static const char about[] =
    "Draw samples of a shard or data set with their labels, boxes and masks into one picture, "
    "which is also shown if stdout is a terminal with colours and UTF-8. For a checkpoint or run "
    "folder, list the tensors.";

typedef struct arguments {
    const char *path, *output, *split;
    long first, count, columns, side;
    bool terminal; // requested
} arguments;

static error_t parse_option(int key, char *value, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'o':
        a->output = value;
        break;
    case 'n':
        a->count = sr_command_number(state, "--count", value, 1, 10000);
        break;
    case KEY_FIRST:
        a->first = sr_command_number(state, "--first", value, 0, LONG_MAX);
        break;
    case KEY_TERMINAL:
        a->terminal = true;
        break;
    case KEY_SPLIT:
        a->split = value;
        break;
    case KEY_COLUMNS:
        a->columns = sr_command_number(state, "--columns", value, 1, 200);
        break;
    case KEY_SIZE:
        a->side = sr_command_number(state, "--size", value, 8, 2048);
        break;
    case ARGP_KEY_ARG:
        if (a->path != NULL)
            argp_error(state, "one path at a time");
        a->path = value;
        break;
    case ARGP_KEY_END:
        if (a->path == NULL)
            argp_error(state, "which shard, data set, checkpoint or run folder?");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// Whether the locale is UTF-8 (POSIX: the first of these variables that is set counts).
static bool takes_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
    }
    return false;
}

// Columns of the terminal; 0 if it cannot show colours and half blocks, or if stdout is not one.
static int terminal_columns(bool asked) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    struct winsize size;
    if (no_color && *no_color)
        return 0;
    if (!asked && (!isatty(STDOUT_FILENO) || !takes_utf8() || (term && strcmp(term, "dumb") == 0)))
        return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static sr_status write_and_print(const arguments *a, const sr_raster *raster) {
    SR_TRY(sr_raster_write(raster, a->output));
    int columns = terminal_columns(a->terminal);
    if (columns > 0)
        SR_TRY(sr_raster_print(raster, columns, stdout));
    printf("%s\n", a->output);
    return SR_OK;
}

static sr_status draw(const arguments *a, sr_dataset *dataset, const char *split, sr_arena *arena) {
    sr_samples samples;
    sr_raster raster;
    char title[256];
    SR_TRY(sr_show_samples(dataset, a->first, (int)a->count, (int)a->side, arena, &samples));
    (void)snprintf(title, sizeof title, "%s: %s, samples %ld to %ld of %lld", a->path, split,
                   a->first, a->first + samples.count - 1, (long long)sr_dataset_count(dataset));
    samples.title = title;
    samples.columns = a->columns < samples.count ? (int)a->columns : samples.count;
    SR_TRY(sr_drawing_sheet(&samples, a->output, &raster));
    const sr_status status = write_and_print(a, &raster);
    sr_raster_release(&raster);
    return status;
}

static sr_status show_data(const arguments *a) {
    sr_split_list splits;
    sr_dataset *dataset;
    sr_arena arena;
    SR_TRY(sr_raster_check_path(a->output));
    SR_TRY(sr_inspect_splits(a->path, &splits));
    const char *split = a->split ? a->split : splits.names[0];
    SR_TRY(sr_dataset_open(a->path, split, &dataset));
    sr_arena_init(&arena);
    const sr_status status = draw(a, dataset, split, &arena);
    sr_arena_release(&arena);
    sr_dataset_free(dataset);
    return status;
}

static sr_status show(const arguments *a) {
    const sr_subject *subject;
    SR_TRY(sr_subject_find(a->path, &subject));
    if (sr_subject_is_data(a->path))
        return show_data(a);
    sr_text text;
    sr_text_init(&text);
    return sr_command_print(sr_checkpoint_describe(a->path, true, &text), &text);
}

int sr_cmd_show(int argc, char **argv) {
    const struct argp argp = {
        .options = options, .parser = parse_option, .args_doc = "PATH", .doc = about};
    arguments a = {.output = "show.png", .count = 24, .columns = 6, .side = 160};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return 2;
    sr_status status = show(&a);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
