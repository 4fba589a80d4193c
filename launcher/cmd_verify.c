// SPDX-License-Identifier: Apache-2.0
// serried verify PATH...: checks every byte of shards, data sets, checkpoints and run folders.
//
// All paths are looked at. Exit 0: all whole; 3: something is damaged (named on stdout, and the
// first on stderr); 2: a path is nothing of serried's. The highest code counts.
#include <argp.h>
#include <stdio.h>

#include "kernels/base/memory.h"
#include "launcher/command.h"
#include "launcher/subject.h"

enum { KEY_JSON = 0x100 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "one JSON object a line", 0}, {0}};

static const char about[] =
    "Checks every checksum of shards, data sets, checkpoints and run folders, told apart by "
    "content, and names all that is damaged.\v"
    "Exit code 0 when all is whole, 3 when something is damaged.";

typedef struct arguments {
    char **paths;
    int count;
    bool json;
} arguments;

static error_t parse_option(int key, char *value, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case KEY_JSON:
        a->json = true;
        break;
    case ARGP_KEY_ARG:
        a->paths[a->count++] = value;
        break;
    case ARGP_KEY_END:
        if (a->count == 0)
            argp_error(state, "which shard, data set, checkpoint or run folder?");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static sr_status verify(const char *path, bool json) {
    const sr_subject *subject;
    sr_text text;
    SR_TRY(sr_subject_find(path, &subject));
    sr_text_init(&text);
    const sr_status status = subject->verify(path, json, &text);
    const sr_status printed = sr_command_print(SR_OK, &text); // findings, too
    return status == SR_OK ? printed : status;
}

int sr_cmd_verify(int argc, char **argv) {
    const struct argp argp = {
        .options = options, .parser = parse_option, .args_doc = "PATH...", .doc = about};
    arguments a = {.paths = sr_alloc_array((size_t)argc, sizeof(char *), "arguments")};
    if (a.paths == NULL)
        return sr_command_fail(SR_E_MEMORY);
    int worst = 0;
    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        a.count = 0, worst = 2;
    for (int i = 0; i < a.count; i++) {
        sr_status status = verify(a.paths[i], a.json);
        int code = status == SR_OK ? 0 : sr_command_fail(status);
        worst = code > worst ? code : worst;
    }
    sr_free(a.paths);
    return worst;
}
