// SPDX-License-Identifier: Apache-2.0
// Every loss of the table and every function of loss_functions.h: values and gradients in f64
// compared with PyTorch's (tests/golden/losses.txt, written by losses_golden.py), and edge cases in
// f32 and bf16.
#include <math.h>

#include "autograd/gradients.h"
#include "kernels/base/options.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/loss_functions.h"

enum { INPUTS = 2, LINE = 1 << 16, OPTIONS = 256 };

static const double tolerance = 1e-12;

// The function of a row's descriptor: record, record_soft, record_map.
typedef enum row_form { SAMPLES, SOFT, MAP } row_form;

typedef struct loss_case loss_case;
struct loss_case {
    const char *name;    // in losses.txt; begins with the row or the function
    const char *options; // of a row: "a=1 b=2"
    row_form form;       // of a row
    bool logits;         // the first input may be any number
    sr_tensor (*build)(sr_context *context, const sr_tensor *in); // NULL: a row
};

// ---- Cases ----

// The dtype of results.
static sr_dtype wide_of(const sr_tensor *in) {
    sr_info info;
    return sr_tensor_info(in[0], &info) && info.dtype == SR_F64 ? SR_F64 : SR_F32;
}

static sr_label_opts weighted(sr_context *context, const sr_tensor *in, bool ignores) {
    static const double w[5] = {0.5, 2.0, 1.0, 0.25, 3.0};
    const sr_info info = {.dtype = SR_F64, .rank = 1, .dim = {5}};
    return (sr_label_opts){.weight = sr_cast(sr_constant(context, &info, w), wide_of(in)),
                           .has_ignored = ignores,
                           .ignored = 2};
}

#define BUILD(name, expression)                                                                    \
    static sr_tensor build_##name(sr_context *context, const sr_tensor *in) {                      \
        (void)context;                                                                             \
        return expression;                                                                         \
    }

BUILD(mean, sr_loss_mean(sr_loss_cross_entropy(in[0], in[1], 0.2, weighted(context, in, true)),
                         sr_loss_label_weights(in[1], wide_of(in), weighted(context, in, true))))
BUILD(label_weights,
      sr_mul(sr_cast(sr_sum(in[0], (sr_axes){.count = 1, .axis = {1}}), wide_of(in)),
             sr_loss_label_weights(in[1], wide_of(in), weighted(context, in, false))))
BUILD(cross_entropy, sr_loss_cross_entropy(in[0], in[1], 0, weighted(context, in, false)))
BUILD(soft_cross_entropy, sr_loss_soft_cross_entropy(in[0], in[1]))
BUILD(bce, sr_loss_bce(in[0], in[1], 2.5))
BUILD(focal, sr_loss_focal(in[0], in[1], 0.5, weighted(context, in, false)))
BUILD(sigmoid_focal, sr_loss_sigmoid_focal(in[0], in[1], -1, 1.5))
BUILD(margin, sr_loss_margin(in[0], in[1], 0.7, 2))
BUILD(distillation, sr_loss_distillation(in[0], in[1], 3))
BUILD(dice, sr_loss_dice(in[0], in[1], (sr_dice_opts){.batch = false}))
BUILD(dice_batch, sr_loss_dice(in[0], in[1], (sr_dice_opts){.squared = true, .batch = true}))
BUILD(lovasz_softmax, sr_loss_lovasz_softmax(in[0], in[1]))
BUILD(lovasz_hinge, sr_loss_lovasz_hinge(in[0], in[1]))
BUILD(l1, sr_loss_l1(in[0], in[1]))
BUILD(smooth_l1, sr_loss_smooth_l1(in[0], in[1], 0.8))
BUILD(huber, sr_loss_huber(in[0], in[1], 0.8))
BUILD(gan_real, sr_loss_gan_hinge(in[0], SR_GAN_REAL))
BUILD(gan_fake, sr_loss_gan_hinge(in[0], SR_GAN_FAKE))
BUILD(gan_generator, sr_loss_gan_hinge(in[0], SR_GAN_GENERATOR))
BUILD(iou, sr_loss_boxes(in[0], in[1], SR_BOX_IOU))
BUILD(giou, sr_loss_boxes(in[0], in[1], SR_BOX_GIOU))
BUILD(diou, sr_loss_boxes(in[0], in[1], SR_BOX_DIOU))
BUILD(ciou, sr_loss_boxes(in[0], in[1], SR_BOX_CIOU))

static const loss_case cases[] = {
    {"cross-entropy", "", SAMPLES, true, NULL},
    {"cross-entropy/smoothing", "label_smoothing=0.1", SAMPLES, true, NULL},
    {"cross-entropy/weights", "label_smoothing=0.1 class_weights=0.5,2,1,0.25,3", SAMPLES, true,
     NULL},
    {"cross-entropy/ignore", "ignore_index=2", SAMPLES, true, NULL},
    {"cross-entropy/valid", "count=valid", SAMPLES, true, NULL},
    {"cross-entropy/all/weights", "count=all class_weights=0.5,2,1,0.25,3", SAMPLES, true, NULL},
    {"cross-entropy/map", "", MAP, true, NULL},
    {"cross-entropy/map/weights", "class_weights=0.5,2,1,0.25,3", MAP, true, NULL},
    {"cross-entropy/map/weights/smoothing/ignore",
     "label_smoothing=0.1 class_weights=0.5,2,1,0.25,3 ignore_index=2", MAP, true, NULL},
    {"cross-entropy/map/ignore", "ignore_index=2 count=valid", MAP, true, NULL},
    {"cross-entropy/map/ignore/beyond", "ignore_index=9", MAP, true, NULL},
    {"cross-entropy/map/all", "count=all", MAP, true, NULL},
    {"cross-entropy/map/all/weights/smoothing",
     "count=all label_smoothing=0.1 class_weights=0.5,2,1,0.25,3", MAP, true, NULL},
    {"bce", "", SAMPLES, true, NULL},
    {"bce/smoothing/sum", "label_smoothing=0.2 sum_classes=true", SAMPLES, true, NULL},
    {"bce/soft/threshold", "target_threshold=0.2", SOFT, true, NULL},
    {"bce/weights/valid", "class_weights=0.5,2,1,0.25,3 count=valid", SAMPLES, true, NULL},
    {"bce/map", "", MAP, true, NULL},
    {"bce/map/all/weights", "count=all class_weights=0.5,2,1,0.25,3", MAP, true, NULL},
    {"bce/map/smoothing/sum", "label_smoothing=0.2 sum_classes=true", MAP, true, NULL},
    {"focal", "", SAMPLES, true, NULL},
    {"focal/sigmoid", "form=sigmoid", SAMPLES, true, NULL},
    {"focal/valid", "count=valid", SAMPLES, true, NULL},
    {"focal/map", "", MAP, true, NULL},
    {"focal/map/all/sigmoid", "count=all form=sigmoid", MAP, true, NULL},
    {"margin", "", SAMPLES, true, NULL},
    {"ohem/map/thresh", "thresh=0.3 min_kept=2", MAP, true, NULL},
    {"ohem/map/least", "thresh=0.1 min_kept=6 count=all", MAP, true, NULL},
    {"ohem/map/hardest", "thresh=0 min_kept=5 count=kept", MAP, true, NULL},
    {"ohem/map/few", "thresh=0.05 count=kept", MAP, true, NULL},
    {"dice/map", "", MAP, true, NULL},
    {"dice/map/squared/present", "smooth=0.5 squared=true present=true", MAP, true, NULL},
    {"dice/map/batch/present", "smooth=1e-7 batch=true present=true", MAP, true, NULL},
    {"dice/map/batch", "batch=true", MAP, true, NULL},
    {"lovasz/map", "", MAP, true, NULL},
    {"lovasz/map/absent", "absent=true", MAP, true, NULL},
    {"lovasz/map/pictures", "per_picture=true", MAP, true, NULL},
    {"lovasz/map/pictures/absent", "per_picture=true absent=true", MAP, true, NULL},
    {"lovasz/map/pictures/large", "per_picture=true", MAP, true, NULL},
    {"cross-entropy/map/boundary", "boundary_weight=3", MAP, true, NULL},
    {"cross-entropy/map/boundary/ignore/weights/all",
     "boundary_weight=0.5 boundary_width=2 ignore_index=2 class_weights=0.5,2,1,0.25,3 count=all",
     MAP, true, NULL},
    {"focal/map/boundary", "boundary_weight=2 boundary_width=2", MAP, true, NULL},
    {"bce/map/boundary", "boundary_weight=5 boundary_width=20", MAP, true, NULL},
    {"sr_loss_mean/weighted", NULL, SAMPLES, true, build_mean},
    {"sr_loss_label_weights", NULL, SAMPLES, true, build_label_weights},
    {"sr_loss_cross_entropy/pixels", NULL, SAMPLES, true, build_cross_entropy},
    {"sr_loss_soft_cross_entropy", NULL, SAMPLES, true, build_soft_cross_entropy},
    {"sr_loss_bce", NULL, SAMPLES, true, build_bce},
    {"sr_loss_focal/weights", NULL, SAMPLES, true, build_focal},
    {"sr_loss_sigmoid_focal", NULL, SAMPLES, true, build_sigmoid_focal},
    {"sr_loss_margin/squared", NULL, SAMPLES, true, build_margin},
    {"sr_loss_distillation", NULL, SAMPLES, true, build_distillation},
    {"sr_loss_dice", NULL, SAMPLES, false, build_dice},
    {"sr_loss_dice/batch/squared", NULL, SAMPLES, false, build_dice_batch},
    {"sr_loss_lovasz_softmax", NULL, SAMPLES, false, build_lovasz_softmax},
    {"sr_loss_lovasz_hinge", NULL, SAMPLES, true, build_lovasz_hinge},
    {"sr_loss_l1", NULL, SAMPLES, true, build_l1},
    {"sr_loss_smooth_l1", NULL, SAMPLES, true, build_smooth_l1},
    {"sr_loss_huber", NULL, SAMPLES, true, build_huber},
    {"sr_loss_gan_hinge/real", NULL, SAMPLES, true, build_gan_real},
    {"sr_loss_gan_hinge/fake", NULL, SAMPLES, true, build_gan_fake},
    {"sr_loss_gan_hinge/generator", NULL, SAMPLES, true, build_gan_generator},
    {"sr_loss_boxes/iou", NULL, SAMPLES, false, build_iou},
    {"sr_loss_boxes/giou", NULL, SAMPLES, false, build_giou},
    {"sr_loss_boxes/diou", NULL, SAMPLES, false, build_diou},
    {"sr_loss_boxes/ciou", NULL, SAMPLES, false, build_ciou},
};
enum { CASES = sizeof cases / sizeof cases[0] };

// Whether a case begins with this name.
static bool is_of(const loss_case *c, const char *name) {
    const size_t length = strlen(name);
    return strncmp(c->name, name, length) == 0 &&
           (c->name[length] == '\0' || c->name[length] == '/');
}

static bool has_case(const char *name) {
    for (int i = 0; i < CASES; i++)
        if (is_of(&cases[i], name))
            return true;
    return false;
}

static void test_all_have_cases(void **state) {
    (void)state;
    size_t count;
    const sr_loss_desc *const *rows = sr_losses(&count);
    for (size_t i = 0; i < count; i++)
        if (!has_case(rows[i]->name))
            fail_msg("loss %s has no case in test_losses.c", rows[i]->name);
    FILE *header = fopen("trainer/losses/loss_functions.h", "r");
    assert_non_null(header);
    char line[256], name[64];
    int functions = 0;
    while (fgets(line, sizeof line, header)) {
        if (sscanf(line, "sr_tensor %63[a-z0-9_](", name) != 1)
            continue;
        functions++;
        if (!has_case(name))
            fail_msg("function %s has no case in test_losses.c", name);
    }
    (void)fclose(header);
    assert_true(functions > 10);
}

// ---- Values ----

typedef struct values {
    sr_info info;
    double *at;
} values;

static values read_values(FILE *file) {
    values v = {{0}, NULL};
    char kind[8];
    assert_int_equal(2, fscanf(file, "%7s %d", kind, &v.info.rank));
    v.info.dtype = strcmp(kind, "i32") == 0 ? SR_I32 : SR_F64;
    for (int i = 0; i < v.info.rank; i++) {
        long long n;
        assert_int_equal(1, fscanf(file, "%lld", &n));
        v.info.dim[i] = n;
    }
    v.at = test_malloc((size_t)sr_info_count(&v.info) * sizeof(double));
    for (int64_t i = 0; i < sr_info_count(&v.info); i++)
        assert_int_equal(1, fscanf(file, "%lf", &v.at[i]));
    return v;
}

// A case of the file: inputs, dy, the result, the gradients of float inputs.
typedef struct golden {
    int inputs;
    values in[INPUTS], dy, y, grad[INPUTS];
} golden;

static golden read_golden(const char *name) {
    char found[64];
    golden g = {0};
    FILE *file = fopen("tests/golden/losses.txt", "r");
    assert_non_null(file);
    while (fscanf(file, "case %63s %d ", found, &g.inputs) == 2 || !feof(file)) {
        if (strcmp(found, name) != 0) {
            static char line[LINE];
            if (!fgets(line, sizeof line, file))
                break;
            continue;
        }
        for (int i = 0; i < g.inputs; i++)
            g.in[i] = read_values(file);
        g.dy = read_values(file);
        g.y = read_values(file);
        for (int i = 0; i < g.inputs; i++)
            if (g.in[i].info.dtype == SR_F64)
                g.grad[i] = read_values(file);
        (void)fclose(file);
        return g;
    }
    fail_msg("tests/golden/losses.txt has no case %s", name);
    return g;
}

static void free_golden(golden *g) {
    for (int i = 0; i < g->inputs; i++) {
        test_free(g->in[i].at);
        if (g->grad[i].at)
            test_free(g->grad[i].at);
    }
    test_free(g->dy.at);
    test_free(g->y.at);
}

// As a constant of this dtype; integers stay i32.
static sr_tensor constant(sr_context *context, const values *v, sr_dtype dtype) {
    if (v->info.dtype == SR_F64)
        return dtype == SR_F64 ? sr_constant(context, &v->info, v->at)
                               : sr_cast(sr_constant(context, &v->info, v->at), dtype);
    const int64_t count = sr_info_count(&v->info);
    int32_t *labels = test_malloc((size_t)count * sizeof *labels);
    for (int64_t i = 0; i < count; i++)
        labels[i] = (int32_t)v->at[i];
    const sr_tensor t = sr_constant(context, &v->info, labels);
    test_free(labels);
    return t;
}

static const sr_loss_desc *row_of(const loss_case *c) {
    size_t count;
    const sr_loss_desc *const *rows = sr_losses(&count);
    for (size_t i = 0; i < count; i++)
        if (is_of(c, rows[i]->name))
            return rows[i];
    fail_msg("there is no loss for case %s", c->name);
    return NULL;
}

static sr_tensor build_row(const loss_case *c, sr_context *context, const sr_tensor *in) {
    const sr_loss_desc *row = row_of(c);
    _Alignas(max_align_t) char options[OPTIONS];
    char text[OPTIONS];
    sr_arena arena;
    sr_arena_init(&arena);
    assert_true(row->options->struct_size <= sizeof options);
    assert_ok(sr_options_defaults(row->options, options, &arena));
    (void)snprintf(text, sizeof text, "%s", c->options);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        assert_ok(sr_options_set(row->options, options, word, value, &arena));
    }
    const sr_tensor y = (c->form == SOFT  ? row->record_soft
                         : c->form == MAP ? row->record_map
                                          : row->record)(context, in[0], in[1], options);
    sr_arena_release(&arena);
    return y;
}

static sr_tensor build(const loss_case *c, sr_context *context, const sr_tensor *in) {
    return c->build ? c->build(context, in) : build_row(c, context, in);
}

static sr_context *context_for(sr_dtype dtype) {
    const sr_context_options options = {.device = device_for(dtype), .threads = 2};
    sr_context *context;
    assert_ok(sr_context_create(&options, &context));
    return context;
}

static void assert_close(const loss_case *c, const char *what, sr_tensor got, const values *want) {
    const int64_t count = sr_info_count(&want->info);
    double *read = test_malloc((size_t)count * sizeof *read);
    assert_ok(sr_read(got, read, (size_t)count * sizeof *read));
    for (int64_t i = 0; i < count; i++) {
        const double bound = tolerance * (1 + fabs(want->at[i]));
        if (!(fabs(read[i] - want->at[i]) <= bound))
            fail_msg("%s: %s %lld is %.17g, PyTorch's %.17g", c->name, what, (long long)i, read[i],
                     want->at[i]);
    }
    test_free(read);
}

static void test_golden(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++) {
        const loss_case *c = &cases[k];
        golden g = read_golden(c->name);
        sr_context *context = context_for(SR_F64);
        sr_tensor in[INPUTS] = {{0}};
        for (int i = 0; i < g.inputs; i++)
            in[i] = constant(context, &g.in[i], SR_F64);
        const sr_tensor y = build(c, context, in), dy = constant(context, &g.dy, SR_F64);
        assert_ok(sr_context_status(context));
        assert_close(c, "value", y, &g.y);
        for (int i = 0; i < g.inputs; i++) {
            sr_tensor grad;
            if (g.in[i].info.dtype != SR_F64)
                continue;
            sr_gradients(y, dy, &in[i], 1, &grad);
            assert_ok(sr_context_status(context));
            assert_close(c, "gradient", grad, &g.grad[i]);
        }
        sr_context_free(context);
        free_golden(&g);
    }
}

// ---- Edge cases ----

// Value and first gradient in f32, from inputs of this dtype; the result is f32.
static void run_narrow(const loss_case *c, const golden *g, sr_dtype dtype, float *y, float *dx) {
    sr_context *context = context_for(dtype);
    sr_tensor in[INPUTS] = {{0}}, grad;
    sr_info info;
    for (int i = 0; i < g->inputs; i++)
        in[i] = constant(context, &g->in[i], dtype);
    const sr_tensor loss = build(c, context, in);
    assert_true(sr_tensor_info(loss, &info));
    assert_int_equal(SR_F32, info.dtype);
    sr_gradients(loss, SR_NONE, in, 1, &grad);
    assert_ok(sr_context_status(context));
    sr_read_later(loss, y, (size_t)sr_info_count(&info) * sizeof *y);
    sr_read_later(sr_cast(grad, SR_F32), dx, (size_t)sr_info_count(&g->in[0].info) * sizeof *dx);
    assert_ok(sr_context_run(context));
    sr_context_free(context);
}

typedef struct narrow {
    float *y, *dx;
    int64_t results, elements;
} narrow;

static narrow narrow_of(const golden *g) {
    narrow n = {.results = sr_info_count(&g->y.info), .elements = sr_info_count(&g->in[0].info)};
    n.y = test_malloc((size_t)n.results * sizeof *n.y);
    n.dx = test_malloc((size_t)n.elements * sizeof *n.dx);
    return n;
}

static void free_narrow(narrow *n) {
    test_free(n->y);
    test_free(n->dx);
}

static void assert_finite(const loss_case *c, const narrow *n) {
    for (int64_t i = 0; i < n->results; i++)
        if (!isfinite(n->y[i]))
            fail_msg("%s: value %lld is %g", c->name, (long long)i, (double)n->y[i]);
    for (int64_t i = 0; i < n->elements; i++)
        if (!isfinite(n->dx[i]))
            fail_msg("%s: gradient %lld is %g", c->name, (long long)i, (double)n->dx[i]);
}

// bf16 inputs are computed with in f32: the result is as near as the inputs' own rounding.
static void test_narrow_inputs(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++) {
        golden g = read_golden(cases[k].name);
        narrow n = narrow_of(&g);
        for (int t = 0; t < 2; t++) {
            const double bound = t ? 0.05 : 1e-5;
            run_narrow(&cases[k], &g, t ? SR_BF16 : SR_F32, n.y, n.dx);
            assert_finite(&cases[k], &n);
            for (int64_t i = 0; i < n.results; i++)
                if (fabs((double)n.y[i] - g.y.at[i]) > bound * (1 + fabs(g.y.at[i])))
                    fail_msg("%s: value %lld of %s is %g, PyTorch's %g", cases[k].name,
                             (long long)i, t ? "bf16" : "f32", (double)n.y[i], g.y.at[i]);
        }
        free_narrow(&n);
        free_golden(&g);
    }
}

static void test_saturated_logits(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++) {
        if (!cases[k].logits)
            continue;
        golden g = read_golden(cases[k].name);
        narrow n = narrow_of(&g);
        for (int64_t i = 0; i < n.elements; i++)
            g.in[0].at[i] *= 1e4;
        run_narrow(&cases[k], &g, SR_F32, n.y, n.dx);
        assert_finite(&cases[k], &n);
        free_narrow(&n);
        free_golden(&g);
    }
}

static void test_all_ignored(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++) {
        golden g = read_golden(cases[k].name);
        narrow n = narrow_of(&g);
        const bool labels = g.inputs > 1 && g.in[1].info.dtype == SR_I32;
        for (int64_t i = 0; labels && i < sr_info_count(&g.in[1].info); i++)
            g.in[1].at[i] = -1;
        if (labels) {
            run_narrow(&cases[k], &g, SR_F32, n.y, n.dx);
            for (int64_t i = 0; i < n.results; i++)
                if (n.y[i] != 0)
                    fail_msg("%s: value %lld is %g", cases[k].name, (long long)i, (double)n.y[i]);
            for (int64_t i = 0; i < n.elements; i++)
                if (n.dx[i] != 0)
                    fail_msg("%s: gradient %lld is %g", cases[k].name, (long long)i,
                             (double)n.dx[i]);
        }
        free_narrow(&n);
        free_golden(&g);
    }
}

// As many weights as the model has classes.
static void test_wrong_weights(void **state) {
    (void)state;
    static const char *const names[] = {"cross-entropy", "bce"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const loss_case c = {.name = names[i], .options = "class_weights=1,2"};
        golden g = read_golden(c.name);
        sr_context *context = context_for(SR_F64);
        const sr_tensor in[INPUTS] = {constant(context, &g.in[0], SR_F64),
                                      constant(context, &g.in[1], SR_F64)};
        assert_true(sr_is_none(build_row(&c, context, in)));
        assert_status(SR_E_USAGE, sr_context_status(context));
        assert_message("2 class_weights, but the model has 5 classes");
        sr_context_free(context);
        free_golden(&g);
    }
}

// Samples have no boundary.
static void test_boundary_of_samples(void **state) {
    (void)state;
    static const char *const names[] = {"cross-entropy", "bce", "focal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const loss_case c = {.name = names[i]};
        const sr_loss_desc *row = row_of(&c);
        _Alignas(max_align_t) char options[OPTIONS];
        sr_arena arena;
        sr_arena_init(&arena);
        assert_ok(sr_options_defaults(row->options, options, &arena));
        assert_ok(row->check(options, 5, false));
        assert_ok(sr_options_set(row->options, options, "boundary_weight", "2", &arena));
        assert_ok(row->check(options, 5, true));
        assert_status(SR_E_USAGE, row->check(options, 5, false));
        assert_message("boundary_weight is for losses of pixels");
        sr_arena_release(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_have_cases),      cmocka_unit_test(test_golden),
        cmocka_unit_test(test_narrow_inputs),       cmocka_unit_test(test_saturated_logits),
        cmocka_unit_test(test_all_ignored),         cmocka_unit_test(test_wrong_weights),
        cmocka_unit_test(test_boundary_of_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
