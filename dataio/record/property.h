// SPDX-License-Identifier: Apache-2.0
// N.prop of a KPLRecord directory: properties of the data set as a whole.
//
// Binary protobuf (https://protobuf.dev/programming-guides/encoding/), package dataset_proto:
//   Property    { map<string, DynamicType> map = 1; }
//   DynamicType { enum flag = 1; string 2; bytes 3; float64 4; int64 5;
//                 repeated DynamicType list = 6; map<string, DynamicType> map = 7; }
//   flag: string 0, bytes 1, float64 2, int64 3, list 4, map 5
// serried writes and reads the keys below and skips all others. The original tools allow any keys.
#ifndef SR_DATAIO_PROPERTY_H
#define SR_DATAIO_PROPERTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_property {
    const char *const *classes; // "classes": list of strings, in the order of labels
    int class_count;            // 0: absent
    const char *split;          // "split": string, as "train"; NULL: absent
    int64_t median_side;        // "median_side": int64, of the shorter sides; 0: absent
    bool has_mean;
    double mean[3], std[3]; // "mean", "std": lists of three float64, of R, G, B / 255
} sr_property;

// Names are copied into the arena. SR_E_DATA names the key whose value has the wrong type.
SR_NODISCARD sr_status sr_property_parse(const void *data, size_t bytes, sr_arena *arena,
                                         sr_property *out);
// Writes the keys that are present, in the order above.
SR_NODISCARD sr_status sr_property_write(const sr_property *property, sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
