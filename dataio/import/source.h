// SPDX-License-Identifier: Apache-2.0
// Sources: the user's files as a list that can be read in any order.
//
// A kind of source (a folder, a tar, a single file) is a descriptor in its own file and one line in
// source_kind_list.def. It lists pictures and wanted files: files that are not pictures and that
// some format (format.h) may want, such as annotations. The type of a file is detected by its
// content alone; names from an archive are data, never paths to open.
#ifndef SR_DATAIO_SOURCE_H
#define SR_DATAIO_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/import/spool.h"
#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_SOURCE_KIND_ABI 1
#define SR_SOURCE_HEAD 512 // first bytes of a file that decide what it is

// A file or a part of one.
typedef struct sr_source_file {
    const char *path; // in the source, separated by '/'
    uint64_t bytes;
    int64_t mtime; // nanoseconds; only compared with itself
    uint64_t offset;
    int in; // index into source->backing, or -1: a separate file under the folder
    uint32_t
        archive_bytes; // of the path, up to the '/' after the archive inside the source; 0: none
} sr_source_file;

// A growing list of files, sorted by the bytes of their paths when listing has ended.
typedef struct sr_file_list {
    sr_source_file *items;
    size_t count, capacity;
} sr_file_list;

// A file that was refused, and why.
typedef struct sr_refused_file {
    const char *path, *reason;
} sr_refused_file;

// A file that contains many files of the list: an archive, a file of records or of pixels.
typedef struct sr_backing_file {
    const char *path; // under the folder; opened for every read where fd is -1
    int fd;
} sr_backing_file;

// Limits for all archives of a source together. An archive of a few KB may expand to any size.
typedef struct sr_source_limits {
    uint64_t entries;  // names in archives; 0: SR_SOURCE_ENTRIES
    uint64_t unpacked; // bytes that compressed archives expand to, stored or skipped; 0:
                       // SR_SOURCE_UNPACKED
} sr_source_limits;

#define SR_SOURCE_ENTRIES UINT64_C(50000000)     // three times ImageNet-21k
#define SR_SOURCE_UNPACKED (UINT64_C(512) << 30) // three times ImageNet-1k

// Whether some format may want a file that is not a picture, by its path, first bytes and length.
typedef bool (*sr_wants_fn)(const char *path, const uint8_t *head, size_t head_bytes,
                            uint64_t bytes);

typedef struct sr_source {
    const char *path;
    const struct sr_source_kind *kind;
    const struct sr_format *format; // what the files mean; set by sr_format_open
    const char *reading;            // a line for the user: the format, and why; set there, too
    sr_file_list files;             // pictures: JPEG or PNG by their first bytes
    sr_file_list wanted;      // other files that some format may want: annotations, pixels, records
    sr_refused_file *refused; // named by the listing; packing adds to them
    size_t refused_count, refused_capacity;
    uint64_t hidden, other;        // ignored: hidden files; files that no format wants
    uint64_t read, wanted_refused; // wanted files that were used; that are named in 'refused'
    uint64_t bytes;                // of all pictures
    sr_file_list folders;          // by path alone, those that were seen apart from their pictures
    const char *list;              // path of a list of pictures, or NULL
    size_t root_bytes;             // length of the folder that all paths begin with
    // for the kind
    sr_wants_fn wants;
    sr_source_limits limits;
    uint64_t entries, unpacked; // of archives, so far
    sr_arena arena;
    int folder; // descriptor of the folder, or -1
    sr_backing_file *backing;
    size_t backing_count, backing_capacity;
    sr_spool spool; // unpacked contents
    int spool_backing;
} sr_source;

typedef struct sr_source_probe {
    const char *path;
    bool folder;
    int fd;              // of the file or folder
    const uint8_t *head; // first bytes of a file
    size_t head_bytes;
    sr_wants_fn wants;
} sr_source_probe;

typedef struct sr_source_kind {
    uint32_t struct_size, abi;
    const char *name, *help;
    bool (*recognises)(const sr_source_probe *probe);
    // Passes every file to sr_source_offer. A source that is a file is backing file 0.
    sr_status (*list)(sr_source *source);
} sr_source_kind;

// Finds the kind and lists the source; its format is not set (formats/format.h). spool_folder:
// folder of the unnamed temporary file for unpacked contents. list: a file of lines "path TAB label
// [TAB split]" that selects the pictures, or NULL. SR_E_NOT_FOUND; SR_E_USAGE where no kind fits;
// SR_E_DATA for damaged archives and lists; SR_E_LIMIT for archives over 'limits' (NULL: the
// defaults).
SR_NODISCARD sr_status sr_source_open(const char *path, const char *list, const char *spool_folder,
                                      const sr_source_limits *limits, sr_wants_fn wants,
                                      sr_source **out);
// NULL is legal.
void sr_source_free(sr_source *source);
// The path of the file relative to the folder that contains all files: the same for a folder, a tar
// of its contents, and a tar of the folder itself.
const char *sr_source_name(const sr_source *source, const sr_source_file *file);
// Reads all of a file into a growing buffer (sr_free), followed by a zero byte. Thread-safe.
SR_NODISCARD sr_status sr_source_read(const sr_source *source, const sr_source_file *file,
                                      void **buffer, size_t *capacity);
// Reads 'bytes' bytes of a file from 'offset' on. Thread-safe.
SR_NODISCARD sr_status sr_source_read_part(const sr_source *source, const sr_source_file *file,
                                           uint64_t offset, void *out, size_t bytes);
// The file of this path in a sorted list, or NULL.
const sr_source_file *sr_file_list_find(const sr_file_list *list, const char *path);

// -- for kinds and formats ---------------------------------------------------------------------

typedef enum sr_offer {
    SR_OFFER_NOTHING = 0, // counted or refused
    SR_OFFER_PICTURE,     // to be added
    SR_OFFER_WANTED,      // to be added
} sr_offer;

// Decides by its first bytes whether a file is listed; counts or refuses it otherwise.
SR_NODISCARD sr_status sr_source_offer(sr_source *source, const char *path, const uint8_t *head,
                                       size_t head_bytes, uint64_t bytes, sr_offer *out);
// Adds a file as sr_source_offer has decided; the path is copied. An oversized picture is refused.
SR_NODISCARD sr_status sr_source_add(sr_source *source, const sr_source_file *file, sr_offer as);
// Notes that a folder exists, as it may contain no picture. The path is copied.
SR_NODISCARD sr_status sr_source_note_folder(sr_source *source, const char *path, size_t bytes);
// Records a file that is not packed, and why; both texts are copied.
SR_NODISCARD sr_status sr_source_refuse(sr_source *source, const char *path, const char *reason);
// The same with a formatted reason.
SR_NODISCARD sr_status sr_source_refuse_for(sr_source *source, const char *path, const char *fmt,
                                            ...) SR_PRINTF(3, 4);
// Adds a backing file; *out is its number. The path is copied; the source closes the descriptor.
SR_NODISCARD sr_status sr_source_add_backing(sr_source *source, const char *path, int fd, int *out);
// The backing file that contains a file, at file->offset; a separate file becomes one.
SR_NODISCARD sr_status sr_source_backing_of(sr_source *source, const sr_source_file *file,
                                            int *out);
// The number of the backing file that is the spool.
SR_NODISCARD sr_status sr_source_spool_backing(sr_source *source, int *out);
// Whether the path is hidden: a component begins with a dot, ends with a tilde, or is a folder that
// a system or a network disk makes by itself (__MACOSX, @eaDir and the like).
bool sr_source_is_hidden(const char *path);

#ifdef __cplusplus
}
#endif
#endif
