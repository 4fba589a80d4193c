// SPDX-License-Identifier: Apache-2.0
// Damaged checkpoints: everything that opens one detects and names the damage, loads nothing from
// it and uses the previous generation instead, which is never removed in favour of a damaged one.
//
//   test_checkpoint_damage [all]   a sample of the flips and cuts; 'all': every bit and length
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/damage.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/checkpoint_fixture.h"
#include "trainer/checkpoint/file_sums.h"

static unsigned stride = 67;
static char run[256];

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR); // skipped generations cause warnings
    test_folder_make(run);
    assert_ok(state_save(run, 1, 2, false));
    assert_ok(state_save(run, 2, 2, false));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(run);
    return 0;
}

static const char *in_run(const char *name) {
    static char path[4][400];
    static unsigned next;
    char *out = path[next++ % 4];
    (void)snprintf(out, sizeof path[0], "%s/%s", run, name);
    return out;
}

static void flip(const char *path, long at) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(0, fseek(file, at, SEEK_SET));
    int was = fgetc(file);
    assert_int_equal(0, fseek(file, at, SEEK_SET));
    assert_true(fputc(was ^ 1, file) != EOF);
    assert_int_equal(0, fclose(file));
}

// -- every way to open a damaged one ----------------------------------------------------------

static const char *const files[] = {
    "manifest.json",
    "model.safetensors",
    "model_ema.safetensors",
    "optimizer-00000-of-00002.safetensors",
    "optimizer-00001-of-00002.safetensors",
};
enum { FILES = sizeof files / sizeof *files };

typedef struct checkpoint_check {
    const char *folder;
    bool manifest;
    long fallbacks;
} checkpoint_check;

static void expect(const char *by, sr_status status, const char *text, const damage *d) {
    if (status != SR_E_CHECKSUM && status != SR_E_DATA)
        fail_msg("%s: %s: %s gives %s", d->file, d->what, by, sr_status_name(status));
    if (strstr(text, d->file) == NULL)
        fail_msg("%s: %s: %s does not name the file: %s", d->file, d->what, by, text);
}

// Opens as train, val and predict do on rank 0.
static void open_checked(const checkpoint_check *l, const damage *d) {
    sr_checkpoint *checkpoint = NULL;
    sr_status status = sr_checkpoint_open(l->folder, NULL, &checkpoint);
    expect("opening", status, sr_error_message(), d);
}

// Opens as the other ranks do after rank 0's check: data are compared while they are read.
static void open_unchecked(const checkpoint_check *l, const damage *d) {
    const sr_checkpoint_open_options trusting = {.no_verify = true};
    sr_checkpoint *checkpoint = NULL;
    sr_status status = sr_checkpoint_open(l->folder, &trusting, &checkpoint);
    if (l->manifest) {
        expect("opening without a check", status, sr_error_message(), d);
        return;
    }
    assert_ok(status);
    if (state_matches(checkpoint, 2))
        fail_msg("%s: %s: its values were read", d->file, d->what);
    sr_checkpoint_free(checkpoint);
    expect("reading", SR_E_CHECKSUM, sr_error_message(), d);
}

// Inspects as the commands verify, stat and show do.
static void look_at(const checkpoint_check *l, const damage *d) {
    sr_text text;
    char message[1024];
    sr_text_init(&text);
    sr_status status = sr_checkpoint_verify(l->folder, false, &text);
    (void)snprintf(message, sizeof message, "%s", sr_error_message());
    expect("verify", status, message, d);
    expect("the report of verify", status, text.data, d);
    if (!l->manifest && strstr(text.data, "bytes ") == NULL && strstr(text.data, "long") == NULL)
        fail_msg("%s: %s: no bytes in %s", d->file, d->what, text.data);
    sr_text_clear(&text);
    expect("show", sr_checkpoint_describe(l->folder, true, &text), sr_error_message(), d);
    sr_text_release(&text);
}

static void check(void *user, const damage *d) {
    checkpoint_check *l = user;
    open_checked(l, d);
    open_unchecked(l, d);
    look_at(l, d);
    if (!d->bit || d->begin % 97 == 0) {
        l->fallbacks++;
        assert_true(state_loads(run, 1)); // the previous generation, complete
    }
}

static void damage_is_found_everywhere(void **state) {
    (void)state;
    char folder[400];
    (void)snprintf(folder, sizeof folder, "%s/checkpoints/00000002", run);
    checkpoint_check l = {.folder = folder};
    long count = 0;
    for (int f = 0; f < FILES; ++f) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[f]);
        l.manifest = f == 0;
        count += damage_each(path, stride, check, &l);
    }
    assert_true(state_loads(run, 2));
    assert_true(l.fallbacks > 100);
    print_message("%ld cases of damage\n", count);
}

// If the header is intact, only the tensor whose chunk is damaged cannot be read.
static void the_damaged_tensor_is_named(void **state) {
    (void)state;
    enum { ELEMENTS = 1 << 18 }; // one chunk each
    static float values[ELEMENTS];
    const sr_stored_tensor tensors[] = {
        {.name = "a", .dtype = SR_F32, .rank = 1, .shape = {ELEMENTS}, .data = values},
        {.name = "b", .dtype = SR_F32, .rank = 1, .shape = {ELEMENTS}, .data = values},
        {.name = "c", .dtype = SR_F32, .rank = 1, .shape = {ELEMENTS}, .data = values}};
    sr_file_sums sums = {0};
    sr_safetensors *file;
    const char *path = in_run("large.safetensors");
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)i;
    assert_ok(sr_safetensors_write(path, tensors, 3, NULL, 0, &sums));
    flip(path, (5 << 20) / 2); // in the third chunk: the middle of c, and b's last elements
    assert_ok(sr_safetensors_open_checked(path, &sums, &file));
    assert_ok(sr_safetensors_read(file, sr_safetensors_find(file, "a"), 0, ELEMENTS, values));
    assert_int_equal(1000, (int)values[1000]);
    assert_ok(sr_safetensors_read(file, sr_safetensors_find(file, "b"), 0, 1000, values));
    assert_int_equal(999, (int)values[999]);
    assert_status(SR_E_CHECKSUM,
                  sr_safetensors_read(file, sr_safetensors_find(file, "c"), 0, ELEMENTS, values));
    assert_message("tensor 'c'");
    assert_message("bytes 2097152 to 3145727");
    sr_safetensors_free(file);
    assert_int_equal(0, truncate(path, 3 << 20));
    assert_status(SR_E_CHECKSUM, sr_safetensors_open_checked(path, &sums, &file));
    assert_message("bytes long");
    sr_file_sums_release(&sums);
}

// -- weights by their path -------------------------------------------------------------------

static void weights_are_checked_where_they_can_be(void **state) {
    (void)state;
    float values[400];
    sr_safetensors *file;
    const char *path = in_run("last/model.safetensors");
    assert_ok(sr_checkpoint_open_weights(path, &file));
    sr_safetensors_free(file);
    void *data;
    size_t bytes;
    flip(path, 4000);
    assert_status(SR_E_CHECKSUM, sr_checkpoint_open_weights(path, &file));
    assert_message("model.safetensors");
    assert_ok(sr_file_read(path, 1 << 20, &data, &bytes));
    assert_ok(sr_file_write_atomic(in_run("alone.safetensors"), data, bytes));
    sr_free(data);
    assert_ok(sr_file_write_atomic(in_run("manifest.json"), "{}", 2)); // of something else
    assert_ok(sr_checkpoint_open_weights(in_run("alone.safetensors"), &file));
    assert_ok(sr_safetensors_read(file, sr_safetensors_find(file, "fc.bias"), 0, 400, values));
    sr_safetensors_free(file);
    assert_status(SR_E_NOT_FOUND, sr_checkpoint_open_weights(in_run("none.safetensors"), &file));
}

// -- retention ---------------------------------------------------------------------------------

static bool exists(int64_t generation) {
    char name[64];
    (void)snprintf(name, sizeof name, "checkpoints/%08lld", (long long)generation);
    return sr_path_exists(in_run(name));
}

// A damaged newest generation is skipped; the next checkpoint must not count it among those to
// keep.
static void the_last_intact_one_is_kept(void **state) {
    (void)state;
    flip(in_run("checkpoints/00000002/model.safetensors"), 2000);
    assert_true(state_loads(run, 1));
    assert_ok(state_save(run, 3, 2, false));
    assert_true(exists(1) && !exists(2) && exists(3));
    flip(in_run("checkpoints/00000003/optimizer-00001-of-00002.safetensors"), 900);
    assert_true(state_loads(run, 1));
    assert_ok(state_save(run, 4, 2, false));
    assert_ok(state_save(run, 5, 2, false));
    assert_true(!exists(1) && !exists(3) && exists(4) && exists(5)); // again two complete ones
    assert_ok(state_save(run, 6, 2, true));
    flip(in_run("checkpoints/00000006/manifest.json"), 100);
    assert_ok(state_save(run, 7, 2, false));
    assert_true(exists(5) && exists(6) && exists(7)); // the best one is kept, damaged or not
    assert_true(state_loads(run, 7));
}

static void a_lost_manifest_is_named(void **state) {
    (void)state;
    sr_text text;
    sr_text_init(&text);
    assert_int_equal(0, unlink(in_run("checkpoints/00000002/manifest.json")));
    assert_true(state_loads(run, 1));
    assert_status(SR_E_DATA, sr_checkpoint_verify(run, false, &text));
    assert_message("manifest.json is missing");
    sr_text_release(&text);
}

static void a_renamed_generation_is_none(void **state) {
    (void)state;
    char from[400], to[400];
    (void)snprintf(from, sizeof from, "%s/checkpoints/00000001", run);
    (void)snprintf(to, sizeof to, "%s/checkpoints/00000009", run);
    assert_int_equal(0, rename(from, to));
    assert_true(state_loads(run, 2));
    assert_true(state_loads(to, 1)); // opened by its own path it is valid
}

int main(int argc, char **argv) {
    (void)setenv("TMPDIR", "/dev/shm", 0); // avoids waiting for a disk
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        stride = 1;
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(damage_is_found_everywhere),  CASE(the_damaged_tensor_is_named),
        CASE(the_last_intact_one_is_kept), CASE(weights_are_checked_where_they_can_be),
        CASE(a_lost_manifest_is_named),    CASE(a_renamed_generation_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
