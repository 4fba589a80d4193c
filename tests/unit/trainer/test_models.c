// SPDX-License-Identifier: Apache-2.0
// Models beside torchvision's: test_models FILE..., each written by tests/models/model_golden.py,
// which specifies it. Without files: every model has a line in tests/models/cases.txt, and there
// are no others.
//
// 1. Names, shapes and kinds of the tensors are torchvision's, in any order. Stages are what the
// model
//    declares.
// 2. In f64, on the CPU's reference kernels, outputs, losses, every gradient and every statistic of
// a pass
//    equal PyTorch's: norms and projections differ by at most 1e-9 of a tensor's norm. So do
//    outputs in evaluation mode.
// 3. The same bits in fp32 and in bf16, recorded or replayed, with and without the bit-neutral
// passes.
// 4. The losses of 20 steps of SGD in fp32 are within 1e-4 of PyTorch's float64 ones, relatively;
// PyTorch's own float32 ones are within a tenth of that. Networks for segmentation learn masks with
// ignored pixels.
#include "tests/unit/support/test_support.h"

#include <inttypes.h>
#include <math.h>

#include "kernels/base/memory.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/trainer/golden_fill.h"
#include "tests/unit/trainer/golden_train.h"
#include "tests/unit/trainer/network_fixture.h"

enum { PROJECTIONS = 4, STEPS = 20, LINE_BYTES = 1024, FEW_SAMPLES = 2, MOST_OPTIONS = 8 };

// The first two as in test_network_golden.c.
static const double exact_tolerance = 1e-9, least_norm = 1e-4, loss_tolerance = 1e-4;
static const double own_tolerance = 1e-5;   // of PyTorch's float32 losses
static const double table_tolerance = 1e-6; // logarithms in f32

typedef struct model_tensor {
    char kind[16], name[SR_NAME_BYTES];
    sr_info info;
    int index; // of its generated values; counters and tables have none
    double norm, projection[PROJECTIONS];
} model_tensor;

typedef struct model_golden {
    char model[64];
    int64_t classes, side, samples;
    char option[MOST_OPTIONS][64], value[MOST_OPTIONS][64]; // of another network than the standard
                                                            // one
    int options;
    bool trains;               // has losses
    double losses[STEPS], own; // and by how much PyTorch's float32 differs from them
    model_tensor *tensors;
    int count;
    size_t capacity;
    bool numbers;   // else names and shapes alone
    double largest; // norm of a gradient
    uint8_t *images;
    int32_t *labels;
} model_golden;

// ---- The file ----

static void read_shape(const char *text, sr_info *info) {
    char *rest = NULL;
    do {
        assert_true(info->rank < SR_MAX_RANK);
        info->dim[info->rank++] = strtoll(text, &rest, 10);
        text = rest + 1;
    } while (*rest == 'x');
}

static bool is_counter(const model_tensor *t) {
    return strcmp(t->kind, "counter") == 0;
}

static bool is_table(const model_tensor *t) {
    return strcmp(t->kind, "table") == 0;
}

static bool is_tensor_of_model(const model_tensor *t) {
    return t->index >= 0 && t->index < GOLDEN_INPUT;
}

static void read_tensor(model_golden *g, const char *line, int *next) {
    char shape[64];
    void *tensors = g->tensors;
    assert_ok(sr_grow(&tensors, &g->capacity, (size_t)g->count + 1, sizeof *g->tensors, "tensors"));
    g->tensors = tensors;
    model_tensor *t = &g->tensors[g->count++];
    *t = (model_tensor){.index = -1};
    int read =
        sscanf(line, "%15s %127s %63s %lf %lf %lf %lf %lf", t->kind, t->name, shape, &t->norm,
               &t->projection[0], &t->projection[1], &t->projection[2], &t->projection[3]);
    assert_true(read == 3 || read == 4 + PROJECTIONS);
    read_shape(shape, &t->info);
    g->numbers = g->numbers || (read > 3 && !is_table(t));
    if (strcmp(t->kind, "output") == 0 || strcmp(t->kind, "evaluation") == 0)
        t->index = GOLDEN_OUTPUT;
    else if (strcmp(t->kind, "loss") == 0)
        t->index = GOLDEN_LOSS;
    else if (is_table(t))
        t->index = GOLDEN_SEED;
    else if (!is_counter(t))
        t->index = (*next)++;
    if (strcmp(t->kind, "gradient") == 0)
        g->largest = fmax(t->norm, g->largest);
}

static void read_losses(const char *line, model_golden *g) {
    const char *at = line + strlen("losses");
    for (int i = 0; i < STEPS; i++) {
        char *rest;
        g->losses[i] = strtod(at, &rest);
        assert_true(rest > at);
        at = rest;
    }
    g->trains = true;
}

static void read_option(const char *line, model_golden *g) {
    assert_true(g->options < MOST_OPTIONS);
    assert_int_equal(sscanf(line, "options %63s %63s", g->option[g->options], g->value[g->options]),
                     2);
    g->options++;
}

static void read_golden(const char *path, model_golden *g) {
    char line[LINE_BYTES];
    int next = 0;
    *g = (model_golden){.count = 0};
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be opened", path);
    assert_int_equal(fscanf(file, "%63s %" SCNd64 " %" SCNd64 " %" SCNd64 " %lf", g->model,
                            &g->classes, &g->side, &g->samples, &g->own),
                     5);
    assert_non_null(fgets(line, sizeof line, file));
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#')
            continue;
        if (strncmp(line, "options", strlen("options")) == 0)
            read_option(line, g);
        else if (strncmp(line, "losses", strlen("losses")) == 0)
            read_losses(line, g);
        else
            read_tensor(g, line, &next);
    }
    (void)fclose(file);
    g->images = sr_alloc((size_t)(g->samples * g->side * g->side * 3), "pictures");
    g->labels = sr_alloc_array((size_t)g->samples, sizeof *g->labels, "labels");
    assert_non_null(g->images);
    assert_non_null(g->labels);
    golden_fill_pictures(0, g->samples, g->side, g->images);
    golden_fill_labels(0, g->samples, g->classes, g->labels);
}

static void release(model_golden *g) {
    sr_free(g->tensors);
    sr_free(g->images);
    sr_free(g->labels);
}

static const model_tensor *find(const model_golden *g, const char *name) {
    for (int i = 0; i < g->count; i++)
        if (strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    return NULL;
}

// ---- The network ----

// Options that drop something, as the file says, and what switches them off; also of a backbone.
#define DROPS(name)                                                                                \
    { name, "backbone." name }
static const char *const dropping[][2] = {
    DROPS("dropout"),   DROPS("stochastic_depth_prob"), DROPS("attention_dropout"),
    DROPS("drop_rate"), DROPS("dropout_aux"),           DROPS("drop_path")};
enum { DROPPING = sizeof dropping / sizeof *dropping };

static bool has_option(const sr_model_desc *desc, const char *name) {
    for (size_t i = 0; desc->options && i < desc->options->count; i++)
        if (strcmp(desc->options->options[i].name, name) == 0)
            return true;
    return false;
}

static const sr_model_desc *model_of(const model_golden *g) {
    const sr_model_desc *desc = sr_model_find(g->model);
    if (!desc)
        fail_msg("there is no model %s", g->model);
    return desc;
}

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), least = strlen(end);
    return length >= least && strcmp(name + length - least, end) == 0;
}

// Whether it classifies each pixel.
static bool gives_maps(const model_golden *g) {
    const model_tensor *output = find(g, "output");
    return output && output->info.rank == 4;
}

static bool normalises(const sr_model *model) {
    for (int i = 0; i < model->param_count; i++)
        if (model->params[i].info.rank == 1 && ends_with(model->params[i].name, "weight"))
            return true;
    return false;
}

// How steps are trained: factors of biases and norm weights, and of the last layer.
typedef struct training_values {
    const char *optimizer;
    double lr, gentle, last;
} training_values;

static const training_values for_classes = {"{name: sgd, lr: 0.01, momentum: 0}", 0.01, 1.0 / 16,
                                            0.02};
static const training_values for_maps = {"{name: sgd, lr: 0.05, momentum: 0.9}", 0.05, 1.0 / 8,
                                         0.1};

static const training_values *training_of(const model_golden *g) {
    return gives_maps(g) ? &for_maps : &for_classes;
}

// What tests/models/model_golden.py generates; training: NULL for a pass alone.
static void generate(const model_golden *g, const training_values *training, const sr_model *model,
                     int i, float *out) {
    const sr_param *p = &model->params[i];
    const model_tensor *t = find(g, p->name);
    const int64_t count = sr_info_count(&p->info);
    golden_words w = {.tensor = (uint32_t)t->index};
    double scale = 0.2, shift = 0;
    if (p->info.rank == 2 || p->info.rank == 4) {
        const bool small = training && p->info.rank == 2 && !normalises(model);
        const double hidden = small ? training->gentle : 1;
        const double last = (training ? training : &for_classes)->last;
        scale = sqrt(6.0 / (double)(count / p->info.dim[0])) *
                (p->info.dim[0] == g->classes ? last : hidden);
    } else if (p->info.rank == 1) {
        const bool weight = ends_with(p->name, "weight");
        const bool small = training && (weight || ends_with(p->name, "bias"));
        scale *= small ? training->gentle : 1;
        shift = small ? training->gentle : weight;
    }
    if (ends_with(p->name, "running_var")) {
        shift = 4;
        scale *= shift;
    }
    for (int64_t k = 0; k < count; k++)
        out[k] = (float)(shift + golden_unit(&w) * scale);
}

static void fill(const void *user, const sr_model *model, int i, float *out) {
    generate(user, training_of(user), model, i, out);
}

enum { SETTINGS = 4 * DROPPING + 2 * MOST_OPTIONS + 1 };

// The model inside it; NULL: none.
static const sr_model_desc *backbone_of(const model_golden *g) {
    const sr_option_table *table = model_of(g)->options;
    const sr_option *option = table ? sr_options_find(table, "backbone") : NULL;
    const char *name = option ? option->default_text : NULL;
    for (int i = 0; i < g->options; i++)
        if (strcmp(g->option[i], "backbone") == 0)
            name = g->value[i];
    return name ? sr_model_find(name) : NULL;
}

// set: [SETTINGS].
static network_options options_of(const model_golden *g, const char **set) {
    const sr_model_desc *backbone = backbone_of(g);
    int count = 0;
    for (int i = 0; i < g->options; i++) {
        set[count++] = g->option[i];
        set[count++] = g->value[i];
    }
    for (int i = 0; i < DROPPING; i++) {
        if (has_option(model_of(g), dropping[i][0])) {
            set[count++] = dropping[i][0];
            set[count++] = "0";
        }
        if (backbone && has_option(backbone, dropping[i][0])) {
            set[count++] = dropping[i][1];
            set[count++] = "0";
        }
    }
    set[count] = NULL;
    return (network_options){.model = g->model, .set = set, .classes = g->classes, .side = g->side};
}

static network *create(const model_golden *g, sr_dtype dtype, int optimize) {
    const char *set[SETTINGS];
    network_options options = options_of(g, set);
    network *net;
    options.device = device_for(dtype);
    options.optimize = optimize;
    options.dtype = dtype;
    assert_ok(network_create(&options, &net));
    return net;
}

static void run(const model_golden *g, network *net, int64_t samples, bool evaluates) {
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    const network_pass pass = {.samples = samples,
                               .side = g->side,
                               .images = g->images,
                               .mean = mean,
                               .std = std,
                               .labels = g->labels,
                               .evaluates = evaluates};
    for (int i = 0; !net->bound && i < net->model->param_count; i++)
        generate(g, NULL, net->model, i, net->values[i]);
    if (network_run(net, &pass) != SR_OK)
        fail_msg("%s: %s", g->model, sr_error_message());
}

// ---- 1. Names and shapes ----

// How far values are from those of the file, by their norm and their projections.
static double distance(const double *values, int64_t count, const model_tensor *t) {
    double projection[PROJECTIONS];
    golden_project(values, count, t->index, PROJECTIONS, projection);
    const double apart = golden_norm(projection, t->projection, PROJECTIONS) / sqrt(PROJECTIONS);
    const double longer = fabs(golden_norm(values, NULL, count) - t->norm);
    return apart > longer || isnan(apart) ? apart : longer;
}

static void check_tensor(const model_golden *g, const sr_param *p) {
    const model_tensor *t = find(g, p->name);
    char ours[96], theirs[96];
    if (!t || !is_tensor_of_model(t)) {
        fail_msg("%s: torchvision has no tensor %s", g->model, p->name);
        return;
    }
    if (strcmp(sr_info_text(&p->info, ours), sr_info_text(&t->info, theirs)) != 0)
        fail_msg("%s: %s is %s, torchvision's %s", g->model, p->name, ours, theirs);
    const bool buffer = strcmp(t->kind, "statistic") == 0 || strcmp(t->kind, "buffer") == 0;
    if (buffer != (p->kind == SR_PARAM_BUFFER))
        fail_msg("%s: %s is a %s in torchvision", g->model, p->name, t->kind);
}

// Tables have torchvision's values.
static void check_table(const model_golden *g, const sr_model_table *table) {
    const model_tensor *t = find(g, table->name);
    const int64_t count = sr_info_count(&table->info);
    double *values = sr_alloc_array((size_t)count, sizeof *values, "a table");
    char ours[96], theirs[96];
    sr_info shape = table->info;
    assert_non_null(values);
    if (!t || !is_table(t)) {
        fail_msg("%s: torchvision has no table %s", g->model, table->name);
        return;
    }
    shape.dtype = t->info.dtype;
    if (strcmp(sr_info_text(&shape, ours), sr_info_text(&t->info, theirs)) != 0)
        fail_msg("%s: %s is %s, torchvision's %s", g->model, table->name, ours, theirs);
    for (int64_t i = 0; i < count; i++)
        values[i] = table->info.dtype == SR_I64 ? (double)((const int64_t *)table->data)[i]
                                                : (double)((const float *)table->data)[i];
    assert_true(distance(values, count, t) <= table_tolerance * t->norm);
    sr_free(values);
}

// Nothing of the file is left out: names are unique on both sides.
static void check_model(const model_golden *g, const sr_model *model) {
    int tensors = 0, counters = 0, tables = 0;
    for (int i = 0; i < model->param_count; i++)
        check_tensor(g, &model->params[i]);
    for (int i = 0; i < model->counter_count; i++) {
        const model_tensor *t = find(g, model->counters[i].name);
        if (!t || !is_counter(t))
            fail_msg("%s: torchvision has no counter %s", g->model, model->counters[i].name);
    }
    for (int i = 0; i < model->table_count; i++)
        check_table(g, &model->tables[i]);
    for (int i = 0; i < g->count; i++) {
        tensors += is_tensor_of_model(&g->tensors[i]);
        counters += is_counter(&g->tensors[i]);
        tables += is_table(&g->tensors[i]);
    }
    assert_int_equal(tensors, model->param_count);
    assert_int_equal(counters, model->counter_count);
    assert_int_equal(tables, model->table_count);
}

static void check_names(const model_golden *g) {
    const char *set[SETTINGS];
    const network_options options = options_of(g, set);
    sr_model *model;
    sr_arena arena;
    sr_arena_init(&arena);
    assert_ok(network_model(&options, &arena, &model));
    check_model(g, model);
    sr_model_free(model);
    sr_arena_release(&arena);
}

// ---- Stages ----

static int64_t largest_of(const sr_model_stage *stage, int64_t side) {
    return (side + stage->stride - 1) / stage->stride;
}

// Stages have the channels and sizes that the model declares. Without padding a map loses up to
// three pixels. A model around a backbone has none of its own.
static void check_stages(const model_golden *g) {
    network *net = create(g, SR_F32, 0);
    const sr_model *model = net->model;
    if (model->part_count > 1) {
        assert_int_equal(model->stage_count, 0);
        network_free(net);
        return;
    }
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {FEW_SAMPLES, g->side, g->side, 3}};
    const sr_info key = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    sr_tensor maps[SR_STAGES_MAX];
    sr_forward forward = {.context = net->context, .dtype = SR_F32};
    assert_non_null(model->desc->features);
    assert_in_range(model->stage_count, 1, SR_STAGES_MAX);
    sr_context_begin_step(net->context);
    assert_ok(network_bind(net));
    forward.key = sr_input(net->context, 1, &key);
    model->desc->features(&forward, model->state, sr_input(net->context, 0, &info), maps);
    assert_ok(sr_context_status(net->context));
    for (int i = 0; i < model->stage_count; i++) {
        const sr_model_stage *stage = &model->stages[i];
        sr_info map;
        assert_true(sr_tensor_info(maps[i], &map));
        assert_int_equal(map.rank, 4);
        assert_int_equal(map.dim[3], stage->channels);
        const int64_t lost = largest_of(stage, g->side) - map.dim[1];
        assert_true(lost >= 0 && lost <= 4 && map.dim[1] == map.dim[2]);
        assert_true(i == 0 || stage->stride >= stage[-1].stride);
    }
    network_free(net);
}

// ---- 2. f64 ----

static const double *values_of(const network *net, const model_tensor *t, int64_t *count) {
    *count = sr_info_count(&t->info);
    if (t->index == GOLDEN_OUTPUT)
        return net->output;
    if (t->index == GOLDEN_LOSS)
        return net->loss;
    for (int i = 0; i < net->model->param_count; i++)
        if (strcmp(net->model->params[i].name, t->name) == 0)
            return net->results[i];
    fail_msg("%s was not computed", t->name);
    return NULL;
}

static double error_of(const model_golden *g, const network *net, const model_tensor *t) {
    int64_t count;
    const double *values = values_of(net, t, &count);
    const double scale = fmax(t->norm, least_norm * g->largest);
    return distance(values, count, t) / scale;
}

static void check_exact(const model_golden *g, bool evaluates) {
    network *net = create(g, SR_F64, 0);
    double worst = 0;
    run(g, net, g->samples, evaluates);
    for (int i = 0; i < g->count; i++) {
        const model_tensor *t = &g->tensors[i];
        if (is_counter(t) || is_table(t) || (strcmp(t->kind, "evaluation") == 0) != evaluates)
            continue;
        const double error = error_of(g, net, t);
        if (!(error <= exact_tolerance))
            print_error("%s f64: %s of %s: error %.2e\n", g->model, t->kind, t->name, error);
        worst = error <= worst ? worst : error;
    }
    print_message("%s f64, %s: errors are at most %.1e\n", g->model,
                  evaluates ? "evaluation" : "training", worst);
    assert_true(worst <= exact_tolerance);
    network_free(net);
}

// ---- 3. Bits ----

static void check_equal(const model_golden *g, const network *a, const network *b) {
    for (int i = 0; i < g->count; i++) {
        const model_tensor *t = &g->tensors[i];
        int64_t count;
        if (is_counter(t) || is_table(t) || strcmp(t->kind, "evaluation") == 0)
            continue;
        const double *left = values_of(a, t, &count), *right = values_of(b, t, &count);
        if (t->index >= GOLDEN_INPUT) // of fewer samples
            count = count / g->samples * FEW_SAMPLES;
        if (memcmp(left, right, (size_t)count * sizeof *left) != 0)
            fail_msg("%s: %s of %s has other bits", g->model, t->kind, t->name);
    }
}

static void check_bits(const model_golden *g, sr_dtype dtype) {
    network *recorded = create(g, dtype, 0), *replayed = create(g, dtype, 0),
            *plain = create(g, dtype, -1);
    run(g, recorded, FEW_SAMPLES, false);
    run(g, replayed, FEW_SAMPLES, false);
    for (int i = 0; i < replayed->model->param_count; i++)
        memset(replayed->results[i], 0xff,
               (size_t)network_count(replayed, i) * sizeof *replayed->results[i]);
    run(g, replayed, FEW_SAMPLES, false);
    const sr_context_stats stats = sr_context_get_stats(replayed->context);
    assert_int_equal(stats.plans_compiled, 1);
    assert_int_equal(stats.plans_replayed, 1);
    run(g, plain, FEW_SAMPLES, false);
    check_equal(g, recorded, replayed);
    check_equal(g, recorded, plain);
    network_free(recorded);
    network_free(replayed);
    network_free(plain);
}

// ---- 4. Training ----

// The model as a recipe names it.
static void add_model(const model_golden *g, sr_text *out) {
    static const char prefix[] = "backbone.";
    const size_t length = strlen(prefix);
    const sr_model_desc *backbone = backbone_of(g);
    const char *set[SETTINGS];
    (void)options_of(g, set);
    sr_text_add(out, "{name: %s", g->model);
    for (const char **s = set; *s; s += 2)
        if (strncmp(*s, "backbone", strlen("backbone")) != 0)
            sr_text_add(out, ", %s: %s", s[0], s[1]);
    if (backbone) {
        sr_text_add(out, ", backbone: {name: %s", backbone->name);
        for (const char **s = set; *s; s += 2)
            if (strncmp(*s, prefix, length) == 0)
                sr_text_add(out, ", %s: %s", *s + length, s[1]);
        sr_text_add(out, "}");
    }
    sr_text_add(out, "}");
}

static void check_training(const model_golden *g) {
    sr_text model;
    double losses[STEPS], worst = 0;
    sr_text_init(&model);
    add_model(g, &model);
    const golden_training training = {.model = model.data,
                                      .optimizer = training_of(g)->optimizer,
                                      .precision = "fp32",
                                      .segments = gives_maps(g),
                                      .classes = g->classes,
                                      .side = g->side,
                                      .batch = g->samples,
                                      .lanes = 1,
                                      .lr = training_of(g)->lr,
                                      .fill = fill,
                                      .user = g};
    golden_train(&training, STEPS, losses);
    for (int i = 0; i < STEPS; i++) {
        const double apart = fabs(losses[i] - g->losses[i]) / g->losses[i];
        worst = apart <= worst ? worst : apart; // NaN is kept
    }
    print_message("%s: losses of %d steps differ by at most %.1e (PyTorch's by %.1e)\n", g->model,
                  STEPS, worst, g->own);
    assert_true(g->own <= own_tolerance);
    assert_true(worst <= loss_tolerance);
    sr_text_release(&model);
}

// ---- Files and the list ----

static char **paths;
static int path_count;

static void models_are_torchvisions(void **state) {
    (void)state;
    for (int i = 0; i < path_count; i++) {
        model_golden g;
        read_golden(paths[i], &g);
        check_names(&g);
        if (g.numbers) {
            check_stages(&g);
            check_exact(&g, true);
            check_exact(&g, false);
            check_bits(&g, SR_F32);
            check_bits(&g, SR_BF16);
        }
        if (g.trains)
            check_training(&g);
        release(&g);
    }
}

static void every_model_has_a_case(void **state) {
    (void)state;
    size_t count, lines = 0;
    const sr_model_desc *const *all = sr_models(&count);
    char line[LINE_BYTES], name[64], how[16];
    bool *found = sr_alloc_array(count, sizeof *found, "models");
    FILE *file = fopen("tests/models/cases.txt", "r");
    assert_non_null(found);
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        size_t i = 0;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%63s %*d %15s", name, how), 2);
        while (i < count && strcmp(all[i]->name, name) != 0)
            i++;
        if (i == count || found[i])
            fail_msg("tests/models/cases.txt: %s is no model, or there twice", name);
        found[i] = true;
        lines++;
    }
    (void)fclose(file);
    for (size_t i = 0; i < count; i++)
        if (!found[i])
            fail_msg("model %s has no line in tests/models/cases.txt", all[i]->name);
    assert_int_equal(count, lines);
    sr_free(found);
}

// ---- Initial values ----

enum { DRAWS = 10000 };

static void build_drawn(sr_builder *b, const void *options, void *state) {
    sr_tensor *fields = state;
    const int64_t dim[4] = {DRAWS / 8, 2, 2, 2};
    (void)options;
    sr_build_param(b, &fields[0], "a", SR_PARAM_WEIGHT, 4, dim,
                   (sr_init){.kind = SR_INIT_TRUNC_NORMAL, .scale = 1.5});
    sr_build_param(b, &fields[1], "b", SR_PARAM_WEIGHT, 4, dim,
                   (sr_init){.kind = SR_INIT_KAIMING_FAN_IN});
    sr_build_param(b, &fields[2], "c", SR_PARAM_WEIGHT, 4, dim,
                   (sr_init){.kind = SR_INIT_KAIMING_FAN_OUT});
    sr_build_param(b, &fields[3], "d", SR_PARAM_WEIGHT, 4, dim,
                   (sr_init){.kind = SR_INIT_CONSTANT, .scale = 0.75});
}

static void initial_values_are_distributed(void **state) {
    (void)state;
    static const sr_model_desc desc = {
        .name = "drawn", .state_size = 4 * sizeof(sr_tensor), .build = build_drawn};
    // Of a normal distribution with deviation 1.5 that is cut at -2 and 2; sqrt(2 / 8), sqrt(2 /
    // 5000).
    static const double deviations[] = {1.0229, 0.5, 0.02};
    static const double mosts[] = {2, HUGE_VAL, HUGE_VAL};
    const sr_model_build from = {.desc = &desc, .prefix = "", .classes = 2};
    sr_model *model;
    assert_ok(sr_model_create(&from, &model));
    float *values = sr_alloc_array((size_t)model->elements, sizeof *values, "values");
    assert_non_null(values);
    sr_model_init_values(model, 3, values);
    for (int p = 0; p < 3; p++) {
        const float *v = values + model->params[p].offset;
        double sum = 0, squares = 0, most = 0;
        for (int i = 0; i < DRAWS; i++) {
            sum += (double)v[i];
            squares += (double)v[i] * (double)v[i];
            most = fmax(fabs((double)v[i]), most);
        }
        assert_true(fabs(sum / DRAWS) < 0.05 * deviations[p]);
        assert_true(fabs(sqrt(squares / DRAWS) / deviations[p] - 1) < 0.03);
        assert_true(most <= mosts[p] && most > 1.9 * deviations[p]);
    }
    for (int i = 0; i < DRAWS; i++)
        assert_true(values[model->params[3].offset + i] == 0.75f);
    sr_free(values);
    sr_model_free(model);
}

// The last layer of cifar-fast has the deviation of its option, and is uniform.
static void last_layer_has_its_deviation(void **state) {
    enum { COUNT = 10 * 256 };
    static const char *const set[] = {"head_std", "0.5", NULL};
    const network_options options = {.model = "cifar-fast", .set = set, .classes = 10, .side = 32};
    sr_arena arena = {0};
    sr_model *model;
    double squares = 0, most = 0;
    (void)state;
    assert_ok(network_model(&options, &arena, &model));
    float *values = sr_alloc_array((size_t)model->elements, sizeof *values, "values");
    assert_non_null(values);
    sr_model_init_values(model, 3, values);
    const sr_param *head = &model->params[model->param_count - 1];
    assert_string_equal("head.weight", head->name);
    assert_int_equal(COUNT, sr_info_count(&head->info));
    for (int i = 0; i < COUNT; i++) {
        const double v = (double)values[head->offset + i];
        squares += v * v;
        most = fmax(fabs(v), most);
    }
    // Five deviations of the mean of COUNT squares of uniform values, which is sqrt(0.8 / COUNT).
    assert_true(fabs(squares / COUNT / 0.25 - 1) < 5 * sqrt(0.8 / COUNT));
    assert_true(most <= 0.5 * sqrt(3) && most > 0.5 * sqrt(3) * 0.98);
    sr_free(values);
    sr_model_free(model);
    sr_arena_release(&arena);
}

enum { PICTURES = 40, SIDE = 8, PATCH_VALUES = 12, FILTERS = 2 * PATCH_VALUES };

// Value k of a patch, as the filters of the first layer order them: channel, row, column.
static double patch_value(const uint8_t *image, int y, int x, int k, const double *mean,
                          const double *std) {
    const int c = k / 4, row = y + k / 2 % 2, column = x + k % 2;
    return (image[(row * SIDE + column) * 3 + c] / 255.0 - mean[c]) / std[c];
}

// Sums of products of the filters' results over all patches, divided by their number.
static void products_of_filters(const uint8_t *images, const double *mean, const double *std,
                                const float *filters, double out[FILTERS][FILTERS]) {
    const double patches = PICTURES * (SIDE - 1.0) * (SIDE - 1.0);
    memset(out, 0, sizeof(double) * FILTERS * FILTERS);
    for (int i = 0; i < PICTURES; i++) {
        for (int at = 0; at < (SIDE - 1) * (SIDE - 1); at++) {
            const uint8_t *image = images + (ptrdiff_t)i * SIDE * SIDE * 3;
            double y[FILTERS] = {0};
            for (int f = 0; f < FILTERS; f++)
                for (int k = 0; k < PATCH_VALUES; k++)
                    y[f] += (double)filters[f * PATCH_VALUES + k] *
                            patch_value(image, at / (SIDE - 1), at % (SIDE - 1), k, mean, std);
            for (int f = 0; f < FILTERS * FILTERS; f++)
                out[f / FILTERS][f % FILTERS] += y[f / FILTERS] * y[f % FILTERS] / patches;
        }
    }
}

// The first layer of cifar-fast makes patches of 2 x 2 pixels white: its results have no
// correlation, and a mean square of l / (l + 5e-4), l an eigenvalue of the patches' covariance. The
// second half of the filters is the first one with the opposite sign.
static void first_layer_whitens(void **state) {
    static const double mean[] = {0.5, 0.25, 0.5}, std[] = {0.25, 0.5, 0.125};
    static uint8_t images[PICTURES * SIDE * SIDE * 3];
    const network_options options = {.model = "cifar-fast", .classes = 10, .side = SIDE};
    float filters[FILTERS * PATCH_VALUES];
    double m[FILTERS][FILTERS];
    network *net;
    sr_rng rng;
    (void)state;
    sr_rng_init(&rng, 5, 0, 0, 0);
    // A pixel has half of the pixel before it, so that neighbours are correlated.
    for (int i = 0; i < (int)sizeof images; i++)
        images[i] = (uint8_t)((i < 3 ? 0 : images[i - 3] / 2) + (int)sr_rng_below(&rng, 128));
    assert_ok(network_create(&options, &net));
    assert_ok(network_bind(net));
    const sr_model *model = net->model;
    assert_ok(model->desc->init_from_data(model->state, images, PICTURES, SIDE, SIDE, mean, std));
    assert_string_equal("whiten.weight", model->params[0].name);
    assert_ok(sr_read(model->params[0].variable, filters, sizeof filters));
    products_of_filters(images, mean, std, filters, m);
    // Filters are rounded to 24 bits. An error of a filter is multiplied, in the product with
    // another, by the root of the ratio of two eigenvalues. These are below 90, the largest sum of
    // squares of a patch, and above 9 * 5e-4, because mean squares are above 0.9.
    const double most = 2 * PATCH_VALUES * 0x1p-24 * sqrt(90 / (9 * 5e-4));
    for (int r = 0; r < FILTERS; r++) {
        assert_true(m[r][r] < 1 + most && m[r][r] > 0.9);
        for (int k = 0; k < PATCH_VALUES; k++) {
            assert_true(r % PATCH_VALUES == k || fabs(m[r][k]) < most);
            assert_true(filters[k + PATCH_VALUES * PATCH_VALUES] == -filters[k]);
        }
    }
    network_free(net);
}

int main(int argc, char **argv) {
    const struct CMUnitTest files[] = {cmocka_unit_test(models_are_torchvisions)};
    const struct CMUnitTest list[] = {
        cmocka_unit_test(every_model_has_a_case), cmocka_unit_test(initial_values_are_distributed),
        cmocka_unit_test(last_layer_has_its_deviation), cmocka_unit_test(first_layer_whitens)};
    paths = argv + 1;
    path_count = argc - 1;
    return path_count > 0 ? cmocka_run_group_tests_name("models", files, NULL, NULL)
                          : cmocka_run_group_tests_name("model_cases", list, NULL, NULL);
}
