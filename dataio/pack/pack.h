// SPDX-License-Identifier: Apache-2.0
// Packing: whatever a format reads (source.h, format.h) -> a folder of shards (shard.h) or of
// another container (container.h).
//
// DST gets SPLIT-NNNNN.kpl or a folder for each split, pack.txt (what was packed; its last line
// says "complete") and, where files were refused, refused.csv (file,reason; RFC 4180). The bytes of
// all of them are a function of the source's files and the options: not of workers, time or an
// interruption in between.
//
// Records of a split stand in a fixed mixed order, so that neighbouring records are of any class
// and shuffling by chunks works: the samples in byte order of their paths, shuffled by
// Fisher-Yates from Philox with seed SR_PACK_SEED and the split's number (kernels/base/rng.h). A
// subset is the first part of that order.
//
// val_fraction holds out, where the source has no val split, the last floor(n * fraction) of the n
// accepted pictures of each class, in byte order of path; a class of one stays in train. To know n,
// every picture is then checked before the first is packed.
//
// A killed pack leaves no split that can be read unless it is complete. Its finished shards count:
// pack.txt says after each how far it was, and the same command goes on from there. Other options
// or another source begin anew. A DST that is already complete from the same source and options is
// left as it is.
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
    const char *list;      // file of "path TAB label [TAB split]", or NULL
    const char *classes;   // file of class names, one a line in the order of their numbers, or NULL
    double val_fraction;   // 0 <= f < 1
    int64_t max_side;      // 0: as they are
    int quality;           // of re-encoding, 1..100; 0: 90
    bool raw;              // pixels instead of JPEG and PNG
    bool zstd;             // pixels as compressed frames
    int void_class;        // 1 + the id of masks that means no class; 0: only 255 does
    int64_t subset;        // so many samples of each split; 0: all
    double subset_part;    // this part of each split, 0 < f < 1; 0: all
    int segments;          // of a row of a JPEG (picture.h)
    int64_t allow_refused; // more refused files than this make the result SR_E_DATA
    int workers;           // threads; 0: sr_cpu_count()
    sr_source_limits limits; // of archives
    uint64_t shard_bytes;    // 0: SR_SHARD_TARGET_BYTES
    const char *format;      // of the writer (shard.h), as "kpl-dir"; NULL: "shards"
    bool quiet;              // no progress line
} sr_pack_options;

typedef struct sr_pack_report {
    bool was_complete;                  // nothing had to be done
    bool val_existed;                   // val_fraction had no effect: the source has a val split
    int64_t records[SR_SPLIT_COUNT];    //
    int64_t classes;                    //
    uint64_t bytes;                     // of all shards
    int64_t met[SR_PICTURE_FLAG_COUNT]; // pictures with each SR_PICTURE flag
    int64_t refused;                    // named in refused.csv
    int64_t ignored;                    // hidden files, files that are no pictures
    int64_t unlabelled;                 // pictures of which no label is known: left out
    int64_t outside;                    // samples outside of the subset
    int64_t annotations;                // files that said what is in the pictures
    int64_t objects, degenerate; // boxes; of these empty (a pixel at most) or outside: as they are
    int64_t resumed;             // records that an interrupted pack had left
    double seconds;              //
} sr_pack_report;

// The report is filled as far as it went, also on failure. SR_E_USAGE; SR_E_DATA: nothing to pack,
// classes that do not agree, or more refused files than allowed (DST is complete then);
// SR_E_EXISTS: DST holds something else, or another pack works on it; SR_E_NO_SPACE.
SR_NODISCARD sr_status sr_pack(const sr_pack_options *options, sr_pack_report *report);

// Name of flag number i of SR_PICTURE_IS_*, as "progressive".
const char *sr_pack_flag_name(int i);

#ifdef __cplusplus
}
#endif
#endif
