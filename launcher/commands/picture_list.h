// SPDX-License-Identifier: Apache-2.0
// The pictures that a command line names: files, folders with all below them, names from stdin.
#ifndef SR_LAUNCHER_PICTURE_LIST_H
#define SR_LAUNCHER_PICTURE_LIST_H

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

// Paths in order; borrowed from the arena that they were collected into.
typedef struct sr_picture_list {
    void *items; // char *, freed with sr_free
    size_t count, capacity;
} sr_picture_list;

// Adds what one argument names: for a folder, every file below it with the name of a picture, in
// the order of names, without hidden files and links to folders; for "-", the lines of stdin;
// otherwise the argument itself. SR_E_NOT_FOUND for a folder without pictures.
SR_NODISCARD sr_status sr_picture_list_add(sr_picture_list *list, sr_arena *arena,
                                           const char *argument);
// The path at this index.
const char *sr_picture_list_get(const sr_picture_list *list, size_t index);
// Frees the items.
void sr_picture_list_release(sr_picture_list *list);

#endif
