// SPDX-License-Identifier: Apache-2.0
// The numerics of the data path (data_numerics.h): its own version and that of libjpeg-turbo, whose
// pixels may change between versions (merged upsampling and the bounds of its transforms have).
//
// libjpeg's interface has no call for its version, and the header's is that of the machine that
// built serried. The library contains the text "libjpeg-turbo version 2.1.5 (build 20230203)", so
// the loaded object is searched for it once (200 us). The other libraries of the data path
// (libspng, zlib, zstd) are lossless.
#include "dataio/pipeline/data_numerics.h"

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>

#define TEXT_OF(macro) TEXT_OF_IT(macro)
#define TEXT_OF_IT(macro) #macro

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char version[24];

// Finds 'mark' and copies the digits and dots after it to 'version'.
static bool find_version(const char *bytes, size_t count) {
    static const char mark[] = "libjpeg-turbo version ";
    const char *end = bytes + count, *at = bytes;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL) {
        size_t n = 0;
        at += sizeof mark - 1;
        while (n < sizeof version - 1 && at + n < end && at[n] && strchr("0123456789.", at[n]))
            n++;
        if (n > 0) { // not 'mark' itself, which may be in the searched memory
            memcpy(version, at, n);
            return true;
        }
    }
    return false;
}

// Searches the read-only segments of the loaded object that contains 'address'.
static int search_object(struct dl_phdr_info *object, size_t size, void *address) {
    bool here = false;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        const uintptr_t begin = object->dlpi_addr + p->p_vaddr, at = (uintptr_t)address;
        here = here || (p->p_type == PT_LOAD && at >= begin && at - begin < p->p_memsz);
    }
    for (int i = 0; here && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & (PF_R | PF_W)) == PF_R &&
            find_version((const char *)(object->dlpi_addr + p->p_vaddr), p->p_filesz))
            break;
    }
    return here;
}

static void find_once(void) {
    struct jpeg_error_mgr errors;
    union {
        void (*function)(j_common_ptr);
        void *address;
    } library = {.function = jpeg_std_error(&errors)->error_exit};
    (void)dl_iterate_phdr(search_object, library.address);
    if (version[0] == '\0')
        (void)snprintf(version, sizeof version, "%s when built", TEXT_OF(LIBJPEG_TURBO_VERSION));
}

const char *sr_jpeg_library_version(void) {
    (void)pthread_once(&once, find_once);
    return version;
}

char *sr_data_numerics(char out[SR_DATA_NUMERICS_TEXT]) {
    (void)snprintf(out, SR_DATA_NUMERICS_TEXT, "data %d, libjpeg-turbo %s", SR_DATA_NUMERICS,
                   sr_jpeg_library_version());
    return out;
}
