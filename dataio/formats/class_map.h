// SPDX-License-Identifier: Apache-2.0
// Class maps: what the values of masks mean. A text, one value per line:
//
//   ID NAME         a number of the mask, 0 to 255, and the name of its class
//   R G B NAME      or a colour; masks are then read as colours (truecolour PNGs, or a palette's)
//   * NAME          every other number or colour
//
// Classes are numbered from 0 in the order in which their names first occur; several values may
// have one name. The names ignore, void, unlabeled and unlabelled, in any letter case, mean pixels
// without a class (255). Blank lines and lines that begin with # are skipped; numbers are separated
// by space, tabs, commas or a colon. The label_colors.txt of CamVid and the Cityscapes ids are such
// tables.
//
// Values that no line has are refused, except 255 in numbers, which means no class.
#ifndef SR_DATAIO_CLASS_MAP_H
#define SR_DATAIO_CLASS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_CLASS_UNKNOWN (-1) // of a value that is not in the map

typedef struct sr_class_color {
    uint32_t rgb; // 0xRRGGBB
    int16_t class_number;
} sr_class_color;

// Immutable once it is made; lives in the arena.
typedef struct sr_class_map {
    const char **names; // of the classes
    int class_count;
    bool has_colors;              // else numbers:
    int16_t ids[256];             // class, SR_MASK_VOID or SR_CLASS_UNKNOWN
    const sr_class_color *colors; // sorted by rgb
    size_t color_count;
    int16_t other; // of colours without a line
} sr_class_map;

// One of the maps of well-known data sets (class_map_known.inc); NULL ends the table.
const char *sr_class_map_name(size_t index);
// Without a map: each number is its class. zero_ignored: 0 means no class, and class n is number
// n + 1.
void sr_class_map_numbers(bool zero_ignored, sr_class_map *out);
// Parses the text of a map; name: for messages. SR_E_DATA "name:line: what is wrong".
SR_NODISCARD sr_status sr_class_map_parse(const char *name, const char *text, sr_arena *arena,
                                          sr_class_map *out);
// Whether the map of this name is a file; folders may have the name of a well-known map.
bool sr_class_map_is_file(const char *path);
// Reads the file at 'path'; without such a file, the well-known map of that name. SR_E_USAGE if
// neither exists.
SR_NODISCARD sr_status sr_class_map_read(const char *path, sr_arena *arena, sr_class_map *out);
// The class of a colour, SR_MASK_VOID or SR_CLASS_UNKNOWN.
int sr_class_map_color(const sr_class_map *map, uint32_t rgb);

#ifdef __cplusplus
}
#endif
#endif
