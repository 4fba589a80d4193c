// SPDX-License-Identifier: Apache-2.0
// Chains of annotations in a temporary file (notes.h).
//
// An entry is a head and, 8-byte aligned behind it, the points of its polygons, their sizes and its
// run lengths, all in this machine's byte order: only this process reads them.
#include "dataio/import/notes.h"

#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

typedef struct note_head {
    uint64_t previous; // 1 + where the picture's entry before this one begins; 0: none
    int64_t label, number, image;
    double box[4];
    uint64_t points, payload; // numbers; bytes behind the head
    uint32_t polygons, mask_bytes, mask_height, mask_width;
    uint32_t paper;
    uint8_t difficult, crowd, has_mask, zero;
} note_head;

void sr_note_reader_release(sr_note_reader *reader) {
    sr_free(reader->notes);
    sr_free(reader->buffer);
    *reader = (sr_note_reader){0};
}

static uint64_t padded(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

sr_status sr_notes_add(sr_notes *notes, uint64_t previous, const sr_note *note, uint64_t *out) {
    static const uint8_t zeros[8];
    note_head head = {.previous = previous,
                      .label = note->label,
                      .number = note->number,
                      .image = note->image,
                      .paper = note->paper,
                      .points = note->point_count,
                      .polygons = note->polygon_count,
                      .mask_bytes = note->mask_bytes,
                      .mask_height = note->mask_height,
                      .mask_width = note->mask_width,
                      .difficult = note->difficult,
                      .crowd = note->crowd,
                      .has_mask = note->mask != NULL};
    memcpy(head.box, note->box, sizeof head.box);
    const uint64_t rest = 4 * (uint64_t)note->polygon_count + note->mask_bytes;
    head.payload = 8 * head.points + padded(rest);
    const uint64_t at = notes->spool.bytes;
    SR_TRY(sr_spool_append(&notes->spool, &head, sizeof head));
    SR_TRY(sr_spool_append(&notes->spool, note->points, 8 * head.points));
    SR_TRY(sr_spool_append(&notes->spool, note->polygon_sizes, 4 * (size_t)note->polygon_count));
    SR_TRY(sr_spool_append(&notes->spool, note->mask, note->mask_bytes));
    SR_TRY(sr_spool_append(&notes->spool, zeros, padded(rest) - rest));
    *out = at + 1;
    return SR_OK;
}

sr_status sr_notes_end(sr_notes *notes) {
    return sr_spool_flush(&notes->spool);
}

static sr_status read_entry(const sr_notes *notes, uint64_t at, sr_note_reader *reader,
                            uint64_t *previous) {
    note_head head;
    const char *folder = notes->spool.folder;
    SR_TRY(sr_file_read_at(notes->spool.fd, folder, at, &head, sizeof head));
    SR_TRY(sr_grow(&reader->buffer, &reader->buffer_capacity, reader->bytes + head.payload, 1,
                   "annotations"));
    SR_TRY(sr_grow(&reader->notes, &reader->capacity, reader->count + 1, sizeof(sr_note),
                   "annotations"));
    SR_TRY(sr_file_read_at(notes->spool.fd, folder, at + sizeof head,
                           (uint8_t *)reader->buffer + reader->bytes, head.payload));
    sr_note *note = (sr_note *)reader->notes + reader->count++;
    *note = (sr_note){.label = head.label,
                      .number = head.number,
                      .image = head.image,
                      .paper = head.paper,
                      .difficult = head.difficult,
                      .crowd = head.crowd,
                      .polygon_count = head.polygons,
                      .mask_bytes = head.mask_bytes,
                      .mask_height = head.mask_height,
                      .mask_width = head.mask_width};
    memcpy(note->box, head.box, sizeof head.box);
    note->mask = head.has_mask ? notes : NULL; // set right when the buffer moves no more
    note->point_count = head.points;
    reader->bytes += head.payload;
    *previous = head.previous;
    return SR_OK;
}

// Gives the notes, in the order of reading, their places in the buffer.
static void place_notes(sr_note_reader *reader) {
    const uint8_t *at = reader->buffer;
    sr_note *notes = reader->notes;
    for (size_t i = 0; i < reader->count; i++) {
        sr_note *note = &notes[i];
        const uint64_t sizes = 4 * (uint64_t)note->polygon_count;
        note->points = (const double *)(const void *)at;
        at += 8 * note->point_count;
        note->polygon_sizes = (const uint32_t *)(const void *)at;
        if (note->mask != NULL)
            note->mask = at + sizes;
        at += padded(sizes + note->mask_bytes);
    }
}

sr_status sr_notes_read(const sr_notes *notes, uint64_t last, sr_note_reader *reader) {
    reader->count = reader->bytes = 0;
    while (last != 0)
        SR_TRY(read_entry(notes, last - 1, reader, &last));
    place_notes(reader);
    sr_note *items = reader->notes;
    for (size_t i = 0; i < reader->count / 2; i++) {
        sr_note swapped = items[i];
        items[i] = items[reader->count - 1 - i];
        items[reader->count - 1 - i] = swapped;
    }
    return SR_OK;
}
