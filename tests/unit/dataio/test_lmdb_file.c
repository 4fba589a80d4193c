// SPDX-License-Identifier: Apache-2.0
// LMDB files made byte by byte: nodes that extend to the end of their page, and beyond it.
#include <fcntl.h>
#include <unistd.h>

#include "dataio/record/lmdb_file_internal.h"
#include "kernels/base/file.h"
#include "tests/unit/support/test_support.h"

enum { PAGE = 4096, PAGES = 5, LEAF = 2, OVERFLOW = 3, HEADER = 16, NODE = 8 };
enum { FLAG_BRANCH = 1, FLAG_LEAF = 2, FLAG_OVERFLOW = 4, FLAG_META = 8, FLAG_BIG = 1 };

static uint8_t image[PAGES * PAGE];

static void put(uint64_t at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        image[at + (uint64_t)i] = (uint8_t)(value >> (8 * i));
}

static void put_meta(uint64_t page) {
    const uint64_t at = page * PAGE, database = at + HEADER + 24 + 48;
    put(at, page, 8);
    put(at + 10, FLAG_META, 2);
    put(at + HEADER, 0xbeefc0de, 4);
    put(at + HEADER + 4, 1, 4);
    put(at + HEADER + 24, PAGE, 4);
    put(database + 32, 1, 8); // entries
    put(database + 40, LEAF, 8);
    put(at + HEADER + 128, page, 8); // transaction
}

// One node, whose fields begin at offset 'at' of its page.
typedef struct crafted {
    uint64_t at, low, flags, key_bytes;
    int page_flag;
    const char *message; // NULL: found
} crafted;

static void make_image(const crafted *c) {
    const uint64_t page = (uint64_t)LEAF * PAGE;
    memset(image, 0, sizeof image);
    put_meta(0);
    put_meta(1);
    put(page, LEAF, 8);
    put(page + 10, (uint64_t)c->page_flag, 2);
    put(page + 12, HEADER + 2, 2); // lower: one node
    put(page + 14, HEADER + 2, 2); // upper
    put(page + HEADER, c->at, 2);
    put((uint64_t)OVERFLOW * PAGE, OVERFLOW, 8);
    put((uint64_t)OVERFLOW * PAGE + 10, FLAG_OVERFLOW, 2);
    put((uint64_t)OVERFLOW * PAGE + 12, 1, 4);
    if (c->at + NODE <= PAGE) {
        put(page + c->at, c->low, 4);
        put(page + c->at + 4, c->flags, 2);
        put(page + c->at + 6, c->key_bytes, 2);
    }
    if (c->at + NODE + 1 <= PAGE)
        image[page + c->at + NODE] = 'k';
    if (c->flags == FLAG_BIG && c->at + NODE + 9 <= PAGE)
        put(page + c->at + NODE + 1, OVERFLOW, 8);
}

static void nodes_stay_inside(void **state) {
    (void)state;
    static const crafted cases[] = {
        {PAGE - NODE - 1 - 3, 3, 0, 1, FLAG_LEAF, NULL}, // ends where the page does
        {PAGE - NODE - 1 - 3, 4, 0, 1, FLAG_LEAF, "page 2 has a damaged node"},
        {PAGE - NODE - 1, 0, 0, 1, FLAG_LEAF, NULL},
        {PAGE - NODE - 1, 0, 0, 2, FLAG_LEAF, "page 2 has a damaged node"},
        {PAGE - NODE, 0, 0, 65535, FLAG_LEAF, "page 2 has a damaged node"},
        {PAGE - NODE, 0, 0, 65535, FLAG_BRANCH, "page 2 has a damaged node"},
        {PAGE - NODE, 0xffffffff, 0, 0, FLAG_LEAF, "page 2 has a damaged node"},
        {PAGE - NODE - 9, 100, FLAG_BIG, 1, FLAG_LEAF, NULL}, // its page number ends the page
        {PAGE - NODE - 8, 100, FLAG_BIG, 1, FLAG_LEAF, "page 2 has a damaged node"},
        {PAGE - NODE - 9, PAGE - HEADER + 1, FLAG_BIG, 1, FLAG_LEAF, "page 3 does not contain"},
        {PAGE - NODE + 1, 0, 0, 0, FLAG_LEAF, "page 2 has a node outside its bounds"},
        {65535, 0, 0, 0, FLAG_LEAF, "page 2 has a node outside its bounds"},
        {HEADER - 1, 0, 0, 0, FLAG_LEAF, "page 2 has a node outside its bounds"},
        {PAGE - NODE - 1, 0, 7, 1, FLAG_LEAF, "page 2 has a damaged node"}, // unknown flags
        {PAGE - NODE - 1, LEAF, 0, 1, FLAG_BRANCH, "is part of a cycle"},
    };
    char folder[256], path[300];
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/data.mdb", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t offset = 0, bytes = 0;
        sr_lmdb file;
        make_image(&cases[i]);
        assert_ok(sr_file_write_quickly(path, image, sizeof image));
        int fd = open(path, O_RDONLY);
        assert_ok(sr_lmdb_open(fd, path, &file));
        sr_status status = sr_lmdb_find(&file, "k", 1, &offset, &bytes);
        if (cases[i].message == NULL) {
            assert_ok(status);
            assert_int_equal(cases[i].low, bytes);
            assert_true(offset + bytes <= sizeof image);
        } else {
            assert_status(SR_E_DATA, status);
            assert_message(cases[i].message);
        }
        (void)close(fd);
    }
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_stay_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
