// SPDX-License-Identifier: Apache-2.0
// serried verify PATH...: checks every byte of shards, data sets, checkpoints and run folders.
//
// Checks all paths. Exit 0: all intact; 3: something is damaged (listed on stdout, the first on
// stderr); 2: a path is not a file or folder of serried. The highest code is returned.
#include <argp.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "launcher/commands/command.h"
#include "launcher/commands/subject.h"
#include "trainer/checkpoint/checkpoint.h"

enum { KEY_JSON = 0x100, FOLDERS_DEEP = 3 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "print one JSON object per path", 0}, {0}};

static const char about[] =
    "Check every checksum of shards, data sets, checkpoints and run folders, and report all "
    "damage. The kind of PATH is detected from its content. In any other folder, such as runs, "
    "check the run folders below it."
    "\v"
    "Exit code: 0 if everything is intact, 3 if something is damaged.";

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

static int verify(const sr_subject *subject, const char *path, bool json) {
    sr_text text;
    sr_text_init(&text);
    const sr_status status = subject->verify(path, json, &text);
    const sr_status printed = sr_command_print(SR_OK, &text); // also if damage was found
    if (status == SR_OK && printed == SR_OK)
        return 0;
    return sr_command_fail(status == SR_OK ? printed : status);
}

// Checks the run folders below a folder such as runs/, in the order of names. Links such as
// 'latest' are skipped, as they would repeat them. *worst: the highest exit code. Returns the
// number found.
static int verify_below(const char *folder, int depth, bool json, int *worst) {
    struct dirent **entries;
    const sr_subject *subject;
    struct stat info;
    int found = 0;
    const int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *path = entries[i]->d_name[0] == '.' ? NULL : sr_path_join(folder, entries[i]->d_name);
        if (path && lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            if (sr_checkpoint_is(path) && sr_subject_find(path, &subject) == SR_OK) {
                const int code = verify(subject, path, json);
                *worst = code > *worst ? code : *worst;
                found++;
            } else if (depth > 1) {
                found += verify_below(path, depth - 1, json, worst);
            }
        }
        sr_free(path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return found;
}

static int verify_path(const char *path, bool json) {
    const sr_subject *subject;
    int worst = 0;
    const sr_status status = sr_subject_find(path, &subject);
    if (status == SR_OK)
        return verify(subject, path, json);
    sr_kept_error unknown = {.status = SR_OK};
    sr_error_keep(&unknown, status);
    if (sr_path_is_folder(path) && verify_below(path, FOLDERS_DEEP, json, &worst) > 0)
        return worst;
    return sr_command_fail(sr_error_restore(&unknown));
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
        const int code = verify_path(a.paths[i], a.json);
        worst = code > worst ? code : worst;
    }
    sr_free(a.paths);
    return worst;
}
