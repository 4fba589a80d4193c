// SPDX-License-Identifier: Apache-2.0
// serried stat PATH: what a shard, data set, checkpoint or run folder contains.
#include <argp.h>
#include <stdio.h>

#include "launcher/commands/command.h"
#include "launcher/commands/subject.h"

enum { KEY_JSON = 0x100 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0}, {0}};

static const char about[] =
    "Print what a shard, data set, checkpoint or run folder contains. The kind of PATH is detected "
    "from its content. For data: records, classes, sizes, mean and standard deviation "
    "of the channels, and boxes or the pixels of each class; for a checkpoint: position in the "
    "run, metrics and weights.";

typedef struct arguments {
    const char *path;
    bool json;
} arguments;

static error_t parse_option(int key, char *value, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case KEY_JSON:
        a->json = true;
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

int sr_cmd_stat(int argc, char **argv) {
    const struct argp argp = {
        .options = options, .parser = parse_option, .args_doc = "PATH", .doc = about};
    arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return 2;
    const sr_subject *subject;
    sr_text text;
    sr_status status = sr_subject_find(a.path, &subject);
    if (status != SR_OK)
        return sr_command_fail(status);
    sr_text_init(&text);
    status = sr_command_print(subject->stat(a.path, a.json, &text), &text);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
