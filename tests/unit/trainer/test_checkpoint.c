// SPDX-License-Identifier: Apache-2.0
// Checkpoints: any number of writers and readers, retention and links, verify and describe. Damage
// is tested in test_checkpoint_damage.c.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/trainer/checkpoint_fixture.h"
#include "trainer/checkpoint/json_tree.h"

static char run[64];

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR); // skipped generations cause warnings
    snprintf(run, sizeof run, "%s/serried-checkpoint-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); // avoids waiting for a disk
    return mkdtemp(run) == NULL;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", run);
    return system(command);
}

static char *in_run(const char *name) {
    static char path[4][256];
    static unsigned next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", run, name);
    return out;
}

static void any_writers_any_readers(void **state) {
    (void)state;
    static state_values want;
    for (int ranks = 1; ranks <= STATE_RANKS_MAX; ++ranks) {
        assert_int_equal(state_save(run, ranks, ranks, false), SR_OK);
        assert_true(state_loads(run, ranks));
        state_fill(&want, ranks);
        for (int readers = 1; readers <= STATE_RANKS_MAX; ++readers) {
            sr_checkpoint *checkpoint;
            assert_int_equal(sr_checkpoint_open(run, NULL, &checkpoint), SR_OK);
            for (int r = 0; r < readers; ++r) {
                sr_range ranges[STATE_ELEMENTS / 50];
                float whole[STATE_ELEMENTS] = {0}, packed[STATE_ELEMENTS];
                int n = state_ranges(r, readers, ranges), at = 0;
                assert_int_equal(sr_checkpoint_read_state(checkpoint, "momentum", SR_F32,
                                                          STATE_ELEMENTS, ranges, n, false, whole),
                                 SR_OK);
                assert_int_equal(sr_checkpoint_read_state(checkpoint, "momentum", SR_F32,
                                                          STATE_ELEMENTS, ranges, n, true, packed),
                                 SR_OK);
                for (int i = 0; i < n; ++i)
                    for (int64_t e = ranges[i].begin; e < ranges[i].end; ++e) {
                        assert_memory_equal(&whole[e], &want.momentum[e], 4);
                        assert_memory_equal(&packed[at++], &want.momentum[e], 4);
                    }
            }
            sr_checkpoint_free(checkpoint);
        }
    }
}

static void manifest_comes_back(void **state) {
    (void)state;
    sr_checkpoint *checkpoint;
    const sr_manifest want = state_manifest(5);
    assert_int_equal(state_save(run, 5, 3, false), SR_OK);
    assert_int_equal(sr_checkpoint_open(in_run("last"), NULL, &checkpoint), SR_OK);
    const sr_manifest *m = sr_checkpoint_manifest(checkpoint);
    assert_int_equal(m->generation, 5);
    assert_int_equal(m->ranks, 3);
    assert_true(m->seed == UINT64_MAX);
    assert_int_equal(m->lanes, want.lanes);
    assert_int_equal(m->class_count, 3);
    for (int i = 0; i < 3; ++i)
        assert_string_equal(m->classes[i], want.classes[i]);
    assert_int_equal(m->channels, 3);
    assert_memory_equal(m->mean, want.mean, sizeof m->mean);
    assert_memory_equal(m->std, want.std, sizeof m->std);
    assert_true(m->metric_value == 61.25 && m->best_value == 62.5);
    assert_string_equal(m->fingerprint, want.fingerprint);
    assert_int_equal(m->extra_count, 1);
    assert_string_equal(m->extra[0].value, "65536");
    sr_safetensors *model;
    assert_int_equal(sr_checkpoint_weights(checkpoint, SR_WEIGHTS_MODEL, &model), SR_OK);
    assert_string_equal(sr_safetensors_metadata(model, "serried.classes"),
                        "[\"cat\",\"dog \\\"x\\\"\",\"b\xc3\xa4r\"]");
    assert_string_equal(sr_safetensors_metadata(model, "serried.mean"), "[0.485,0.456,0.406]");
    sr_checkpoint_free(checkpoint);
}

// A job that is killed while it writes a manifest again leaves a temporary file beside it.
static void temporary_files_of_generations_are_removed(void **state) {
    (void)state;
    static const char left[] = "checkpoints/00000001/manifest.json.tmp-123-4";
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    FILE *file = fopen(in_run(left), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    sr_checkpoint_remove_temporary_files(run);
    assert_false(sr_path_exists(in_run(left)));
    assert_true(state_loads(in_run("checkpoints/00000001"), 1));
    sr_checkpoint_remove_temporary_files("no such folder");
}

static void keeps_two_and_the_best(void **state) {
    (void)state;
    int64_t generation;
    assert_int_equal(sr_checkpoint_next_generation(run, &generation), SR_OK);
    assert_int_equal(generation, 1);
    for (int64_t g = 1; g <= 5; ++g)
        assert_int_equal(state_save(run, g, 2, g == 2), SR_OK);
    assert_false(sr_path_exists(in_run("checkpoints/00000001")));
    assert_true(state_loads(in_run("best"), 2));
    assert_false(sr_path_exists(in_run("checkpoints/00000003")));
    assert_true(state_loads(in_run("checkpoints/00000004"), 4));
    assert_true(state_loads(in_run("last"), 5));
    assert_int_equal(sr_checkpoint_next_generation(run, &generation), SR_OK);
    assert_int_equal(generation, 6);
    const sr_checkpoint_open_options older = {.generation = 4}, removed = {.generation = 3};
    sr_checkpoint *checkpoint;
    assert_int_equal(sr_checkpoint_open(run, &older, &checkpoint), SR_OK);
    assert_true(state_matches(checkpoint, 4));
    sr_checkpoint_free(checkpoint);
    assert_int_equal(sr_checkpoint_open(run, &removed, &checkpoint), SR_E_NOT_FOUND);
    // Side files of other ranks have been removed, and so has every temporary file.
    assert_false(
        sr_path_exists(in_run("checkpoints/00000005/optimizer-00001-of-00002.safetensors.sums")));
}

// The generation that rank 0 chose is opened, or none: ranks must not continue from different ones.
static void a_chosen_generation_has_no_substitute(void **state) {
    (void)state;
    const sr_checkpoint_open_options chosen = {.generation = 2};
    sr_checkpoint *checkpoint;
    assert_int_equal(state_save(run, 1, 1, false), SR_OK);
    assert_int_equal(state_save(run, 2, 1, false), SR_OK);
    assert_int_equal(truncate(in_run("checkpoints/00000002/model.safetensors"), 100), 0);
    assert_true(state_loads(run, 1));
    assert_int_equal(sr_checkpoint_open(run, &chosen, &checkpoint), SR_E_CHECKSUM);
    assert_int_equal(unlink(in_run("checkpoints/00000002/manifest.json")), 0);
    assert_int_equal(sr_checkpoint_open(run, &chosen, &checkpoint), SR_E_NOT_FOUND);
    assert_non_null(strstr(sr_error_message(), "00000002"));
}

static void unfinished_generations_do_not_count(void **state) {
    (void)state;
    static state_values s;
    sr_checkpoint_writer *writer;
    sr_manifest manifest = state_manifest(2);
    sr_checkpoint *checkpoint;
    assert_int_equal(sr_checkpoint_open(run, NULL, &checkpoint), SR_E_NOT_FOUND);
    assert_int_equal(state_save(run, 1, 1, false), SR_OK);
    state_fill(&s, 2);
    // Rank 1 of 2 never writes: commit fails and names it; the folder is removed.
    assert_int_equal(sr_checkpoint_begin(run, 2, 0, 2, &writer), SR_OK);
    assert_int_equal(sr_checkpoint_commit(writer, &manifest, 2), SR_E_ARGUMENT);
    assert_int_equal(state_write_shard(writer, &s, 0, 2, false), SR_OK);
    assert_int_equal(state_write_weights(writer, &s, &manifest), SR_OK);
    assert_int_not_equal(sr_checkpoint_commit(writer, &manifest, 2), SR_OK);
    assert_non_null(strstr(sr_error_message(), "rank 1"));
    assert_true(state_loads(run, 1));
    sr_checkpoint_writer_free(writer);
    assert_false(sr_path_exists(in_run("checkpoints/00000002")));
    assert_true(state_loads(run, 1));
    // A stale folder of a killed job is skipped and later removed.
    assert_int_equal(sr_make_folders(in_run("checkpoints/00000003")), SR_OK);
    int64_t generation;
    assert_int_equal(sr_checkpoint_next_generation(run, &generation), SR_OK);
    assert_int_equal(generation, 4);
    assert_true(state_loads(run, 1));
    assert_int_equal(state_save(run, 4, 1, false), SR_OK);
    assert_false(sr_path_exists(in_run("checkpoints/00000003")));
    assert_true(state_loads(run, 4));
}

// A crash or a full disk may have prevented the links; the next checkpoint makes them.
static void links_are_repaired(void **state) {
    (void)state;
    char target[64] = "";
    const sr_manifest newest = {.generation = 3, .step = 12, .best_step = 8};
    for (int64_t g = 1; g <= 3; ++g)
        assert_int_equal(state_save(run, g, 1, g == 1), SR_OK);
    assert_true(state_loads(in_run("best"), 1));
    assert_int_equal(unlink(in_run("last")), 0);
    assert_int_equal(sr_checkpoint_link(run, &newest), SR_OK);
    assert_true(state_loads(in_run("last"), 3));
    assert_true(state_loads(in_run("best"), 2)); // that of step 8
    assert_int_equal(unlink(in_run("best")), 0);
    assert_int_equal(sr_checkpoint_link(run, &newest), SR_OK);
    assert_int_equal(readlink(in_run("best"), target, sizeof target - 1), 20);
    assert_string_equal(target, "checkpoints/00000002");
}

static void states_refuse_what_does_not_fit(void **state) {
    (void)state;
    sr_checkpoint *checkpoint;
    const sr_state_info *states;
    int count;
    const sr_range all = {0, STATE_ELEMENTS};
    float out[STATE_ELEMENTS];
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    assert_int_equal(sr_checkpoint_open(run, NULL, &checkpoint), SR_OK);
    assert_int_equal(sr_checkpoint_states(checkpoint, &states, &count), SR_OK);
    assert_int_equal(count, 2);
    assert_int_equal(
        sr_checkpoint_read_state(checkpoint, "adam.m", SR_F32, STATE_ELEMENTS, &all, 1, false, out),
        SR_E_NOT_FOUND);
    assert_int_equal(sr_checkpoint_read_state(checkpoint, "momentum", SR_F32, STATE_ELEMENTS + 1,
                                              &all, 1, false, out),
                     SR_E_SHAPE);
    sr_checkpoint_free(checkpoint);
    // A buffer that no shard covers completely is detected.
    sr_checkpoint_writer *writer;
    static state_values s;
    sr_manifest manifest = state_manifest(2);
    const sr_range half = {0, STATE_ELEMENTS / 2};
    const sr_checkpoint_state half_state = {.name = "momentum",
                                            .dtype = SR_F32,
                                            .elements = STATE_ELEMENTS,
                                            .ranges = &half,
                                            .range_count = 1,
                                            .data = s.momentum};
    assert_int_equal(sr_checkpoint_begin(run, 2, 0, 1, &writer), SR_OK);
    assert_int_equal(sr_checkpoint_write_optimizer(writer, &half_state, 1), SR_OK);
    assert_int_equal(state_write_weights(writer, &s, &manifest), SR_OK);
    assert_int_equal(sr_checkpoint_commit(writer, &manifest, 2), SR_OK);
    sr_checkpoint_writer_free(writer);
    assert_int_equal(sr_checkpoint_open(run, NULL, &checkpoint), SR_OK);
    assert_int_equal(sr_checkpoint_states(checkpoint, &states, &count), SR_E_DATA);
    assert_non_null(strstr(sr_error_message(), "element 500"));
    sr_checkpoint_free(checkpoint);
}

static int64_t number_of(const sr_json *object, const char *key) {
    int64_t number = -1;
    assert_true(sr_json_int64(sr_json_get(object, key), &number));
    return number;
}

// Two generations with a damaged file each: the newer one's weights, the older one's average.
static void verify_as_json(void) {
    sr_text text;
    sr_arena arena;
    const sr_json *root;
    sr_text_init(&text);
    sr_arena_init(&arena);
    assert_int_equal(sr_checkpoint_verify(run, true, &text), SR_E_CHECKSUM);
    assert_int_equal(sr_json_parse(text.data, text.length, 1000, "report", &arena, &root), SR_OK);
    assert_string_equal(sr_json_get(root, "ok")->text, "false");
    assert_non_null(strstr(sr_json_string(sr_json_get(root, "error")), "2/model.safetensors"));
    assert_int_equal(sr_json_get(root, "generations")->count, 2);
    const sr_json *generation = sr_json_get(root, "generations")->first; // the newest
    assert_int_equal(number_of(generation, "generation"), 2);
    assert_string_equal(sr_json_string(sr_json_get(generation, "state")), "damaged");
    int damaged = 0;
    for (const sr_json *f = sr_json_get(generation, "files")->first; f != NULL; f = f->next) {
        const sr_json *damage = sr_json_get(f, "damage");
        assert_true(number_of(f, "bytes") > 0);
        assert_string_equal(sr_json_get(f, "ok")->text, damage == NULL ? "true" : "false");
        if (damage == NULL)
            continue;
        damaged++;
        assert_non_null(strstr(sr_json_string(sr_json_get(f, "path")), "2/model.safetensors"));
        assert_int_equal(number_of(damage, "chunks"), 1);
        assert_int_equal(number_of(damage, "first_byte"), 0);
        assert_int_equal(number_of(damage, "last_byte") + 1, number_of(f, "bytes"));
        assert_string_equal(sr_json_string(sr_json_get(damage, "tensors")->first), "conv1.weight");
    }
    assert_int_equal(damaged, 1);
    sr_arena_release(&arena);
    sr_text_release(&text);
}

static void verify_and_describe(void **state) {
    (void)state;
    sr_text text;
    sr_text_init(&text);
    assert_false(sr_checkpoint_is(run));
    assert_int_equal(sr_checkpoint_verify(run, false, &text), SR_OK); // nothing is damaged
    assert_non_null(strstr(text.data, "a run without a finished checkpoint"));
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    assert_int_equal(state_save(run, 2, 2, true), SR_OK);
    assert_true(sr_checkpoint_is(run));
    assert_true(sr_checkpoint_is(in_run("last")));
    sr_text_clear(&text);
    assert_int_equal(sr_checkpoint_verify(run, false, &text), SR_OK);
    assert_null(strstr(text.data, "DAMAGED"));
    sr_text_clear(&text);
    assert_int_equal(sr_checkpoint_describe(run, true, &text), SR_OK);
    assert_non_null(strstr(text.data, "conv1.weight"));
    assert_non_null(strstr(text.data, "[20, 30]"));
    assert_non_null(strstr(text.data, "momentum: 1000 elements of f32"));
    assert_non_null(strstr(text.data, "val/top1 61.25, best 62.5"));
    // Two damaged files: both are listed, the tensors are named, the first one is the status.
    const char *const damaged[] = {"checkpoints/00000002/model.safetensors",
                                   "checkpoints/00000001/model_ema.safetensors"};
    for (int i = 0; i < 2; ++i) {
        int fd = open(in_run(damaged[i]), O_RDWR);
        assert_int_equal(pwrite(fd, "zz", 2, 2000), 2);
        close(fd);
    }
    sr_text_clear(&text);
    assert_int_equal(sr_checkpoint_verify(run, false, &text), SR_E_CHECKSUM);
    assert_non_null(strstr(sr_error_message(), damaged[0]));
    assert_non_null(strstr(text.data, "(tensors conv1.weight to fc.bias)"));
    assert_non_null(strstr(text.data, "(tensor all)"));
    verify_as_json();
    sr_checkpoint *checkpoint;
    assert_int_equal(sr_checkpoint_open(run, NULL, &checkpoint), SR_E_DATA);
    assert_non_null(strstr(sr_error_message(), "none of its 2 checkpoints"));
    sr_text_release(&text);
}

// Generations are found by number, so a link that cannot be made keeps none from being removed.
static void a_folder_in_place_of_a_link(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_run("last"), 0700), 0);
    for (int64_t n = 1; n <= 5; n++)
        assert_int_equal(state_save(run, n, 1, n == 2), SR_OK);
    assert_false(sr_path_exists(in_run("checkpoints/00000001")));
    assert_true(sr_path_exists(in_run("checkpoints/00000002"))); // the best
    assert_false(sr_path_exists(in_run("checkpoints/00000003")));
    assert_true(state_loads(run, 5));
}

// Everything that reads checkpoints, while a job writes new ones as fast as it can and keeps two.
static void read_all(const char *path) {
    sr_checkpoint *checkpoint;
    sr_text text;
    sr_text_init(&text);
    assert_int_equal(sr_checkpoint_open(path, NULL, &checkpoint), SR_OK);
    assert_true(state_matches(checkpoint, sr_checkpoint_manifest(checkpoint)->generation));
    sr_checkpoint_free(checkpoint);
    assert_int_equal(sr_checkpoint_describe(path, true, &text), SR_OK);
    assert_int_equal(sr_checkpoint_describe_json(path, &text), SR_OK);
    assert_int_equal(sr_checkpoint_verify(path, false, &text), SR_OK);
    sr_text_release(&text);
}

static void a_live_run_is_whole(void **state) {
    (void)state;
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    const pid_t writer = fork();
    if (writer == 0) {
        sr_status status = SR_OK;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int64_t n = 2; status == SR_OK && n < 100000; n++)
            status = state_save(run, n, 2, n % 10 == 0);
        _exit(1);
    }
    assert_true(writer > 0);
    for (int i = 0; i < 300; i++) {
        sr_safetensors *file;
        read_all(in_run("last"));
        read_all(run);
        assert_int_equal(sr_checkpoint_open_weights(in_run("last/model.safetensors"), &file),
                         SR_OK);
        sr_safetensors_free(file);
    }
    int end;
    assert_int_equal(waitpid(writer, &end, WNOHANG), 0);
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_int_equal(waitpid(writer, &end, 0), writer);
}

static void survives_failing_memory(void **state) {
    (void)state;
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    int failures = 0;
    for (uint64_t n = 1;; ++n) {
        sr_memory_fail_nth(n);
        sr_status status = state_save(run, 1 + (int64_t)n, 2, false);
        sr_memory_fail_nth(0);
        if (status == SR_OK && state_loads(run, 1 + (int64_t)n) && failures > 20 && n > 200)
            break;
        failures += status != SR_OK;
        assert_true(status == SR_OK || status == SR_E_MEMORY);
        sr_checkpoint *checkpoint;
        assert_int_equal(sr_checkpoint_open(run, NULL, &checkpoint), SR_OK);
        assert_true(state_matches(checkpoint, sr_checkpoint_manifest(checkpoint)->generation));
        sr_checkpoint_free(checkpoint);
        assert_true(n < 2000);
    }
}

// A million names of usual length fit into a header; what would not is refused before training.
static void checks_class_names(void **state) {
    (void)state;
    enum { COUNT = 1000000, LONG = 100 };
    const char **names = sr_alloc_array(COUNT, sizeof *names, "names");
    assert_non_null(names);
    for (int i = 0; i < COUNT; i++)
        names[i] = "Phalaenopsis \"hybrid\" of unknown origin";
    assert_int_equal(sr_checkpoint_check_classes(names, COUNT), SR_OK);
    for (int i = 0; i < COUNT; i++)
        names[i] =
            "Phalaenopsis \"hybrid\" of unknown origin, collected in the south of the island";
    assert_int_equal(sr_checkpoint_check_classes(names, COUNT), SR_E_LIMIT);
    assert_non_null(strstr(sr_error_message(), "pack the data with shorter names"));
    sr_free(names);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_class_names),
        CASE(any_writers_any_readers),
        CASE(manifest_comes_back),
        CASE(temporary_files_of_generations_are_removed),
        CASE(keeps_two_and_the_best),
        CASE(links_are_repaired),
        CASE(a_chosen_generation_has_no_substitute),
        CASE(unfinished_generations_do_not_count),
        CASE(states_refuse_what_does_not_fit),
        CASE(verify_and_describe),
        CASE(a_folder_in_place_of_a_link),
        CASE(a_live_run_is_whole),
        CASE(survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
