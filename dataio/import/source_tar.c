// SPDX-License-Identifier: Apache-2.0
// Source: tar archives, plain or compressed, also concatenated or nested (as in ILSVRC's training
// set, one tar per class: the inner name without .tar becomes a folder); zip archives, in which
// only the entries that cannot be read are refused.
//
// libarchive reads the headers; nothing is ever extracted, so an archive cannot write anywhere. Of
// a plain tar only headers and first bytes are read here: contents are read later by their offset.
// Contents of a compressed one, or of a zip, are copied to one unnamed temporary file. Links,
// devices, sparse files, and names that are absolute or contain ".." are refused by name.
//
// libarchive converts names through the character set of the locale, and a program that never calls
// setlocale has ASCII. While an archive is read this thread therefore has a locale with UTF-8; that
// of the process does not change.
//
// Source: libarchive 3.6, archive_read(3), tar(5); IEEE Std 1003.1-2017, pax.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/image/picture.h"
#include "dataio/import/source_internal.h"
#include "kernels/base/file.h"
#include "kernels/base/text.h"

#define READ_BYTES 16384 // small: most of a plain tar is skipped
#define MAX_NESTING 3
#define MAX_NAME 4096
#define MAX_REOPENINGS 100 // each reads the directory of a zip again

// A range of a file that is a whole archive.
typedef struct region {
    int fd, in; // in: as in sr_source_file
    uint64_t begin, bytes, at;
    uint64_t most; // limit of decompressed bytes, as the zeros at the end may be long
    bool over;
    uint8_t buffer[READ_BYTES];
} region;

typedef struct archive_reading {
    sr_source *source;
    region *region;
    struct archive *archive;
    const char *prefix; // of every name, including its '/'
    int nesting;
    bool plain;     // contents can be read from the region
    bool any;       // a header was read
    bool zip;       // bytes read count as unpacked, not the output of filters
    bool refused;   // the current entry
    bool broken;    // libarchive cannot continue, though entries of a zip may follow
    uint64_t taken; // entries that were accepted or refused
    uint64_t skip;  // of them before the archive was opened again
    int reopenings;
    uint64_t next;     // offset of another archive after this one; 0: none
    uint64_t contents; // bytes of entries that were read
    uint64_t unpacked; // bytes of the archive that the source has counted
    // An entry whose offset is known only when the next header is found: its data, padded to 512
    // bytes, ends where that header begins.
    bool waiting, waiting_is_tar;
    sr_offer offer; // how the entry is listed
    sr_source_file file;
    char name[MAX_NAME];
    uint8_t head[SR_SOURCE_HEAD];
    size_t head_bytes;
} archive_reading;

// -- libarchive's callbacks --------------------------------------------------------------------

static la_ssize_t on_read(struct archive *archive, void *user, const void **out) {
    region *r = user;
    uint64_t left = r->bytes - r->at, want = left < READ_BYTES ? left : READ_BYTES;
    ssize_t got;
    if (archive_filter_bytes(archive, 0) > (la_int64_t)r->most) {
        r->over = true;
        archive_set_error(archive, ENOSPC, "too large");
        return ARCHIVE_FATAL;
    }
    do
        got = pread(r->fd, r->buffer, (size_t)want, (off_t)(r->begin + r->at));
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        archive_set_error(archive, errno, "cannot read: %s", strerror(errno));
        return ARCHIVE_FATAL;
    }
    r->at += (uint64_t)got;
    *out = r->buffer;
    return got;
}

static la_int64_t on_skip(struct archive *archive, void *user, la_int64_t request) {
    (void)archive;
    region *r = user;
    uint64_t left = r->bytes - r->at;
    uint64_t skip = (uint64_t)request < left ? (uint64_t)request : left;
    r->at += skip;
    return (la_int64_t)skip;
}

// The directory of a zip is at its end.
static la_int64_t on_seek(struct archive *archive, void *user, la_int64_t offset, int whence) {
    region *r = user;
    const int64_t from = whence == SEEK_SET   ? 0
                         : whence == SEEK_END ? (int64_t)r->bytes
                                              : (int64_t)r->at;
    const int64_t at = from + offset;
    if (at < 0 || (uint64_t)at > r->bytes) {
        archive_set_error(archive, EINVAL, "an offset outside the file");
        return ARCHIVE_FATAL;
    }
    r->at = (uint64_t)at;
    return at;
}

static sr_status fail_unpacked(const archive_reading *r) {
    const sr_source *source = r->source;
    return SR_FAIL(SR_E_LIMIT,
                   "%s: its archives unpack to more than %llu MiB%s%s; if that size is intended, "
                   "allow more with --max-unpacked",
                   source->path, (unsigned long long)(source->limits.unpacked >> 20),
                   r->prefix[0] ? ", seen in " : "", r->prefix);
}

static sr_status damaged(const archive_reading *r) {
    if (r->region->over)
        return fail_unpacked(r);
    return SR_FAIL(SR_E_DATA, "%s: damaged archive%s%s after %zu pictures: %s", r->source->path,
                   r->prefix[0] ? ", in " : "", r->prefix, r->source->files.count,
                   archive_error_string(r->archive) ? archive_error_string(r->archive)
                                                    : "unknown cause");
}

// -- limits ------------------------------------------------------------------------------------

static sr_status count_entry(const archive_reading *r) {
    sr_source *source = r->source;
    if (++source->entries <= source->limits.entries)
        return SR_OK;
    return SR_FAIL(SR_E_LIMIT,
                   "%s: its archives contain more than %llu names%s%s; if that number is intended, "
                   "allow more with --max-entries",
                   source->path, (unsigned long long)source->limits.entries,
                   r->prefix[0] ? ", seen in " : "", r->prefix);
}

// Called repeatedly while a compressed archive is read.
static sr_status count_unpacked(archive_reading *r) {
    sr_source *source = r->source;
    const la_int64_t bytes = r->plain ? 0
                             : r->zip ? (la_int64_t)r->contents
                                      : archive_filter_bytes(r->archive, 0);
    if (bytes > 0 && (uint64_t)bytes > r->unpacked) {
        source->unpacked += (uint64_t)bytes - r->unpacked;
        r->unpacked = (uint64_t)bytes;
    }
    return source->unpacked <= source->limits.unpacked ? SR_OK : fail_unpacked(r);
}

// -- names -------------------------------------------------------------------------------------

// Why a name is refused, or NULL.
static const char *refuse_name(const char *name) {
    if (name[0] == '/')
        return "an absolute path in an archive";
    for (const char *part = name; part != NULL;) {
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return "a path that leaves the archive (..)";
        part = strchr(part, '/');
        part = part ? part + 1 : NULL;
    }
    return NULL;
}

static const char *refuse_type(struct archive_entry *entry) {
    if (archive_entry_hardlink(entry) != NULL)
        return "a hard link in an archive";
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return archive_entry_sparse_count(entry) > 0 ? "a sparse file in an archive" : NULL;
    case AE_IFLNK:
        return "a symbolic link in an archive";
    default:
        return "a device or other special file in an archive";
    }
}

// Prefix and name, without components that are "." or empty, into r->name; false when it does not
// fit.
static bool take_name(archive_reading *r, struct archive_entry *entry) {
    const char *name = archive_entry_pathname_utf8(entry);
    if (name == NULL)
        name = archive_entry_pathname(entry);
    if (name == NULL)
        name = "";
    size_t used = strlen(r->prefix);
    if (used + strlen(name) + 1 >= sizeof r->name)
        return false;
    memcpy(r->name, r->prefix, used + 1);
    if (name[0] == '/') // to be refused by this name
        r->name[used++] = '/';
    for (size_t bytes; name[0] != '\0'; name += bytes + (name[bytes] == '/')) {
        bytes = strcspn(name, "/");
        if (bytes == 0 || (bytes == 1 && name[0] == '.'))
            continue;
        memcpy(r->name + used, name, bytes);
        used += bytes;
        if (name[bytes] == '/')
            r->name[used++] = '/';
    }
    r->name[used] = '\0';
    return true;
}

// The checksum of the header, computed with spaces in its own field, in octal at byte 148: all that
// identifies the oldest tars (tar(5), "Old-Style Archive Format").
static bool has_tar_sum(const uint8_t head[512]) {
    char text[9] = "", *end;
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : head[i];
    memcpy(text, head + 148, 8);
    const unsigned long told = strtoul(text, &end, 8);
    return head[0] != 0 && end > text && told == sum;
}

static bool is_tar(const uint8_t *head, size_t bytes) {
    return (bytes >= 263 && memcmp(head + 257, "ustar", 5) == 0) ||
           (bytes >= 512 && has_tar_sum(head));
}

static bool is_zip(const uint8_t *head, size_t bytes) {
    return bytes >= 4 &&
           (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0); // or empty
}

// -- contents ----------------------------------------------------------------------------------

// Reading the entry has failed. Entries of a zip are located by its directory, so the others are
// readable; but after a damaged deflated entry libarchive reads none of them until the archive is
// opened again.
static sr_status refuse_entry(archive_reading *r, la_ssize_t result) {
    r->broken = result == ARCHIVE_FATAL;
    if (!r->zip || r->region->over || (r->broken && r->reopenings == MAX_REOPENINGS))
        return damaged(r);
    const char *said = archive_error_string(r->archive);
    r->refused = true;
    return sr_source_refuse_for(r->source, r->name, "cannot be read from the archive: %s",
                                said ? said : "damaged");
}

// Copies the rest of the entry, after its head, to the spool.
static sr_status spool_entry(archive_reading *r, uint64_t *offset, uint64_t *bytes) {
    sr_spool *spool = &r->source->spool;
    *offset = spool->bytes;
    SR_TRY(sr_spool_append(spool, r->head, r->head_bytes));
    uint8_t buffer[READ_BYTES];
    for (;;) {
        la_ssize_t n = archive_read_data(r->archive, buffer, sizeof buffer);
        if (n < 0)
            return refuse_entry(r, n);
        if (n == 0)
            break;
        r->contents += (uint64_t)n;
        SR_TRY(count_unpacked(r));
        SR_TRY(sr_spool_append(spool, buffer, (size_t)n));
    }
    *bytes = spool->bytes - *offset;
    return SR_OK;
}

static sr_status read_region(sr_source *source, int fd, int in, uint64_t begin, uint64_t bytes,
                             const char *name, int nesting, bool *is_archive);

static sr_status enter_tar(archive_reading *r, int fd, int in, uint64_t offset, uint64_t bytes) {
    if (r->nesting == MAX_NESTING)
        return sr_source_refuse(r->source, r->name, "archives nested too deeply");
    bool is_archive;
    if (in == r->source->spool_backing)
        SR_TRY(sr_spool_flush(&r->source->spool));
    SR_TRY(read_region(r->source, fd, in, offset, bytes, r->name, r->nesting + 1, &is_archive));
    return is_archive ? SR_OK : sr_source_refuse(r->source, r->name, "not an archive inside");
}

// The data of the pending entry ends at 'end' of the archive, less the padding.
static sr_status settle(archive_reading *r, uint64_t end) {
    if (!r->waiting)
        return SR_OK;
    r->waiting = false;
    uint64_t padded = (r->file.bytes + 511) / 512 * 512;
    uint8_t again[SR_SOURCE_HEAD];
    if (end < padded || end > r->region->bytes)
        return SR_FAIL(SR_E_DATA, "%s: truncated archive: %s is cut off", r->source->path, r->name);
    uint64_t offset = r->region->begin + end - padded;
    SR_TRY(sr_file_read_at(r->region->fd, r->source->path, offset, again, r->head_bytes));
    if (memcmp(again, r->head, r->head_bytes) != 0)
        return SR_FAIL(SR_E_INTERNAL, "%s: %s was not found again in the archive", r->source->path,
                       r->name);
    if (r->waiting_is_tar)
        return enter_tar(r, r->region->fd, r->region->in, offset, r->file.bytes);
    r->file.path = r->name;
    r->file.in = r->region->in;
    r->file.offset = offset;
    return sr_source_add(r->source, &r->file, r->offer);
}

static sr_status take_contents(archive_reading *r, bool tar) {
    if (r->plain) {
        r->waiting = true;
        r->waiting_is_tar = tar;
        return SR_OK;
    }
    if (!tar && r->offer == SR_OFFER_PICTURE && r->file.bytes > SR_PICTURE_MAX_BYTES) {
        r->file.path = r->name;
        return sr_source_add(r->source, &r->file, r->offer); // which refuses it
    }
    uint64_t offset = 0, bytes = 0;
    int spool;
    SR_TRY(sr_source_spool_backing(r->source, &spool));
    SR_TRY(spool_entry(r, &offset, &bytes));
    if (r->refused)
        return SR_OK;
    if (tar)
        return enter_tar(r, r->source->spool.fd, spool, offset, bytes);
    r->file.path = r->name;
    r->file.in = spool;
    r->file.offset = offset;
    r->file.bytes = bytes;
    return sr_source_add(r->source, &r->file, r->offer);
}

// -- entries -----------------------------------------------------------------------------------

// Notes the folder that the name ends with, or is in.
static sr_status note_folder(archive_reading *r) {
    const char *slash = strrchr(r->name, '/');
    return slash == NULL || sr_source_is_hidden(r->name)
               ? SR_OK
               : sr_source_note_folder(r->source, r->name, (size_t)(slash - r->name));
}

static sr_status take_entry(archive_reading *r, struct archive_entry *entry) {
    if (!take_name(r, entry))
        return sr_source_refuse(r->source, r->prefix, "a name that is too long");
    const char *name = r->name + strlen(r->prefix), *reason = refuse_name(name);
    if (name[0] == '\0' && archive_entry_filetype(entry) != AE_IFDIR)
        reason = "a name that is empty or cannot be read as UTF-8";
    if (reason == NULL && archive_entry_filetype(entry) == AE_IFDIR &&
        archive_entry_hardlink(entry) == NULL)
        return note_folder(r);
    if (reason == NULL)
        reason = refuse_type(entry);
    if (reason == NULL && archive_entry_is_data_encrypted(entry))
        reason = "encrypted; unpack the archive with its password and pack the folder";
    if (reason != NULL)
        return sr_source_refuse(r->source, r->name, reason);
    r->file = (sr_source_file){.bytes = (uint64_t)archive_entry_size(entry),
                               .mtime = (int64_t)archive_entry_mtime(entry) * 1000000000,
                               .archive_bytes = (uint32_t)strlen(r->prefix)};
    r->head_bytes = 0;
    r->refused = false;
    while (r->head_bytes < sizeof r->head) {
        la_ssize_t n =
            archive_read_data(r->archive, r->head + r->head_bytes, sizeof r->head - r->head_bytes);
        if (n < 0)
            return refuse_entry(r, n);
        if (n == 0)
            break;
        r->head_bytes += (size_t)n;
        r->contents += (uint64_t)n;
    }
    if (is_tar(r->head, r->head_bytes) && !sr_source_is_hidden(r->name))
        return take_contents(r, true);
    SR_TRY(sr_source_offer(r->source, r->name, r->head, r->head_bytes, r->file.bytes, &r->offer));
    if (r->offer != SR_OFFER_PICTURE)
        SR_TRY(note_folder(r));
    return r->offer != SR_OFFER_NOTHING ? take_contents(r, false) : SR_OK;
}

// After the end of a tar are zeros, or another tar, as `cat a.tar b.tar` makes it.
static sr_status find_next(archive_reading *r, uint64_t end) {
    static const uint8_t zeros[512];
    uint8_t block[512];
    end = (end + 511) / 512 * 512;
    for (int i = 0; i < 2048 && end + sizeof block <= r->region->bytes; i++, end += sizeof block) {
        SR_TRY(sr_file_read_at(r->region->fd, r->source->path, r->region->begin + end, block,
                               sizeof block));
        if (memcmp(block, zeros, sizeof block) == 0)
            continue;
        r->next = is_tar(block, sizeof block) ? end : 0;
        return SR_OK;
    }
    return SR_OK;
}

static sr_status read_entries(archive_reading *r) {
    for (uint64_t at = 0; !r->broken; at++) {
        struct archive_entry *entry;
        int result = archive_read_next_header(r->archive, &entry);
        if (!r->any && result != ARCHIVE_OK && result != ARCHIVE_WARN)
            return SR_OK; // not an archive, or an empty one
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN && result != ARCHIVE_EOF)
            return damaged(r);
        if (!r->any) {
            r->any = true;
            r->zip = (archive_format(r->archive) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_ZIP;
            r->plain = !r->zip && archive_filter_code(r->archive, 0) == ARCHIVE_FILTER_NONE;
        }
        SR_TRY(count_unpacked(r));
        SR_TRY(settle(r, (uint64_t)archive_read_header_position(r->archive)));
        if (result == ARCHIVE_EOF)
            return r->plain ? find_next(r, (uint64_t)archive_read_header_position(r->archive))
                            : SR_OK;
        if (at < r->skip)
            continue;
        r->taken = at + 1;
        SR_TRY(count_entry(r));
        SR_TRY(take_entry(r, entry));
    }
    return SR_OK;
}

static sr_status open_archive(archive_reading *r) {
    struct archive *a = r->archive;
    uint8_t head[512];
    const size_t bytes = r->region->bytes < sizeof head ? (size_t)r->region->bytes : sizeof head;
    SR_TRY(sr_file_read_at(r->region->fd, r->source->path, r->region->begin, head, bytes));
    int bad = archive_read_support_format_tar(a);
    if (!is_tar(head, bytes)) // for a plain one find_next finds the next archive and its offset
        bad |= archive_read_set_option(a, "tar", "read_concatenated_archives", "1");
    bad |= archive_read_support_format_zip_seekable(a);
    // Filters inside the process only: others would start programs.
    bad |= archive_read_support_filter_gzip(a) < ARCHIVE_WARN;
    bad |= archive_read_support_filter_bzip2(a) < ARCHIVE_WARN;
    bad |= archive_read_support_filter_xz(a) < ARCHIVE_WARN;
    bad |= archive_read_support_filter_zstd(a) < ARCHIVE_WARN;
    bad |= archive_read_set_read_callback(a, on_read);
    bad |= archive_read_set_skip_callback(a, on_skip);
    bad |= archive_read_set_seek_callback(a, on_seek);
    bad |= archive_read_set_callback_data(a, r->region);
    if (bad != ARCHIVE_OK)
        return SR_FAIL(SR_E_INTERNAL, "libarchive: %s", archive_error_string(a));
    return archive_read_open1(a) == ARCHIVE_OK ? read_entries(r) : SR_OK;
}

// The character set alone: numbers keep their decimal point. 0 where there is no such locale.
static locale_t utf8_locale(void) {
    static const char *const names[] = {"C.UTF-8", "C.utf8", "en_US.UTF-8"};
    locale_t found = (locale_t)0;
    for (size_t i = 0; i < sizeof names / sizeof *names && found == (locale_t)0; i++)
        found = newlocale(LC_CTYPE_MASK, names[i], (locale_t)0);
    return found;
}

static sr_status read_archive(archive_reading *r) {
    r->archive = archive_read_new();
    if (r->archive == NULL)
        return SR_FAIL(SR_E_MEMORY, "out of memory for reading an archive");
    r->broken = false;
    r->region->at = 0;
    r->skip = r->taken;
    const locale_t utf8 = utf8_locale(), before = utf8 != (locale_t)0 ? uselocale(utf8) : utf8;
    const sr_status status = open_archive(r);
    (void)archive_read_free(r->archive);
    if (utf8 != (locale_t)0) {
        (void)uselocale(before);
        freelocale(utf8);
    }
    return status;
}

// The prefix of names in an archive: the name of the archive without .tar and the like.
static char *make_prefix(const char *name) {
    static const char *const endings[] = {".tar",     ".tar.gz", ".tgz", ".tar.zst",
                                          ".tar.bz2", ".tar.xz", ".zip"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (sr_text_ends_with(name, endings[i])) {
            n -= strlen(endings[i]);
            break;
        }
    }
    char *prefix = sr_alloc(n + 2, "archive reader");
    if (prefix != NULL && n > 0) {
        memcpy(prefix, name, n);
        prefix[n] = '/';
    }
    return prefix;
}

// Offers the contents of one archive; *is_archive is false if it is not an archive. *next is the
// offset of another one after it, or 0.
static sr_status read_one(sr_source *source, int fd, int in, uint64_t begin, uint64_t bytes,
                          const char *name, int nesting, bool *is_archive, uint64_t *next) {
    char *prefix = make_prefix(name);
    archive_reading *r = sr_alloc(sizeof *r, "archive reader");
    region *part = sr_alloc(sizeof *part, "archive reader");
    sr_status status = SR_E_MEMORY;
    *is_archive = false;
    if (r == NULL || part == NULL || prefix == NULL)
        goto out;
    part->fd = fd;
    part->in = in;
    part->begin = begin;
    part->bytes = bytes;
    part->most = source->limits.unpacked < INT64_MAX ? source->limits.unpacked : INT64_MAX;
    r->source = source;
    r->region = part;
    r->prefix = prefix;
    r->nesting = nesting;
    status = read_archive(r);
    for (; status == SR_OK && r->broken; r->reopenings++)
        status = read_archive(r);
    *is_archive = r->any;
    *next = r->next;
out:
    sr_free(part);
    sr_free(prefix);
    sr_free(r);
    return status;
}

static sr_status read_region(sr_source *source, int fd, int in, uint64_t begin, uint64_t bytes,
                             const char *name, int nesting, bool *is_archive) {
    bool again;
    uint64_t next = 0;
    SR_TRY(read_one(source, fd, in, begin, bytes, name, nesting, is_archive, &next));
    while (next > 0) {
        begin += next;
        bytes -= next;
        next = 0;
        SR_TRY(read_one(source, fd, in, begin, bytes, name, nesting, &again, &next));
    }
    return SR_OK;
}

sr_status sr_source_read_archive(sr_source *source, int fd, int backing, uint64_t bytes,
                                 const char *name, bool *is_archive) {
    return read_region(source, fd, backing, 0, bytes, name, 0, is_archive);
}

static sr_status list(sr_source *source) {
    struct stat info;
    bool is_archive;
    const int fd = source->backing[0].fd;
    if (fstat(fd, &info) != 0)
        return SR_FAIL(SR_E_IO, "%s: %s", source->path, strerror(errno));
    SR_TRY(read_region(source, fd, 0, 0, (uint64_t)info.st_size, "", 0, &is_archive));
    return is_archive
               ? SR_OK
               : SR_FAIL(SR_E_DATA, "%s: damaged or empty archive: no first header", source->path);
}

bool sr_source_is_archive(const uint8_t *head, size_t head_bytes) {
    static const struct {
        size_t bytes;
        const char *magic;
    } compressed[] = {{2, "\x1f\x8b"},
                      {3, "BZh"},
                      {6, "\xfd"
                          "7zXZ\0"},
                      {4, "\x28\xb5\x2f\xfd"}};
    for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++)
        if (head_bytes >= compressed[i].bytes &&
            memcmp(head, compressed[i].magic, compressed[i].bytes) == 0)
            return true;
    return is_tar(head, head_bytes) || is_zip(head, head_bytes);
}

static bool recognises(const sr_source_probe *probe) {
    return !probe->folder && sr_source_is_archive(probe->head, probe->head_bytes);
}

extern const sr_source_kind sr_source_kind_tar;
const sr_source_kind sr_source_kind_tar = {
    .struct_size = sizeof(sr_source_kind),
    .abi = SR_SOURCE_KIND_ABI,
    .name = "tar",
    .help = "a tar, also compressed, also with tars inside; a zip",
    .recognises = recognises,
    .list = list,
};
