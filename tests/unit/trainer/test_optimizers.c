// SPDX-License-Identifier: Apache-2.0
// Every optimiser of the table, behind the exchange: 50 updates as PyTorch computes them
// (tests/golden/optimizers_golden.py); the same bits on one rank and several, whatever the size of
// buckets, the device and the driver of the exchange, and from a state that was read and written
// back half-way; what happens to steps with an infinite gradient.
#include "tests/unit/support/test_support.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "collective/backend_local_internal.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/stream_comm.h"
#include "tests/unit/trainer/update_fixture.h"

enum { MAX_RANKS = 3, STEPS = 4, MIDDLE = 2, GOLDEN_STEPS = 50 };

// ---- PyTorch ----

static bool begins_with(const char *text, const char *word) {
    const size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && (text[n] == ',' || text[n] == ':');
}

static void compare_with_golden(const char *line, char *numbers) {
    const update_settings settings = {.optimizer = strstr(line, ": {") + 2, .lanes = 1};
    const sr_comm_options options = {.alone = true};
    update_fixture f = {0};
    sr_comm *comm;
    float *got;
    int64_t count;
    double worst = 0;
    assert_ok(sr_comm_create(&options, &comm));
    assert_ok(update_open(&f, &settings, comm));
    assert_ok(update_steps(&f, 0, GOLDEN_STEPS));
    assert_ok(update_read(&f, &got, &count));
    int64_t compared = 0;
    for (char *end; *numbers != '\0' && *numbers != '\n'; numbers = end, compared++) {
        const double want = strtod(numbers, &end);
        const double distance = fabs((double)got[compared] - want) / (1 + fabs(want));
        worst = distance <= worst ? worst : distance; // NaN is kept
    }
    assert_int_equal(58, compared);
    // The iteration of muon multiplies small singular values by up to 3.4 five times, and their
    // errors.
    const double most = begins_with(line, "muon") ? 1e-4 : 3e-6;
    if (!(worst < most))
        fail_msg("%s differs by %.2g", line, worst);
    sr_free(got);
    update_close(&f);
    sr_comm_free(comm);
}

static void test_golden(void **state) {
    static char line[512], numbers[4096];
    size_t count;
    const sr_optimizer_desc *const *all = sr_optimizers(&count);
    bool seen[64] = {0};
    (void)state;
    FILE *file = fopen("tests/golden/optimizers.txt", "r");
    assert_non_null(file);
    assert_true(count <= 64);
    while (fgets(line, sizeof line, file) && fgets(numbers, sizeof numbers, file)) {
        line[strcspn(line, "\n")] = '\0';
        compare_with_golden(line, numbers);
        for (size_t i = 0; i < count; i++)
            seen[i] = seen[i] || begins_with(line, all[i]->name);
    }
    (void)fclose(file);
    for (size_t i = 0; i < count; i++)
        if (!seen[i])
            fail_msg("optimizer %s has no case in optimizers_golden.py", all[i]->name);
}

// ---- The same bits ----

typedef struct layout {
    const char *device; // NULL: the default
    int ranks;
    bool on_stream; // of the exchange's drivers
    int64_t bucket_bytes;
    bool resumes; // at MIDDLE, from what was read there
} layout;

typedef struct update_rank {
    update_settings settings;
    sr_comm *comm;
    int64_t broken_step;
    bool resumes;
    float *got;
    int64_t count, skipped;
    char message[512];
} update_rank;

// The loss scale is part of a checkpoint.
static sr_status resume(update_rank *r, update_fixture *f) {
    const sr_loss_scale scale = f->set->loss_scale;
    float *half;
    SR_TRY(update_read(f, &half, &r->count));
    update_close(f);
    *f = (update_fixture){0};
    sr_status status = update_open(f, &r->settings, r->comm);
    f->broken_step = r->broken_step;
    if (status == SR_OK) {
        f->set->loss_scale = scale;
        status = update_write(f, half);
    }
    sr_free(half);
    return status;
}

// A rank has all of a matrix or nothing of it.
static sr_status check_matrices(const update_fixture *f) {
    const sr_param_set *set = f->set;
    int count;
    const sr_range *owned = sr_exchange_owned(set->exchange, &count);
    for (int s = 0; s < set->segment_count; s++) {
        const int64_t begin = set->segments[s].begin, end = begin + set->segments[s].count;
        for (int i = 0; i < count && set->uses[s].rows > 0; i++) {
            const bool apart = end <= owned[i].begin || owned[i].end <= begin;
            if (!apart && (begin < owned[i].begin || owned[i].end < end))
                return SR_FAIL(SR_E_INTERNAL, "%s has several owners", set->segments[s].name);
        }
    }
    return SR_OK;
}

static sr_status work(update_rank *r, update_fixture *f) {
    SR_TRY(update_open(f, &r->settings, r->comm));
    f->broken_step = r->broken_step;
    SR_TRY(check_matrices(f));
    SR_TRY(update_steps(f, 0, MIDDLE));
    if (r->resumes)
        SR_TRY(resume(r, f));
    SR_TRY(update_steps(f, MIDDLE, STEPS));
    r->skipped = (int64_t)f->set->loss_scale.skipped;
    return update_read(f, &r->got, &r->count);
}

static void *run_rank(void *argument) {
    update_rank *r = argument;
    update_fixture f = {0};
    const sr_status status = work(r, &f);
    if (status != SR_OK) {
        (void)snprintf(r->message, sizeof r->message, "%s", sr_error_message());
        sr_comm_abort(r->comm, status, r->message);
    }
    update_close(&f);
    sr_comm_free(r->comm);
    return NULL;
}

static void run(const update_settings *settings, const layout *l, int64_t broken_step,
                update_rank *ranks) {
    sr_local_world *world;
    pthread_t threads[MAX_RANKS];
    const sr_local_options local = {.size = l->ranks, .seed = 4};
    assert_ok(sr_local_world_create(&local, &world));
    for (int r = 0; r < l->ranks; r++) {
        ranks[r] =
            (update_rank){.settings = *settings, .broken_step = broken_step, .resumes = l->resumes};
        ranks[r].settings.device = l->device;
        ranks[r].settings.bucket_bytes = l->bucket_bytes;
        assert_ok(l->on_stream ? stream_comm_join(world, r, l->ranks, NULL, &ranks[r].comm)
                               : sr_local_world_join(world, r, NULL, &ranks[r].comm));
    }
    for (int r = 0; r < l->ranks; r++)
        assert_int_equal(0, pthread_create(&threads[r], NULL, run_rank, &ranks[r]));
    for (int r = 0; r < l->ranks; r++)
        (void)pthread_join(threads[r], NULL);
    sr_local_world_free(world);
    for (int r = 0; r < l->ranks; r++)
        assert_string_equal("", ranks[r].message);
}

static const layout layouts[] = {
    {.device = "cpu", .ranks = 1},
    {.device = NULL, .ranks = 1, .bucket_bytes = 1},
    {.device = NULL, .ranks = 2, .resumes = true},
    {.device = "cpu", .ranks = 3, .bucket_bytes = 1},
    {.device = "cpu", .ranks = 2, .on_stream = true},
    {.device = "cpu-async", .ranks = 1, .resumes = true},
    {.device = "cpu-async", .ranks = 3, .on_stream = true, .bucket_bytes = 1},
};

static void same_bits(const char *optimizer, double loss_scale, int64_t broken_step) {
    const update_settings settings = {.optimizer = optimizer,
                                      .large = true,
                                      .averages = true,
                                      .loss_scale = loss_scale,
                                      .lanes = 3};
    update_rank first = {0}, ranks[MAX_RANKS] = {0};
    run(&settings, &layouts[0], broken_step, &first);
    for (int64_t i = 0; i < first.count; i++)
        assert_true(isfinite(first.got[i]));
    assert_int_equal(broken_step >= 0, first.skipped);
    for (size_t i = 1; i < sizeof layouts / sizeof layouts[0]; i++) {
        run(&settings, &layouts[i], broken_step, ranks);
        for (int r = 0; r < layouts[i].ranks; r++) {
            assert_int_equal(first.count, ranks[r].count);
            if (!first.got || !ranks[r].got ||
                memcmp(first.got, ranks[r].got, (size_t)first.count * sizeof(float)) != 0)
                fail_msg("%s: layout %zu, rank %d: other bits", optimizer, i, r);
            sr_free(ranks[r].got);
        }
    }
    sr_free(first.got);
}

// Settings that use all states, for optimisers whose defaults leave some out.
static const char *const wider[] = {
    "adamw, amsgrad: true, weight_decay: 0.1",
    "rmsprop, centered: true, momentum: 0.9",
    "rmsprop, tensorflow: true, momentum: 0.9",
    "lars, always_adapt: true, clip_norm: 0.1",
    "lamb, always_adapt: true, clip_norm: 0.1",
    "muon, others: sgd, fixed_norm: true, iterations: 2, weight_decay: 0.1"};

static void test_bits(void **state) {
    char text[256];
    size_t count;
    const sr_optimizer_desc *const *all = sr_optimizers(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(text, sizeof text,
                       "{name: %s, lr: 0.01, weight_decay: 0.1, groups: [{match: [norm, bias], "
                       "decay_scale: 0}]}",
                       all[i]->name);
        same_bits(text, 0, -1);
    }
    for (size_t i = 0; i < sizeof wider / sizeof wider[0]; i++) {
        (void)snprintf(text, sizeof text, "{lr: 0.01, name: %s}", wider[i]);
        same_bits(text, 0, -1);
    }
}

// A step that is skipped counts as none, and changes nothing.
static void test_skipped_step(void **state) {
    char text[256];
    size_t count;
    const sr_optimizer_desc *const *all = sr_optimizers(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(text, sizeof text, "{name: %s, lr: 0.01, weight_decay: 0.1}", all[i]->name);
        same_bits(text, 1024, 1);
    }
}

// ---- States ----

static void test_states_that_options_do_not_use(void **state) {
    static const struct {
        const char *optimizer;
        int states, sums;
    } cases[] = {{"{name: sgd, lr: 1, momentum: 0}", 1, 0}, // older checkpoints have it
                 {"{name: adam, lr: 1}", 2, 0},
                 {"{name: adamw, lr: 1, amsgrad: true}", 3, 0},
                 {"{name: rmsprop, lr: 1}", 1, 0},
                 {"{name: rmsprop, lr: 1, momentum: 0.5}", 2, 0},
                 {"{name: rmsprop, lr: 1, centered: true}", 2, 0},
                 {"{name: lion, lr: 1}", 1, 0},
                 {"{name: lars, lr: 1}", 1, 1},
                 {"{name: lamb, lr: 1}", 2, 1},
                 {"{name: muon, lr: 1}", 2, 1},
                 {"{name: muon, lr: 1, others: sgd}", 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const update_settings settings = {.optimizer = cases[i].optimizer, .lanes = 1};
        const sr_comm_options options = {.alone = true};
        update_fixture f = {0};
        sr_comm *comm;
        assert_ok(sr_comm_create(&options, &comm));
        assert_ok(update_open(&f, &settings, comm));
        assert_int_equal(cases[i].states, sr_param_set_get_info(f.set).states);
        assert_int_equal(cases[i].states + cases[i].sums + 2, sr_param_set_get_info(f.set).arrays);
        update_close(&f);
        sr_comm_free(comm);
    }
}

static void test_refused_options(void **state) {
    static const struct {
        const char *optimizer, *message;
    } wrong[] = {
        {"{name: adam, lr: 1, betas: [0.9]}",
         "betas must be two numbers below 1, such as [0.9, 0.999]"},
        {"{name: adamw, lr: 1, betas: [0.9, 1]}", "betas must be two numbers below 1"},
        {"{name: lion, lr: 1, betas: [0.9, 0.99, 0.999]}", "betas must be two numbers below 1"},
        {"{name: lamb, lr: 1, betas: [1, 0.9]}", "betas must be two numbers below 1"},
        {"{name: lamb, lr: 1, groups: [{match: [fc], elementwise: true}]}",
         "optimizer lamb updates all parameters elementwise; remove it, or use muon"},
        {"{name: lars, lr: 1, momentum: 0, nesterov: true}", "nesterov needs momentum above 0"},
        {"{name: lars, lr: 1, clip_value: 1}", "optimizer lars needs the norms of gradients, which "
                                               "clip_value would change; use clip_norm"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const update_settings settings = {.optimizer = wrong[i].optimizer, .lanes = 1};
        update_fixture f = {0};
        assert_status(SR_E_USAGE, update_open(&f, &settings, NULL));
        assert_message(wrong[i].message);
        update_close(&f);
    }
}

// ---- The average ----

enum { BUFFER = 58, OF_BUFFER = 5, ALL = BUFFER + OF_BUFFER }; // of the values, then of the average

// The average of parameters and running statistics, e = 0.75 e + 0.25 v after each step, or with
// the statistics of the last step.
static void check_average(bool keeps_buffers) {
    const update_settings settings = {.optimizer = "{name: sgd, lr: 0.0625}",
                                      .lanes = 2,
                                      .averages = true,
                                      .keeps_buffers = keeps_buffers};
    const sr_comm_options options = {.alone = true};
    update_fixture f = {0};
    sr_comm *comm;
    double want[ALL];
    float *got;
    int64_t count;
    assert_ok(sr_comm_create(&options, &comm));
    assert_ok(update_open(&f, &settings, comm));
    for (int step = 0; step <= 5; step++) {
        if (step > 0)
            assert_ok(update_steps(&f, step - 1, step));
        assert_ok(update_read(&f, &got, &count));
        for (int i = 0; i < ALL; i++) {
            const double value = (double)got[i];
            const bool present = step == 0 || (keeps_buffers && i >= BUFFER);
            want[i] = present ? value : 0.75 * want[i] + 0.25 * value;
            assert_true(fabs((double)got[ALL + i] - want[i]) < 1e-6);
        }
        sr_free(got);
    }
    update_close(&f);
    sr_comm_free(comm);
}

static void test_average_of_buffers(void **state) {
    (void)state;
    check_average(false);
    check_average(true);
}

// Products of matrices have the same bits on a CPU and on a GPU with portable numerics alone.
static int open_numerics(void **state) {
    sr_device *device;
    (void)state;
    assert_ok(sr_device_open(NULL, &device));
    if (sr_device_get_properties(device)->kind != SR_DEVICE_CPU)
        sr_kernels_use_portable(true);
    sr_device_close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_skipped_step),
        cmocka_unit_test(test_states_that_options_do_not_use),
        cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_average_of_buffers),
    };
    return cmocka_run_group_tests_name("optimizers", tests, open_numerics, NULL);
}
