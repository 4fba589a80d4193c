// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of a group of lanes (sync_bn) is that of one lane with all their samples.
//
// 1. Output, statistics and gradients, joined by the exchange, against the definition in f64 over
//    all rows. The errors may be twice those of batchnorm_train over all rows in one lane, or 8
//    units of roundoff, and mean / deviation more: lanes join means that are rounded to f32.
// 2. Twenty steps of training in groups against the same steps without lanes, for a network without
//    dropout, whose losses are those of PyTorch (test_loss_golden.c).
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "autograd/gradients.h"
#include "graph/context.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "kernels/device/device.h"
#include "tests/unit/trainer/golden_fill.h"
#include "tests/unit/trainer/golden_train.h"
#include "trainer/exchange/exchange.h"

enum { LANES = 6, PICTURES = 2, SIDE = 5, CHANNELS = 19 };
enum { ROWS = PICTURES * SIDE * SIDE, VALUES = ROWS * CHANNELS, ALL = LANES * VALUES };
enum { Y, MEAN, VAR, DX, DGAMMA, DBETA, RESULTS };
static const double eps = 1e-5;
// The loss is the sum of y dy, mean and of_var var.
static const double of_var = 50;

typedef struct outcome {
    double y[ALL], mean[CHANNELS], var[CHANNELS], dx[ALL], dgamma[CHANNELS], dbeta[CHANNELS];
} outcome;

static float x[ALL], dy[ALL], gamma_[CHANNELS], beta[CHANNELS];

// Lanes have different means, and some channels a mean that is large beside their deviation.
static void fill_data(void) {
    for (int i = 0; i < ALL; i++) {
        const sr_rng4 r = sr_philox(9, (uint32_t)i, 0, 0, 0);
        const int lane = i / VALUES, c = i % CHANNELS;
        x[i] = sr_rng_unit(r.v[0]) + 0.3f * (float)lane + (c % 5 == 0 ? 40.0f : 0.0f);
        dy[i] = sr_rng_unit(r.v[1]) - 0.3f;
    }
    for (int c = 0; c < CHANNELS; c++) {
        gamma_[c] = 0.5f + 0.1f * (float)c;
        beta[c] = 0.2f * (float)(c % 3);
    }
}

// ---- The definition ----

static void define_channel(outcome *o, int c) {
    const double n = (double)LANES * ROWS;
    double mean = 0, var = 0, sum = 0, product = 0;
    for (int i = c; i < ALL; i += CHANNELS)
        mean += (double)x[i] / n;
    for (int i = c; i < ALL; i += CHANNELS)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    const double inverse = 1 / sqrt(var + eps), g = (double)gamma_[c];
    for (int i = c; i < ALL; i += CHANNELS) {
        sum += (double)dy[i];
        product += (double)dy[i] * ((double)x[i] - mean) * inverse;
    }
    for (int i = c; i < ALL; i += CHANNELS) {
        const double hat = ((double)x[i] - mean) * inverse;
        o->y[i] = g * hat + (double)beta[c];
        o->dx[i] = g * inverse * ((double)dy[i] - sum / n - hat * product / n) +
                   (1 + 2 * of_var * ((double)x[i] - mean)) / n;
    }
    o->mean[c] = mean;
    o->var[c] = var;
    o->dgamma[c] = product;
    o->dbeta[c] = sum;
}

// ---- Lanes in f32 ----

typedef struct run_lane {
    sr_executor *executor;
    sr_address inputs[SR_INPUT_SLOTS];
    float results[RESULTS][ALL];
} run_lane;

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    run_lane *lane = user;
    SR_TRY(sr_stream_download(stream, lane->results[index], data, bytes));
    return sr_stream_wait(stream);
}

// Gradients of parameters are summed over lanes; each has its own rows.
static void collect(const run_lane *lanes, int count, outcome *out) {
    memset(out, 0, sizeof *out);
    for (int l = 0; l < count; l++) {
        const run_lane *lane = &lanes[l];
        const int64_t part = ALL / count;
        for (int64_t i = 0; i < part; i++) {
            out->y[l * part + i] = (double)lane->results[Y][i];
            out->dx[l * part + i] = (double)lane->results[DX][i];
        }
        for (int c = 0; c < CHANNELS; c++) {
            out->mean[c] = (double)lane->results[MEAN][c];
            out->var[c] = (double)lane->results[VAR][c];
            out->dgamma[c] += (double)lane->results[DGAMMA][c];
            out->dbeta[c] += (double)lane->results[DBETA][c];
        }
    }
}

static sr_plan *record(sr_context *c, int64_t pictures, int64_t lanes) {
    const sr_info image = {.dtype = SR_F32, .rank = 4, .dim = {pictures, SIDE, SIDE, CHANNELS}};
    const sr_info vector = {.dtype = SR_F32, .rank = 1, .dim = {CHANNELS}};
    sr_tensor grads[3], xs[3] = {sr_input(c, 0, &image), sr_variable(c, "gamma", &vector, gamma_),
                                 sr_variable(c, "beta", &vector, beta)};
    const sr_tensor dy_in = sr_input(c, 1, &image);
    const sr_batchnorm_out out = lanes > 1 ? sr_batchnorm_group(xs[0], xs[1], xs[2], eps, lanes)
                                           : sr_batchnorm_train(xs[0], xs[1], xs[2], eps);
    // Each lane has its share of what all have in common.
    const sr_tensor common = sr_add(out.mean, sr_scale(out.var, of_var, 0));
    const sr_tensor loss = sr_add(sr_reduce_sum(sr_mul(out.y, dy_in)),
                                  sr_scale(sr_reduce_sum(common), 1.0 / (double)lanes, 0));
    sr_gradients(loss, SR_NONE, xs, 3, grads);
    const sr_tensor results[RESULTS] = {[Y] = out.y,     [MEAN] = out.mean,   [VAR] = out.var,
                                        [DX] = grads[0], [DGAMMA] = grads[1], [DBETA] = grads[2]};
    sr_target targets[RESULTS];
    for (int i = 0; i < RESULTS; i++)
        targets[i] = (sr_target){.tensor = results[i]};
    sr_plan *plan = NULL;
    assert_ok(sr_compile(c, targets, RESULTS, &plan));
    return plan;
}

static void copy_values(sr_device *device, const sr_stop_value *values, int count, float *row,
                        bool back) {
    for (int i = 0; i < count; i++) {
        const size_t bytes = (size_t)values[i].count * sizeof(float);
        for (int k = 0; k < (values[i].moments ? 2 : 1); k++, row += values[i].count)
            assert_ok(back ? sr_device_upload(device, values[i].data[k], row, bytes)
                           : sr_device_download(device, row, values[i].data[k], bytes));
    }
}

static void pass_stop(sr_device *device, sr_exchange *exchange, run_lane *lanes, int count) {
    sr_stop_value values[LANES][SR_STOP_VALUES];
    sr_exchange_part parts[SR_STOP_VALUES];
    float *rows = NULL;
    int64_t elements = 0;
    int each = 0;
    for (int l = 0; l < count; l++) {
        assert_ok(sr_executor_wait(lanes[l].executor));
        each = sr_executor_stop(lanes[l].executor, values[l]);
    }
    for (int i = 0; i < each; i++) {
        parts[i] = (sr_exchange_part){values[0][i].count, values[0][i].moments};
        elements += sr_exchange_part_elements(&parts[i]);
    }
    assert_ok(sr_exchange_join_begin(exchange, 0, count, parts, each, &rows));
    for (int l = 0; l < count; l++)
        copy_values(device, values[l], each, rows + l * elements, false);
    assert_ok(sr_exchange_join(exchange));
    for (int l = 0; l < count; l++) {
        copy_values(device, values[l], each, rows, true);
        assert_ok(sr_executor_continue(lanes[l].executor));
    }
}

static sr_status no_update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                           sr_address values, sr_stream *stream) {
    (void)user, (void)step, (void)begin, (void)end, (void)sum, (void)values, (void)stream;
    return SR_OK;
}

static void begin_lane(sr_device *device, sr_plan *plan, const float *own_x, const float *own_dy,
                       size_t bytes, run_lane *lane) {
    const float *const data[] = {own_x, own_dy};
    assert_ok(sr_executor_create(device, 1, &lane->executor));
    for (int i = 0; i < 2; i++) {
        assert_ok(sr_device_alloc(device, bytes, "input", &lane->inputs[i]));
        assert_ok(sr_device_upload(device, lane->inputs[i], data[i], bytes));
    }
    const sr_run run = {.inputs = lane->inputs, .sink = sink, .user = lane, .stops = true};
    assert_ok(sr_executor_begin(lane->executor, plan, &run));
}

static void end_lane(sr_device *device, run_lane *lane) {
    assert_ok(sr_executor_wait(lane->executor));
    sr_executor_free(lane->executor);
    for (int i = 0; i < 2; i++)
        sr_device_free(device, lane->inputs[i]);
}

static void run_lanes(int count, outcome *out) {
    static const sr_segment segment = {.name = "a", .count = 1};
    static run_lane lanes[LANES];
    const sr_comm_options self = {.alone = true};
    sr_context *context;
    sr_comm *comm;
    sr_exchange *exchange;
    sr_address memory;
    assert_ok(sr_context_create(NULL, &context));
    sr_device *device = sr_context_device(context);
    assert_ok(sr_comm_create(&self, &comm));
    assert_ok(sr_device_alloc(device, sizeof(float), "values", &memory));
    const sr_exchange_options options = {.lanes = count,
                                         .segments = &segment,
                                         .segment_count = 1,
                                         .device = device,
                                         .values = memory,
                                         .elements = 1,
                                         .update = no_update};
    assert_ok(sr_exchange_create(comm, &options, &exchange));
    sr_plan *plan = record(context, (int64_t)PICTURES * LANES / count, count);
    const int64_t part = ALL / count;
    for (int l = 0; l < count; l++)
        begin_lane(device, plan, x + l * part, dy + l * part, sizeof x / (size_t)count, &lanes[l]);
    for (int stop = 0; stop < sr_plan_stop_count(plan); stop++)
        pass_stop(device, exchange, lanes, count);
    for (int l = 0; l < count; l++)
        end_lane(device, &lanes[l]);
    collect(lanes, count, out);
    sr_exchange_free(exchange);
    sr_device_free(device, memory);
    sr_comm_free(comm);
    sr_context_free(context);
}

static double distance(const double *a, const double *b, int count) {
    double squares = 0;
    for (int i = 0; i < count; i++)
        squares += (a[i] - (b ? b[i] : 0)) * (a[i] - (b ? b[i] : 0));
    return sqrt(squares);
}

static void test_a_group_is_one_lane_with_all_rows(void **state) {
    (void)state;
    static outcome exact, one, group;
    fill_data();
    for (int c = 0; c < CHANNELS; c++)
        define_channel(&exact, c);
    double condition = 0;
    for (int c = 0; c < CHANNELS; c++)
        condition = fmax(condition, fabs(exact.mean[c]) / sqrt(exact.var[c]));
    const double limit = (8 + condition) * 0x1p-24;
    run_lanes(1, &one);
    run_lanes(LANES, &group);
    const struct {
        const char *name;
        const double *exact, *one, *group;
        int count;
    } parts[] = {{"y", exact.y, one.y, group.y, ALL},
                 {"mean", exact.mean, one.mean, group.mean, CHANNELS},
                 {"var", exact.var, one.var, group.var, CHANNELS},
                 {"dx", exact.dx, one.dx, group.dx, ALL},
                 {"dgamma", exact.dgamma, one.dgamma, group.dgamma, CHANNELS},
                 {"dbeta", exact.dbeta, one.dbeta, group.dbeta, CHANNELS}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const double norm = distance(parts[i].exact, NULL, parts[i].count);
        const double own = distance(parts[i].one, parts[i].exact, parts[i].count) / norm;
        const double error = distance(parts[i].group, parts[i].exact, parts[i].count) / norm;
        print_message("%-6s error %.1e, of one lane %.1e\n", parts[i].name, error, own);
        assert_true(error <= 2 * own || error <= limit);
    }
}

// ---- Training ----

enum { STEPS = 20, MOST_VALUES = 100000 };

typedef struct trained {
    double losses[STEPS];
    float values[MOST_VALUES]; // of all parameters and running statistics
    int64_t count;
    double distance; // largest one of a tensor to those of 'other', relative to its norm
    const struct trained *other;
} trained;

static void fill_param(const void *user, const sr_model *model, int i, float *out) {
    (void)user;
    golden_fill_param(model, i, out);
}

// Keeps the values, or compares them with those of another run.
static void finish(const void *user, const sr_model *model, const float *values) {
    trained *t = *(trained *const *)user;
    for (int i = 0; i < model->param_count; i++) {
        const sr_param *p = &model->params[i];
        double squares = 0, norm = 0;
        for (int64_t k = p->offset; k < p->offset + sr_info_count(&p->info); k++) {
            assert_true(k < MOST_VALUES);
            t->values[k] = values[k];
            const double d = t->other ? (double)(values[k] - t->other->values[k]) : 0;
            squares += d * d;
            norm += (double)values[k] * (double)values[k];
        }
        if (norm > 0 && sqrt(squares / norm) > t->distance)
            t->distance = sqrt(squares / norm);
    }
}

static void train(int lanes, const char *sync_bn, const char *precision, const trained *other,
                  trained *out) {
    *out = (trained){.other = other};
    const golden_training training = {.model = "{name: tiny, dropout: 0}",
                                      .optimizer = "{name: sgd, lr: 0.1, momentum: 0.9}",
                                      .precision = precision,
                                      .classes = 5,
                                      .side = 32,
                                      .batch = 32,
                                      .lanes = lanes,
                                      .sync_bn = sync_bn,
                                      .seed = 3,
                                      .lr = 0.1,
                                      .falling = true,
                                      .fill = fill_param,
                                      .finish = finish,
                                      .user = &out};
    golden_train(&training, STEPS, out->losses);
}

static double worst(const trained *a, const trained *b) {
    double most = 0;
    for (int i = 0; i < STEPS; i++) {
        const double d = fabs(a->losses[i] - b->losses[i]);
        most = d <= most ? most : d; // NaN is kept
    }
    return most;
}

static void test_training_in_groups(void **state) {
    (void)state;
    // 8 units of roundoff of a loss below 2.
    const double tolerance = 8 * 0x1p-23;
    static trained one, all, two, pairs, apart;
    train(1, NULL, "fp32", NULL, &one);
    train(4, "all", "fp32", &one, &all);
    train(2, NULL, "fp32", NULL, &two);
    train(4, "2", "fp32", &two, &pairs);
    train(4, NULL, "fp32", &one, &apart);
    print_message("losses differ by %.1e and %.1e, of lanes with their own statistics by %.1e; "
                  "tensors by %.1e, %.1e and %.1e\n",
                  worst(&one, &all), worst(&two, &pairs), worst(&one, &apart), all.distance,
                  pairs.distance, apart.distance);
    assert_true(worst(&one, &all) <= tolerance);
    assert_true(worst(&two, &pairs) <= tolerance);
    assert_true(worst(&one, &apart) > 1e-2 && worst(&one, &two) > 1e-3);
    assert_true(all.distance <= 2 * tolerance && pairs.distance <= 2 * tolerance);
    assert_true(apart.distance > 1e-2);
    // In bf16 the sums of groups are those of fp32, so rounding is all that differs.
    train(1, NULL, "bf16", NULL, &one);
    train(4, "all", "bf16", &one, &all);
    assert_true(worst(&one, &all) <= worst(&two, &apart) / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_group_is_one_lane_with_all_rows),
        cmocka_unit_test(test_training_in_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
