// SPDX-License-Identifier: Apache-2.0
// Format: IDX files of grey pictures and their labels, as MNIST's, also gzipped.
//
// 00 00, the type (08: unsigned bytes), the number of dimensions, each as big-endian u32, then the
// numbers. Three dimensions are pictures, one is labels; the paths of a pair are equal up to
// "images" or "labels" in the name. The split is that of a folder or of a word of the name, as test
// and t10k, or train. A file without its pair, of another length than its header states, or of
// another picture size than the first is refused by name. Source: http://yann.lecun.com/exdb/mnist/
// (the format's description); RFC 1952, zlib 1.2.
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "dataio/formats/folder_splits.h"
#include "dataio/formats/format.h"

#define PICTURES_HEAD 16
#define LABELS_HEAD 8
#define MAX_SIDE (1 << 13)
#define CHUNK 65536

typedef struct idx {
    const sr_source_file *listed;
    sr_source_file file; // unpacked
    int dimensions;      // 3: pictures, 1: labels
    uint32_t sizes[3];
    const char *problem; // why it cannot be used
} idx;

static uint32_t get_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_idx(const uint8_t *head, size_t bytes) {
    return bytes >= LABELS_HEAD && memcmp(head, "\0\0\x08", 3) == 0 &&
           (head[3] == 1 || head[3] == 3);
}

static bool is_gzip(const uint8_t *head, size_t bytes) {
    return bytes >= 18 && memcmp(head, "\x1f\x8b\x08", 3) == 0;
}

static bool wants(const char *path, const uint8_t *head, size_t head_bytes, uint64_t bytes) {
    (void)path, (void)bytes;
    if (!is_gzip(head, head_bytes))
        return is_idx(head, head_bytes);
    uint8_t inside[LABELS_HEAD] = {0}, copy[SR_SOURCE_HEAD];
    const size_t n = head_bytes < sizeof copy ? head_bytes : sizeof copy;
    memcpy(copy, head, n);
    z_stream z = {
        .next_in = copy, .avail_in = (uInt)n, .next_out = inside, .avail_out = sizeof inside};
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return false;
    (void)inflate(&z, Z_SYNC_FLUSH);
    (void)inflateEnd(&z);
    return z.avail_out == 0 && is_idx(inside, sizeof inside);
}

static sr_status read_head(const sr_source *source, const sr_source_file *listed, uint8_t *head,
                           size_t *bytes) {
    *bytes = listed->bytes < SR_SOURCE_HEAD ? (size_t)listed->bytes : SR_SOURCE_HEAD;
    return sr_source_read_part(source, listed, 0, head, *bytes);
}

static sr_status recognises(sr_source *source, sr_recognition *out) {
    bool fits = false;
    for (size_t i = 0; i < source->wanted.count && source->files.count == 0 && !fits; i++) {
        uint8_t head[SR_SOURCE_HEAD];
        size_t bytes;
        SR_TRY(read_head(source, &source->wanted.items[i], head, &bytes));
        fits = wants("", head, bytes, bytes);
        (void)snprintf(out->why, sizeof out->why, "the head of %s", source->wanted.items[i].path);
    }
    out->certainty = fits ? SR_FORMAT_YES : SR_FORMAT_NO;
    return SR_OK;
}

// -- unpacking ---------------------------------------------------------------------------------

static sr_status inflate_all(sr_source *source, const sr_source_file *listed, z_stream *z,
                             uint8_t *in, uint8_t *out, bool *whole) {
    int result = Z_OK;
    for (uint64_t at = 0; at < listed->bytes && result == Z_OK;) {
        const size_t n = listed->bytes - at < CHUNK ? (size_t)(listed->bytes - at) : CHUNK;
        SR_TRY(sr_source_read_part(source, listed, at, in, n));
        z->next_in = in;
        z->avail_in = (uInt)n;
        at += n;
        do {
            z->next_out = out;
            z->avail_out = CHUNK;
            result = inflate(z, Z_NO_FLUSH);
            SR_TRY(sr_spool_append(&source->spool, out, CHUNK - z->avail_out));
        } while (result == Z_OK && z->avail_out == 0);
    }
    *whole = result == Z_STREAM_END;
    return SR_OK;
}

// Unpacks a gzipped file into the spool.
static sr_status unpack(sr_source *source, const sr_source_file *listed, sr_source_file *file,
                        bool *whole) {
    z_stream z = {0};
    uint8_t *buffers = sr_alloc(2 * (size_t)CHUNK, "gzip");
    if (buffers == NULL)
        return SR_E_MEMORY;
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) {
        sr_free(buffers);
        return SR_FAIL(SR_E_MEMORY, "out of memory for unpacking");
    }
    *file = *listed;
    file->offset = source->spool.bytes;
    sr_status status = sr_source_spool_backing(source, &file->in);
    if (status == SR_OK)
        status = inflate_all(source, listed, &z, buffers, buffers + CHUNK, whole);
    if (status == SR_OK)
        status = sr_spool_flush(&source->spool);
    file->bytes = source->spool.bytes - file->offset;
    (void)inflateEnd(&z);
    sr_free(buffers);
    return status;
}

// *known: the file is IDX; out->problem: why it cannot be used.
static sr_status open_idx(sr_source *source, const sr_source_file *listed, idx *out, bool *known) {
    uint8_t head[SR_SOURCE_HEAD];
    size_t bytes;
    bool whole = true;
    *out = (idx){.listed = listed, .file = *listed};
    SR_TRY(read_head(source, listed, head, &bytes));
    *known = wants("", head, bytes, bytes);
    if (*known && is_gzip(head, bytes)) {
        SR_TRY(unpack(source, listed, &out->file, &whole));
        if (whole)
            SR_TRY(read_head(source, &out->file, head, &bytes));
    }
    if (!*known || !whole) {
        out->problem = whole ? NULL : "damaged or truncated gzip file";
        return SR_OK;
    }
    out->dimensions = head[3];
    const size_t head_bytes = out->dimensions == 3 ? PICTURES_HEAD : LABELS_HEAD;
    uint64_t content = 1;
    for (int i = 0; i < out->dimensions && bytes >= head_bytes; i++) {
        out->sizes[i] = get_be32(head + 4 + 4 * i);
        if (i > 0 && (out->sizes[i] == 0 || out->sizes[i] > MAX_SIDE))
            out->problem = "pictures of an impossible size";
        content *= out->sizes[i] > MAX_SIDE && i > 0 ? 1 : out->sizes[i];
    }
    if (out->problem == NULL && (bytes < head_bytes || out->file.bytes != head_bytes + content))
        out->problem = "the file is shorter or longer than its header says";
    return SR_OK;
}

// -- pairs -------------------------------------------------------------------------------------

// Length of the path up to "images" or "labels" in the name.
static size_t pair_key(const char *path) {
    const char *name = sr_path_name(path), *word = strstr(name, "images");
    if (word == NULL)
        word = strstr(name, "labels");
    return word ? (size_t)(word - path) : sr_path_stem_bytes(path);
}

static bool is_pair(const idx *a, const idx *b) {
    const size_t n = pair_key(a->listed->path), m = pair_key(b->listed->path);
    return n == m && memcmp(a->listed->path, b->listed->path, n) == 0;
}

static int split_of(const sr_folder_splits *splits, const sr_source_file *file) {
    const char *name = sr_path_name(file->path);
    const int split = sr_folder_splits_of(splits, file), word = sr_split_word(name, strlen(name));
    return split >= 0 ? split : word >= 0 ? word : SR_SPLIT_TRAIN;
}

typedef struct idx_adding {
    sr_source *source;
    void *labels; // uint8_t, of all pictures so far
    size_t count, capacity;
    int most;
    uint32_t height, width;
} idx_adding;

static sr_status add_pair(idx_adding *a, const idx *pictures, const idx *labels) {
    const uint32_t n = pictures->sizes[0];
    const uint64_t bytes = (uint64_t)pictures->sizes[1] * pictures->sizes[2];
    int backing;
    SR_TRY(sr_source_backing_of(a->source, &pictures->file, &backing));
    SR_TRY(sr_grow(&a->labels, &a->capacity, a->count + n, 1, "labels"));
    uint8_t *to = (uint8_t *)a->labels + a->count;
    SR_TRY(sr_source_read_part(a->source, &labels->file, LABELS_HEAD, to, n));
    for (uint32_t i = 0; i < n; i++) {
        char path[4200];
        a->most = to[i] > a->most ? to[i] : a->most;
        (void)snprintf(path, sizeof path, "%s#%05u", pictures->listed->path, i);
        SR_TRY(sr_source_add(
            a->source,
            &(sr_source_file){.path = path,
                              .bytes = bytes,
                              .offset = pictures->file.offset + PICTURES_HEAD + i * bytes,
                              .in = backing},
            SR_OFFER_PICTURE));
    }
    a->count += n;
    a->source->read += 2;
    return SR_OK;
}

static sr_status refuse(sr_source *source, const idx *file, const char *reason) {
    source->wanted_refused++;
    return sr_source_refuse(source, file->listed->path, reason);
}

// Pairs pictures with their labels; files without a pair are refused.
static sr_status add_pairs(idx_adding *a, idx *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        idx *pictures = &files[i], *labels = NULL;
        for (size_t j = 0; j < count && pictures->dimensions == 3; j++)
            if (files[j].dimensions == 1 && files[j].problem == NULL &&
                is_pair(pictures, &files[j]))
                labels = &files[j];
        if (pictures->dimensions != 3 || pictures->problem != NULL)
            continue;
        if (labels == NULL)
            pictures->problem = "pictures without a file of labels";
        else if (labels->sizes[0] != pictures->sizes[0])
            pictures->problem = labels->problem = "as many pictures as labels were expected";
        else if (a->height != 0 &&
                 (a->height != pictures->sizes[1] || a->width != pictures->sizes[2]))
            pictures->problem = labels->problem =
                "pictures whose size differs from that in other files";
        if (pictures->problem != NULL)
            continue;
        a->height = pictures->sizes[1];
        a->width = pictures->sizes[2];
        SR_TRY(add_pair(a, pictures, labels));
        pictures->dimensions = labels->dimensions = 0;
    }
    for (size_t i = 0; i < count; i++)
        if (files[i].problem != NULL || files[i].dimensions != 0)
            SR_TRY(refuse(a->source, &files[i],
                          files[i].problem ? files[i].problem : "labels without their pictures"));
    return SR_OK;
}

static sr_status open_all(sr_source *source, idx *files, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < source->wanted.count; i++) {
        bool known;
        SR_TRY(open_idx(source, &source->wanted.items[i], &files[*count], &known));
        *count += known;
    }
    return SR_OK;
}

static sr_status lay_out(sr_source *source, sr_layout *out) {
    idx_adding a = {.source = source, .most = -1};
    size_t count;
    sr_folder_splits splits = {0};
    idx *files = sr_alloc_array(source->wanted.count + 1, sizeof *files, "IDX files");
    if (files == NULL)
        return SR_E_MEMORY;
    sr_status status = open_all(source, files, &count);
    if (status == SR_OK)
        status = add_pairs(&a, files, count);
    if (status == SR_OK)
        status = sr_layout_begin(out, source);
    if (status == SR_OK)
        status = sr_folder_splits_find(source, &splits);
    const uint8_t *labels = a.labels;
    for (size_t i = 0; status == SR_OK && labels != NULL && i < out->count; i++) {
        out->files[i].label = labels[i];
        out->files[i].split = (int8_t)split_of(&splits, &source->files.items[i]);
    }
    sr_free(a.labels);
    sr_free(files);
    SR_TRY(status);
    out->pixels = (sr_layout_pixels){.height = a.height, .width = a.width, .channels = 1};
    return sr_layout_number_classes(out, a.most + 1);
}

extern const sr_format sr_format_idx;
const sr_format sr_format_idx = {
    .struct_size = sizeof(sr_format),
    .abi = SR_FORMAT_ABI,
    .name = "idx",
    .help = "MNIST's IDX files of pictures and labels",
    .wants = wants,
    .recognises = recognises,
    .lay_out = lay_out,
};
