// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of shard headers, file names, and sums over channels (format: shard.h).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/record/class_name.h"
#include "dataio/record/shard_internal.h"
#include "kernels/base/hash.h"

const uint8_t sr_shard_magic[8] = {0x89, 'K', 'P', 'L', 0x0d, 0x0a, 0x1a, 0x0a};
const uint8_t sr_shard_end_magic[8] = {0x89, 'K', 'P', 'L', 'E', 'N', 'D', 0x0a};

static size_t names_bytes(const shard_header *h) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < h->class_count; i++)
        bytes += 4 + strlen(h->classes[i]);
    return bytes;
}

uint32_t sr_shard_header_bytes(const shard_header *h) {
    size_t bytes = SHARD_HEADER_FIXED + (size_t)h->class_count * 8 + names_bytes(h) + h->meta_bytes;
    bytes = (bytes + 7) / 8 * 8 + 8;
    return bytes > SHARD_HEADER_MAX ? 0 : (uint32_t)bytes;
}

void sr_shard_header_encode(const shard_header *h, uint8_t *out) {
    uint32_t bytes = sr_shard_header_bytes(h);
    memset(out, 0, bytes);
    memcpy(out, sr_shard_magic, 8);
    put_u32(out + 8, SR_SHARD_VERSION);
    put_u32(out + 12, bytes);
    put_u64(out + 16, h->file_bytes);
    put_u64(out + 24, h->records);
    put_u64(out + 32, h->first_record);
    put_u32(out + 40, h->number);
    put_u32(out + 44, h->flags);
    memcpy(out + 48, h->split, strlen(h->split));
    put_u32(out + 64, h->class_count);
    put_u32(out + 68, (uint32_t)names_bytes(h));
    put_u32(out + 72, (uint32_t)h->meta_bytes);
    put_u32(out + 76, h->median_side);
    put_u64(out + 80, h->sums.pixels);
    for (unsigned c = 0; c < 3; c++) {
        put_u64(out + 88 + (size_t)8 * c, h->sums.sum[c]);
        put_u64(out + 112 + (size_t)8 * c, h->sums.square[c]);
    }
    uint8_t *at = out + SHARD_HEADER_FIXED;
    for (uint32_t i = 0; i < h->class_count; i++, at += 8)
        put_u64(at, h->class_records[i]);
    for (uint32_t i = 0; i < h->class_count; i++) {
        size_t n = strlen(h->classes[i]);
        put_u32(at, (uint32_t)n);
        memcpy(at + 4, h->classes[i], n);
        at += 4 + n;
    }
    memcpy(at, h->meta, h->meta_bytes);
    put_u64(out + bytes - 8, sr_hash64(out, bytes - 8));
}

static sr_status decode_classes(const uint8_t *at, const uint8_t *end, uint32_t count,
                                sr_data_file *shard) {
    uint64_t *records = sr_arena_alloc(&shard->arena, (size_t)count * 8);
    const char **names = sr_arena_alloc(&shard->arena, (size_t)count * sizeof *names);
    if (records == NULL || names == NULL)
        return SR_E_MEMORY;
    for (uint32_t i = 0; i < count; i++, at += 8)
        records[i] = get_u64(at);
    for (uint32_t i = 0; i < count; i++) {
        if (end - at < 4 || get_u32(at) > (uint64_t)(end - at - 4))
            return SR_FAIL(SR_E_DATA, "%s: header: class name %u is cut off", shard->path, i);
        uint32_t n = get_u32(at);
        names[i] = sr_class_name_decode(at + 4, n, &shard->arena);
        if (names[i] == NULL)
            return SR_E_MEMORY;
        at += 4 + n;
    }
    shard->class_count = (int)count;
    shard->classes = names;
    shard->class_records = records;
    return SR_OK;
}

sr_status sr_shard_header_decode(const uint8_t *data, uint32_t bytes, sr_data_file *shard) {
    uint32_t classes = get_u32(data + 64), names = get_u32(data + 68), meta = get_u32(data + 72);
    uint64_t used = SHARD_HEADER_FIXED + (uint64_t)classes * 8 + names + meta;
    if (used > bytes - 8u || get_u64(data + 24) > INT64_MAX / SHARD_ENTRY_BYTES)
        return SR_FAIL(SR_E_DATA, "%s: header: its fields do not fit into its %u bytes",
                       shard->path, bytes);
    shard->file_bytes = get_u64(data + 16);
    shard->count = (int64_t)get_u64(data + 24);
    shard->first_record = get_u64(data + 32);
    shard->number = get_u32(data + 40);
    shard->last = (get_u32(data + 44) & SHARD_FLAG_LAST) != 0;
    shard->median_side = get_u32(data + 76);
    shard->sums.pixels = get_u64(data + 80);
    for (unsigned c = 0; c < 3; c++) {
        shard->sums.sum[c] = get_u64(data + 88 + (size_t)8 * c);
        shard->sums.square[c] = get_u64(data + 112 + (size_t)8 * c);
    }
    char *split = sr_arena_alloc(&shard->arena, SR_SPLIT_MAX + 1);
    char *text = sr_arena_alloc(&shard->arena, meta + 1u);
    if (split == NULL || text == NULL)
        return SR_E_MEMORY;
    memcpy(split, data + 48, SR_SPLIT_MAX);
    const uint8_t *at = data + SHARD_HEADER_FIXED, *meta_at = at + (size_t)classes * 8 + names;
    memcpy(text, meta_at, meta);
    shard->split = split;
    shard->meta = text;
    return decode_classes(at, meta_at, classes, shard);
}

void sr_shard_index_encode(const sr_index_entry *entries, size_t n, uint64_t end, uint8_t *out) {
    size_t bytes = n * SHARD_ENTRY_BYTES;
    for (size_t i = 0; i < n; i++) {
        put_u64(out + i * SHARD_ENTRY_BYTES, entries[i].offset);
        put_u64(out + i * SHARD_ENTRY_BYTES + 8, entries[i].bytes);
        put_u64(out + i * SHARD_ENTRY_BYTES + 16, entries[i].hash);
    }
    uint8_t *footer = out + bytes;
    put_u64(footer, end);
    put_u64(footer + 8, n);
    put_u64(footer + 16, sr_hash64(out, bytes));
    memcpy(footer + 24, sr_shard_end_magic, 8);
    put_u64(footer + 32, sr_hash64(footer, 32));
}

char *sr_shard_file_name(const char *split, uint32_t number, char *out) {
    (void)snprintf(out, SR_SHARD_NAME_MAX, "%.*s-%05u.kpl", SR_SPLIT_MAX, split, number);
    return out;
}

bool sr_shard_parse_name(const char *file, char *split, uint32_t *number) {
    const char *dash = strrchr(file, '-');
    if (dash == NULL || dash == file || dash - file > SR_SPLIT_MAX)
        return false;
    char *end;
    unsigned long value = strtoul(dash + 1, &end, 10);
    if (end - dash < 6 || strcmp(end, ".kpl") != 0 || value > UINT32_MAX)
        return false;
    (void)snprintf(split, SR_SPLIT_MAX + 1, "%.*s", (int)(dash - file), file);
    *number = (uint32_t)value;
    char again[SR_SHARD_NAME_MAX];
    return strcmp(sr_shard_file_name(split, *number, again), file) == 0;
}

void sr_channel_sums_add(sr_channel_sums *into, const sr_channel_sums *from) {
    into->pixels += from->pixels;
    for (int c = 0; c < 3; c++) {
        into->sum[c] += from->sum[c];
        into->square[c] += from->square[c];
    }
}

void sr_channel_sums_add_rgb(sr_channel_sums *into, const uint8_t *rgb, uint64_t pixels) {
    into->pixels += pixels;
    for (uint64_t i = 0; i < pixels; i++) {
        for (unsigned c = 0; c < 3; c++) {
            unsigned v = rgb[3 * i + c];
            into->sum[c] += v;
            into->square[c] += (uint64_t)v * v;
        }
    }
}

bool sr_channel_sums_get(const sr_channel_sums *sums, double mean[3], double std[3]) {
    if (sums->pixels == 0)
        return false;
    double n = (double)sums->pixels;
    for (int c = 0; c < 3; c++) {
        double m = (double)sums->sum[c] / n, square = (double)sums->square[c] / n;
        double variance = square - m * m;
        mean[c] = m / 255.0;
        std[c] = variance > 0 ? sqrt(variance) / 255.0 : 0.0;
    }
    return true;
}
