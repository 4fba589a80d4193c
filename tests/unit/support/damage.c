// SPDX-License-Identifier: Apache-2.0
// Damages a file in place (damage.h). The file keeps its inode, so that a test need not write a new
// file for each damage.
#include "tests/unit/support/damage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

typedef struct work {
    int fd;
    const uint8_t *content;
    uint64_t bytes;
    unsigned stride;
    damage_fn check;
    void *user;
    damage d;
    char what[96];
    long count;
} work;

static void put(const work *w, const void *data, uint64_t bytes, uint64_t at) {
    assert_int_equal(bytes, pwrite(w->fd, data, bytes, (off_t)at));
}

static void tell(work *w, uint64_t begin, uint64_t end, bool bit) {
    w->d.what = w->what;
    w->d.begin = begin;
    w->d.end = end;
    w->d.bit = bit;
    w->check(w->user, &w->d);
    w->count++;
}

static void flip_bits(work *w) {
    for (uint64_t i = 0; i < 8 * w->bytes; i += w->stride) {
        uint64_t at = i / 8;
        uint8_t flipped = w->content[at] ^ (uint8_t)(1u << i % 8);
        put(w, &flipped, 1, at);
        (void)snprintf(w->what, sizeof w->what, "bit %u of byte %llu flipped", (unsigned)(i % 8),
                       (unsigned long long)at);
        tell(w, at, at + 1, true);
        put(w, w->content + at, 1, at);
    }
}

static void change_length(work *w, uint64_t bytes, uint8_t fill) {
    uint8_t more[4096];
    assert_int_equal(0, ftruncate(w->fd, (off_t)bytes));
    if (bytes > w->bytes) {
        memset(more, fill, sizeof more);
        put(w, more, bytes - w->bytes, w->bytes);
    }
    (void)snprintf(w->what, sizeof w->what, "%llu bytes long instead of %llu",
                   (unsigned long long)bytes, (unsigned long long)w->bytes);
    tell(w, bytes < w->bytes ? bytes : w->bytes, bytes < w->bytes ? w->bytes : bytes, false);
    assert_int_equal(0, ftruncate(w->fd, (off_t)w->bytes));
    if (bytes < w->bytes)
        put(w, w->content + bytes, w->bytes - bytes, bytes);
}

static void zero_blocks(work *w, uint64_t block) {
    static const uint8_t zeros[4096];
    for (uint64_t at = 0; at < w->bytes; at += block) {
        uint64_t n = w->bytes - at < block ? w->bytes - at : block;
        if (memcmp(w->content + at, zeros, n) == 0)
            continue;
        put(w, zeros, n, at);
        (void)snprintf(w->what, sizeof w->what, "%llu bytes at %llu zeroed", (unsigned long long)n,
                       (unsigned long long)at);
        tell(w, at, at + n, false);
        put(w, w->content + at, n, at);
    }
}

long damage_each(const char *path, unsigned stride, damage_fn check, void *user) {
    void *content;
    size_t bytes;
    assert_ok(sr_file_read(path, 1 << 24, &content, &bytes));
    const char *slash = strrchr(path, '/');
    work w = {.fd = open(path, O_RDWR | O_CLOEXEC),
              .content = content,
              .bytes = bytes,
              .stride = stride,
              .check = check,
              .user = user,
              .d = {.path = path, .file = slash ? slash + 1 : path}};
    assert_true(w.fd >= 0);
    flip_bits(&w);
    for (uint64_t n = 0; n < bytes; n += stride)
        change_length(&w, n, 0);
    static const uint64_t more[] = {1, 7, 512, 4096};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        change_length(&w, bytes + more[i], 0);
        change_length(&w, bytes + more[i], '\n');
    }
    zero_blocks(&w, 512);
    zero_blocks(&w, 4096);
    (void)close(w.fd);
    sr_free(content);
    return w.count;
}
