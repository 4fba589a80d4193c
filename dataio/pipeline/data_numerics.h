// SPDX-License-Identifier: Apache-2.0
// Identifies the code that determines the bits of a run's samples, apart from its recipe and data.
#ifndef SR_DATAIO_DATA_NUMERICS_H
#define SR_DATAIO_DATA_NUMERICS_H

#ifdef __cplusplus
extern "C" {
#endif

// Version of the data path's results: sample order, decoding, resizing, transforms. Incremented by
// every change that alters a bit of them, for any record on any processor.
#define SR_DATA_NUMERICS 2
#define SR_DATA_NUMERICS_TEXT 64 // bytes of sr_data_numerics, its terminator included

// "data 2, libjpeg-turbo 2.1.5" into out; returns out.
char *sr_data_numerics(char out[SR_DATA_NUMERICS_TEXT]);
// Version of the libjpeg-turbo that this process has loaded, as "2.1.5". Static storage.
const char *sr_jpeg_library_version(void);

#ifdef __cplusplus
}
#endif
#endif
