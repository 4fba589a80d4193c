// SPDX-License-Identifier: Apache-2.0
// serried verify for checkpoints and run folders: checks every file of every generation, and finds
// the damaged bytes and tensors.
//
// One pass collects the results; two printers print them as text and as JSON. Opening, which needs
// only one complete generation, is in checkpoint_read.c.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "trainer/checkpoint/checkpoint_internal.h"
#include "trainer/checkpoint/run_identity.h"

typedef struct file_result {
    const char *path, *name;
    uint64_t bytes;      // as the manifest lists it
    const char *message; // NULL: undamaged
    sr_file_damage damage;
    size_t chunks;        // of the file, of which damage.chunks are damaged
    const char **tensors; // those with bytes in damage.begin..end, in the order of the file
    size_t tensor_count;
} file_result;

typedef enum generation_state {
    GENERATION_WHOLE = 0,
    GENERATION_DAMAGED,
    GENERATION_FOREIGN,
    GENERATION_UNFINISHED,
} generation_state;

static const char *const state_names[] = {[GENERATION_WHOLE] = "whole",
                                          [GENERATION_DAMAGED] = "damaged",
                                          [GENERATION_FOREIGN] = "foreign",
                                          [GENERATION_UNFINISHED] = "unfinished"};

typedef struct generation_result {
    const char *path;
    bool read; // its manifest was read: number and step are known
    int64_t number, step;
    generation_state state;
    const char *message; // about the generation, not one file; NULL: none
    const file_result *files;
    size_t file_count;
} generation_result;

typedef struct verify_result {
    sr_arena arena; // of all results
    sr_text own;    // identities of the run, one per line; empty: any
    generation_result *items;
    size_t count;
    sr_kept_error first; // failure
} verify_result;

// -- collecting ------------------------------------------------------------------------------

// Remembers the first failure, and copies the message of this one; NULL if out of memory.
static const char *note(verify_result *f, sr_status status) {
    sr_error_keep(&f->first, status);
    return sr_arena_strdup(&f->arena, sr_error_message());
}

// Lists the tensors in the damaged bytes, if the header can still be read.
static sr_status find_tensors(verify_result *f, const sr_generation *g,
                              const sr_manifest_file *listed, file_result *found) {
    sr_safetensors *file;
    if (found->damage.chunks == 0 || sr_generation_tensors(g, listed, false, &file) != SR_OK)
        return SR_OK;
    const uint64_t data = sr_safetensors_data_offset(file);
    const int count = sr_safetensors_count(file);
    sr_status status = SR_OK;
    found->tensors = sr_arena_alloc(&f->arena, (size_t)(count + 1) * sizeof *found->tensors);
    if (found->tensors == NULL)
        status = SR_E_MEMORY;
    for (int i = 0; status == SR_OK && i < count; ++i) {
        const sr_stored_tensor *tensor = sr_safetensors_get(file, i);
        if (data + tensor->end <= found->damage.begin || data + tensor->begin >= found->damage.end)
            continue;
        const char *name = sr_arena_strdup(&f->arena, tensor->name);
        found->tensors[found->tensor_count++] = name;
        status = name == NULL ? SR_E_MEMORY : SR_OK;
    }
    sr_safetensors_free(file);
    return status;
}

static sr_status collect_file(verify_result *f, const sr_generation *g,
                              const sr_manifest_file *file, file_result *out) {
    char *path = sr_path_join(g->path, file->name);
    if (path == NULL)
        return SR_E_MEMORY;
    out->bytes = file->sums.bytes;
    out->chunks = file->sums.count;
    out->path = sr_arena_strdup(&f->arena, path);
    out->name = sr_arena_strdup(&f->arena, file->name);
    sr_free(path);
    const sr_status status = sr_generation_check_file(g, file, &out->damage);
    if (out->path == NULL || out->name == NULL || status == SR_E_MEMORY)
        return SR_E_MEMORY;
    if (status == SR_OK)
        return SR_OK;
    out->message = note(f, status);
    return out->message == NULL ? SR_E_MEMORY : find_tensors(f, g, file, out);
}

static sr_status collect_files(verify_result *f, const sr_generation *g, generation_result *out) {
    file_result *files = sr_arena_alloc(&f->arena, (g->files.count + 1) * sizeof *files);
    if (files == NULL)
        return SR_E_MEMORY;
    out->files = files;
    for (size_t i = 0; i < g->files.count; ++i) {
        SR_TRY(collect_file(f, g, &g->files.items[i], &files[i]));
        out->file_count++;
        if (files[i].message != NULL && out->state == GENERATION_WHOLE)
            out->state = GENERATION_DAMAGED;
    }
    return SR_OK;
}

static sr_status set_state(verify_result *f, generation_result *out, generation_state state,
                           sr_status status) {
    out->state = state;
    out->message = note(f, status);
    return out->message == NULL ? SR_E_MEMORY : SR_OK;
}

static sr_status collect_opened(verify_result *f, const sr_generation *g, generation_result *out) {
    out->read = true;
    out->number = g->manifest.generation;
    out->step = g->manifest.step;
    if (f->own.length > 0 && !sr_run_identity_has(f->own.data, g->manifest.recipe_identity))
        SR_TRY(
            set_state(f, out, GENERATION_FOREIGN,
                      SR_FAIL(SR_E_DATA, "%s: a checkpoint of a different run than this folder's",
                              out->path)));
    return collect_files(f, g, out);
}

// *gone: there is no result, because a running job removed the generation meanwhile.
static sr_status collect_generation(verify_result *f, generation_result *out, bool *gone) {
    sr_generation g;
    sr_status status = sr_generation_open(out->path, &g);
    *gone = status != SR_OK && sr_generation_is_gone(&g);
    if (status == SR_OK)
        status = collect_opened(f, &g, out);
    else if (*gone)
        status = SR_OK;
    else if (status != SR_E_MEMORY)
        status = set_state(f, out, GENERATION_DAMAGED, status);
    sr_generation_release(&g);
    return status;
}

// Generation N of a run folder.
static sr_status collect_numbered(verify_result *f, const char *run, int64_t number) {
    char name[64];
    generation_result *out = &f->items[f->count];
    const bool linked = number == sr_generation_linked(run, "last"); // before its manifest
    bool gone = false;
    sr_status status = SR_OK;
    char *folder = sr_path_join(run, sr_generation_name(number, name));
    if (folder == NULL)
        return SR_E_MEMORY;
    *out = (generation_result){.path = sr_arena_strdup(&f->arena, folder)};
    sr_free(folder);
    if (out->path == NULL)
        return SR_E_MEMORY;
    if (sr_checkpoint_has(out->path, MANIFEST_NAME)) {
        status = collect_generation(f, out, &gone);
    } else if (linked && number == sr_generation_linked(run, "last")) {
        status = set_state(f, out, GENERATION_DAMAGED,
                           SR_FAIL(SR_E_DATA,
                                   "%s: manifest.json is missing, though 'last' points to this "
                                   "checkpoint",
                                   out->path));
    } else {
        out->state = GENERATION_UNFINISHED;
    }
    gone = gone || (out->state == GENERATION_UNFINISHED && !sr_path_exists(out->path));
    f->count += gone ? 0 : 1;
    return status;
}

static sr_status collect_run(verify_result *f, const char *run, const int64_t *numbers,
                             size_t count) {
    const sr_status status = sr_run_identity_read(run, &f->own);
    if (status != SR_OK && note(f, status) == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < count; ++i)
        SR_TRY(collect_numbered(f, run, numbers[i]));
    return SR_OK;
}

// A generation by its path, which may be a link that leads elsewhere a moment later.
static sr_status collect_single(verify_result *f, const char *path) {
    bool gone = true;
    for (int i = 0; i < SR_OPEN_ATTEMPTS && gone; i++) {
        f->items[0] = (generation_result){.path = path};
        SR_TRY(collect_generation(f, &f->items[0], &gone));
    }
    f->count = 1;
    return gone ? SR_FAIL(SR_E_NOT_FOUND, "%s: removed while it was read", path) : SR_OK;
}

static sr_status collect(verify_result *f, const char *path) {
    int64_t *numbers;
    size_t count;
    SR_TRY(sr_generations_list(path, &numbers, &count));
    sr_status status = SR_OK;
    f->items = sr_arena_alloc(&f->arena, (count + 1) * sizeof *f->items);
    if (f->items == NULL)
        status = SR_E_MEMORY;
    else if (sr_checkpoint_has(path, MANIFEST_NAME))
        status = collect_single(f, path);
    else
        status = collect_run(f, path, numbers, count);
    sr_free(numbers);
    return status;
}

// -- text ------------------------------------------------------------------------------------

static void print_file(const file_result *file, sr_text *out) {
    char size[16];
    if (file->message == NULL) {
        sr_text_add(out, "  ok       %s  %s\n", file->name, sr_text_bytes(file->bytes, size));
        return;
    }
    sr_text_add(out, "  DAMAGED  %s", file->message);
    if (file->tensor_count == 1)
        sr_text_add(out, " (tensor %s)", file->tensors[0]);
    else if (file->tensor_count > 1)
        sr_text_add(out, " (tensors %s to %s)", file->tensors[0],
                    file->tensors[file->tensor_count - 1]);
    sr_text_add(out, "\n");
}

static void print_generation(const generation_result *g, sr_text *out) {
    if (g->state == GENERATION_UNFINISHED)
        sr_text_add(out, "%s: never finished; ignored, the next checkpoint removes it\n", g->path);
    else if (g->read)
        sr_text_add(out, "%s: generation %" PRId64 ", step %" PRId64 "\n", g->path, g->number,
                    g->step);
    else
        sr_text_add(out, "%s\n", g->path);
    if (g->message != NULL)
        sr_text_add(out, "  %-8s %s\n", g->read ? "FOREIGN" : "DAMAGED", g->message);
    for (size_t i = 0; i < g->file_count; ++i)
        print_file(&g->files[i], out);
}

static void print_lines(const verify_result *f, const char *path, sr_text *out) {
    size_t finished = 0;
    for (size_t i = 0; i < f->count; ++i) {
        print_generation(&f->items[i], out);
        finished += f->items[i].state != GENERATION_UNFINISHED;
    }
    if (finished == 0)
        sr_text_add(out, "%s: a run without a finished checkpoint\n", path);
}

// -- JSON ------------------------------------------------------------------------------------

static void add_string(sr_text *out, const char *name, const char *value) {
    sr_text_add(out, "\"%s\": ", name);
    if (value == NULL)
        sr_text_add(out, "null");
    else
        sr_text_add_json_string(out, value);
}

static void add_file(const file_result *file, sr_text *out) {
    sr_text_add(out, "{");
    add_string(out, "path", file->path);
    sr_text_add(out, ", \"ok\": %s, \"bytes\": %" PRIu64 ", ",
                file->message == NULL ? "true" : "false", file->bytes);
    add_string(out, "error", file->message);
    if (file->damage.chunks > 0) {
        sr_text_add(out,
                    ", \"damage\": {\"chunks\": %zu, \"chunks_of_file\": %zu, \"first_byte\": "
                    "%" PRIu64 ", \"last_byte\": %" PRIu64 ", \"tensors\": [",
                    file->damage.chunks, file->chunks, file->damage.begin, file->damage.end - 1);
        for (size_t i = 0; i < file->tensor_count; ++i) {
            sr_text_add(out, i > 0 ? ", " : "");
            sr_text_add_json_string(out, file->tensors[i]);
        }
        sr_text_add(out, "]}");
    }
    sr_text_add(out, "}");
}

static void add_generation(const generation_result *g, sr_text *out) {
    const bool ok = g->state == GENERATION_WHOLE || g->state == GENERATION_UNFINISHED;
    sr_text_add(out, "{");
    add_string(out, "path", g->path);
    if (g->read)
        sr_text_add(out, ", \"generation\": %" PRId64 ", \"step\": %" PRId64, g->number, g->step);
    else
        sr_text_add(out, ", \"generation\": null, \"step\": null");
    sr_text_add(out, ", \"ok\": %s, \"state\": \"%s\", ", ok ? "true" : "false",
                state_names[g->state]);
    add_string(out, "error", g->message);
    sr_text_add(out, ", \"files\": [");
    for (size_t i = 0; i < g->file_count; ++i) {
        sr_text_add(out, i > 0 ? ", " : "");
        add_file(&g->files[i], out);
    }
    sr_text_add(out, "]}");
}

static void print_json(const verify_result *f, const char *path, sr_text *out) {
    sr_text_add(out, "{");
    add_string(out, "path", path);
    sr_text_add(out, ", \"kind\": \"checkpoint\", \"ok\": %s, ",
                f->first.status == SR_OK ? "true" : "false");
    add_string(out, "error", f->first.status == SR_OK ? NULL : f->first.message);
    sr_text_add(out, ", \"generations\": [");
    for (size_t i = 0; i < f->count; ++i) {
        sr_text_add(out, i > 0 ? ", " : "");
        add_generation(&f->items[i], out);
    }
    sr_text_add(out, "]}\n");
}

sr_status sr_checkpoint_verify(const char *path, bool json, sr_text *report) {
    verify_result f = {.count = 0};
    sr_arena_init(&f.arena);
    sr_text_init(&f.own);
    sr_status status = collect(&f, path);
    if (status == SR_OK) {
        (json ? print_json : print_lines)(&f, path, report);
        status = sr_text_check(report);
    }
    if (status == SR_OK)
        status = sr_error_restore(&f.first);
    sr_text_release(&f.own);
    sr_arena_release(&f.arena);
    return status;
}
