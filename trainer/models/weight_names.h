// SPDX-License-Identifier: Apache-2.0
// Names of a model's tensors in several layouts: torchvision, timm and others have the same
// networks with other names, and files with any of them can be loaded.
#ifndef SR_TRAINER_WEIGHT_NAMES_H
#define SR_TRAINER_WEIGHT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR_WEIGHT_LAYOUTS 3      // of one model
#define SR_WEIGHT_NAME_BYTES 288 // of a name with its set, the terminator included

// A module or tensor in each layout. An asterisk stands for the rest of a part between two dots,
// the same in all layouts; a caret for a number that is one more than that of the asterisk in
// another layout. What follows a module's name after a dot is the same, too. NULL: as in layout 0.
typedef struct sr_weight_name_row {
    const char *name[SR_WEIGHT_LAYOUTS];
} sr_weight_name_row;

// The layouts of a family of models. Immutable.
typedef struct sr_weight_names {
    const char *layout[SR_WEIGHT_LAYOUTS]; // "torchvision", "timm", for messages; NULL: no more
    const char *note[SR_WEIGHT_LAYOUTS];   // on files of a layout, for messages; NULL: none
    bool antialias[SR_WEIGHT_LAYOUTS];     // how position embeddings are resized (sr_grid)
    const sr_weight_name_row *rows;        // the first one that matches is used
    int count;
} sr_weight_names;

// Writes what 'name' of layout 'from' is called in layout 'to'; without a row that matches, the
// same name. Longer names are cut off.
void sr_weight_name(const sr_weight_names *names, int from, int to, const char *name,
                    char out[SR_WEIGHT_NAME_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
