// SPDX-License-Identifier: Apache-2.0
// Layouts: the splits and classes of a source, and the contents of its records, as its format finds
// them.
#ifndef SR_DATAIO_LAYOUT_H
#define SR_DATAIO_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/formats/class_map.h"
#include "dataio/import/annotations.h"
#include "dataio/import/source.h"
#include "dataio/record/split.h"

#ifdef __cplusplus
extern "C" {
#endif

// The kind of records that packing makes.
typedef enum sr_schema {
    SR_SCHEMA_CLASS = 0, // a picture with a class, or without one if there are no classes
    SR_SCHEMA_OBJECTS,   // a picture with boxes
    SR_SCHEMA_MASK,      // a picture with a class for each pixel
    SR_SCHEMA_OUTLINES,  // the same, drawn from the outlines of objects (outline_mask.h)
    SR_SCHEMA_RECORD,    // existing records, copied unchanged
} sr_schema;

// One sample.
typedef struct sr_layout_file {
    uint64_t annotation;    // of its last annotation (annotations.h); MASK: 1 + mask in files
    uint32_t source;        // index into source->files
    uint32_t width, height; // OBJECTS, OUTLINES: as the annotation states; 0: unknown
    int32_t label;          // CLASS; else 0
    int8_t split;           // -1: none: refused, left out or an annotation
} sr_layout_file;

// Raw pixels instead of picture files: one size for all samples of a source; height 0: not used.
typedef struct sr_layout_pixels {
    int64_t height, width, channels;
    bool planes; // [channels, height, width] instead of [height, width, channels]
} sr_layout_pixels;

// The meaning of the label of an annotation.
typedef struct sr_label_name {
    int64_t number;
    int32_t label;    // class, or -1 where no class has this name
    const char *name; // as annotated
} sr_label_name;

// What the user says of the classes. All zero: nothing.
typedef struct sr_layout_options {
    const char *class_names; // file with one name per line, or NULL
    const char *class_map;   // of masks: a file, or the name of a well-known one, or NULL
    bool reduce_zero_label;  // numbers of masks: 0 means no class, class n is number n + 1
    int ignore_value; // numbers of masks: 1 + the one that means no class beside 255; 0: none
} sr_layout_options;

typedef struct sr_layout {
    sr_schema schema;
    sr_layout_file *files; // in the source's order
    size_t count;
    const char **classes;
    int class_count;
    bool names_given; // by the user
    sr_layout_options options;
    sr_class_map class_map; // MASK: what the values of masks mean
    bool normalised;        // OBJECTS: coordinates are fractions of the upright picture's sides
    bool sorted;            // the classes are in byte order
    uint8_t background;     // OUTLINES: the class of pixels without an object, or SR_MASK_VOID
    bool count_classes;     // MASK without given names: the masks' ids give the number of classes
    sr_layout_pixels pixels;
    const char *protocol; // RECORD: that of the records
    sr_annotations annotations;
    struct sr_label_name *labels; // of annotations, sorted by number
    size_t label_count, label_capacity;
    uint64_t masks;      // pictures that are masks of others
    uint64_t unlabelled; // pictures without annotation, line or class folder: left out
    uint64_t split_count[SR_SPLIT_COUNT];
    sr_arena arena;
} sr_layout;

// Makes the layout of a source by its format. options may be NULL; its texts must outlive the
// layout. Unusable files are refused in the source; SR_E_DATA where nothing is left or classes do
// not match; SR_E_USAGE where options contradict each other or the format.
SR_NODISCARD sr_status sr_layout_make(sr_source *source, const sr_layout_options *options,
                                      sr_layout *out);
void sr_layout_release(sr_layout *layout);

// -- for formats -------------------------------------------------------------------------------

// A growing list of names in the layout's arena.
typedef struct sr_name_list {
    void *items; // const char *
    size_t count, capacity;
} sr_name_list;

// Allocates source->files.count samples, all in no split.
SR_NODISCARD sr_status sr_layout_begin(sr_layout *layout, const sr_source *source);
// Adds a name unless it equals the last one.
SR_NODISCARD sr_status sr_name_list_add(sr_name_list *list, sr_arena *arena, const char *name,
                                        size_t bytes);
// Makes the names the classes of the layout, sorted and without duplicates, and empties the list.
SR_NODISCARD sr_status sr_layout_set_classes(sr_layout *layout, sr_name_list *list);
// Classes "0", "1", ... where no names were given; SR_E_DATA where too few were.
SR_NODISCARD sr_status sr_layout_number_classes(sr_layout *layout, int64_t count);
// Defines the class of a label of annotations; numbers increase from call to call.
SR_NODISCARD sr_status sr_layout_map_label(sr_layout *layout, int64_t number, int label,
                                           const char *name);
// The class of a label of annotations. SR_E_DATA where it has none.
SR_NODISCARD sr_status sr_layout_label_of(const sr_layout *layout, int64_t number, int32_t *out);
// Makes the lines of a text the names of the classes if there are exactly 'count'; otherwise, and
// if the user gave names, nothing changes.
SR_NODISCARD sr_status sr_layout_name_classes(sr_layout *layout, const char *text, int count);
// Makes the lines of a text the names of the classes, whatever their number, unless the user gave
// names.
SR_NODISCARD sr_status sr_layout_take_names(sr_layout *layout, const char *text);
// Makes the names of the user's class map the classes; without one nothing changes.
SR_NODISCARD sr_status sr_layout_take_class_map(sr_layout *layout);
// Makes a well-known class map that of the masks, and its names the classes, unless the user gave a
// map. SR_E_USAGE where options of the user contradict it.
SR_NODISCARD sr_status sr_layout_use_class_map(sr_layout *layout, const char *name);
// Index of a class by name or -1.
int sr_layout_find_class(const sr_layout *layout, const char *name, size_t bytes);
// The folder of a path at a level (0: the first); false when the path has no folder there.
bool sr_path_folder_at(const char *path, int level, const char **name, size_t *bytes);
// The split that the deepest folder of the path whose whole name means one gives; -1: none.
int sr_path_split(const char *path);
// The pictures below a folder ("" for all): the first and their number.
size_t sr_pictures_below(const sr_source *source, const char *folder, size_t *first);
// Whether a picture has the path of the file up to the extension.
bool sr_has_picture_beside(const sr_source *source, const char *path);
// The length of the path without the extension of its last component.
size_t sr_path_stem_bytes(const char *path);
// Whether the last components of the path are 'name'. False for the empty name.
bool sr_path_ends_with(const char *path, const char *name);
// The last component of a path.
const char *sr_path_name(const char *path);

#ifdef __cplusplus
}
#endif
#endif
