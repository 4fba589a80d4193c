// SPDX-License-Identifier: Apache-2.0
// Importers: what a user has on disk -> a list of candidate pictures that can be read in any order.
//
// A format is a descriptor in its own file and one line in format_list.def. It lists; which split
// and class a file belongs to is then a matter of its path (layout.h). A file's type is decided by
// its content alone, and names from an archive are data, never paths to open.
#ifndef SR_DATAIO_FORMAT_H
#define SR_DATAIO_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_FORMAT_ABI 1
#define SR_FORMAT_HEAD 512 // first bytes of a file that formats may look at

// A candidate picture: by its first bytes a JPEG or PNG.
typedef struct sr_source_file {
    const char *path; // in the source, parts divided by '/'
    uint64_t bytes;
    int64_t mtime; // nanoseconds; only compared with itself
    int in;        // index into source->files, or -1: a file of its own under the folder
    uint64_t offset;
} sr_source_file;

typedef struct sr_refused_file {
    const char *path, *reason;
} sr_refused_file;

typedef struct sr_source {
    const char *path;
    const char *format;    // name of the importer
    sr_source_file *files; // in byte order of path
    size_t count, capacity;
    sr_refused_file *refused; // named by the listing; packing adds to them
    size_t refused_count, refused_capacity;
    uint64_t hidden, other; // ignored: hidden files; files that are no pictures
    uint64_t bytes;         // of all candidates
    // the importer's
    sr_arena arena;
    int folder;       // descriptor of the folder, or -1
    int archive;      // descriptor of the archive, or -1: files[].in == 0
    int spool;        // unnamed temporary file, or -1: files[].in == 1
    uint64_t spooled; // its length
    const char *spool_folder;
} sr_source;

typedef struct sr_format_probe {
    const char *path;
    bool folder;
    int fd;              // of the file or folder
    const uint8_t *head; // first bytes of a file
    size_t head_bytes;
} sr_format_probe;

typedef struct sr_format {
    uint32_t struct_size, abi;
    const char *name, *help;
    bool (*recognises)(const sr_format_probe *probe);
    // Offers every file to sr_source_offer; may take over source->folder or source->archive.
    sr_status (*list)(sr_source *source);
} sr_format;

// The table, in order of recognition; NULL ends it.
const sr_format *sr_format_at(size_t index);

// Finds the format and lists the source. spool_folder: where an unnamed temporary file may hold
// unpacked contents of a compressed archive. SR_E_NOT_FOUND; SR_E_USAGE where no format fits;
// SR_E_DATA for a damaged archive.
SR_NODISCARD sr_status sr_source_open(const char *path, const char *spool_folder, sr_source **out);
void sr_source_free(sr_source *source);
// The whole content of a file into a growing buffer (sr_free). Thread-safe.
SR_NODISCARD sr_status sr_source_read(const sr_source *source, size_t index, void **buffer,
                                      size_t *capacity);

// -- for formats -------------------------------------------------------------------------------

// What becomes of a file with these first bytes: *wanted when it is a candidate, which the format
// then adds; else it has been counted or refused.
SR_NODISCARD sr_status sr_source_offer(sr_source *source, const char *path, const uint8_t *head,
                                       size_t head_bytes, bool *wanted);
// The path is copied.
SR_NODISCARD sr_status sr_source_add(sr_source *source, const sr_source_file *file);
SR_NODISCARD sr_status sr_source_refuse(sr_source *source, const char *path, const char *reason);
// The name is hidden: a part begins with a dot, or is a system's own (__MACOSX).
bool sr_source_is_hidden(const char *path);

#ifdef __cplusplus
}
#endif
#endif
