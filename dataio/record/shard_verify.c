// SPDX-License-Identifier: Apache-2.0
// Checks all of a shard, or all records of any data file, and names what is damaged
// (sr_shard_verify in shard.h and sr_data_file_verify in container.h).
//
// Records are read in file order; a damaged record does not end the check. Where the index is
// damaged, records cannot be located any more and the check reports that.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/record/container.h"
#include "dataio/record/protocol.h"
#include "dataio/record/record.h"
#include "dataio/record/shard_internal.h"
#include "dataio/record/wire_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"

#define SEARCH_BYTES (UINT64_C(1) << 35)

typedef struct check {
    sr_damage_fn damage;
    void *user;
    sr_verify_result *result;
    sr_locate_fn locate; // NULL: records begin where their entries say
    int fd;
    const sr_data_file *file;
    sr_arena arena;
    const sr_type *protocol;
    uint8_t *buffer;
    size_t capacity;
    uint64_t search_left; // bytes that finding flipped bits may still hash
} check;

static void found(check *c, const char *fmt, ...) SR_PRINTF(2, 3);
static void found(check *c, const char *fmt, ...) {
    char message[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    c->damage(c->user, message);
    c->result->damaged++;
}

static bool is_finding(sr_status status) {
    return status >= SR_E_DATA && status < SR_E_PEER;
}

// The value of a key at the top level of a record: found by parsing or, where damage prevents that,
// by searching for the encoded key.
static bool find_bytes(const uint8_t *record, size_t bytes, const char *key, sr_feature *out) {
    char entry[32];
    if (sr_record_find(sr_record_entries(record, bytes), key, out) == SR_OK)
        return out->bytes > 0;
    int n = snprintf(entry, sizeof entry, "\n%c%s\x12", (char)strlen(key), key);
    const uint8_t *at = memmem(record, bytes, entry, (size_t)n);
    if (at == NULL)
        return false;
    const uint8_t *value = at + n - 1; // field 2 of the entry: a Feature, whose first field is ours
    wire_field field;
    if (!wire_next(&value, record + bytes, &field) || field.type != WIRE_BYTES)
        return false;
    const uint8_t *feature = field.data;
    if (!wire_next(&feature, feature + field.bytes, &field) || field.type != WIRE_BYTES)
        return false;
    out->data = field.data;
    out->bytes = field.bytes;
    return field.bytes > 0;
}

// " (cat/0001.jpg)" where the name in the record can still be read.
static void record_name(const uint8_t *record, size_t bytes, char *out, size_t capacity) {
    sr_feature feature;
    out[0] = '\0';
    if (!find_bytes(record, bytes, "name", &feature) && !find_bytes(record, bytes, "id", &feature))
        return;
    int n = feature.bytes > 200 ? 200 : (int)feature.bytes;
    (void)snprintf(out, capacity, " (%.*s)", n, (const char *)feature.data);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

// Finds the single bit that was flipped, if any. Tried only as long as it costs at most a few
// seconds in the whole check (2^35 bytes hashed). Where it returns true, the record is left
// repaired.
static bool find_flipped_bit(check *c, uint8_t *record, const sr_index_entry *entry, size_t *bit) {
    uint64_t bytes = entry->bytes;
    if (bytes > UINT64_C(1) << 20 || 8 * bytes * bytes > c->search_left)
        return false;
    c->search_left -= 8 * bytes * bytes;
    for (size_t i = 0; i < 8 * bytes; i++) {
        record[i / 8] ^= (uint8_t)(1u << i % 8);
        if (sr_hash64(record, (size_t)bytes) == entry->hash) {
            *bit = i;
            return true;
        }
        record[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    return false;
}

// The key of the entry that contains a byte.
static void key_at(const uint8_t *record, size_t bytes, size_t byte, char *out, size_t capacity) {
    sr_record_cursor entries = sr_record_entries(record, bytes);
    const char *key;
    size_t key_bytes;
    sr_feature feature;
    bool more;
    out[0] = '\0';
    while (sr_record_next(&entries, &key, &key_bytes, &feature, &more) == SR_OK && more)
        if (entries.next > record + byte) {
            (void)snprintf(out, capacity, "%.*s", key_bytes > 100 ? 100 : (int)key_bytes, key);
            return;
        }
}

static void report_changed(check *c, int64_t i, uint8_t *record, uint64_t offset,
                           const char *form) {
    const sr_index_entry *entry = &c->file->entries[i];
    size_t bit, bytes = (size_t)entry->bytes;
    char name[256], key[128];
    if (find_flipped_bit(c, record, entry, &bit)) {
        record_name(record, bytes, name, sizeof name);
        key_at(record, bytes, bit / 8, key, sizeof key);
        found(c, "%s record %lld%s key '%s': bit %zu of byte %" PRIu64 " has flipped",
              c->file->name, (long long)i, name, key, bit % 8, offset + bit / 8);
        return;
    }
    record_name(record, bytes, name, sizeof name);
    found(c, "%s record %lld%s: bits have changed between bytes %" PRIu64 " and %" PRIu64 "%s",
          c->file->name, (long long)i, name, offset, offset + entry->bytes, form);
}

static void check_record(check *c, int64_t i, uint8_t *record, uint64_t offset) {
    const sr_index_entry *entry = &c->file->entries[i];
    char name[256], form[512] = "";
    bool changed = c->file->check == NULL && sr_hash64(record, (size_t)entry->bytes) != entry->hash;
    if (sr_protocol_check(c->protocol, record, (size_t)entry->bytes) != SR_OK)
        (void)snprintf(form, sizeof form, ": %.500s", sr_error_message());
    if (changed) {
        report_changed(c, i, record, offset, form);
    } else if (form[0] != '\0') {
        record_name(record, (size_t)entry->bytes, name, sizeof name);
        found(c, "%s record %lld%s%s", c->file->name, (long long)i, name, form);
    }
}

static sr_status read_record(check *c, int64_t i, uint64_t *offset) {
    size_t bytes = (size_t)c->file->entries[i].bytes;
    if (bytes > c->capacity) {
        void *buffer = c->buffer;
        SR_TRY(sr_grow(&buffer, &c->capacity, bytes, 1, "record"));
        c->buffer = buffer;
    }
    *offset = c->file->entries[i].offset;
    if (c->locate != NULL)
        SR_TRY(c->locate(c->file, c->fd, i, offset));
    return sr_file_read_at(c->fd, c->file->path, *offset, c->buffer, bytes);
}

static sr_status check_records(check *c) {
    for (int64_t i = 0; i < c->file->count; i++) {
        uint64_t offset = 0;
        sr_status status = read_record(c, i, &offset);
        if (is_finding(status))
            found(c, "%s", sr_error_message());
        else if (status != SR_OK)
            return status;
        else
            check_record(c, i, c->buffer, offset);
        c->result->records++;
        c->result->bytes += c->file->entries[i].bytes;
    }
    return SR_OK;
}

static sr_status parse_protocol(check *c) {
    return sr_meta_parse(c->file->meta, strlen(c->file->meta), &c->arena, &c->protocol);
}

// -- a shard -----------------------------------------------------------------------------------

static void check_name(check *c) {
    char split[SR_SPLIT_MAX + 1], expected[SR_SHARD_NAME_MAX];
    uint32_t number;
    if (sr_shard_parse_name(c->file->name, split, &number) &&
        (number != c->file->number || strcmp(split, c->file->split) != 0))
        found(c, "%s: renamed: its header says %s", c->file->name,
              sr_shard_file_name(c->file->split, c->file->number, expected));
}

static sr_status check_all(check *c, sr_data_file *shard) {
    struct stat info;
    uint64_t header_bytes = 0;
    if (fstat(c->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return SR_FAIL(SR_E_DATA, "%s: not a regular file, so not a shard", shard->path);
    SR_TRY(sr_shard_load_header(c->fd, (uint64_t)info.st_size, shard, &header_bytes));
    check_name(c);
    SR_TRY(sr_shard_load_index(c->fd, header_bytes, shard));
    SR_TRY(parse_protocol(c));
    return check_records(c);
}

static sr_status begin(check *c, const char *path) {
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0)
        return SR_FAIL(errno == ENOENT ? SR_E_NOT_FOUND : SR_E_IO, "%s: %s", path, strerror(errno));
    c->search_left = SEARCH_BYTES;
    sr_arena_init(&c->arena);
    return SR_OK;
}

// Damaged data is a finding; data that could not be read is an error.
static sr_status end(check *c, sr_status status) {
    if (is_finding(status)) {
        found(c, "%s", sr_error_message());
        status = SR_OK;
    }
    c->result->files++;
    sr_free(c->buffer);
    sr_arena_release(&c->arena);
    (void)close(c->fd);
    return status;
}

sr_status sr_shard_verify(const char *path, sr_damage_fn damage, void *user,
                          sr_verify_result *result) {
    const char *slash = strrchr(path, '/');
    sr_data_file shard = {.path = path, .name = slash ? slash + 1 : path};
    check c = {.damage = damage, .user = user, .result = result, .file = &shard};
    SR_TRY(begin(&c, path));
    sr_arena_init(&shard.arena);
    sr_status status = end(&c, check_all(&c, &shard));
    sr_data_file_release(&shard);
    return status;
}

// -- any data file -----------------------------------------------------------------------------

sr_status sr_data_file_verify(const sr_data_file *file, sr_locate_fn locate, sr_damage_fn damage,
                              void *user, sr_verify_result *result) {
    check c = {.damage = damage, .user = user, .result = result, .locate = locate, .file = file};
    SR_TRY(begin(&c, file->path));
    sr_status status = parse_protocol(&c);
    if (status == SR_OK)
        status = check_records(&c);
    return end(&c, status);
}
