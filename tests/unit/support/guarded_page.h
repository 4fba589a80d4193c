// SPDX-License-Identifier: Apache-2.0
// Memory that ends before a page that nothing may read: what reads beyond it crashes, in any build.
#ifndef SR_TESTS_UNIT_GUARDED_PAGE_H
#define SR_TESTS_UNIT_GUARDED_PAGE_H

#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/support/test_support.h"

typedef struct guarded_page {
    char *memory, *end; // the last bytes before 'end' are to be used
    size_t bytes;
} guarded_page;

static inline guarded_page guarded_page_make(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char *memory =
        mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + whole, page, PROT_NONE), 0);
    return (guarded_page){.memory = memory, .end = memory + whole, .bytes = whole + page};
}

static inline void guarded_page_free(guarded_page *page) {
    assert_int_equal(munmap(page->memory, page->bytes), 0);
}

#endif
