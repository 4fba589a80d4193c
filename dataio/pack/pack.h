// SPDX-License-Identifier: Apache-2.0
// Packing: turns a source in any format (source.h, format.h) into a folder of shards (shard.h) or
// of another container (container.h).
//
// DST then contains SPLIT-NNNNN.kpl or a folder for each split, pack.txt (what was packed; its last
// line ends with "complete") and, where files were refused, refused.csv (file,reason; RFC 4180,
// control characters as \xNN). The bytes of all of them are a function of the source's files and
// the options, not of workers, time or interruptions.
//
// Records of a split are in a fixed shuffled order, so that neighbouring records have unrelated
// classes and shuffling by chunks works: the samples in byte order of their paths, shuffled by
// Fisher-Yates from Philox with seed SR_PACK_SEED and the number of the split (kernels/base/rng.h).
// A subset is the beginning of that order.
//
// Where the source has no val split, val_fraction holds out the last floor(n * fraction) of the n
// accepted pictures of each class, in byte order of path; a class of one stays in train. To know n,
// every picture is then checked before the first is packed.
//
// A pack that was killed leaves no readable split unless that is complete. Its finished shards are
// kept: pack.txt records the progress after each, and the same command resumes from there. Other
// options or another source begin anew. A DST that is already complete from the same source and
// options is left unchanged.
#ifndef SR_DATAIO_PACK_H
#define SR_DATAIO_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/formats/layout.h"
#include "dataio/image/picture.h"
#include "dataio/import/source.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_PACK_SEED UINT64_C(0x6b706c7061636b31) // "kplpack1"

typedef struct sr_pack_options {
    const char *source; // NULL with a list: the list's folder
    const char *destination;
    const char *list;          // file of "path TAB label [TAB split]", or NULL
    const char *source_format; // of sr_format_at, as "voc"; NULL: it is detected
    // Called with a line, valid until it returns, that says which format the source has and why, or
    // NULL.
    void (*recognised)(const char *line);
    const char *classes; // file of class names, one per line in the order of their numbers, or NULL
    double val_fraction; // 0 <= f < 1
    int64_t max_side;    // 0: as they are
    int quality;         // of re-encoding, 1..100; 0: 90
    bool raw;            // pixels instead of JPEG and PNG
    bool zstd;           // pixels as compressed frames
    const char *class_map;   // of masks (class_map.h), or NULL
    bool reduce_zero_label;  // numbers of masks: 0 means no class, class n is number n + 1
    int ignore_value;        // numbers of masks: 1 + the one that means no class; 0: only 255 does
    int64_t subset;          // number of samples of each split; 0: all
    double subset_part;      // fraction of each split, 0 < f < 1; 0: all
    int segments;            // of a row of a JPEG (picture.h)
    int64_t allow_refused;   // more refused files than this make the result SR_E_DATA
    int workers;             // threads; 0: sr_cpu_count()
    sr_source_limits limits; // of archives
    uint64_t shard_bytes;    // 0: SR_SHARD_TARGET_BYTES
    const char *format;      // of the writer (shard.h), as "kpl-dir"; NULL: "shards"
    bool quiet;              // no progress line
} sr_pack_options;

typedef struct sr_pack_report {
    bool was_complete;               // nothing had to be done
    bool val_existed;                // val_fraction had no effect: the source has a val split
    int64_t records[SR_SPLIT_COUNT]; //
    int64_t classes;                 //
    uint64_t bytes;                  // of all shards
    int64_t flagged[SR_PICTURE_FLAG_COUNT]; // pictures with each SR_PICTURE flag
    int64_t refused;                        // named in refused.csv
    int64_t ignored;                        // hidden files, files that are no pictures
    int64_t unlabelled;                     // pictures without a known label: left out
    int64_t outside;                        // samples outside the subset
    int64_t annotations;                    // wanted files that were used (source.h), and masks
    int64_t objects, degenerate; // boxes; of these empty (a pixel at most) or outside, kept as is
    int64_t resumed;             // records of an interrupted pack that were kept
    double seconds;              //
} sr_pack_report;

// The report covers what was done, also on failure. SR_E_USAGE; SR_E_DATA: nothing to pack, classes
// that do not match, or more refused files than allowed (DST is complete then); SR_E_EXISTS: DST
// contains something else, or another pack works on it; SR_E_NO_SPACE.
SR_NODISCARD sr_status sr_pack(const sr_pack_options *options, sr_pack_report *report);

// Name of flag number i of SR_PICTURE_IS_*, as "progressive".
const char *sr_pack_flag_name(int i);

#ifdef __cplusplus
}
#endif
#endif
