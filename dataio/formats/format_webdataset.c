// SPDX-License-Identifier: Apache-2.0
// Format: WebDataset, samples whose files share a key: KEY.jpg with its class in KEY.cls or in
// KEY.json, in one tar, a folder of tars (its shards) or unpacked.
//
// The key is the path up to the first dot of its last part. KEY.cls is a number or a name; in
// KEY.json the label is the value of the key label, cls or class in the top object. The split is
// that of a folder or shard (folder_splits.h), as of train-000012.tar. A picture without a label
// and the second picture of a key are refused by name.
//
// A few of the files must have a label in them, as other programs, too, write a JSON file for each
// picture. Where pictures and their files are in class folders, these are the classes; KEY.cls in
// an archive is WebDataset's alone. Source: https://github.com/webdataset/webdataset (the format's
// description in its README).
#include <stdio.h>
#include <string.h>

#include <yajl/yajl_parse.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"
#include "dataio/formats/label_text.h"
#include "kernels/base/text.h"

#define LABEL_MAX ((uint64_t)1 << 20) // bytes of a file
#define TEXT_MAX 256
#define PROBED 64 // files of labels that are read to recognise the format

static size_t key_bytes(const char *path) {
    const char *name = sr_path_name(path);
    return (size_t)(name - path) + strcspn(name, ".");
}

static bool is_cls(const char *path) {
    return sr_text_ends_with(path, ".cls");
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    (void)head;
    return is_cls(path) && head_bytes > 0 && bytes <= LABEL_MAX;
}

// The file with the label of the key, or NULL.
static const sr_source_file *label_file(const sr_source *source, const char *path) {
    char wanted[4200];
    const int n = (int)key_bytes(path);
    (void)snprintf(wanted, sizeof wanted, "%.*s.cls", n, path);
    const sr_source_file *found = sr_file_list_find(&source->wanted, wanted);
    if (found != NULL)
        return found;
    (void)snprintf(wanted, sizeof wanted, "%.*s.json", n, path);
    return sr_file_list_find(&source->wanted, wanted);
}

// -- labels in JSON ----------------------------------------------------------------------------

typedef struct json_label {
    int depth;
    bool is_label; // the last key of the top object
    char text[TEXT_MAX];
} json_label;

static int on_open(void *user) {
    json_label *j = user;
    j->depth++;
    j->is_label = false;
    return 1;
}

static int on_close(void *user) {
    ((json_label *)user)->depth--;
    return 1;
}

static int on_key(void *user, const unsigned char *text, size_t bytes) {
    static const char *const keys[] = {"label", "cls", "class"};
    json_label *j = user;
    j->is_label = false;
    for (size_t i = 0; i < 3 && j->depth == 1; i++)
        j->is_label =
            j->is_label || (bytes == strlen(keys[i]) && memcmp(text, keys[i], bytes) == 0);
    return 1;
}

static int take_label(json_label *j, const void *text, size_t bytes) {
    if (j->is_label && j->depth == 1 && j->text[0] == '\0' && bytes > 0 && bytes < TEXT_MAX &&
        memchr(text, 0, bytes) == NULL)
        memcpy(j->text, text, bytes);
    return 1;
}

static int on_string(void *user, const unsigned char *text, size_t bytes) {
    return take_label(user, text, bytes);
}

static int on_number(void *user, const char *text, size_t bytes) {
    return take_label(user, text, bytes);
}

static int on_boolean(void *user, int value) {
    return take_label(user, value ? "true" : "false", value ? 4 : 5);
}

// Into out; "" where there is no label.
static sr_status read_json_label(const void *text, size_t bytes, char out[TEXT_MAX]) {
    static const yajl_callbacks callbacks = {.yajl_boolean = on_boolean,
                                             .yajl_number = on_number,
                                             .yajl_string = on_string,
                                             .yajl_start_map = on_open,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = on_close,
                                             .yajl_start_array = on_open,
                                             .yajl_end_array = on_close};
    json_label label = {0};
    yajl_handle yajl = yajl_alloc(&callbacks, NULL, &label);
    if (yajl == NULL)
        return SR_FAIL(SR_E_MEMORY, "out of memory for reading JSON");
    yajl_status code = yajl_parse(yajl, text, bytes);
    if (code == yajl_status_ok)
        code = yajl_complete_parse(yajl);
    yajl_free(yajl);
    (void)snprintf(out, TEXT_MAX, "%s", code == yajl_status_ok ? label.text : "");
    return SR_OK;
}

// -- laying out --------------------------------------------------------------------------------

typedef struct webdataset_reading {
    sr_source *source;
    sr_layout *layout;
    sr_label_texts labels;
    sr_folder_splits splits;
    void *text;
    size_t capacity;
} webdataset_reading;

// Reads the label in a file into out; "" where there is none.
static sr_status read_label(webdataset_reading *r, const sr_source_file *file, char out[TEXT_MAX]) {
    out[0] = '\0';
    if (file->bytes == 0 || file->bytes > LABEL_MAX)
        return SR_OK;
    SR_TRY(sr_source_read(r->source, file, &r->text, &r->capacity));
    if (!is_cls(file->path))
        return read_json_label(r->text, (size_t)file->bytes, out);
    const char *text = (const char *)r->text + strspn(r->text, " \t\r\n");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        n--;
    if (n < TEXT_MAX) {
        memcpy(out, text, n);
        out[n] = '\0';
    }
    return SR_OK;
}

// -- recognition -------------------------------------------------------------------------------

// Whether the sample's labels can only be WebDataset's: in a shard, with nothing else or .cls.
static bool is_of_shard(const sr_source *source, const sr_source_file *picture,
                        const sr_source_file *label) {
    const char *inside = picture->path + picture->archive_bytes;
    const bool archived = source->folder < 0 || picture->archive_bytes > 0;
    return archived && (is_cls(label->path) || strchr(inside, '/') == NULL);
}

// Half of the pictures have a file that may have a label, and half of the first of these have one.
static sr_status recognises(sr_source *source, sr_recognition *out) {
    webdataset_reading r = {.source = source};
    size_t found = 0, probed = 0, labelled = 0, of_shards = 0;
    char label[TEXT_MAX];
    sr_status status = SR_OK;
    for (size_t i = 0; i < source->files.count && source->wanted.count > 0; i++) {
        const sr_source_file *picture = &source->files.items[i];
        const sr_source_file *file = label_file(source, picture->path);
        if (file == NULL)
            continue;
        found++;
        of_shards += is_of_shard(source, picture, file);
        if (status != SR_OK || probed == PROBED)
            continue;
        probed++;
        status = read_label(&r, file, label);
        labelled += status == SR_OK && label[0] != '\0';
        (void)snprintf(out->why, sizeof out->why, "labels beside pictures, as in %s", file->path);
    }
    sr_free(r.text);
    if (found == 0 || 2 * found < source->files.count || 2 * labelled < probed)
        return status;
    out->certainty = of_shards == found ? SR_FORMAT_YES : SR_FORMAT_BESIDE;
    return status;
}

// -- samples -----------------------------------------------------------------------------------

static sr_status assign(webdataset_reading *r, size_t i) {
    const sr_source_file *files = r->source->files.items;
    const char *path = files[i].path;
    const size_t n = key_bytes(path);
    if (i > 0 && key_bytes(files[i - 1].path) == n && memcmp(files[i - 1].path, path, n) == 0)
        return sr_source_refuse(r->source, path, "a second picture with the same key");
    const sr_source_file *file = label_file(r->source, path);
    if (file == NULL)
        return sr_source_refuse(r->source, path, "a picture without .cls or .json");
    char label[TEXT_MAX];
    SR_TRY(read_label(r, file, label));
    if (label[0] == '\0') {
        r->source->wanted_refused++;
        SR_TRY(sr_source_refuse(r->source, file->path, "no label in it"));
        return sr_source_refuse(r->source, path, "a picture without a label");
    }
    r->source->read++;
    return sr_label_texts_assign(&r->labels, r->source, r->layout, i,
                                 sr_folder_splits_or_train(&r->splits, &files[i]), label,
                                 strlen(label));
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    webdataset_reading r = {.source = source, .layout = out};
    SR_TRY(sr_layout_begin(out, source));
    SR_TRY(sr_folder_splits_find(source, &r.splits));
    sr_status status = SR_OK;
    for (size_t i = 0; i < out->count && status == SR_OK; i++)
        status = assign(&r, i);
    if (status == SR_OK)
        status = sr_label_texts_settle(&r.labels, source, out);
    sr_label_texts_release(&r.labels);
    sr_free(r.text);
    return status;
}

extern const sr_format sr_format_webdataset;
const sr_format sr_format_webdataset = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "webdataset",
    .help = "WebDataset's shards, KEY.jpg with KEY.cls or KEY.json",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
