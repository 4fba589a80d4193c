// SPDX-License-Identifier: Apache-2.0
// manifest.json: the content of a generation with checksums, and a checksum of itself.
//
// The file is JSON with one key per line. Its last line is "sha256": the SHA-256 of all bytes
// before that line. The line has a fixed form, so every bit of the file is covered. It is compared
// before the JSON is parsed.
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/text.h"
#include "trainer/checkpoint/checkpoint_internal.h"
#include "trainer/checkpoint/json_tree.h"

#define MAX_MANIFEST_NODES ((size_t)1 << 24)
#define FORMAT_NAME "serried checkpoint"

// -- file list -------------------------------------------------------------------------------

sr_status sr_manifest_files_add(sr_manifest_files *files, const char *name, sr_file_sums *sums) {
    void *items = files->items;
    SR_TRY(sr_grow(&items, &files->capacity, files->count + 1, sizeof *files->items,
                   "checkpoint files"));
    files->items = items;
    char *copy = sr_strdup(name);
    if (copy == NULL)
        return SR_E_MEMORY;
    files->items[files->count++] = (sr_manifest_file){.name = copy, .sums = *sums};
    *sums = (sr_file_sums){0};
    return SR_OK;
}

const sr_manifest_file *sr_manifest_files_find(const sr_manifest_files *files, const char *name) {
    for (size_t i = 0; i < files->count; ++i)
        if (strcmp(files->items[i].name, name) == 0)
            return &files->items[i];
    return NULL;
}

void sr_manifest_files_release(sr_manifest_files *files) {
    for (size_t i = 0; i < files->count; ++i) {
        sr_free(files->items[i].name);
        sr_file_sums_release(&files->items[i].sums);
    }
    sr_free(files->items);
    *files = (sr_manifest_files){0};
}

// -- writing ---------------------------------------------------------------------------------

static void add_string(sr_text *out, const char *key, const char *value) {
    sr_text_add(out, ",\n\"%s\": ", key);
    sr_text_add_json_string(out, value == NULL ? "" : value);
}

static void add_int(sr_text *out, const char *key, int64_t value) {
    sr_text_add(out, ",\n\"%s\": %" PRId64, key, value);
}

static void add_double(sr_text *out, const char *key, double value) {
    sr_text_add(out, ",\n\"%s\": ", key);
    sr_text_add_json_number(out, value);
}

static void add_doubles(sr_text *out, const char *key, const double *values, int count) {
    sr_text_add(out, ",\n\"%s\": [", key);
    for (int i = 0; i < count; ++i) {
        sr_text_add(out, i > 0 ? ", " : "");
        sr_text_add_json_number(out, values[i]);
    }
    sr_text_add(out, "]");
}

void sr_manifest_file_format(const sr_manifest_file *file, sr_text *out) {
    sr_text_add(out, "{\"name\": ");
    sr_text_add_json_string(out, file->name);
    sr_text_add(out, ", \"bytes\": %" PRIu64 ", \"xxh3\": \"%016" PRIx64 "\", \"chunks\": [",
                file->sums.bytes, file->sums.total);
    for (size_t i = 0; i < file->sums.count; ++i)
        sr_text_add(out, i > 0 ? ", \"%016" PRIx64 "\"" : "\"%016" PRIx64 "\"",
                    file->sums.chunks[i]);
    sr_text_add(out, "]}");
}

static void add_classes(sr_text *out, const sr_manifest *manifest) {
    sr_text_add(out, ",\n\"classes\": [");
    for (int i = 0; i < manifest->class_count; ++i) {
        sr_text_add(out, i > 0 ? ", " : "");
        sr_text_add_json_string(out, manifest->classes[i]);
    }
    sr_text_add(out, "]");
}

static void add_fields(sr_text *out, const sr_manifest *m) {
    sr_text_add(out, "{\"format\": \"" FORMAT_NAME "\"");
    add_int(out, "version", SR_CHECKPOINT_VERSION);
    add_int(out, "generation", m->generation);
    add_int(out, "position", m->position);
    add_int(out, "step", m->step);
    add_int(out, "epoch", m->epoch);
    add_int(out, "ranks", m->ranks);
    add_int(out, "lanes", m->lanes);
    add_int(out, "batch", m->batch);
    sr_text_add(out, ",\n\"seed\": %" PRIu64, m->seed);
    add_string(out, "task", m->task);
    add_string(out, "model", m->model);
    add_string(out, "recipe", m->recipe);
    add_string(out, "recipe_identity", m->recipe_identity);
    add_string(out, "data_identity", m->data_identity);
    add_string(out, "fingerprint", m->fingerprint);
    add_string(out, "digest", m->digest);
    add_int(out, "image_height", m->image_height);
    add_int(out, "image_width", m->image_width);
    add_doubles(out, "mean", m->mean, m->channels);
    add_doubles(out, "std", m->std, m->channels);
    add_string(out, "metric", m->metric);
    add_double(out, "metric_value", m->metric_value);
    add_double(out, "best_value", m->best_value);
    add_int(out, "best_step", m->best_step);
    add_classes(out, m);
    sr_text_add(out, ",\n\"extra\": {");
    for (int i = 0; i < m->extra_count; ++i) {
        sr_text_add(out, i > 0 ? ", " : "");
        sr_text_add_json_string(out, m->extra[i].key);
        sr_text_add(out, ": ");
        sr_text_add_json_string(out, m->extra[i].value);
    }
    sr_text_add(out, "}");
}

static sr_status hash_text(const char *text, size_t bytes, char *hex) {
    uint8_t digest[SR_SHA256_BYTES];
    sr_sha256 *sha;
    SR_TRY(sr_sha256_create(&sha));
    sr_status status = sr_sha256_update(sha, text, bytes);
    if (status == SR_OK)
        status = sr_sha256_finish(sha, digest, hex);
    sr_sha256_free(sha);
    return status;
}

sr_status sr_manifest_format(const sr_manifest *manifest, const sr_manifest_files *files,
                             sr_text *out) {
    char hex[SR_SHA256_HEX];
    add_fields(out, manifest);
    sr_text_add(out, ",\n\"files\": [");
    for (size_t i = 0; i < files->count; ++i) {
        sr_text_add(out, i > 0 ? ",\n  " : "\n  ");
        sr_manifest_file_format(&files->items[i], out);
    }
    sr_text_add(out, "]");
    SR_TRY(sr_text_check(out));
    SR_TRY(hash_text(out->data, out->length, hex));
    sr_text_add(out, ",\n\"sha256\": \"%s\"}\n", hex);
    return sr_text_check(out);
}

const char *sr_manifest_extra(const sr_manifest *manifest, const char *key) {
    for (int i = 0; i < manifest->extra_count; i++)
        if (strcmp(manifest->extra[i].key, key) == 0)
            return manifest->extra[i].value;
    return NULL;
}

// -- reading ---------------------------------------------------------------------------------

// Compares the last line with the hash of everything before it.
static sr_status check_own_sum(const char *text, size_t bytes, const char *path) {
    static const char before[] = ",\n\"sha256\": \"";
    char line[sizeof before + SR_SHA256_HEX + 8], hex[SR_SHA256_HEX];
    size_t length = sizeof before - 1 + SR_SHA256_HEX - 1 + 3;
    if (bytes < length)
        return SR_FAIL(SR_E_CHECKSUM, "%s: truncated to %zu bytes", path, bytes);
    SR_TRY(hash_text(text, bytes - length, hex));
    snprintf(line, sizeof line, "%s%s\"}\n", before, hex);
    if (memcmp(line, text + bytes - length, length) != 0)
        return SR_FAIL(SR_E_CHECKSUM,
                       "%s: damaged: its SHA-256 does not match the one in its last line", path);
    return SR_OK;
}

static bool parse_hex64(const char *text, uint64_t *out) {
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

// Parses the sums of one file and checks that they are consistent.
static sr_status parse_sums(const sr_json *node, const char *what, sr_file_sums *sums) {
    const sr_json *chunks = sr_json_get(node, "chunks");
    uint64_t total;
    if (!sr_json_uint64(sr_json_get(node, "bytes"), &sums->bytes) || chunks == NULL ||
        chunks->type != SR_JSON_ARRAY ||
        !parse_hex64(sr_json_string(sr_json_get(node, "xxh3")), &total) ||
        chunks->count != sums->bytes / SR_SUM_CHUNK_BYTES + (sums->bytes % SR_SUM_CHUNK_BYTES != 0))
        return SR_FAIL(SR_E_DATA, "%s: a file's checksums are incomplete", what);
    sums->chunks = sr_alloc_array(chunks->count, sizeof *sums->chunks, "chunk checksums");
    if (sums->chunks == NULL)
        return SR_E_MEMORY;
    sums->capacity = chunks->count;
    for (const sr_json *c = chunks->first; c != NULL; c = c->next)
        if (!parse_hex64(sr_json_string(c), &sums->chunks[sums->count++]))
            return SR_FAIL(SR_E_DATA, "%s: a file's checksum is not a number", what);
    SR_TRY(sr_file_sums_finish(sums));
    if (sums->total != total)
        return SR_FAIL(SR_E_CHECKSUM, "%s: the checksums of a file are inconsistent", what);
    return SR_OK;
}

static sr_status parse_file(const sr_json *node, const char *what, sr_manifest_files *files) {
    const char *name = sr_json_string(sr_json_get(node, "name"));
    if (name == NULL || name[0] == 0 || name[0] == '.' || strchr(name, '/') != NULL)
        return SR_FAIL(SR_E_DATA, "%s: a file's name is not a plain file name", what);
    if (sr_manifest_files_find(files, name) != NULL)
        return SR_FAIL(SR_E_DATA, "%s: file '%s' is listed twice", what, name);
    sr_file_sums sums = {0};
    sr_status status = parse_sums(node, what, &sums);
    if (status == SR_OK)
        status = sr_manifest_files_add(files, name, &sums);
    sr_file_sums_release(&sums);
    return status;
}

sr_status sr_manifest_file_parse(const char *text, size_t bytes, const char *what,
                                 sr_manifest_files *files) {
    sr_arena arena;
    const sr_json *root;
    sr_arena_init(&arena);
    sr_status status = sr_json_parse(text, bytes, MAX_MANIFEST_NODES, what, &arena, &root);
    if (status == SR_OK)
        status = parse_file(root, what, files);
    sr_arena_release(&arena);
    return status;
}

// Fields by key. 'missing' is the last one that is missing or of another type.
typedef struct fields {
    const sr_json *root;
    const char *missing;
} fields;

static int64_t get_int(fields *f, const char *key) {
    int64_t value = 0;
    if (!sr_json_int64(sr_json_get(f->root, key), &value))
        f->missing = key;
    return value;
}

static const char *get_string(fields *f, const char *key) {
    const char *value = sr_json_string(sr_json_get(f->root, key));
    if (value == NULL)
        f->missing = key;
    return value == NULL ? "" : value;
}

// null means NaN.
static double get_double(fields *f, const char *key) {
    const sr_json *node = sr_json_get(f->root, key);
    double value = (double)NAN;
    if (node == NULL || (node->type != SR_JSON_NULL && !sr_json_double(node, &value)))
        f->missing = key;
    return value;
}

static int get_doubles(fields *f, const char *key, double *out) {
    const sr_json *node = sr_json_get(f->root, key);
    int n = 0;
    if (node == NULL || node->type != SR_JSON_ARRAY || node->count > SR_CHECKPOINT_CHANNELS) {
        f->missing = key;
        return 0;
    }
    for (const sr_json *item = node->first; item != NULL; item = item->next)
        if (!sr_json_double(item, &out[n++]))
            f->missing = key;
    return n;
}

static void get_scalars(fields *f, sr_manifest *m) {
    m->generation = get_int(f, "generation");
    m->position = get_int(f, "position");
    m->step = get_int(f, "step");
    m->epoch = get_int(f, "epoch");
    m->batch = get_int(f, "batch");
    m->image_height = get_int(f, "image_height");
    m->image_width = get_int(f, "image_width");
    m->best_step = get_int(f, "best_step");
    int64_t ranks = get_int(f, "ranks"), lanes = get_int(f, "lanes");
    if (ranks < 1 || ranks > MAX_RANKS)
        f->missing = "ranks";
    if (lanes < 0 || lanes > INT32_MAX)
        f->missing = "lanes";
    m->ranks = (int)ranks;
    m->lanes = (int)lanes;
    if (!sr_json_uint64(sr_json_get(f->root, "seed"), &m->seed))
        f->missing = "seed";
    m->metric_value = get_double(f, "metric_value");
    m->best_value = get_double(f, "best_value");
    m->channels = get_doubles(f, "mean", m->mean);
    if (get_doubles(f, "std", m->std) != m->channels)
        f->missing = "std";
}

static void get_strings(fields *f, sr_manifest *m) {
    m->task = get_string(f, "task");
    m->model = get_string(f, "model");
    m->recipe = get_string(f, "recipe");
    m->recipe_identity = get_string(f, "recipe_identity");
    m->data_identity = get_string(f, "data_identity");
    m->fingerprint = get_string(f, "fingerprint");
    m->digest = get_string(f, "digest");
    m->metric = get_string(f, "metric");
}

static sr_status get_classes(fields *f, sr_arena *arena, sr_manifest *m) {
    const sr_json *node = sr_json_get(f->root, "classes");
    if (node == NULL || node->type != SR_JSON_ARRAY) {
        f->missing = "classes";
        return SR_OK;
    }
    const char **names = sr_arena_alloc(arena, node->count * sizeof *names);
    if (names == NULL)
        return SR_E_MEMORY;
    for (const sr_json *item = node->first; item != NULL; item = item->next) {
        names[m->class_count++] = item->text;
        if (sr_json_string(item) == NULL)
            f->missing = "classes";
    }
    m->classes = names;
    return SR_OK;
}

static sr_status get_extra(fields *f, sr_arena *arena, sr_manifest *m) {
    const sr_json *node = sr_json_get(f->root, "extra");
    if (node == NULL || node->type != SR_JSON_OBJECT) {
        f->missing = "extra";
        return SR_OK;
    }
    sr_metadata *extra = sr_arena_alloc(arena, node->count * sizeof *extra);
    if (extra == NULL)
        return SR_E_MEMORY;
    for (const sr_json *item = node->first; item != NULL; item = item->next) {
        extra[m->extra_count++] = (sr_metadata){.key = item->key, .value = item->text};
        if (sr_json_string(item) == NULL)
            f->missing = "extra";
    }
    m->extra = extra;
    return SR_OK;
}

static sr_status check_version(fields *f, const char *path) {
    if (strcmp(get_string(f, "format"), FORMAT_NAME) != 0)
        return SR_FAIL(SR_E_DATA, "%s: not the manifest of a serried checkpoint", path);
    int64_t version = get_int(f, "version");
    if (version != SR_CHECKPOINT_VERSION)
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "%s: format version %" PRId64 "; this serried reads version %d: use the "
                       "serried that wrote it",
                       path, version, SR_CHECKPOINT_VERSION);
    return SR_OK;
}

// Training resumes from the position, schedules and names of steps from the step: they must agree.
static sr_status check_progress(const sr_manifest *m, const char *path) {
    const bool fits = m->step >= 0 && m->batch >= 1 && m->step <= INT64_MAX / m->batch;
    if (!fits || m->position != m->step * m->batch)
        return SR_FAIL(SR_E_DATA,
                       "%s: damaged: %" PRId64 " steps of %" PRId64
                       " samples do not end at sample %" PRId64,
                       path, m->step, m->batch, m->position);
    if (m->best_step < 0 || m->best_step > m->step)
        return SR_FAIL(SR_E_DATA,
                       "%s: damaged: its best step is %" PRId64 ", but its own step is %" PRId64,
                       path, m->best_step, m->step);
    return SR_OK;
}

static sr_status parse_manifest(const sr_json *root, const char *path, sr_arena *arena,
                                sr_manifest *manifest, sr_manifest_files *files) {
    fields f = {.root = root};
    SR_TRY(check_version(&f, path));
    get_scalars(&f, manifest);
    get_strings(&f, manifest);
    SR_TRY(get_classes(&f, arena, manifest));
    SR_TRY(get_extra(&f, arena, manifest));
    const sr_json *list = sr_json_get(root, "files");
    if (list == NULL || list->type != SR_JSON_ARRAY)
        f.missing = "files";
    if (f.missing != NULL)
        return SR_FAIL(SR_E_DATA, "%s: '%s' is missing or has the wrong type", path, f.missing);
    SR_TRY(check_progress(manifest, path));
    for (const sr_json *node = list->first; node != NULL; node = node->next)
        SR_TRY(parse_file(node, path, files));
    char name[64];
    for (int r = 0; r < manifest->ranks; ++r)
        if (sr_manifest_files_find(files, sr_checkpoint_shard_name(r, manifest->ranks, name)) ==
            NULL)
            return SR_FAIL(SR_E_DATA, "%s: no checksums for '%s'", path, name);
    return SR_OK;
}

sr_status sr_manifest_read_in(int folder, const char *path, sr_arena *arena, sr_manifest *manifest,
                              sr_manifest_files *files) {
    *manifest = (sr_manifest){0};
    *files = (sr_manifest_files){0};
    void *text = NULL;
    size_t bytes;
    const sr_json *root;
    char *file = sr_path_join(path, MANIFEST_NAME);
    if (file == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_file_read_in(folder, folder == AT_FDCWD ? file : MANIFEST_NAME, file,
                                       MAX_MANIFEST, &text, &bytes);
    if (status == SR_OK)
        status = check_own_sum(text, bytes, file);
    if (status == SR_OK)
        status = sr_json_parse(text, bytes, MAX_MANIFEST_NODES, file, arena, &root);
    if (status == SR_OK)
        status = parse_manifest(root, file, arena, manifest, files);
    sr_free(text);
    sr_free(file);
    return status;
}

sr_status sr_manifest_read(const char *folder, sr_arena *arena, sr_manifest *manifest,
                           sr_manifest_files *files) {
    return sr_manifest_read_in(AT_FDCWD, folder, arena, manifest, files);
}
