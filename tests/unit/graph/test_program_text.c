// SPDX-License-Identifier: Apache-2.0
// Programs as text (graph/program_text.h): every operator of the table, and a network that learns,
// read back to the same text and the same bits; every violation has its line and column.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "autograd/gradients.h"
#include "graph/call_layers.h"
#include "graph/program_text.h"
#include "kernels/base/rng.h"
#include "tests/unit/graph/op_cases.h"

enum { OPS = 256, TARGETS = 1 + OP_CASE_INPUTS, TEXT = 1 << 16 };

static const struct {
    const op_case *cases;
    const size_t *count;
} tables[] = {
    {op_cases_layers, &op_cases_layers_count},     {op_cases_matmul, &op_cases_matmul_count},
    {op_cases_norms, &op_cases_norms_count},       {op_cases_formulas, &op_cases_formulas_count},
    {op_cases_shapes, &op_cases_shapes_count},     {op_cases_index, &op_cases_index_count},
    {op_cases_pictures, &op_cases_pictures_count}, {op_cases_reduce, &op_cases_reduce_count},
    {op_cases_math, &op_cases_math_count},         {op_cases_attention, &op_cases_attention_count},
    {op_cases_windows, &op_cases_windows_count},   {op_cases_boxes, &op_cases_boxes_count},
    {op_cases_samples, &op_cases_samples_count},
};

static sr_context *begin(void) {
    static const sr_context_options options = {.device = "cpu", .threads = 1};
    sr_context *context;
    assert_ok(sr_context_create(&options, &context));
    sr_context_begin_step(context);
    return context;
}

static void *read_value(sr_tensor tensor, size_t *bytes) {
    sr_info info;
    assert_true(sr_tensor_info(tensor, &info));
    *bytes = (size_t)sr_info_count(&info) * sr_dtype_size(info.dtype);
    void *data = test_calloc(1, *bytes + 1);
    assert_ok(sr_read(tensor, data, *bytes));
    return data;
}

static void expect_equal_values(sr_tensor a, sr_tensor b) {
    size_t bytes, others;
    void *left = read_value(a, &bytes), *right = read_value(b, &others);
    assert_int_equal(bytes, others);
    assert_memory_equal(left, right, bytes);
    test_free(left);
    test_free(right);
}

// Reads a text into a context of its own and writes it again.
static sr_context *read_again(const sr_text *text, sr_arena *arena, sr_read_program *out) {
    sr_context *context = begin();
    sr_text again;
    const sr_status status = sr_program_read(context, text->data, text->length, NULL, arena, out);
    if (status != SR_OK)
        print_error("%s\n", text->data);
    assert_ok(status);
    sr_text_init(&again);
    assert_ok(sr_program_write(context, out->targets, out->target_count, &again));
    assert_string_equal(text->data, again.data);
    sr_text_release(&again);
    return context;
}

// ---- Every operator ----

static void make_inputs(sr_context *context, const op_case *c, sr_rng *rng, sr_tensor *in) {
    for (int i = 0; i < c->inputs; i++) {
        const int64_t count = sr_info_count(&c->info[i]);
        double *values = test_calloc((size_t)count, sizeof *values);
        int32_t *integers = test_calloc((size_t)count, sizeof *integers);
        const bool given = c->low != 0 || c->high != 0;
        for (int64_t k = 0; k < count; k++) {
            values[k] = sr_rng_uniform(rng, given ? c->low : -1, given ? c->high : 1);
            integers[k] = k < OP_CASE_VALUES ? (int32_t)c->in[i][k] : 0;
        }
        uint8_t bytes[OP_CASE_VALUES];
        for (int k = 0; k < OP_CASE_VALUES; k++)
            bytes[k] = c->info[i].dtype == SR_U8 ? (uint8_t)c->in[i][k] : 0;
        const sr_dtype dtype = c->info[i].dtype;
        assert_true(dtype == SR_F64 || dtype == SR_I32 || dtype == SR_U8);
        in[i] = sr_constant(context, &c->info[i],
                            dtype == SR_F64   ? (const void *)values
                            : dtype == SR_I32 ? (const void *)integers
                                              : (const void *)bytes);
        test_free(values);
        test_free(integers);
    }
}

// The result, and its gradients with respect to the inputs that have one.
static int record_case(sr_context *context, const op_case *c, sr_rng *rng, sr_target *targets) {
    sr_tensor in[OP_CASE_INPUTS], grads[OP_CASE_INPUTS];
    int count = 1;
    make_inputs(context, c, rng, in);
    targets[0] = (sr_target){.tensor = c->build(context, in, (void *)(uintptr_t)c)};
    if (c->wrt > 0) {
        sr_gradients(targets[0].tensor, in[c->inputs - 1], &in[c->wrt - 1], 1, grads);
        targets[0].tensor = grads[0];
    }
    assert_ok(sr_context_status(context));
    sr_info info;
    assert_true(sr_tensor_info(targets[0].tensor, &info));
    if (c->gradient < GRADIENT_ONCE || !sr_dtype_is_float(info.dtype))
        return count;
    for (int i = 0; i < c->inputs; i++) {
        if (c->info[i].dtype != SR_F64 || (c->fixed >> i & 1))
            continue;
        sr_gradients(targets[0].tensor, SR_NONE, &in[i], 1, grads);
        targets[count++] = (sr_target){.tensor = grads[0]};
    }
    assert_ok(sr_context_status(context));
    return count;
}

static void note_operators(const char *text, bool *seen) {
    size_t count;
    char call[64];
    const sr_op *const *ops = sr_ops(&count);
    assert_true(count <= OPS);
    for (size_t i = 0; i < count; i++) {
        snprintf(call, sizeof call, "= %s(", ops[i]->name);
        seen[i] = seen[i] || strstr(text, call) != NULL;
        snprintf(call, sizeof call, "\n%s(", ops[i]->name);
        seen[i] = seen[i] || strstr(text, call) != NULL;
    }
}

static void run_case(const op_case *c, bool *seen) {
    sr_context *context = begin(), *other;
    sr_target targets[TARGETS];
    sr_read_program read;
    sr_text text;
    sr_arena arena;
    sr_rng rng;
    sr_rng_init(&rng, 7, 0, 0, 0);
    sr_arena_init(&arena);
    sr_text_init(&text);
    const int count = record_case(context, c, &rng, targets);
    assert_ok(sr_program_write(context, targets, count, &text));
    note_operators(text.data, seen);
    other = read_again(&text, &arena, &read);
    assert_int_equal(read.target_count, count);
    for (int i = 0; i < count; i++)
        expect_equal_values(targets[i].tensor, read.targets[i].tensor);
    sr_context_free(other);
    sr_context_free(context);
    sr_text_release(&text);
    sr_arena_release(&arena);
}

// ---- A network that learns ----

enum { SAMPLES = 4, SIDE = 6, CHANNELS = 3, CLASSES = 5, FILTERS = 4 };

typedef struct learner {
    sr_context *context;
    sr_tensor w, bias, gamma, fc, momentum, average;
    sr_target targets[3];
} learner;

static sr_tensor random_variable(sr_context *context, const char *name, int rank,
                                 const int64_t *dim) {
    sr_info info = {.dtype = SR_F32, .rank = rank};
    sr_rng rng;
    float values[256];
    sr_rng_init(&rng, 3, (uint32_t)strlen(name), 0, 0);
    for (int i = 0; i < rank; i++)
        info.dim[i] = dim[i];
    assert_true(sr_info_count(&info) <= 256);
    for (int64_t i = 0; i < sr_info_count(&info); i++)
        values[i] = (float)sr_rng_uniform(&rng, -1, 1);
    return sr_variable(context, name, &info, values);
}

static void record_learner(learner *l) {
    static const sr_info image = {SR_U8, 4, {SAMPLES, SIDE, SIDE, CHANNELS}};
    static const sr_info label = {SR_I32, 1, {SAMPLES}}, eight = {SR_F32, 1, {8}};
    static const double mean[3] = {0.5, 0.4, 0.3}, std[3] = {0.2, 0.3, 0.25};
    static const int32_t labels[SAMPLES] = {0, 4, -1, 2};
    static const float hyper[8] = {0.1F, 0.9F, 1e-4F, 1, 0.25F, 0, 0, 0};
    uint8_t pixels[SAMPLES * SIDE * SIDE * CHANNELS];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37 % 251);
    sr_tensor grads[2];
    (void)sr_layer_use(l->context, sr_no_layer);
    sr_tensor x = sr_constant(l->context, &image, pixels);
    x = sr_normalize(x, mean, std, SR_BF16);
    (void)sr_layer_use(l->context, "");
    x = sr_conv2d_bias(x, l->w, l->bias, (sr_conv2d_opts){.stride = 2, .pad = 1});
    const sr_batchnorm_out norm = sr_batchnorm_train(x, l->gamma, SR_NONE, 1e-5);
    x = sr_global_avgpool(sr_relu(norm.y));
    x = sr_linear(x, l->fc, SR_NONE);
    (void)sr_layer_use(l->context, sr_no_layer);
    sr_tensor loss =
        sr_softmax_cross_entropy(sr_cast(x, SR_F32), sr_constant(l->context, &label, labels), 0.1);
    const sr_tensor xs[2] = {l->w, l->fc};
    sr_gradients(loss, SR_NONE, xs, 2, grads);
    const sr_tensor settings = sr_constant(l->context, &eight, hyper);
    sr_sgd_update(l->fc, l->momentum, grads[1], settings);
    sr_ema_update(l->average, l->fc, settings);
    l->targets[0] = (sr_target){.tensor = loss};
    l->targets[1] = (sr_target){.tensor = grads[0], .after = l->w};
    l->targets[2] = (sr_target){.tensor = norm.var};
    assert_ok(sr_context_status(l->context));
}

static void begin_learner(learner *l) {
    *l = (learner){.context = begin()};
    l->w = random_variable(l->context, "stem.conv.weight", 4, (int64_t[]){FILTERS, CHANNELS, 3, 3});
    l->bias = random_variable(l->context, "stem.conv.bias", 1, (int64_t[]){FILTERS});
    l->gamma = random_variable(l->context, "stem.bn.weight", 1, (int64_t[]){FILTERS});
    l->fc =
        random_variable(l->context, "a \"quoted\\ name.\x01.fc", 2, (int64_t[]){CLASSES, FILTERS});
    l->momentum = random_variable(l->context, "momentum", 2, (int64_t[]){CLASSES, FILTERS});
    l->average = random_variable(l->context, "average", 2, (int64_t[]){CLASSES, FILTERS});
    record_learner(l);
}

static void copy_variables(const learner *l, const sr_read_program *read) {
    const sr_tensor own[] = {l->w, l->bias, l->gamma, l->fc, l->momentum, l->average};
    assert_int_equal(read->variable_count, 6);
    for (int i = 0; i < read->variable_count; i++) {
        const char *name = sr_variable_name(read->variables[i]);
        for (size_t k = 0; k < 6; k++) {
            size_t bytes;
            if (strcmp(sr_variable_name(own[k]), name) != 0)
                continue;
            // As it was made: reading it would run the update.
            sr_info info;
            sr_rng rng;
            float values[256];
            assert_true(sr_tensor_info(own[k], &info));
            sr_rng_init(&rng, 3, (uint32_t)strlen(name), 0, 0);
            for (int64_t e = 0; e < sr_info_count(&info); e++)
                values[e] = (float)sr_rng_uniform(&rng, -1, 1);
            assert_ok(sr_variable_write(read->variables[i], values));
            bytes = (size_t)sr_info_count(&info);
            assert_true(bytes <= 256);
        }
    }
}

static sr_tensor named(const sr_read_program *read, sr_tensor variable) {
    for (int i = 0; i < read->variable_count; i++)
        if (strcmp(sr_variable_name(read->variables[i]), sr_variable_name(variable)) == 0)
            return read->variables[i];
    fail();
    return SR_NONE;
}

static void test_learning(void **state) {
    (void)state;
    learner l;
    sr_text text;
    sr_arena arena;
    sr_read_program read;
    bool seen[OPS] = {false};
    begin_learner(&l);
    sr_text_init(&text);
    sr_arena_init(&arena);
    assert_ok(sr_program_write(l.context, l.targets, 3, &text));
    note_operators(text.data, seen);
    assert_non_null(strstr(text.data, " @\"stem.conv\" backward\n"));
    assert_non_null(strstr(text.data, " @\"stem.bn\"\n"));
    assert_non_null(strstr(text.data, " after %"));
    sr_context *other = read_again(&text, &arena, &read);
    copy_variables(&l, &read);
    // The loss and gradients, then what the updates have made of the variables.
    float mine[SAMPLES], theirs[SAMPLES];
    sr_read_later(l.targets[0].tensor, mine, sizeof mine);
    sr_read_later(read.targets[0].tensor, theirs, sizeof theirs);
    assert_ok(sr_context_run(l.context));
    assert_ok(sr_context_run(other));
    assert_memory_equal(mine, theirs, sizeof mine);
    expect_equal_values(l.fc, named(&read, l.fc));
    expect_equal_values(l.momentum, named(&read, l.momentum));
    expect_equal_values(l.average, named(&read, l.average));
    sr_context_free(other);
    sr_context_free(l.context);
    sr_text_release(&text);
    sr_arena_release(&arena);
}

static void test_every_operator(void **state) {
    (void)state;
    bool seen[OPS] = {false};
    size_t count;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t i = 0; i < *tables[t].count; i++)
            if (tables[t].cases[i].build)
                run_case(&tables[t].cases[i], seen);
    learner l;
    sr_text text;
    begin_learner(&l);
    sr_text_init(&text);
    assert_ok(sr_program_write(l.context, l.targets, 3, &text));
    note_operators(text.data, seen);
    sr_text_release(&text);
    sr_context_free(l.context);
    const sr_op *const *ops = sr_ops(&count);
    for (size_t i = 0; i < count; i++)
        if (!seen[i])
            fail_msg("operator %s was not written and read: it needs a case in "
                     "tests/unit/graph/op_cases_*.c, and a table of its attributes (op_attr.h)",
                     ops[i]->name);
}

// After a compile the program of that compile is written, as recorded.
static void test_last_program(void **state) {
    (void)state;
    sr_context *context = begin();
    sr_text text, again;
    sr_plan *plan, *same;
    sr_text_init(&text);
    sr_text_init(&again);
    assert_status(SR_E_ARGUMENT, sr_program_write(context, NULL, 0, &again));
    assert_message("no program was compiled in this step");
    const sr_tensor w = random_variable(context, "fc.weight", 2, (int64_t[]){CLASSES, FILTERS});
    const sr_target targets[] = {{.tensor = sr_relu(sr_linear(w, w, SR_NONE)), .after = w},
                                 {.tensor = sr_square(w)}};
    assert_ok(sr_program_write(context, targets, 2, &text));
    assert_ok(sr_compile(context, targets, 2, &plan));
    assert_ok(sr_program_write(context, NULL, 0, &again));
    assert_string_equal(text.data, again.data);
    assert_ok(sr_compile(context, targets, 2, &same)); // it is still the program of the plan
    assert_ptr_equal(plan, same);
    sr_text_release(&text);
    sr_text_release(&again);
    sr_context_free(context);
}

// ---- Numbers ----

static void test_numbers(void **state) {
    (void)state;
    static const char text[] =
        "program 1\n"
        "%0 = constant : f32[9] {0, -0, 0.1, 1e-45, 3.4028235e+38, inf, -inf, nan:7fc00000, "
        "nan:ffc00001}\n"
        "%1 = constant : f64[4] {0.1, 5e-324, nan:7ff8000000000001, 1e+308}\n"
        "%2 = constant : bf16[3] {0.1, -1.5, nan:7fc1}\n"
        "%3 = constant : f16[3] {0.1, 6.55e+04, inf}\n"
        "%4 = constant : i64[2] {-9223372036854775808, 9223372036854775807}\n"
        "%5 = constant : i8[2] {-128, 127}\n"
        "%6 = constant : u8[2] {0, 255}\n"
        "return %0, %1, %2, %3, %4, %5, %6\n";
    // The same in other words: digits more than needed, hexadecimal floats, comments, spaces.
    static const char other[] =
        "# a comment\n\n  program   1 # another\n"
        "%7 = constant:f32[9]{0x0p+0,-0.0,0.1000000015,0x1p-149,0x1.fffffep+127,inf,-inf,"
        "nan:7fc00000,nan:ffc00001}\r\n"
        "%1 = constant : f64[4] {0x1.999999999999ap-4, 0x1p-1074, nan:7ff8000000000001, 1e308}\n"
        "%2 = constant : bf16[3] {0.100098, -1.5, nan:7fc1}\n"
        "%3 = constant : f16[3] {0.09998, 65504, inf}\n"
        "%4 = constant : i64[2] {-9223372036854775808, 9223372036854775807}\n"
        "%55 = constant : i8[2] {-128, 127}\n"
        "%6 = constant : u8[2] {0, 255}\n"
        "return %7, %1, %2, %3, %4, %55, %6";
    const char *const texts[] = {text, other};
    for (int i = 0; i < 2; i++) {
        sr_context *context = begin();
        sr_arena arena;
        sr_text again;
        sr_read_program read;
        sr_arena_init(&arena);
        sr_text_init(&again);
        assert_ok(sr_program_read(context, texts[i], strlen(texts[i]), NULL, &arena, &read));
        assert_ok(sr_program_write(context, read.targets, read.target_count, &again));
        assert_string_equal(again.data, text);
        sr_text_release(&again);
        sr_arena_release(&arena);
        sr_context_free(context);
    }
}

// ---- Violations ----

#define HEAD "program 1\n%0 = input 0 : f32[2, 3]\n"
#define X3 "%3 = variable \"w\" : f32[4, 3]\n"

static const struct {
    const char *text, *message;
} violations[] = {
    {"", "t:1:1: 'return' is missing"},
    {"prog 1\n", "t:1:1: a program begins with 'program 1'"},
    {"program 2\n", "t:1:9: expected the version of the format, 1 to 1"},
    {"program 1 x\n", "t:1:11: expected the end of the line"},
    {HEAD, "t:3:1: 'return' is missing"},
    {HEAD "return %1\n", "t:3:8: %1 is not defined before"},
    {HEAD "return %0 after %0\n", "t:3:17: it is not a variable"},
    {HEAD "return %0 before %0\n", "t:3:11: ',' is missing after a target"},
    {HEAD "return %0\nreturn %0\n", "t:4:1: nothing follows 'return'"},
    {HEAD "%0 = relu(%0) : f32[2, 3]\n", "t:3:1: %0 is defined in line 2 already"},
    {HEAD "%2, %2 = relu(%0) : f32[2, 3]\n", "t:3:5: %2 is defined twice"},
    {HEAD "%1 = input 0 : f32[2]\n", "t:3:12: input 0 is defined already"},
    {HEAD "%1 = input 64 : f32[2]\n", "t:3:12: expected the slot of an input, 0 to 63"},
    {HEAD "%1 = relu(%2) : f32[2, 3]\n", "t:3:11: %2 is not defined before"},
    {HEAD "%1 = rleu(%0) : f32[2, 3]\n", "t:3:6: unknown operator 'rleu'; did you mean 'relu'?"},
    {HEAD "%1 = relu(%0, %0) : f32[2, 3]\n", "t:3:15: relu has at most 1 inputs"},
    {HEAD "%1 = relu() : f32[2, 3]\n", "t:3:6: relu needs 1 inputs, not 0"},
    {HEAD "%1 = relu(none) : f32[2, 3]\n", "t:3:11: relu needs its input x"},
    {HEAD "%1 = relu(some) : f32[2, 3]\n", "t:3:11: expected a value or 'none', not 'some'"},
    {HEAD "relu(%0)\n", "t:3:1: relu has 1 results, not 0"},
    {HEAD "%1, %2 = relu(%0) : f32[2, 3], f32[2]\n", "t:3:1: relu has 1 results, not 2"},
    {HEAD "%1 = relu(%0) : f32[2, 4]\n", "t:3:17: relu gives [2, 3] f32, not [2, 4] f32"},
    {HEAD "%1 = relu(%0) : bf16[2, 3]\n", "t:3:17: relu gives [2, 3] f32, not [2, 3] bf16"},
    {HEAD "%1 = relu(%0) : f33[2, 3]\n", "t:3:17: unknown dtype 'f33'"},
    {HEAD "%1 = relu(%0) : f32[2, 0]\n", "t:3:24: expected a dimension, 1 to 2147483647"},
    {HEAD "%1 = relu(%0) : f32[1, 1, 1, 1, 1, 1]\n", "a tensor has at most 5 dimensions"},
    {HEAD "%1 = relu(%0) : f32[2147483647, 2147483647]\n", "t:3:17: a tensor has at most 2^48"},
    {HEAD "%1 = relu(%0) {k=[1]} : f32[2, 3]\n", "t:3:16: relu has no attribute 'k'"},
    {HEAD "%1 = relu(%0) : f32[2, 3] @\"a\n", "t:3:29: a text ends with '\"' in the same line"},
    {HEAD "%1 = relu(%0) : f32[2, 3] @\"\\q\"\n", "t:3:29: invalid character in a text"},
    {HEAD "%1 = relu(%0) : f32[2, 3] forward\n", "t:3:27: expected 'backward' or the end of"},
    {HEAD "%1 = scale(%0) {k=[1, x]} : f32[2, 3]\n", "t:3:23: 'x' is not a valid value of 'k'"},
    {HEAD "%1 = scale(%0) {k=[1]} : f32[2, 3]\n", "t:3:21: ',' is missing after an element"},
    {HEAD "%1 = scale(%0) {k=[1, 2, 3]} : f32[2, 3]\n", "t:3:24: 'k' has 2 elements, then ']'"},
    {HEAD "%1 = scale(%0) {k=[1, 2], k=[1, 2]} : f32[2, 3]\n", "t:3:27: 'k' is given twice"},
    {HEAD "%1 = cast(%0) : bf16[2, 3]\n", "t:3:6: cast needs the attribute 'dtype'"},
    {HEAD "%1 = cast(%0) {dtpye=bf16} : bf16[2, 3]\n",
     "t:3:16: cast has no attribute 'dtpye'; did you mean 'dtype'?"},
    {HEAD X3 "%1 = linear(%3, %0) : f32[4, 2]\nreturn %1 %1\n",
     "t:5:11: ',' is missing after a target"},
    {HEAD X3 "%1 = matmul(%0, %3) {alpha=1} : f32[2, 4]\n",
     "t:4:6: matmul: a [2, 3] f32 and b [4, 3] f32"},
    {HEAD "%1 = maxpool2d(%0) {window_h=2} : f32[2, 3]\n",
     "t:3:6: maxpool2d needs the attribute 'window_w'"},
    {HEAD "%1 = constant : f32[2] {1}\n", "t:3:26: ',' is missing after an element"},
    {HEAD "%1 = constant : f32[2] {1, 2, 3}\n", "t:3:29: '}' is missing after the last element"},
    {HEAD "%1 = constant : u8[1] {256}\n", "t:3:24: '256' is no u8"},
    {HEAD "%1 = constant : f32[1] {nan}\n", "t:3:25: 'nan' is no f32"},
    {HEAD "%1 = constant : f32[1] {nan:1}\n", "t:3:25: 'nan:1' is no f32"},
    {HEAD "%1 = constant : i32[2000, 2000] {1}\n", "t:3:34: 4000000 elements are missing"},
    {HEAD "%1, %2 = constant : i32[1] {1}\n", "t:3:10: constant defines one value"},
    {HEAD "sgd(%0, %0, %0, %0)\n", "p is updated in place and must be a variable"},
    {HEAD "%1000000 = relu(%0) : f32[2, 3]\n", "t:3:2: expected the number of a value"},
};

static void test_violations(void **state) {
    (void)state;
    static const sr_program_read_options options = {.name = "t", .without_memory = true};
    for (size_t i = 0; i < sizeof violations / sizeof *violations; i++) {
        sr_context *context = begin();
        sr_arena arena;
        sr_read_program read;
        const char *text = violations[i].text;
        sr_arena_init(&arena);
        const sr_status status =
            sr_program_read(context, text, strlen(text), &options, &arena, &read);
        if (status != SR_E_DATA || !strstr(sr_error_message(), violations[i].message))
            fail_msg("%s\n%s\nnot: %s", text, status == SR_OK ? "is read" : sr_error_message(),
                     violations[i].message);
        sr_arena_release(&arena);
        sr_context_free(context);
    }
}

// A text that is cut off or changed in one place is read or refused, and nothing else happens.
static void test_damage(void **state) {
    (void)state;
    static const sr_program_read_options options = {.without_memory = true};
    static const char changes[] = "%0{}[],:=\" \n-9#ax";
    learner l;
    sr_text text, copy;
    sr_arena arena;
    sr_read_program read;
    int refused = 0;
    begin_learner(&l);
    sr_text_init(&text);
    sr_text_init(&copy);
    sr_arena_init(&arena);
    assert_ok(sr_program_write(l.context, l.targets, 3, &text));
    const char *pixels = strstr(text.data, "{0, 37,"); // the middle of a constant is dull
    assert_non_null(pixels);
    for (size_t at = 0; at<text.length; at += at> 400 && at < 1600 ? 97 : 1) {
        sr_context *context = begin();
        refused += sr_program_read(context, text.data, at, &options, &arena, &read) != SR_OK;
        sr_context_begin_step(context);
        sr_text_clear(&copy);
        sr_text_add_bytes(&copy, text.data, text.length);
        copy.data[at] = changes[at % (sizeof changes - 1)];
        refused +=
            sr_program_read(context, copy.data, copy.length, &options, &arena, &read) != SR_OK;
        sr_context_free(context);
        sr_arena_reset(&arena);
    }
    assert_true(refused > 1000);
    sr_text_release(&text);
    sr_text_release(&copy);
    sr_arena_release(&arena);
    sr_context_free(l.context);
}

// ---- Operators of others ----

static sr_status infer_own(const sr_node_view *node, sr_info *out) {
    out[0] = node->in[0];
    return SR_OK;
}

static const sr_op own_op = {.struct_size = sizeof(sr_op),
                             .abi = SR_OP_ABI,
                             .name = "own_of_test",
                             .help = "x",
                             .inputs = 1,
                             .input_name = {"x"},
                             .required = 1,
                             .outputs = 1,
                             .attr_size = 6,
                             .infer = infer_own,
                             .alias = true};

// Without a table of its attributes, an operator has them as bytes.
static void test_bytes(void **state) {
    (void)state;
    static const sr_op *const list[] = {&own_op, NULL};
    static const char text[] =
        HEAD "%1 = own_of_test(%0) {bytes=0x00ff10203040} : f32[2, 3] @\"\"\n"
             "return %1\n";
    static const char wrong[] = HEAD "%1 = own_of_test(%0) {bytes=0x00ff} : f32[2, 3]\nreturn %1\n";
    sr_arena arena;
    sr_read_program read;
    assert_ok(sr_ops_add(list, "this test"));
    sr_arena_init(&arena);
    sr_text original = {.data = (char *)(uintptr_t)text, .length = strlen(text)};
    sr_context *context = read_again(&original, &arena, &read);
    sr_context_begin_step(context);
    assert_status(SR_E_DATA, sr_program_read(context, wrong, strlen(wrong), NULL, &arena, &read));
    assert_message("program:3:29: expected 0x and 12 hexadecimal digits");
    sr_arena_release(&arena);
    sr_context_free(context);
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

static void test_drawing(void **state) {
    (void)state;
    learner l;
    sr_text text;
    begin_learner(&l);
    sr_text_init(&text);
    assert_ok(sr_program_draw(l.context, l.targets, 3, &text));
    assert_int_equal(strncmp(text.data, "digraph program {\n", 18), 0);
    assert_non_null(strstr(text.data, "label=\"stem\";"));
    assert_non_null(strstr(text.data, "label=\"bn\";"));
    assert_non_null(strstr(text.data, "label=\"conv (gradient)\";"));
    assert_non_null(strstr(text.data, "conv2d\\nbf16[4, 3, 3, 4]"));
    assert_int_equal(count_of(text.data, "peripheries=2"), 3);
    assert_int_equal(count_of(text.data, "{\n"), count_of(text.data, "}\n"));
    // A box for each operator; each reads what has a box.
    assert_int_equal(count_of(text.data, "shape=note"), 6);
    sr_text_release(&text);
    sr_context_free(l.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator), cmocka_unit_test(test_learning),
        cmocka_unit_test(test_last_program),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_violations),     cmocka_unit_test(test_damage),
        cmocka_unit_test(test_drawing),        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
