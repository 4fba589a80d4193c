// SPDX-License-Identifier: Apache-2.0
// A checkpoint is atomic: kill before every system call, power loss after every one, failure of
// every one. A reader always finds the new generation or the one before, whole.
//
// Power loss follows ALICE (Pillai et al., OSDI'14): of what was not fsynced, file contents may be
// missing, zero or torn at 512 bytes, and folder entries may be missing in any combination.
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/crash_files.h"

static char base[64], run[96], image[96];

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    crash_reset();
    snprintf(base, sizeof base, "%s/serried-crash-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(base) == NULL)
        return 1;
    snprintf(run, sizeof run, "%s/run", base);
    snprintf(image, sizeof image, "%s/image", base);
    return mkdir(run, 0700);
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    crash_reset();
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

// The generation that a reader of this run folder gets, checked to be whole; 0 for none.
static int64_t newest(const char *path) {
    sr_checkpoint *checkpoint;
    if (sr_checkpoint_open(path, NULL, &checkpoint) != SR_OK)
        return 0;
    int64_t generation = sr_checkpoint_manifest(checkpoint)->generation;
    if (!state_matches(checkpoint, generation))
        fail_msg("%s: generation %d is a mixture", path, (int)generation);
    sr_checkpoint_free(checkpoint);
    return generation;
}

static int64_t next_generation(void) {
    int64_t generation = 0;
    assert_int_equal(sr_checkpoint_next_generation(run, &generation), SR_OK);
    return generation;
}

static void killed_before_every_call(void **state) {
    (void)state;
    int killed = 0, survived = 0;
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    assert_int_equal(state_save(run, 2, 2, false), SR_OK);
    for (long k = 1; survived == 0; ++k) {
        int64_t before = newest(run), wanted = next_generation();
        pid_t child = fork();
        if (child == 0) {
            crash.root = run;
            crash.kill_at = k;
            _exit(state_save(run, wanted, 2, k % 2 == 0) == SR_OK ? 0 : 1);
        }
        int code;
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFEXITED(code));
        int64_t after = newest(run);
        if (WEXITSTATUS(code) == CRASH_EXIT) {
            ++killed;
            if (after != before && after != wanted)
                fail_msg("killed at call %ld: generation %d after %d", k, (int)after, (int)before);
        } else {
            assert_int_equal(WEXITSTATUS(code), 0);
            assert_int_equal(after, wanted);
            ++survived;
        }
    }
    assert_true(killed > 50); // the calls are really intercepted
    // What the kills left behind is gone after one good checkpoint.
    int64_t wanted = next_generation();
    assert_int_equal(state_save(run, wanted, 2, true), SR_OK);
    assert_int_equal(state_save(run, wanted + 1, 2, true), SR_OK);
    char command[160];
    snprintf(command, sizeof command, "test $(ls '%s/checkpoints' | wc -l) = 2", run);
    assert_int_equal(system(command), 0);
}

static void every_call_may_fail(void **state) {
    (void)state;
    static const int errors[] = {EIO, ENOSPC};
    int refused = 0;
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    for (int e = 0; e < 2; ++e) {
        for (int always = 0; always < 2; ++always) {
            bool reached = true;
            for (long k = 1; reached; ++k) {
                int64_t before = newest(run), wanted = next_generation();
                crash.root = run;
                crash.calls = 0;
                crash.fail_at = k;
                crash.fail_on = always;
                crash.fail_errno = errors[e];
                sr_status status = state_save(run, wanted, 2, false);
                reached = crash.calls >= k;
                crash.root = NULL;
                int64_t after = newest(run);
                if (status == SR_OK) {
                    assert_int_equal(after, wanted);
                    continue;
                }
                ++refused;
                assert_true(after == before || (always && after == wanted));
                assert_int_equal(status, errors[e] == EIO ? SR_E_IO : SR_E_NO_SPACE);
                assert_non_null(strstr(sr_error_message(), run)); // names the path
            }
        }
    }
    assert_true(refused > 100);
}

static void disk_full_says_how_much(void **state) {
    (void)state;
    assert_int_equal(state_save(run, 1, 1, false), SR_OK);
    crash.root = run;
    crash.no_space = true;
    sr_status status = state_save(run, 2, 1, false);
    crash.root = NULL;
    assert_int_equal(status, SR_E_NO_SPACE);
    assert_non_null(strstr(sr_error_message(), "optimizer-00000-of-00001.safetensors"));
    assert_non_null(strstr(sr_error_message(), "needs "));
    assert_int_equal(newest(run), 1);
}

static void short_writes_are_completed(void **state) {
    (void)state;
    crash.root = run;
    crash.short_writes = true;
    assert_int_equal(state_save(run, 1, 3, false), SR_OK);
    crash.root = NULL;
    assert_int_equal(newest(run), 1);
}

// -- power loss ------------------------------------------------------------------------------

typedef struct base_file {
    char path[192]; // below the run folder
    char *data;     // NULL of a folder; the target of a link
    size_t bytes;
    bool is_link;
} base_file;

static base_file base_files[64];
static int base_count;

static int remember(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)where;
    base_file *file = &base_files[base_count++];
    void *data = NULL;
    *file = (base_file){.is_link = kind == FTW_SL};
    snprintf(file->path, sizeof file->path, "%s", path + strlen(run));
    if (kind == FTW_F)
        return sr_file_read(path, 1 << 20, &data, &file->bytes) != SR_OK ||
               (file->data = data) == NULL;
    if (kind == FTW_SL) {
        file->data = sr_alloc((size_t)info->st_size + 1, "test");
        return readlink(path, file->data, (size_t)info->st_size) < 0;
    }
    return 0;
}

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
    char path[300];
    (void)nftw(image, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < base_count; ++i) {
        snprintf(path, sizeof path, "%s%.190s", image, base_files[i].path);
        if (base_files[i].is_link)
            assert_int_equal(symlink(base_files[i].data, path), 0);
        else if (base_files[i].data == NULL)
            assert_int_equal(mkdir(path, 0700), 0);
        else
            put_file(path, base_files[i].data, base_files[i].bytes);
    }
}

// How unsynced changes fare.
typedef enum policy { KEEP_ALL, DROP_ALL, SEEDED, POLICIES = SEEDED + 4 } policy;

// Whether a change of a folder's entries at op i reached the disk before the cut after op 'end'.
static bool entry_survives(int i, int end, unsigned how, sr_rng *rng) {
    char parent[192];
    snprintf(parent, sizeof parent, "%s", crash.ops[i].path);
    *strrchr(parent, '/') = 0;
    for (int j = i + 1; j < end; ++j)
        if (crash.ops[j].kind == CRASH_SYNC_FOLDER && strcmp(crash.ops[j].path, parent) == 0)
            return true;
    return how == KEEP_ALL || (how != DROP_ALL && sr_rng_below(rng, 2) == 0);
}

// The contents that an inode has after the cut: synced bytes, and of the rest what the policy says.
static size_t contents_of(int inode, int end, unsigned how, sr_rng *rng, uint8_t *out) {
    size_t written = 0, synced = 0, reserved = 0;
    for (int j = 0; j < end; ++j) {
        const crash_op *op = &crash.ops[j];
        if (op->inode != inode)
            continue;
        if (op->kind == CRASH_WRITE) {
            memcpy(out + written, op->data, op->bytes);
            written += op->bytes;
        }
        if (op->kind == CRASH_RESERVE)
            reserved = op->bytes;
        if (op->kind == CRASH_SYNC_FILE)
            synced = written;
    }
    if (how == KEEP_ALL || synced == written)
        return written;
    size_t kept = synced;
    if (how != DROP_ALL)
        kept += (size_t)sr_rng_below(rng, (uint32_t)((written - synced) / 512 + 1)) * 512;
    if (reserved > kept && (how == DROP_ALL || sr_rng_below(rng, 2) == 0)) {
        memset(out + kept, 0, reserved - kept); // allocated, never written
        return reserved;
    }
    return kept;
}

static int inode_at(const char *path, int end) {
    for (int j = end; j-- > 0;)
        if (crash.ops[j].kind == CRASH_CREATE && strcmp(crash.ops[j].path, path) == 0)
            return crash.ops[j].inode;
    return -1;
}

static void apply(int i, int end, unsigned how, sr_rng *rng) {
    static uint8_t contents[1 << 16];
    const crash_op *op = &crash.ops[i];
    char path[300], target[300], link[300] = "";
    snprintf(path, sizeof path, "%s%s", image, op->path + strlen(run));
    snprintf(target, sizeof target, "%s%s", image,
             op->kind == CRASH_RENAME ? op->target + strlen(run) : "");
    switch (op->kind) {
    case CRASH_CREATE:
        put_file(path, contents, contents_of(op->inode, end, how, rng, contents));
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
    case CRASH_RENAME: {
        int inode = inode_at(op->path, i);
        bool is_link = readlink(path, link, sizeof link - 1) > 0;
        (void)remove(path);
        if (is_link) {
            (void)remove(target);
            assert_int_equal(0, symlink(link, target));
        } else if (inode >= 0) {
            put_file(target, contents, contents_of(inode, end, how, rng, contents));
        }
        break;
    }
    case CRASH_WRITE:
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

static void power_lost_after_every_call(void **state) {
    (void)state;
    int old = 0, fresh = 0;
    base_count = 0;
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    assert_int_equal(state_save(run, 2, 2, true), SR_OK);
    assert_int_equal(nftw(run, remember, 16, FTW_PHYS), 0);
    crash.root = run;
    crash.record = true;
    assert_int_equal(state_save(run, 3, 2, true), SR_OK); // removes generation 1
    crash.root = NULL;
    assert_true(crash.op_count > 30);
    for (int end = 0; end <= crash.op_count; ++end) {
        for (unsigned how = KEEP_ALL; how < POLICIES; ++how) {
            sr_rng rng;
            sr_rng_init(&rng, 7, (uint32_t)end, how, 0);
            lay_out_base();
            for (int i = 0; i < end; ++i)
                if (changes_entries(crash.ops[i].kind) && entry_survives(i, end, how, &rng))
                    apply(i, end, how, &rng);
            int64_t got = newest(image);
            if (got != 2 && got != 3)
                fail_msg("power lost after call %d (policy %u): generation %d", end, how, (int)got);
            old += got == 2;
            fresh += got == 3;
            if (end == crash.op_count)
                assert_int_equal(got, 3); // save had returned: it is durable
        }
    }
    assert_true(old > 100 && fresh > 50);
    for (int i = 0; i < base_count; ++i)
        sr_free(base_files[i].data);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(killed_before_every_call),    CASE(every_call_may_fail),
        CASE(disk_full_says_how_much),     CASE(short_writes_are_completed),
        CASE(power_lost_after_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
