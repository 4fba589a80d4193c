// SPDX-License-Identifier: Apache-2.0
// What a format says about the files of a source: splits, classes, and what a record needs.
#ifndef SR_DATAIO_LAYOUT_H
#define SR_DATAIO_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/import/annotations.h"
#include "dataio/import/source.h"
#include "dataio/record/split.h"

#ifdef __cplusplus
extern "C" {
#endif

// What kind of records come out.
typedef enum sr_schema {
    SR_SCHEMA_CLASS = 0, // a picture with a class
    SR_SCHEMA_OBJECTS,   // a picture with boxes
    SR_SCHEMA_MASK,      // a picture with a class for each pixel
    SR_SCHEMA_RECORD,    // finished records, kept as they are
} sr_schema;

// One sample.
typedef struct sr_layout_file {
    uint64_t annotation; // OBJECTS: of its last annotation (annotations.h); MASK: 1 + mask in files
    uint32_t source;     // index into source->files
    uint32_t width, height; // OBJECTS: as the annotation says; 0: unknown
    int32_t label;          // CLASS; else 0
    int8_t split;           // -1: in none: refused, left out or an annotation
} sr_layout_file;

// Pixels that are no picture file: one size for all samples of a source; height 0: there are none.
typedef struct sr_layout_pixels {
    int64_t height, width, channels;
    bool planes; // [channels, height, width] instead of [height, width, channels]
} sr_layout_pixels;

// What the label of a annotation means.
typedef struct sr_label_name {
    int64_t number;
    int32_t label;    // class, or -1 where there is none of this name
    const char *name; // as annotated
} sr_label_name;

typedef struct sr_layout {
    sr_schema schema;
    sr_layout_file *files; // in the source's order
    size_t count;
    const char **classes;
    int class_count;
    bool names_given;   // by the user
    bool normalised;    // OBJECTS: coordinates are parts of the upright picture's width and height
    bool sorted;        // the classes are in byte order
    bool count_classes; // MASK without given names: as many classes as the masks have ids
    sr_layout_pixels pixels;
    const char *protocol; // RECORD: of the records
    sr_annotations annotations;
    struct sr_label_name *labels; // of annotations, sorted by number
    size_t label_count, label_capacity;
    uint64_t masks;      // pictures that are masks of others
    uint64_t unlabelled; // pictures that no annotation, list or class folder speaks of: left out
    uint64_t split_count[SR_SPLIT_COUNT];
    sr_arena arena;
} sr_layout;

// Lays out the source by its format. class_names: one name a line, or NULL. Refuses single files
// through the source; SR_E_DATA where nothing is left or classes do not agree.
SR_NODISCARD sr_status sr_layout_make(sr_source *source, const char *class_names, sr_layout *out);
void sr_layout_release(sr_layout *layout);

// -- for formats -------------------------------------------------------------------------------

// A growing list of names in the layout's arena.
typedef struct sr_name_list {
    void *items; // const char *
    size_t count, capacity;
} sr_name_list;

// Room for source->files.count samples, all in no split.
SR_NODISCARD sr_status sr_layout_begin(sr_layout *layout, const sr_source *source);
// Adds a name, though not twice in a row.
SR_NODISCARD sr_status sr_name_list_add(sr_name_list *list, sr_arena *arena, const char *name,
                                        size_t bytes);
// Makes the names the layout's classes: sorted, each once. The list is empty afterwards.
SR_NODISCARD sr_status sr_layout_set_classes(sr_layout *layout, sr_name_list *list);
// Classes "0", "1", ... where no names were given; SR_E_DATA where too few were.
SR_NODISCARD sr_status sr_layout_number_classes(sr_layout *layout, int64_t count);
// Tells the class of a annotation's label; numbers rise from call to call.
SR_NODISCARD sr_status sr_layout_map_label(sr_layout *layout, int64_t number, int label,
                                           const char *name);
// The class of a annotation's label. SR_E_DATA where it has none.
SR_NODISCARD sr_status sr_layout_label_of(const sr_layout *layout, int64_t number, int32_t *out);
// Makes the lines of a text the names of the classes, where there are exactly so many; else, and
// where names were given, nothing changes.
SR_NODISCARD sr_status sr_layout_name_classes(sr_layout *layout, const char *text, int count);
// Makes the lines of a text the names of the classes, however many there are; not where names were
// given.
SR_NODISCARD sr_status sr_layout_take_names(sr_layout *layout, const char *text);
// Index of a class by name or -1.
int sr_layout_find_class(const sr_layout *layout, const char *name, size_t bytes);
// The folder of a path at a level (0: the first), or false when the path has none there.
bool sr_path_folder_at(const char *path, int level, const char **name, size_t *bytes);
// The split that a folder of the path names, the deepest one that does; -1 where none does.
int sr_path_split(const char *path);
// The split of which a folder's name has a word, as "imagenet-val-000012"; the deepest one that
// does; -1 where none does.
int sr_path_split_word(const char *path);
// The path without its last part's ending.
size_t sr_path_stem_bytes(const char *path);
// Does the path end with the name, whole parts of it? False for the empty name.
bool sr_path_ends_with(const char *path, const char *name);
// The last part of a path.
const char *sr_path_name(const char *path);

#ifdef __cplusplus
}
#endif
#endif
