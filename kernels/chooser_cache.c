// SPDX-License-Identifier: Apache-2.0
// The chooser's cache on disk (chooser.h): finding, reading, merging and writing it.
//
// The file is only used if it belongs to this user, nobody else may write it, and its checksum is
// right. Processes that write at the same time take turns through the file "lock" beside it, and
// each merges what the others have written; one that does not get the lock soon writes at a later
// save.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/cache_folder.h"
#include "kernels/base/clock.h"
#include "kernels/base/dtype.h"
#include "kernels/base/file.h"
#include "kernels/base/file_lock.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "kernels/chooser_internal.h"

#define QUESTION_BYTES offsetof(sr_chooser_entry, chosen)
#define LOCK_TRIES 50
#define LOCK_PAUSE_NS (10 * SR_NS_PER_MS)

_Static_assert(sizeof(sr_chooser_header) == 504, "the format of the file");
_Static_assert(sizeof(sr_chooser_entry) == 360, "the format of the file");

// ---- identity and location ----

// Hash of everything that a choice depends on: kernels, their order, classes, variants, dtypes.
static uint64_t hash_of_table(sr_device_kind kind) {
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    uint64_t hash = SR_KERNEL_ABI;
    for (size_t i = 0; i < providers; i++) {
        for (size_t k = 0; sr_provider_is_for(provider[i], kind) && k < provider[i]->count; k++) {
            const sr_kernel_entry *e = &provider[i]->entries[k];
            const char *name = e->name;
            for (int v = 0; name != NULL; name = sr_kernel_variant(e, ++v))
                hash = sr_hash64_seed(name, strlen(name) + 1, hash);
            hash = sr_hash64_seed(e->numerics_class, strlen(e->numerics_class) + 1, hash);
        }
    }
    for (int d = 0; d < SR_DTYPE_COUNT; d++)
        hash = sr_hash64_seed(sr_dtype_name((sr_dtype)d), strlen(sr_dtype_name((sr_dtype)d)), hash);
    return hash;
}

static void write_identity(const sr_device_properties *device, const char *numerics,
                           char out[SR_CHOOSER_IDENTITY]) {
    char identity[SR_DEVICE_IDENTITY], text[SR_PROVIDER_TEXT];
    size_t count, used;
    const sr_provider *const *providers = sr_providers(&count);
    used = (size_t)snprintf(out, SR_CHOOSER_IDENTITY, "%016llx; %s%s%s; %s",
                            (unsigned long long)hash_of_table(device->kind),
                            sr_kernels_portable() ? "portable; " : "",
                            sr_kernels_tf32() ? "tf32; " : "", numerics ? numerics : "",
                            sr_device_identity(device, identity));
    for (size_t i = 0; i < count && used < SR_CHOOSER_IDENTITY; i++)
        if (sr_provider_is_for(providers[i], device->kind))
            used += (size_t)snprintf(out + used, SR_CHOOSER_IDENTITY - used, "; %s",
                                     sr_provider_numerics(providers[i], text));
}

sr_status sr_chooser_cache_init(sr_chooser_cache *cache, const sr_device_properties *device,
                                const char *numerics) {
    char name[64];
    *cache = (sr_chooser_cache){0};
    write_identity(device, numerics, cache->identity);
    SR_TRY(sr_cache_folder_find(&cache->folder));
    if (cache->folder == NULL)
        return SR_OK;
    (void)snprintf(name, sizeof name, "chooser-%d-%016llx", SR_CHOOSER_FORMAT,
                   (unsigned long long)sr_hash64(cache->identity, strlen(cache->identity)));
    cache->path = sr_path_join(cache->folder, name);
    if (cache->path == NULL) {
        sr_chooser_cache_release(cache);
        return SR_E_MEMORY;
    }
    return SR_OK;
}

void sr_chooser_cache_release(sr_chooser_cache *cache) {
    sr_free(cache->folder);
    sr_free(cache->path);
    sr_free(cache->entries);
    *cache = (sr_chooser_cache){0};
}

// ---- entries ----

void sr_chooser_question(const sr_kernel_request *request, uint64_t workspace,
                         sr_chooser_entry *out) {
    memset(out, 0, sizeof *out);
    (void)snprintf(out->kernel, sizeof out->kernel, "%s", sr_kernel_name(request->kernel));
    out->args = request->args;
    for (int i = 0; i < request->args; i++)
        out->dtype[i] = (uint8_t)request->dtype[i];
    memcpy(out->params, request->params, sizeof out->params);
    out->workspace = workspace;
}

static const sr_chooser_entry *find(const sr_chooser_entry *entries, size_t count,
                                    const sr_chooser_entry *question) {
    for (size_t i = 0; i < count; i++)
        if (memcmp(&entries[i], question, QUESTION_BYTES) == 0)
            return &entries[i];
    return NULL;
}

static sr_status append(sr_chooser_cache *cache, const sr_chooser_entry *item) {
    void *entries = cache->entries;
    if (cache->count >= SR_CHOOSER_MAX_ENTRIES)
        return SR_OK;
    SR_TRY(sr_grow(&entries, &cache->capacity, cache->count + 1, sizeof *cache->entries,
                   "measurements of kernels"));
    cache->entries = entries;
    cache->entries[cache->count++] = *item;
    return SR_OK;
}

void sr_chooser_cache_add(sr_chooser_cache *cache, const sr_chooser_entry *item) {
    for (size_t i = 0; i < cache->count; i++) {
        if (memcmp(&cache->entries[i], item, QUESTION_BYTES) == 0) {
            cache->entries[i] = *item;
            cache->changed = true;
            return;
        }
    }
    cache->changed = append(cache, item) == SR_OK || cache->changed;
}

// ---- reading ----

static bool ends(const char *text, size_t bytes) {
    return memchr(text, 0, bytes) != NULL;
}

static bool entry_fits(const sr_chooser_entry *r) {
    return ends(r->kernel, sizeof r->kernel) && ends(r->chosen, sizeof r->chosen) &&
           ends(r->variant, sizeof r->variant) && r->args >= 0 && r->args <= SR_KERNEL_MAX_ARGS;
}

// Checks the header and entries of a file; sets the checksum in the header to 0.
static sr_status check_bytes(const sr_chooser_cache *cache, char *data, size_t bytes) {
    sr_chooser_header *header = (void *)data;
    const sr_chooser_entry *entries = (const void *)(data + sizeof *header);
    if (bytes < sizeof *header || memcmp(header->magic, SR_CHOOSER_MAGIC, 8) != 0 ||
        header->format != SR_CHOOSER_FORMAT || header->count > SR_CHOOSER_MAX_ENTRIES ||
        bytes != sizeof *header + header->count * sizeof *entries)
        return SR_FAIL(SR_E_DATA, "%s: is not a chooser cache of this version", cache->path);
    const uint64_t checksum = header->checksum;
    header->checksum = 0;
    if (sr_hash64(data, bytes) != checksum)
        return SR_FAIL(SR_E_CHECKSUM, "%s: is damaged", cache->path);
    if (memcmp(header->identity, cache->identity, sizeof header->identity) != 0)
        return SR_FAIL(SR_E_DATA, "%s: was made for another device or build", cache->path);
    for (uint32_t i = 0; i < header->count; i++)
        if (!entry_fits(&entries[i]))
            return SR_FAIL(SR_E_DATA, "%s: entry %u is damaged", cache->path, i);
    return SR_OK;
}

static sr_status read_open(const sr_chooser_cache *cache, int fd, char **data, size_t *bytes) {
    struct stat s;
    const size_t most =
        sizeof(sr_chooser_header) + SR_CHOOSER_MAX_ENTRIES * sizeof(sr_chooser_entry);
    if (fstat(fd, &s) != 0)
        return sr_file_fail(cache->path, "cannot be examined", errno);
    SR_TRY(sr_cache_check_owner(cache->path, &s, false));
    if (s.st_size < 0 || (uint64_t)s.st_size > most)
        return SR_FAIL(SR_E_DATA, "%s: is too large", cache->path);
    *bytes = (size_t)s.st_size;
    *data = sr_alloc(*bytes, "measurements of kernels");
    if (*data == NULL)
        return SR_E_MEMORY;
    SR_TRY(sr_file_read_at(fd, cache->path, 0, *data, *bytes));
    return check_bytes(cache, *data, *bytes);
}

static sr_status append_unknown(sr_chooser_cache *cache, const char *data) {
    const sr_chooser_header *header = (const void *)data;
    const sr_chooser_entry *entries = (const void *)(data + sizeof *header);
    const size_t own = cache->count;
    for (uint32_t i = 0; i < header->count; i++)
        if (find(cache->entries, own, &entries[i]) == NULL)
            SR_TRY(append(cache, &entries[i]));
    return SR_OK;
}

// Appends the file's entries to those of the cache, except for questions that the cache answers
// already.
static sr_status merge_file(sr_chooser_cache *cache) {
    char *data = NULL;
    size_t bytes = 0;
    struct stat s;
    if (lstat(cache->folder, &s) != 0 && errno == ENOENT)
        return SR_OK;
    if (stat(cache->folder, &s) != 0)
        return sr_file_fail(cache->folder, "cannot be examined", errno);
    SR_TRY(sr_cache_check_owner(cache->folder, &s, true));
    const int fd = open(cache->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? SR_OK : sr_file_fail(cache->path, "cannot be opened", errno);
    sr_status status = read_open(cache, fd, &data, &bytes);
    (void)close(fd);
    if (status == SR_OK && data)
        status = append_unknown(cache, data);
    sr_free(data);
    return status;
}

static void report(sr_chooser_cache *cache, const char *consequence) {
    if (!cache->reported)
        SR_INFO("%s: %s", sr_error_message(), consequence);
    cache->reported = true;
}

const sr_chooser_entry *sr_chooser_cache_find(sr_chooser_cache *cache,
                                              const sr_chooser_entry *question) {
    if (!cache->loaded && cache->path && merge_file(cache) != SR_OK)
        report(cache, "kernels are timed again");
    cache->loaded = true;
    return find(cache->entries, cache->count, question);
}

// ---- writing ----

static sr_status take_lock(const sr_chooser_cache *cache, int *out) {
    char *path = sr_path_join(cache->folder, "lock");
    if (path == NULL)
        return SR_E_MEMORY;
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    sr_status status = fd < 0 ? sr_file_fail(path, "cannot be opened", errno) : SR_OK;
    int tries = 0;
    // Without locks the last writer wins; the file is complete in any case.
    while (status == SR_OK && sr_file_lock(fd) == SR_LOCK_HELD_BY_OTHER) {
        if (++tries > LOCK_TRIES)
            status = SR_FAIL(SR_E_TIMEOUT, "%s: another process holds this lock", path);
        else
            sr_clock_sleep_ns(LOCK_PAUSE_NS);
    }
    sr_free(path);
    if (status != SR_OK && fd >= 0)
        (void)close(fd);
    *out = fd;
    return status;
}

static sr_status write_file(const sr_chooser_cache *cache) {
    const size_t entry_bytes = cache->count * sizeof *cache->entries;
    const size_t bytes = sizeof(sr_chooser_header) + entry_bytes;
    char *data = sr_alloc(bytes, "measurements of kernels");
    if (data == NULL)
        return SR_E_MEMORY;
    sr_chooser_header *header = (void *)data;
    memcpy(header->magic, SR_CHOOSER_MAGIC, sizeof header->magic);
    header->format = SR_CHOOSER_FORMAT;
    header->count = (uint32_t)cache->count;
    memcpy(header->identity, cache->identity, sizeof header->identity);
    memcpy(data + sizeof *header, cache->entries, entry_bytes);
    header->checksum = sr_hash64(data, bytes);
    sr_atomic_file file;
    sr_status status = sr_atomic_open_private(&file, cache->path);
    if (status == SR_OK)
        status = sr_atomic_write(&file, data, bytes);
    if (status == SR_OK)
        status = sr_atomic_commit(&file);
    sr_atomic_abort(&file);
    sr_free(data);
    return status;
}

void sr_chooser_cache_save(sr_chooser_cache *cache) {
    int fd = -1;
    if (cache->path == NULL)
        return;
    sr_status status = sr_cache_folder_make(cache->folder);
    if (status == SR_OK)
        status = take_lock(cache, &fd);
    if (status == SR_OK) {
        if (merge_file(cache) != SR_OK)
            report(cache, "the file is replaced");
        status = write_file(cache);
        (void)close(fd);
    }
    if (status != SR_OK)
        report(cache, "measurements of kernels are not saved");
    cache->changed = status == SR_E_TIMEOUT;
}
