// SPDX-License-Identifier: Apache-2.0
// Finds values in an LMDB file by reading pages (format and why: lmdb_file_internal.h).
//
// A look-up reads one page per level, three for a million records, of which only the last is not in
// the page cache. Not supported: named databases, duplicate keys, other byte orders.
#include "dataio/record/lmdb_file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/record/shard_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

#define MAGIC UINT32_C(0xbeefc0de)
#define VERSION 1
#define PAGE_HEADER 16
#define META_BYTES (PAGE_HEADER + 136)
#define NODE_HEADER 8
#define PAGE_MIN 256
#define PAGE_MAX (64 << 10)
#define DEPTH_MAX 32 // as LMDB's own

enum { PAGE_BRANCH = 1, PAGE_LEAF = 2, PAGE_OVERFLOW = 4, PAGE_META = 8, PAGE_KINDS = 0x6f };
enum { NODE_BIG = 1 };

static uint32_t get_u16(const uint8_t *in) {
    return (uint32_t)in[0] | (uint32_t)in[1] << 8;
}

// -- opening -----------------------------------------------------------------------------------

static bool is_meta(const uint8_t *page, uint64_t number) {
    return get_u64(page) == number && get_u16(page + 10) == PAGE_META &&
           get_u32(page + PAGE_HEADER) == MAGIC && get_u32(page + PAGE_HEADER + 4) == VERSION;
}

static void take_meta(const uint8_t *page, sr_lmdb *out) {
    const uint8_t *database = page + PAGE_HEADER + 24 + 48; // the second
    out->entries = get_u64(database + 32);
    out->root = get_u64(database + 40);
}

static uint64_t transaction_of(const uint8_t *page) {
    return get_u64(page + PAGE_HEADER + 128);
}

static sr_status damaged(const sr_lmdb *file, const char *what, uint64_t page) {
    return SR_FAIL(SR_E_DATA, "%s: page %llu %s; restore a copy or pack again", file->path,
                   (unsigned long long)page, what);
}

// Reads the first 'bytes' bytes of a page.
static sr_status read_bytes(const sr_lmdb *file, uint64_t page, void *out, uint64_t bytes) {
    if (page >= file->bytes / file->page_bytes + 1 || bytes > file->bytes - page * file->page_bytes)
        return SR_FAIL(
            SR_E_DATA,
            "%s: truncated at byte %llu: page %llu is missing; restore a copy or pack again",
            file->path, (unsigned long long)file->bytes, (unsigned long long)page);
    return sr_file_read_at(file->fd, file->path, page * file->page_bytes, out, (size_t)bytes);
}

sr_status sr_lmdb_open(int fd, const char *path, sr_lmdb *out) {
    sr_lmdb file = {.fd = fd, .path = path, .page_bytes = PAGE_MIN};
    uint8_t first[META_BYTES] = {0}, second[META_BYTES] = {0};
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return SR_FAIL(SR_E_DATA, "%s: not a regular file, so not an LMDB store", path);
    file.bytes = (uint64_t)info.st_size;
    SR_TRY(read_bytes(&file, 0, first, sizeof first));
    if (!is_meta(first, 0))
        return damaged(&file, "is not a meta page of LMDB", 0);
    uint32_t page_bytes = get_u32(first + PAGE_HEADER + 24);
    if (page_bytes < PAGE_MIN || page_bytes > PAGE_MAX || (page_bytes & (page_bytes - 1)) != 0)
        return damaged(&file, "states an impossible page size", 0);
    file.page_bytes = page_bytes;
    SR_TRY(read_bytes(&file, 1, second, sizeof second));
    if (!is_meta(second, 1) || get_u32(second + PAGE_HEADER + 24) != page_bytes)
        return damaged(&file, "is not a meta page of LMDB", 1);
    take_meta(transaction_of(first) > transaction_of(second) ? first : second, &file);
    *out = file;
    return SR_OK;
}

bool sr_lmdb_is(const char *path) {
    uint8_t page[META_BYTES] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is = pread(fd, page, sizeof page, 0) == (ssize_t)sizeof page && is_meta(page, 0);
    (void)close(fd);
    return is;
}

void sr_lmdb_key(uint64_t record, uint8_t *out) {
    for (unsigned i = 0; i < SR_LMDB_KEY_BYTES; i++)
        out[i] = (uint8_t)(record >> (56 - 8 * i));
}

// -- pages of the tree -------------------------------------------------------------------------

typedef struct tree_page {
    const sr_lmdb *file;
    uint64_t number;
    const uint8_t *data;
    bool leaf;
    uint32_t nodes;
} tree_page;

typedef struct tree_node {
    const uint8_t *key;
    uint32_t key_bytes, flags;
    uint64_t value;  // leaf: where the value begins in the page
    uint64_t number; // branch: the child
    uint64_t bytes;  // leaf: of the value
} tree_node;

static sr_status read_page(const sr_lmdb *file, uint64_t number, uint8_t *data, tree_page *out) {
    SR_TRY(read_bytes(file, number, data, file->page_bytes));
    uint32_t flags = get_u16(data + 10) & PAGE_KINDS, lower = get_u16(data + 12);
    uint32_t upper = get_u16(data + 14);
    if (get_u64(data) != number || (flags != PAGE_BRANCH && flags != PAGE_LEAF))
        return damaged(file, "is not a page of the tree", number);
    if (lower < PAGE_HEADER + 2 || lower % 2 != 0 || lower > upper || upper > file->page_bytes)
        return damaged(file, "has damaged bounds", number);
    *out = (tree_page){.file = file,
                       .number = number,
                       .data = data,
                       .leaf = flags == PAGE_LEAF,
                       .nodes = (lower - PAGE_HEADER) / 2};
    return SR_OK;
}

static sr_status get_node(const tree_page *page, uint32_t i, tree_node *out) {
    // Offsets are compared, not pointers: a pointer beyond the page is undefined behaviour.
    uint64_t at = get_u16(page->data + PAGE_HEADER + (size_t)2 * i), end = page->file->page_bytes;
    if (at < PAGE_HEADER || at + NODE_HEADER > end)
        return damaged(page->file, "has a node outside its bounds", page->number);
    const uint8_t *node = page->data + at;
    uint64_t low = get_u16(node) | get_u16(node + 2) << 16;
    tree_node n = {
        .key = node + NODE_HEADER, .key_bytes = get_u16(node + 6), .flags = get_u16(node + 4)};
    n.value = at + NODE_HEADER + n.key_bytes;
    uint64_t left = end - at - NODE_HEADER;
    bool fits = n.key_bytes <= left;
    if (page->leaf) {
        n.bytes = low;
        uint64_t inside = n.flags & NODE_BIG ? 8 : n.bytes;
        fits = fits && inside <= left - n.key_bytes && (n.flags & ~(uint32_t)NODE_BIG) == 0;
    } else {
        n.number = low | (uint64_t)n.flags << 32;
    }
    if (!fits)
        return damaged(page->file, "has a damaged node", page->number);
    *out = n;
    return SR_OK;
}

static int compare_keys(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

// Finds the last node whose key is not above the wanted one, by bisection; the first node of a
// branch has no key and is below all others. *order compares the wanted key with the node's.
static sr_status search_page(const tree_page *page, const void *key, size_t key_bytes,
                             tree_node *out, int *order) {
    uint32_t low = 0, high = page->nodes;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        SR_TRY(get_node(page, middle, out));
        if (compare_keys(key, key_bytes, out->key, out->key_bytes) >= 0)
            low = middle;
        else
            high = middle;
    }
    SR_TRY(get_node(page, low, out));
    *order = compare_keys(key, key_bytes, out->key, out->key_bytes);
    return SR_OK;
}

static sr_status locate_value(const tree_page *page, const tree_node *node, uint64_t *offset) {
    const sr_lmdb *file = page->file;
    if ((node->flags & NODE_BIG) == 0) {
        *offset = page->number * file->page_bytes + node->value;
        return SR_OK;
    }
    uint64_t first = get_u64(page->data + node->value);
    uint8_t header[PAGE_HEADER] = {0};
    SR_TRY(read_bytes(file, first, header, sizeof header));
    uint64_t room = get_u32(header + 12) * file->page_bytes;
    if (get_u64(header) != first || (get_u16(header + 10) & PAGE_KINDS) != PAGE_OVERFLOW ||
        room < PAGE_HEADER + node->bytes)
        return damaged(file, "does not contain the value that it should", first);
    *offset = first * file->page_bytes + PAGE_HEADER;
    if (node->bytes > file->bytes - *offset)
        return SR_FAIL(SR_E_DATA,
                       "%s: truncated at byte %llu, inside a value; restore a copy or pack again",
                       file->path, (unsigned long long)file->bytes);
    return SR_OK;
}

static sr_status descend(const sr_lmdb *file, const void *key, size_t key_bytes, uint8_t *buffer,
                         uint64_t *offset, uint64_t *bytes) {
    uint64_t number = file->root;
    for (int level = 0; level < DEPTH_MAX; level++) {
        tree_page page = {.file = file, .data = buffer};
        tree_node node = {.key = buffer};
        int order = 0;
        SR_TRY(read_page(file, number, buffer, &page));
        SR_TRY(search_page(&page, key, key_bytes, &node, &order));
        if (!page.leaf) {
            number = node.number;
            continue;
        }
        if (order != 0)
            return SR_FAIL(SR_E_NOT_FOUND, "%s: a key is missing", file->path);
        SR_TRY(locate_value(&page, &node, offset));
        *bytes = node.bytes;
        return SR_OK;
    }
    return damaged(file, "is part of a cycle", number);
}

sr_status sr_lmdb_find(const sr_lmdb *file, const void *key, size_t key_bytes, uint64_t *offset,
                       uint64_t *bytes) {
    uint8_t buffer[PAGE_MAX];
    if (file->entries == 0)
        return SR_FAIL(SR_E_NOT_FOUND, "%s: the database is empty", file->path);
    memset(buffer, 0, file->page_bytes); // for clang-tidy: each page is read before it is used
    return descend(file, key, key_bytes, buffer, offset, bytes);
}
