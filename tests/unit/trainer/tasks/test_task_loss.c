// SPDX-License-Identifier: Apache-2.0
// The loss of a recipe as tasks record it: the sum of its parts by their weights, of samples, of
// mixed samples and of pixels, and what of it is logged.
#include <math.h>

#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"
#include "trainer/tasks/task.h"

enum { SAMPLES = 3, SIDE = 4, CLASSES = 5, MOST = SAMPLES * SIDE * SIDE * CLASSES, OPTIONS = 256 };

// Random logits and labels of samples, or of pixels.
typedef struct inputs {
    sr_tensor logits, labels, others;
} inputs;

static inputs make_inputs(sr_context *context, bool maps, uint32_t number) {
    float logits[MOST];
    int32_t labels[2][MOST];
    const sr_info of_map = {.rank = 4, .dim = {SAMPLES, SIDE, SIDE, CLASSES}};
    sr_info info = maps ? of_map : (sr_info){.rank = 2, .dim = {SAMPLES, CLASSES}};
    sr_rng rng;
    sr_rng_init(&rng, 3, number, 0, 0);
    for (int i = 0; i < MOST; i++) {
        logits[i] = (float)sr_rng_below(&rng, 4000) / 1000 - 2;
        labels[0][i] = (int32_t)sr_rng_below(&rng, CLASSES);
        labels[1][i] = (int32_t)sr_rng_below(&rng, CLASSES);
    }
    info.dtype = SR_F32;
    inputs in = {.logits = sr_constant(context, &info, logits)};
    info.dtype = SR_I32;
    info.rank--;
    in.labels = sr_constant(context, &info, labels[0]);
    in.others = sr_constant(context, &info, labels[1]);
    return in;
}

static sr_loss_part part_of(const char *loss, const char *name, double weight, sr_arena *arena) {
    size_t count;
    const sr_loss_desc *const *all = sr_losses(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i]->name, loss) != 0)
            continue;
        void *options = sr_arena_alloc(arena, all[i]->options->struct_size);
        assert_non_null(options);
        assert_ok(sr_options_defaults(all[i]->options, options, arena));
        return (sr_loss_part){.name = name, .weight = weight, .desc = all[i], .options = options};
    }
    fail_msg("there is no loss %s", loss);
    return (sr_loss_part){0};
}

typedef struct losses {
    float of[SAMPLES];
} losses;

static losses read(sr_tensor x) {
    losses l;
    assert_ok(sr_read(x, l.of, sizeof l.of));
    return l;
}

static losses plus(losses a, double factor, losses b) {
    for (int i = 0; i < SAMPLES; i++)
        a.of[i] += (float)factor * b.of[i];
    return a;
}

static void assert_near(losses a, losses b) {
    for (int i = 0; i < SAMPLES; i++)
        if (!(fabsf(a.of[i] - b.of[i]) <= 1e-5f * (1 + fabsf(b.of[i]))))
            fail_msg("loss %d is %g, not %g", i, (double)a.of[i], (double)b.of[i]);
}

typedef struct setting {
    sr_context *context;
    sr_arena arena;
    sr_loss_part parts[2];
    sr_lane_recording recording;
} setting;

static setting *begin(const char *first, const char *second) {
    static setting s;
    s = (setting){0};
    sr_arena_init(&s.arena);
    assert_ok(sr_context_create(NULL, &s.context));
    s.parts[0] = part_of(first, "a", 0.5, &s.arena);
    s.parts[1] = part_of(second, "b", 3, &s.arena);
    s.recording = (sr_lane_recording){.context = s.context, .losses = s.parts, .loss_count = 2};
    return &s;
}

static void end(setting *s) {
    sr_context_free(s->context);
    sr_arena_release(&s->arena);
}

static losses alone(const setting *s, int part, const inputs *in, bool maps) {
    const sr_loss_part *p = &s->parts[part];
    return read((maps ? p->desc->record_map : p->desc->record)(s->context, in->logits, in->labels,
                                                               p->options));
}

// Of two heads, the second with the weight 0.4.
static void check_heads(const char *first, const char *second, bool maps) {
    setting *s = begin(first, second);
    const inputs main = make_inputs(s->context, maps, 1), other = make_inputs(s->context, maps, 2);
    const losses a = read(sr_task_loss(&s->recording, main.logits, main.labels, NULL, 1));
    const losses b = read(sr_task_loss(&s->recording, other.logits, other.labels, NULL, 0.4));
    losses parts[2] = {{{0}}, {{0}}};
    for (int i = 0; i < 2; i++) {
        const double weight = s->parts[i].weight;
        parts[i] = plus(parts[i], weight, alone(s, i, &main, maps));
        parts[i] = plus(parts[i], 0.4 * weight, alone(s, i, &other, maps));
        assert_near(read(s->recording.part_losses[i]), parts[i]);
    }
    assert_near(plus(a, 1, b), plus(parts[0], 1, parts[1]));
    end(s);
}

static void test_parts_of_samples(void **state) {
    (void)state;
    check_heads("cross-entropy", "bce", false);
}

static void test_parts_of_pixels(void **state) {
    (void)state;
    check_heads("dice", "cross-entropy", true);
}

// A loss of mixed targets, and one that is the sum of the losses of both labels.
static void test_parts_of_mixed_samples(void **state) {
    (void)state;
    static const float share[SAMPLES] = {0.25f, 1, 0.7f};
    const sr_info n = {.dtype = SR_F32, .rank = 1, .dim = {SAMPLES}};
    setting *s = begin("cross-entropy", "bce");
    const inputs in = make_inputs(s->context, false, 3);
    const sr_mixed mixed = {.weight = sr_constant(s->context, &n, share), .partner = in.others};
    const losses sum = read(sr_task_loss(&s->recording, in.logits, in.labels, &mixed, 1));
    const inputs swapped = {.logits = in.logits, .labels = in.others};
    losses want = {{0}};
    // Both are linear in the target.
    for (int i = 0; i < 2; i++) {
        const losses own = alone(s, i, &in, false), other = alone(s, i, &swapped, false);
        for (int k = 0; k < SAMPLES; k++)
            want.of[k] +=
                (float)s->parts[i].weight * (share[k] * own.of[k] + (1 - share[k]) * other.of[k]);
    }
    assert_near(sum, want);
    end(s);
}

// A loss that is not in a list is recorded as it is.
static void test_single_loss(void **state) {
    (void)state;
    setting *s = begin("focal", "focal");
    const inputs in = make_inputs(s->context, true, 4);
    s->parts[0].weight = 1;
    s->recording.loss_count = 1;
    const losses got = read(sr_task_loss(&s->recording, in.logits, in.labels, NULL, 1)),
                 want = alone(s, 0, &in, true);
    assert_memory_equal(&want, &got, sizeof got);
    end(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_samples),
        cmocka_unit_test(test_parts_of_pixels),
        cmocka_unit_test(test_parts_of_mixed_samples),
        cmocka_unit_test(test_single_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
