// SPDX-License-Identifier: Apache-2.0
// Reads build IDs (ld(1), --build-id) from the memory of this process (build_identity.h): the files
// on disk may be others by now.
#include "kernels/base/build_identity.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ID_BYTES = 8, WORD = 2 * ID_BYTES, OBJECTS_MAX = SR_BUILD_IDENTITY_BYTES / WORD };

typedef struct search {
    char *out; // NULL: only 'name' is wanted
    int count;
    int wanted; // number of an object
    char name[PATH_MAX];
} search;

static size_t padded(size_t bytes) {
    return (bytes + 3) & ~(size_t)3;
}

// The build ID in a segment of notes; NULL if it has none.
static const unsigned char *find_id(const char *notes, size_t bytes) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, notes, sizeof note);
        const size_t name = sizeof note, id = name + padded(note.n_namesz);
        const size_t next = id + padded(note.n_descsz);
        if (next > bytes)
            return NULL;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
            memcmp(notes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0 &&
            note.n_descsz >= ID_BYTES)
            return (const unsigned char *)notes + id;
        notes += next;
        bytes -= next;
    }
    return NULL;
}

static int add_object(struct dl_phdr_info *object, size_t size, void *user) {
    search *s = user;
    const unsigned char *id = NULL;
    (void)size;
    if (s->count == OBJECTS_MAX)
        return 1;
    if (s->count == s->wanted)
        (void)snprintf(s->name, sizeof s->name, "%s",
                       object->dlpi_name[0] ? object->dlpi_name : "the program");
    for (int i = 0; s->out && i < object->dlpi_phnum && !id; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        union {
            ElfW(Addr) address;
            const char *notes;
        } at = {.address = object->dlpi_addr + segment->p_vaddr};
        if (segment->p_type == PT_NOTE)
            id = find_id(at.notes, segment->p_memsz);
    }
    for (int i = 0; s->out && i < ID_BYTES; i++)
        (void)snprintf(s->out + s->count * WORD + 2 * i, 3, "%02x", id ? id[i] : 0);
    s->count++;
    return 0;
}

const char *sr_build_identity(void) {
    static _Thread_local char identity[SR_BUILD_IDENTITY_BYTES];
    search s = {.out = identity, .wanted = -1};
    identity[0] = '\0';
    (void)dl_iterate_phdr(add_object, &s);
    return identity;
}

sr_status sr_build_compare(const char *identity) {
    const char *own = sr_build_identity();
    size_t same = 0;
    while (own[same] && own[same] == identity[same])
        same++;
    if (!own[same]) // what the other process has opened since follows
        return SR_OK;
    search s = {.wanted = (int)(same / WORD)};
    (void)dl_iterate_phdr(add_object, &s);
    return SR_FAIL(SR_E_NUMERICS, "%s was replaced by another build while the job is running",
                   s.name);
}
