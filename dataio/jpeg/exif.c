// SPDX-License-Identifier: Apache-2.0
// Reads the orientation from Exif data (see exif.h).
#include "dataio/jpeg/exif.h"

#include <stdbool.h>
#include <string.h>

static unsigned read_u16(const uint8_t *p, bool little) {
    return little ? p[0] | (unsigned)p[1] << 8 : p[1] | (unsigned)p[0] << 8;
}

static uint32_t read_u32(const uint8_t *p, bool little) {
    return little ? read_u16(p, true) | (uint32_t)read_u16(p + 2, true) << 16
                  : read_u16(p + 2, false) | (uint32_t)read_u16(p, false) << 16;
}

int sr_exif_orientation(const uint8_t *tiff, size_t bytes) {
    enum { HEADER = 8, ENTRY = 12, TAG = 0x0112, SHORT = 3 };
    if (bytes < HEADER || (memcmp(tiff, "II*\0", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0))
        return 1;
    bool little = tiff[0] == 'I';
    size_t at = read_u32(tiff + 4, little);
    if (at > bytes - 2)
        return 1;
    unsigned entries = read_u16(tiff + at, little);
    at += 2;
    for (unsigned i = 0; i < entries && bytes - at >= ENTRY; i++, at += ENTRY) {
        if (read_u16(tiff + at, little) != TAG || read_u16(tiff + at + 2, little) != SHORT)
            continue;
        unsigned value = read_u16(tiff + at + 8, little);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

int sr_exif_of_marker(const uint8_t *data, size_t bytes) {
    if (bytes < 6 || memcmp(data, "Exif\0\0", 6) != 0)
        return 1;
    return sr_exif_orientation(data + 6, bytes - 6);
}
