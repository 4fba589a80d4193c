// SPDX-License-Identifier: Apache-2.0
// Shared by the kinds of sources.
#ifndef SR_DATAIO_SOURCE_INTERNAL_H
#define SR_DATAIO_SOURCE_INTERNAL_H

#include "dataio/import/source.h"

#ifdef __cplusplus
extern "C" {
#endif

// By its first bytes the file may be a tar, plain or compressed, or a zip.
bool sr_source_is_archive(const uint8_t *head, size_t head_bytes);
// As sr_source_offer, but accepts hidden files: a file in a list is wanted.
SR_NODISCARD sr_status sr_source_offer_listed(sr_source *source, const char *path,
                                              const uint8_t *head, size_t head_bytes,
                                              uint64_t bytes, sr_offer *out);
// Offers the files in source->folder that source->list names.
SR_NODISCARD sr_status sr_source_list_listed(sr_source *source);
// Offers all files below source->folder.
SR_NODISCARD sr_status sr_source_list_folder(sr_source *source);
// Offers the contents of an archive of 'bytes' bytes, which is backing file 'backing' and has this
// name in the source; *is_archive is false if it is not an archive.
SR_NODISCARD sr_status sr_source_read_archive(sr_source *source, int fd, int backing,
                                              uint64_t bytes, const char *name, bool *is_archive);

#ifdef __cplusplus
}
#endif
#endif
