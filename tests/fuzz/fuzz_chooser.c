// SPDX-License-Identifier: Apache-2.0
// Fuzzes the cache of the chooser. The first byte selects what is corrected so that the rest is
// read: 1, the start of the file; 2, its checksum; 3, both. Whatever the contents, every accepted
// entry can be printed, a new one is found after it was saved, and the file is then valid.
#include <fcntl.h>
#include <sys/stat.h>

#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/chooser_internal.h"
#include "tests/fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BEGINNING = 1, CHECKSUM = 2, MOST = 1 << 20 };

static sr_chooser_cache open_cache(void) {
    sr_chooser_cache cache = {0};
    require(setenv("SERRIED_CACHE", scratch_folder(), 1) == 0);
    sr_device_properties device;
    require(sr_device_describe("cpu", &device) == SR_OK &&
            sr_chooser_cache_init(&cache, &device, "fuzz") == SR_OK && cache.path != NULL);
    return cache;
}

static void correct_header(const sr_chooser_cache *cache, int what, char *file, size_t bytes) {
    sr_chooser_header *header = (void *)file;
    if (bytes < sizeof *header)
        return;
    if (what & BEGINNING) {
        memcpy(header->magic, SR_CHOOSER_MAGIC, sizeof header->magic);
        memcpy(header->identity, cache->identity, sizeof header->identity);
        header->format = SR_CHOOSER_FORMAT;
        header->count = (uint32_t)((bytes - sizeof *header) / sizeof(sr_chooser_entry));
    }
    if (what & CHECKSUM) {
        header->checksum = 0;
        header->checksum = sr_hash64(file, bytes);
    }
}

static void write_file(const char *path, const void *data, size_t bytes) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0);
}

static size_t look(sr_chooser_cache *cache, const sr_chooser_entry *question, bool *found) {
    size_t sum = 0;
    *found = sr_chooser_cache_find(cache, question) != NULL;
    for (size_t i = 0; i < cache->count; i++) {
        const sr_chooser_entry *r = &cache->entries[i];
        require(r->args >= 0 && r->args <= SR_KERNEL_MAX_ARGS);
        sum += strlen(r->kernel) + strlen(r->chosen) + strlen(r->variant);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sr_chooser_entry item = {.kernel = "fuzz", .args = 1};
    bool found;
    if (size == 0 || size > MOST)
        return 0;
    sr_log_set_level(SR_LOG_ERROR);
    sr_chooser_cache cache = open_cache();
    char *file = sr_alloc(size, "a file");
    require(file != NULL);
    memcpy(file, data + 1, size - 1);
    correct_header(&cache, data[0], file, size - 1);
    write_file(cache.path, file, size - 1);
    look(&cache, &item, &found);
    const size_t before = cache.count;
    sr_chooser_cache_add(&cache, &item);
    sr_chooser_cache_save(&cache);
    sr_chooser_cache_release(&cache);
    cache = open_cache();
    look(&cache, &item, &found);
    require(found && cache.count >= before);
    sr_chooser_cache_release(&cache);
    sr_free(file);
    return 0;
}
