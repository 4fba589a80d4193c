// SPDX-License-Identifier: Apache-2.0
// Every operator of op_list.def, from the tables in op_cases_*.c: values computed by hand in all
// activation types, refused shapes, gradients and gradients of gradients compared with central
// differences, where gradients stop, which values the rules declare that they keep, and that the
// compiler's memory in place changes no bit. An operator without a case fails the suite.
//
// Where the device of the tests has kernels of its own, values and gradients in its types have the
// bits of the CPU's reference; what is f64, as central differences are, stays on the CPU.
#include <math.h>

#include "graph/recording_internal.h"
#include "kernels/base/rng.h"
#include "tests/unit/graph/op_cases.h"
#include "tests/unit/graph/tensor_values.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"

#define TOLERANCE 1e-6

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

static const op_case *case_at(size_t i) {
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; i -= *tables[t].count, t++)
        if (i < *tables[t].count)
            return &tables[t].cases[i];
    return NULL;
}

static const op_case *case_after(const op_case *c) {
    size_t i = 0;
    while (case_at(i) != c)
        i++;
    return case_at(i + 1);
}

// On the device of the tests, or where that has no f64, on the CPU.
static sr_context *context_new(int optimize, sr_dtype type) {
    const sr_context_options options = {
        .device = device_for(type), .threads = 2, .optimize = optimize};
    sr_context *context;
    assert_ok(sr_context_create(&options, &context));
    sr_context_begin_step(context);
    return context;
}

static bool is_float(const sr_info *info) {
    return info->dtype == SR_F64;
}

// Differentiable inputs of a case.
static bool is_free(const op_case *c, int i) {
    return is_float(&c->info[i]) && !(c->fixed >> i & 1);
}

// The value under test: the result of build, or a gradient of it.
static sr_tensor value_of(sr_context *context, const sr_tensor *in, void *user) {
    const op_case *c = user;
    if (c->wrt == 0)
        return c->build(context, in, user);
    const int n = c->inputs - 1;
    sr_tensor y = c->build(context, in, user), grad = SR_NONE;
    assert_true(c->wrt <= n);
    sr_gradients(y, in[n], &in[c->wrt - 1], 1, &grad);
    return grad;
}

// ---- Inputs ----

// Random floats (integers as in the case); freed by arrays_free.
static test_array *input_values(const op_case *c, int i, const sr_info *info, bool random) {
    const int64_t n = sr_info_count(info);
    const bool spread = random && is_float(&c->info[i]);
    const bool given = c->low != 0 || c->high != 0;
    if (spread)
        return array_random(info->dtype, n, (uint32_t)(100 + i), given ? c->low : -1,
                            given ? c->high : 1);
    assert_true(n <= OP_CASE_VALUES);
    return array_of(info->dtype, n, c->in[i]);
}

static void make_inputs(sr_context *context, const op_case *c, sr_dtype type, bool random,
                        sr_tensor *in) {
    for (int i = 0; i < c->inputs; i++) {
        sr_info info = c->info[i];
        if (is_float(&info))
            info.dtype = (c->params >> i & 1) ? parameter_type(type) : type;
        in[i] = sr_constant(context, &info, input_values(c, i, &info, random)->data);
    }
}

static void *user_of(const op_case *c) {
    return (void *)(uintptr_t)c;
}

// ---- Tests ----

static void test_every_operator_has_a_case(void **state) {
    (void)state;
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    for (size_t i = 0; i < count; i++) {
        bool values = false, wrong = false, gradient = false;
        for (const op_case *c = case_at(0); c; c = case_after(c)) {
            const bool mine = strcmp(c->op, ops[i]->name) == 0;
            values = values || (mine && c->want_count > 0);
            wrong = wrong || (mine && c->wrong);
            gradient = gradient || (mine && c->gradient >= GRADIENT_ONCE);
        }
        for (size_t k = 0; k < op_update_case_count; k++)
            values = values || strcmp(op_update_cases[k].op, ops[i]->name) == 0;
        if (!values || (ops[i]->derivative && !gradient) || (!ops[i]->updates && !wrong))
            fail_msg("operator %s lacks a case with values, a refused call or a gradient in "
                     "tests/unit/op_cases_*.c",
                     ops[i]->name);
    }
}

static void test_descriptors_are_complete(void **state) {
    (void)state;
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    for (size_t i = 0; i < count; i++) {
        const sr_op *op = ops[i];
        assert_int_equal(sizeof(sr_op), op->struct_size);
        assert_int_equal(SR_OP_ABI, op->abi);
        assert_ptr_equal(op, sr_op_find(op->name));
        assert_true(op->help && op->infer && (op->lower || op->alias));
        assert_true(op->required >= 1 && op->required <= op->inputs);
        assert_true(op->inputs <= SR_OP_MAX_INPUTS && op->outputs <= SR_OP_MAX_OUTPUTS);
        assert_true(op->attr_size <= SR_OP_ATTR_BYTES);
        for (int k = 0; k < op->inputs; k++)
            assert_true(op->input_name[k] && *op->input_name[k]);
        assert_true(op->stops >> op->inputs == 0 && op->hidden >> op->outputs == 0);
        assert_true(op->keeps_inputs >> op->inputs == 0 && op->keeps_outputs >> op->outputs == 0);
        assert_true(op->updates ? op->outputs == 0 : op->outputs >= 1);
    }
    assert_null(sr_op_find("no such operator"));
}

static void check_values(const op_case *c, sr_dtype type) {
    sr_context *context = context_new(0, type);
    sr_tensor in[OP_CASE_INPUTS] = {{0}};
    make_inputs(context, c, type, false, in);
    sr_tensor y = value_of(context, in, user_of(c));
    assert_ok(sr_context_status(context));
    test_array *got = read_value(y);
    assert_int_equal(c->want_count, got->count);
    const double tolerance = type == SR_F64 ? 1e-6 : 4 * unit_roundoff(type);
    for (int64_t i = 0; i < got->count; i++)
        if (!(fabs(array_get(got, i) - c->want[i]) <= tolerance * (1 + fabs(c->want[i]))))
            fail_msg("%s %s [%lld]: got %.9g, expected %.9g", c->op, sr_dtype_name(type),
                     (long long)i, array_get(got, i), c->want[i]);
    sr_context_free(context);
}

static void test_values(void **state) {
    for (const op_case *c = case_at(0); c; c = case_after(c)) {
        for (int t = 0; t < 4 && c->want_count; t++)
            if (!c->own_type || fixture_types[t] == SR_F64)
                check_values(c, fixture_types[t]);
        arrays_free(state);
    }
}

static void expect_refused(void (*wrong)(sr_context *), const char *op, const char *message) {
    char name[64]; // of the call: begins with the operator's up to its first underscore
    (void)snprintf(name, sizeof name, ": %.*s", (int)strcspn(op, "_"), op);
    sr_context *context = context_new(0, SR_F32);
    wrong(context);
    if (sr_context_status(context) != SR_E_SHAPE)
        fail_msg("%s: an invalid call was accepted (%s)", op,
                 sr_status_name(sr_context_status(context)));
    assert_message(message);
    assert_message(name);
    assert_message("op_cases_");
    assert_int_equal(0, sr_context_get_stats(context).plans_compiled); // no memory was planned
    sr_context_free(context);
}

static void test_refused_shapes(void **state) {
    (void)state;
    for (const op_case *c = case_at(0); c; c = case_after(c))
        if (c->wrong)
            expect_refused(c->wrong, c->call ? c->call : c->op, c->message);
    for (size_t i = 0; i < op_update_case_count; i++)
        expect_refused(op_update_cases[i].wrong, op_update_cases[i].op, op_update_cases[i].message);
}

static void test_updates(void **state) {
    (void)state;
    for (size_t i = 0; i < op_update_case_count; i++)
        op_update_cases[i].run();
}

// ---- Gradients ----

// A function for the gradient check: the case itself (of < 0), or the gradient of the case with
// respect to its input 'of' when the last input is the gradient of its value.
typedef struct check_user {
    const op_case *c;
    int of;
} check_user;

static sr_tensor check_build(sr_context *context, const sr_tensor *in, void *user) {
    const check_user *u = user;
    sr_tensor y = value_of(context, in, user_of(u->c)), grad = SR_NONE;
    if (u->of < 0)
        return y;
    sr_gradients(y, in[u->c->inputs], &in[u->of], 1, &grad);
    return grad;
}

static void check_gradient(sr_context *context, const check_user *u, const sr_info *value) {
    const op_case *c = u->c;
    const int inputs = c->inputs + (u->of >= 0);
    sr_info info[OP_CASE_INPUTS + 1];
    const double *values[OP_CASE_INPUTS + 1];
    bool differentiable[OP_CASE_INPUTS + 1];
    double worst;
    for (int i = 0; i < inputs; i++) {
        info[i] = i < c->inputs ? c->info[i] : *value;
        differentiable[i] = i < c->inputs ? is_free(c, i) : true;
        values[i] = i < c->inputs ? input_values(c, i, &info[i], true)->data
                                  : array_random(SR_F64, sr_info_count(value), 7, -1, 1)->data;
    }
    const sr_status status = sr_gradient_check(context, info, values, inputs, differentiable,
                                               check_build, (void *)(uintptr_t)u, 5, 2, &worst);
    if (status != SR_OK || !(worst <= TOLERANCE))
        fail_msg("%s, gradient with respect to %d: error %.3g (%s)", c->op, u->of, worst,
                 status == SR_OK ? "" : sr_error_message());
}

// Records the function; 'value' is the info of the case's value (for gradients).
static sr_tensor record(sr_context *context, const check_user *u, const sr_info *value,
                        sr_tensor *in) {
    sr_context_begin_step(context);
    make_inputs(context, u->c, SR_F64, true, in);
    if (u->of >= 0)
        in[u->c->inputs] =
            sr_constant(context, value, array_random(SR_F64, sr_info_count(value), 7, -1, 1)->data);
    return check_build(context, in, (void *)(uintptr_t)u);
}

// The function records a gradient. Returns true if differentiating it with respect to the gradient
// that it was given is refused because there is no rule.
static bool is_refused(sr_context *context, const check_user *u, const sr_info *value) {
    sr_tensor in[OP_CASE_INPUTS + 1] = {{0}}, grad;
    sr_gradients(record(context, u, value, in), SR_NONE, &in[u->c->inputs], 1, &grad);
    if (sr_context_status(context) != SR_E_UNSUPPORTED)
        return false;
    assert_message("has no derivative rule");
    return true;
}

// Gradients of the gradients: compared where there are rules; elsewhere an error names the
// operator.
static void check_second(sr_context *context, const op_case *c, const sr_info *value,
                         void **state) {
    bool refused = false;
    for (int i = 0; i < c->inputs; i++) {
        const check_user u = {c, i};
        sr_tensor in[OP_CASE_INPUTS + 1] = {{0}};
        if (!is_free(c, i) || sr_is_none(record(context, &u, value, in)))
            continue;
        if (c->gradient == GRADIENT_TWICE)
            check_gradient(context, &u, value);
        else
            refused = is_refused(context, &u, value) || refused;
        arrays_free(state);
    }
    if (c->gradient == GRADIENT_ONCE && !refused)
        fail_msg("%s: a second derivative was expected to be refused", c->op);
}

static void test_gradients(void **state) {
    sr_context *context = context_new(0, SR_F64);
    for (const op_case *c = case_at(0); c; c = case_after(c)) {
        const check_user u = {c, -1};
        sr_tensor in[OP_CASE_INPUTS + 1] = {{0}};
        sr_info value;
        if (c->gradient < GRADIENT_ONCE)
            continue;
        assert_true(sr_tensor_info(record(context, &u, NULL, in), &value));
        check_gradient(context, &u, &value);
        arrays_free(state);
        check_second(context, c, &value, state);
    }
    sr_context_free(context);
}

// The last float input of a case, which in cases of gradient operators is the gradient; or -1.
static int last_float(const op_case *c) {
    int last = -1;
    for (int i = 0; i < c->inputs; i++)
        if (is_float(&c->info[i]))
            last = i;
    return last;
}

// Where a gradient ends, it is zeros of the input's shape, or an error that names the operator.
static void check_end(const op_case *c) {
    sr_context *context = context_new(0, SR_F64);
    sr_tensor in[OP_CASE_INPUTS] = {{0}}, grad;
    const int x = last_float(c);
    if (x >= 0) {
        make_inputs(context, c, SR_F64, false, in);
        sr_gradients(value_of(context, in, user_of(c)), SR_NONE, &in[x], 1, &grad);
        if (c->gradient == GRADIENT_STOPS) {
            test_array *got = read_value(grad);
            assert_int_equal(sr_info_count(&c->info[x]), got->count);
            for (int64_t i = 0; i < got->count; i++)
                assert_true(array_get(got, i) == 0);
        } else {
            char text[64];
            assert_true(sr_is_none(grad));
            assert_status(SR_E_UNSUPPORTED, sr_context_status(context));
            (void)snprintf(text, sizeof text, "%s has no derivative rule", c->op);
            assert_message(text);
        }
    }
    sr_context_free(context);
}

static void test_gradients_end(void **state) {
    for (const op_case *c = case_at(0); c; c = case_after(c)) {
        if (c->gradient < GRADIENT_ONCE)
            check_end(c);
        arrays_free(state);
    }
}

// What a rule reads of its node must be exactly what its descriptor declares that it keeps.
typedef struct rule_facts {
    uint32_t inputs, outputs; // read
    uint32_t floats, given;   // inputs that are floats, and that received a gradient
} rule_facts;

static void rule_reads(sr_context *context, uint32_t index, rule_facts *facts) {
    sr_view_arrays arrays;
    sr_node_view view;
    unsigned char attr[SR_OP_ATTR_BYTES];
    sr_tensor grad_out[SR_OP_MAX_OUTPUTS] = {{0}}, grad_in[SR_OP_MAX_INPUTS] = {{0}};
    bool wanted[SR_OP_MAX_INPUTS] = {false};
    const sr_node node = context->recording.nodes[index];
    sr_context_view(context, index, &arrays, &view);
    memcpy(attr, view.attr, node.op->attr_size);
    view.attr = attr;
    for (int i = 0; i < node.op->outputs; i++)
        if (arrays.out[i].dtype == SR_F64)
            grad_out[i] =
                sr_constant(context, &arrays.out[i],
                            array_random(SR_F64, sr_info_count(&arrays.out[i]), 1, -1, 1)->data);
    for (int i = 0; i < node.op->inputs; i++)
        wanted[i] = arrays.in[i].dtype == SR_F64;
    const size_t before = context->recording.node_count;
    node.op->derivative(context, &view, grad_out, wanted, grad_in);
    assert_ok(sr_context_status(context));
    for (int i = 0; i < node.op->inputs; i++) {
        facts->floats |= (uint32_t)wanted[i] << i;
        facts->given |= (uint32_t)!sr_is_none(grad_in[i]) << i;
    }
    for (size_t n = before; n < context->recording.node_count; n++) {
        for (int k = 0; k < context->recording.nodes[n].op->inputs; k++) {
            const uint32_t ref = context->recording.nodes[n].input[k];
            for (int i = 0; i < node.op->inputs; i++)
                if (ref != SR_REF_NONE && ref == node.input[i])
                    facts->inputs |= 1u << i;
            for (int i = 0; i < node.op->outputs; i++)
                if (ref == node.first_output + (uint32_t)i)
                    facts->outputs |= 1u << i;
        }
    }
}

static void case_reads(const op_case *c, const sr_op *op, rule_facts *facts) {
    sr_context *context = context_new(0, SR_F64);
    sr_tensor in[OP_CASE_INPUTS] = {{0}};
    make_inputs(context, c, SR_F64, true, in);
    (void)value_of(context, in, user_of(c));
    const size_t nodes = context->recording.node_count;
    for (uint32_t n = 0; n < nodes; n++)
        if (context->recording.nodes[n].op == op)
            rule_reads(context, n, facts);
    sr_context_free(context);
}

static void gather_facts(const sr_op *op, rule_facts *facts, void **state) {
    *facts = (rule_facts){0};
    for (const op_case *c = case_at(0); c; c = case_after(c)) {
        if (strcmp(c->op, op->name) == 0 && c->gradient >= GRADIENT_ONCE)
            case_reads(c, op, facts);
        arrays_free(state);
    }
}

static void test_rules_read_what_they_keep(void **state) {
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    for (size_t o = 0; o < count; o++) {
        rule_facts facts;
        if (!ops[o]->derivative)
            continue;
        gather_facts(ops[o], &facts, state);
        if (facts.inputs != ops[o]->keeps_inputs || facts.outputs != ops[o]->keeps_outputs)
            fail_msg("%s: the rule reads inputs %x and outputs %x, keeps says %x and %x",
                     ops[o]->name, facts.inputs, facts.outputs, ops[o]->keeps_inputs,
                     ops[o]->keeps_outputs);
    }
}

// Each rule ends differentiation where its descriptor says.
static void test_gradients_flow_where_descriptors_say(void **state) {
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    for (size_t o = 0; o < count; o++) {
        const sr_op *op = ops[o];
        rule_facts facts = {0};
        if (op->derivative)
            gather_facts(op, &facts, state);
        if (facts.given != (facts.floats & ~op->stops))
            fail_msg("%s: the rule gives gradients of inputs %x; of the floats %x, 'stops' has %x",
                     op->name, facts.given, facts.floats, op->stops);
    }
}

// The lowest order of differentiation among an operator's cases is the one that its descriptor
// states.
static void test_cases_end_where_descriptors_say(void **state) {
    (void)state;
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    for (size_t o = 0; o < count; o++) {
        const sr_op *op = ops[o];
        const enum op_case_gradient stated = !op->derivative
                                                 ? sr_op_stops(op) ? GRADIENT_STOPS : GRADIENT_NONE
                                             : op->once ? GRADIENT_ONCE
                                                        : GRADIENT_TWICE;
        enum op_case_gradient least = GRADIENT_TWICE;
        for (const op_case *c = case_at(0); c; c = case_after(c))
            if (strcmp(c->op, op->name) == 0 && c->gradient < least &&
                (last_float(c) >= 0 || !op->derivative)) // no gradient flows into integers
                least = c->gradient;
        if (!op->updates && least != stated)
            fail_msg("%s: its cases can do %d, its descriptor says %d", op->name, (int)least,
                     (int)stated);
    }
}

static void expect_gradient_text(const char *op, const char *text) {
    char got[SR_OP_GRADIENT_TEXT];
    assert_string_equal(text, sr_op_gradient_text(sr_op_find(op), got));
}

static void test_descriptors_say_where_gradients_end(void **state) {
    (void)state;
    expect_gradient_text("conv2d", "x, w, bias");
    expect_gradient_text("batchnorm_train", "x, gamma, beta, once");
    expect_gradient_text("batchnorm_group", "x, gamma, beta, once; none to mean, var");
    expect_gradient_text("softmax_xent", "logits, once; none to labels");
    expect_gradient_text("relu_grad", "dy; none to y");
    expect_gradient_text("topk_hits", "stops here: zero");
    expect_gradient_text("softmax_xent_grad", "an error");
    expect_gradient_text("sgd", "none: an update");
}

// The value and every gradient after inputs that may be overwritten. Frees the context.
static void read_all(const op_case *c, sr_context *context, sr_dtype type, test_array **out,
                     int *count) {
    sr_tensor in[OP_CASE_INPUTS] = {{0}}, dies[OP_CASE_INPUTS] = {{0}};
    make_inputs(context, c, type, true, in);
    for (int which = -1; which < c->inputs; which++) {
        if (which >= 0 && (!is_free(c, which) || c->gradient < GRADIENT_ONCE))
            continue;
        for (int i = 0; i < c->inputs; i++)
            dies[i] = is_float(&c->info[i]) ? sr_scale(in[i], 1.5, 0.0) : in[i];
        sr_tensor y = value_of(context, dies, user_of(c)), grad = y;
        if (which >= 0)
            sr_gradients(y, y, &dies[which], 1, &grad);
        if (!sr_is_none(grad))
            out[(*count)++] = read_value(grad);
    }
    sr_context_free(context);
}

static void test_memory_in_place_changes_nothing(void **state) {
    for (const op_case *c = case_at(0); c; c = case_after(c)) {
        test_array *with[OP_CASE_INPUTS + 1] = {0}, *without[OP_CASE_INPUTS + 1] = {0};
        int a = 0, b = 0;
        read_all(c, context_new(0, SR_F64), SR_F64, with, &a);
        read_all(c, context_new(-1, SR_F64), SR_F64, without, &b);
        assert_int_equal(a, b);
        for (int i = 0; i < a && with[i] && without[i]; i++)
            assert_memory_equal(with[i]->data, without[i]->data,
                                (size_t)with[i]->count * sr_dtype_size(with[i]->dtype));
        arrays_free(state);
    }
}

// The CPU's kernels of class "reference"; with NULL those of the device of the tests.
static void read_portable(const op_case *c, const char *device, sr_dtype type, test_array **out,
                          int *count) {
    sr_context *context;
    assert_ok(sr_context_create(&(sr_context_options){.device = device, .threads = 1}, &context));
    sr_context_begin_step(context);
    read_all(c, context, type, out, count);
}

// Equal bits; which NaN it is does not matter.
static bool is_same(const test_array *a, const test_array *b, int64_t i) {
    const size_t size = sr_dtype_size(a->dtype), at = (size_t)i * size;
    if (memcmp((const char *)a->data + at, (const char *)b->data + at, size) == 0)
        return true;
    return isnan(array_get(a, i)) && isnan(array_get(b, i));
}

static void check_bits(const op_case *c, sr_dtype type) {
    test_array *want[OP_CASE_INPUTS + 1] = {0}, *got[OP_CASE_INPUTS + 1] = {0};
    int a = 0, b = 0;
    read_portable(c, "cpu", type, want, &a);
    read_portable(c, NULL, type, got, &b);
    assert_int_equal(a, b);
    for (int i = 0; i < a && want[i] && got[i]; i++) {
        for (int64_t k = 0; k < want[i]->count; k++) {
            if (!is_same(want[i], got[i], k))
                fail_msg("%s %s, %s %d [%lld]: %.9g on the device, %.9g on the CPU", c->op,
                         sr_dtype_name(type), i ? "gradient" : "value", i, (long long)k,
                         array_get(got[i], k), array_get(want[i], k));
        }
    }
}

static void test_device_has_the_references_bits(void **state) {
    if (!device_of_test()) {
        test_skip("this device runs the CPU's kernels");
        return;
    }
    sr_kernels_use_portable(true);
    for (const op_case *c = case_at(0); c; c = case_after(c)) {
        for (int t = 0; t < 4 && !c->own_type; t++) {
            if (fixture_types[t] != SR_F64)
                check_bits(c, fixture_types[t]);
            arrays_free(state);
        }
    }
    sr_kernels_use_portable(false);
}

// A gradient that is not requested costs no node; one that does not reach its input costs zeros.
static void test_unwanted_gradients_are_not_recorded(void **state) {
    sr_context *context = context_new(0, SR_F64);
    const sr_info image = {.dtype = SR_F64, .rank = 4, .dim = {1, 4, 4, 1}};
    const sr_info filter = {.dtype = SR_F64, .rank = 4, .dim = {1, 1, 3, 3}};
    sr_tensor x = sr_constant(context, &image, array_random(SR_F64, 16, 1, -1, 1)->data);
    sr_tensor w = sr_constant(context, &filter, array_random(SR_F64, 9, 2, -1, 1)->data);
    sr_tensor other = sr_scale(x, 2, 0), xs[2] = {w, other}, grads[2];
    sr_tensor y = sr_conv2d(x, w, (sr_conv2d_opts){0});
    const size_t before = context->recording.node_count;
    sr_gradients(y, SR_NONE, xs, 2, grads);
    assert_true(!sr_is_none(grads[0]) && !sr_is_none(grads[1]));
    for (size_t i = before; i < context->recording.node_count; i++)
        assert_string_not_equal("conv2d_dx", context->recording.nodes[i].op->name);
    sr_context_free(context);
    arrays_free(state);
}

// A label outside the classes makes its own loss NaN and leaves the others unchanged.
static void test_wrong_label_reaches_the_reader(void **state) {
    (void)state;
    sr_context *context = context_new(0, SR_F32);
    const sr_info rows = {.dtype = SR_F32, .rank = 2, .dim = {2, 3}};
    const sr_info two = {.dtype = SR_I32, .rank = 1, .dim = {2}};
    float loss[2];
    sr_tensor logits = sr_constant(context, &rows, (const float[6]){0});
    sr_tensor labels = sr_constant(context, &two, (const int32_t[2]){0, 3});
    assert_ok(sr_read(sr_softmax_cross_entropy(logits, labels, 0.0), loss, sizeof loss));
    assert_true(loss[0] > 1 && isnan(loss[1]));
    sr_context_free(context);
}

// For well-classified samples, loss and gradient are small and keep their precision in every type.
static void test_small_losses_are_exact(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof fixture_types / sizeof fixture_types[0]; t++) {
        const double logit = 8, loss = 3.3540637289576885e-4, gradient = -3.353501304664781e-4;
        const sr_dtype type = fixture_types[t];
        const test_array *value = array_of(type, 1, &logit);
        test_array *got = array_new(type, 1);
        sr_context *context = context_new(0, type);
        sr_tensor dx;
        const sr_tensor x =
            sr_constant(context, &(sr_info){.dtype = type, .rank = 1, .dim = {1}}, value->data);
        const sr_tensor y = sr_bce_with_logits(x, 1.0);
        sr_gradients(y, SR_NONE, &x, 1, &dx);
        assert_ok(sr_read(y, got->data, sr_dtype_size(type)));
        assert_near("loss", 0, type, array_get(got, 0), loss, 4, loss);
        assert_ok(sr_read(dx, got->data, sr_dtype_size(type)));
        assert_near("gradient", 0, type, array_get(got, 0), gradient, 4, -gradient);
        sr_context_free(context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator_has_a_case),
        cmocka_unit_test(test_descriptors_are_complete),
        cmocka_unit_test_teardown(test_values, arrays_free),
        cmocka_unit_test(test_refused_shapes),
        cmocka_unit_test(test_updates),
        cmocka_unit_test_teardown(test_gradients, arrays_free),
        cmocka_unit_test_teardown(test_gradients_end, arrays_free),
        cmocka_unit_test_teardown(test_rules_read_what_they_keep, arrays_free),
        cmocka_unit_test_teardown(test_gradients_flow_where_descriptors_say, arrays_free),
        cmocka_unit_test(test_cases_end_where_descriptors_say),
        cmocka_unit_test(test_descriptors_say_where_gradients_end),
        cmocka_unit_test_teardown(test_memory_in_place_changes_nothing, arrays_free),
        cmocka_unit_test_teardown(test_device_has_the_references_bits, arrays_free),
        cmocka_unit_test_teardown(test_unwanted_gradients_are_not_recorded, arrays_free),
        cmocka_unit_test(test_wrong_label_reaches_the_reader),
        cmocka_unit_test_teardown(test_small_losses_are_exact, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
