// SPDX-License-Identifier: Apache-2.0
// The orientation in Exif data, the only property that training needs.
#ifndef SR_DATAIO_EXIF_H
#define SR_DATAIO_EXIF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Orientation 1..8 (tag 0x0112 of the first directory) of Exif data, which begins with its TIFF
// header ("II*" or "MM*"); 1 where it is absent or damaged. Reads the first directory only and
// follows no links, so loops are harmless. Source: Exif 2.3, sections 4.5 and 4.6.
int sr_exif_orientation(const uint8_t *tiff, size_t bytes);
// The same for the content of a JPEG's APP1 marker; 1 where it is not Exif.
int sr_exif_of_marker(const uint8_t *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
