// SPDX-License-Identifier: Apache-2.0
// See crash_image.h. The image is built anew each time: the initial contents, then each change of
// an entry that survives, and files with the contents that survive of their inode.
#include "tests/unit/support/crash_image.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"

enum { MAX_BASE = 64, MAX_FILE = 1 << 20, PATH_BYTES = 320 };

typedef struct base_file {
    char path[192]; // below the root
    char *data;     // NULL of a folder; the target of a link
    size_t bytes;
    bool is_link;
} base_file;

static const char *root, *image;
static base_file base[MAX_BASE];
static int base_count;
static uint8_t contents[MAX_FILE];

static int remember(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)where;
    assert_true(base_count < MAX_BASE);
    base_file *file = &base[base_count++];
    void *data = NULL;
    *file = (base_file){.is_link = kind == FTW_SL};
    (void)snprintf(file->path, sizeof file->path, "%s", path + strlen(root));
    if (kind == FTW_F)
        return sr_file_read(path, MAX_FILE, &data, &file->bytes) != SR_OK ||
               (file->data = data) == NULL;
    if (kind == FTW_SL) {
        file->data = sr_alloc((size_t)info->st_size + 1, "test");
        return readlink(path, file->data, (size_t)info->st_size) < 0;
    }
    return 0;
}

void crash_image_begin(const char *root_folder, const char *image_folder) {
    root = root_folder;
    image = image_folder;
    assert_int_equal(nftw(root, remember, 16, FTW_PHYS), 0);
    crash.record = true;
    crash.root = root;
}

void crash_image_forget(void) {
    for (int i = 0; i < base_count; i++)
        sr_free(base[i].data);
    base_count = 0;
}

// -- building ----------------------------------------------------------------------------------

static void put_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return; // its folder did not survive
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void lay_out_base(void) {
    char path[PATH_BYTES];
    (void)nftw(image, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < base_count; i++) {
        (void)snprintf(path, sizeof path, "%s%.190s", image, base[i].path);
        if (base[i].is_link)
            assert_int_equal(symlink(base[i].data, path), 0);
        else if (base[i].data == NULL)
            assert_int_equal(mkdir(path, 0700), 0);
        else
            put_file(path, base[i].data, base[i].bytes);
    }
}

// Whether a change of a folder's entries at op i reached the disk before the crash after op 'end'.
static bool entry_survives(int i, int end, unsigned policy, sr_rng *rng) {
    char parent[192];
    (void)snprintf(parent, sizeof parent, "%s", crash.ops[i].path);
    *strrchr(parent, '/') = 0;
    for (int j = i + 1; j < end; j++)
        if (crash.ops[j].kind == CRASH_SYNC_FOLDER && strcmp(crash.ops[j].path, parent) == 0)
            return true;
    return policy == CRASH_KEEP_ALL || (policy != CRASH_DROP_ALL && sr_rng_below(rng, 2) == 0);
}

static void write_range(const crash_op *op, size_t *bytes) {
    assert_true(op->offset + op->bytes <= MAX_FILE);
    if (op->offset > *bytes)
        memset(contents + *bytes, 0, op->offset - *bytes);
    memcpy(contents + op->offset, op->data, op->bytes);
    if (op->offset + op->bytes > *bytes)
        *bytes = op->offset + op->bytes;
}

// Applies all calls on an inode between 'from' and the end to its first 'bytes' bytes; returns its
// size.
static size_t do_writes(int inode, int from, int end, size_t bytes) {
    for (int j = from; j < end; j++) {
        const crash_op *op = &crash.ops[j];
        if (op->inode != inode)
            continue;
        if (op->kind == CRASH_WRITE)
            write_range(op, &bytes);
        if (op->kind == CRASH_TRUNCATE && op->bytes < bytes)
            bytes = op->bytes;
    }
    return bytes;
}

// Stores in 'contents' what is left after the crash: all that was synced, and of the rest what the
// policy keeps.
static size_t contents_of(int inode, int end, unsigned policy, sr_rng *rng) {
    int synced_until = 0;
    size_t reserved = 0;
    for (int j = 0; j < end; j++) {
        if (crash.ops[j].inode == inode && crash.ops[j].kind == CRASH_SYNC_FILE)
            synced_until = j;
        if (crash.ops[j].inode == inode && crash.ops[j].kind == CRASH_RESERVE)
            reserved = crash.ops[j].bytes;
    }
    size_t synced = do_writes(inode, 0, synced_until, 0);
    if (policy == CRASH_KEEP_ALL)
        return do_writes(inode, synced_until, end, synced);
    if (policy == CRASH_DROP_ALL) {
        if (reserved > synced) { // allocated, never written
            memset(contents + synced, 0, reserved - synced);
            return reserved;
        }
        return synced;
    }
    for (int j = synced_until; j < end;
         j++) { // each unsynced write survives or not, in units of 512 bytes
        crash_op part = crash.ops[j];
        if (part.inode != inode || part.kind != CRASH_WRITE)
            continue;
        for (size_t at = 0; at < crash.ops[j].bytes; at += 512) {
            part.data = crash.ops[j].data + at;
            part.offset = crash.ops[j].offset + at;
            part.bytes = crash.ops[j].bytes - at < 512 ? crash.ops[j].bytes - at : 512;
            if (sr_rng_below(rng, 2) == 0)
                write_range(&part, &synced);
        }
    }
    if (reserved > synced && sr_rng_below(rng, 2) == 0) {
        memset(contents + synced, 0, reserved - synced);
        return reserved;
    }
    return synced;
}

static int inode_at(const char *path, int end) {
    for (int j = end; j-- > 0;)
        if (crash.ops[j].kind == CRASH_CREATE && strcmp(crash.ops[j].path, path) == 0)
            return crash.ops[j].inode;
    return -1;
}

static void move(const crash_op *op, int i, int end, unsigned policy, sr_rng *rng) {
    char path[PATH_BYTES], target[PATH_BYTES], link[PATH_BYTES] = "";
    (void)snprintf(path, sizeof path, "%s%s", image, op->path + strlen(root));
    (void)snprintf(target, sizeof target, "%s%s", image, op->target + strlen(root));
    int inode = inode_at(op->path, i);
    bool is_link = readlink(path, link, sizeof link - 1) > 0;
    (void)remove(path);
    if (is_link) {
        (void)remove(target);
        assert_int_equal(0, symlink(link, target));
    } else if (inode >= 0) {
        put_file(target, contents, contents_of(inode, end, policy, rng));
    }
}

static void apply(int i, int end, unsigned policy, sr_rng *rng) {
    const crash_op *op = &crash.ops[i];
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s%s", image, op->path + strlen(root));
    switch (op->kind) {
    case CRASH_CREATE:
        put_file(path, contents, contents_of(op->inode, end, policy, rng));
        break;
    case CRASH_MAKE_FOLDER:
        (void)mkdir(path, 0700);
        break;
    case CRASH_SYMLINK:
        assert_int_equal(0, symlink(op->target, path));
        break;
    case CRASH_UNLINK:
    case CRASH_REMOVE_FOLDER:
        (void)remove(path);
        break;
    case CRASH_RENAME:
        move(op, i, end, policy, rng);
        break;
    case CRASH_WRITE:
    case CRASH_TRUNCATE:
    case CRASH_RESERVE:
    case CRASH_SYNC_FILE:
    case CRASH_SYNC_FOLDER:
        break;
    }
}

static bool changes_entries(crash_kind kind) {
    return kind == CRASH_CREATE || kind == CRASH_RENAME || kind == CRASH_MAKE_FOLDER ||
           kind == CRASH_UNLINK || kind == CRASH_REMOVE_FOLDER || kind == CRASH_SYMLINK;
}

void crash_image_make(int calls, unsigned policy) {
    sr_rng rng;
    sr_rng_init(&rng, 7, (uint32_t)calls, policy, 0);
    lay_out_base();
    for (int i = 0; i < calls; i++)
        if (changes_entries(crash.ops[i].kind) && entry_survives(i, calls, policy, &rng))
            apply(i, calls, policy, &rng);
}

// -- comparing ---------------------------------------------------------------------------------

static struct {
    const char *a, *b;
    int entries;
    bool differ;
} compared;

static bool same_files(const char *a, const char *b) {
    void *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    bool same = sr_file_read(a, MAX_FILE, &x, &n) == SR_OK &&
                sr_file_read(b, MAX_FILE, &y, &m) == SR_OK && n == m && memcmp(x, y, n) == 0;
    sr_free(x);
    sr_free(y);
    return same;
}

static int compare_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    char other[PATH_BYTES], link[PATH_BYTES] = "", theirs[PATH_BYTES] = "";
    struct stat found;
    (void)where;
    (void)snprintf(other, sizeof other, "%s%s", compared.b, path + strlen(compared.a));
    compared.entries++;
    if (lstat(other, &found) != 0 || (found.st_mode & S_IFMT) != (info->st_mode & S_IFMT))
        compared.differ = true;
    else if (kind == FTW_F)
        compared.differ = !same_files(path, other);
    else if (kind == FTW_SL)
        compared.differ = readlink(path, link, sizeof link - 1) < 0 ||
                          readlink(other, theirs, sizeof theirs - 1) < 0 ||
                          strcmp(link, theirs) != 0;
    return compared.differ;
}

static int count_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)path, (void)info, (void)kind, (void)where;
    compared.entries--;
    return 0;
}

bool crash_same_folders(const char *a, const char *b) {
    compared.a = a;
    compared.b = b;
    compared.entries = 0;
    compared.differ = false;
    return nftw(a, compare_one, 16, FTW_PHYS) == 0 && nftw(b, count_one, 16, FTW_PHYS) == 0 &&
           compared.entries == 0;
}

int crash_image_end(void) {
    crash.root = NULL;
    crash.record = false;
    crash_image_make(crash.op_count, CRASH_KEEP_ALL);
    if (!crash_same_folders(root, image))
        fail_msg("%s and %s differ: a call was not recorded", root, image);
    return crash.op_count;
}
