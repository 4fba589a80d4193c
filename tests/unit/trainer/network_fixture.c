// SPDX-License-Identifier: Apache-2.0
// Whole networks in tests (network_fixture.h), through the same calls as a user's program.
#include "tests/unit/trainer/network_fixture.h"

#include "autograd/gradients.h"

static sr_status create_values(network *net) {
    size_t count = (size_t)net->model->param_count;
    net->values = sr_alloc_array(count, sizeof *net->values, "values");
    net->results = sr_alloc_array(count, sizeof *net->results, "results");
    net->raw = sr_alloc_array(count + 2, sizeof *net->raw, "results");
    if (!net->values || !net->results || !net->raw)
        return SR_E_MEMORY;
    for (int i = 0; i < net->model->param_count; i++) {
        size_t elements = (size_t)network_count(net, i);
        net->values[i] = sr_alloc_array(elements, sizeof **net->values, "values");
        net->results[i] = sr_alloc_array(elements, sizeof **net->results, "results");
        if (!net->values[i] || !net->results[i])
            return SR_E_MEMORY;
    }
    return SR_OK;
}

sr_status network_model(const network_options *o, sr_arena *arena, sr_model **out) {
    const sr_model_desc *desc = sr_model_find(o->model);
    void *options = NULL;
    if (!desc)
        return SR_FAIL(SR_E_NOT_FOUND, "there is no model %s", o->model);
    if (desc->options) {
        options = sr_arena_alloc(arena, desc->options->struct_size);
        if (!options)
            return SR_E_MEMORY;
        SR_TRY(sr_options_defaults(desc->options, options, arena));
    }
    for (const char *const *set = o->set; set && *set; set += 2)
        SR_TRY(sr_options_set(desc->options, options, set[0], set[1], arena));
    const sr_model_build build = {.desc = desc,
                                  .options = options,
                                  .prefix = "",
                                  .classes = o->classes,
                                  .image_height = o->side,
                                  .image_width = o->side};
    return sr_model_create(&build, out);
}

static sr_status create(network *net, const network_options *o) {
    const sr_context_options context = {.device = o->device, .optimize = o->optimize};
    SR_TRY(network_model(o, &net->arena, &net->model));
    SR_TRY(sr_context_create(&context, &net->context));
    net->dtype = o->dtype;
    return create_values(net);
}

sr_status network_create(const network_options *options, network **out) {
    network *net = sr_alloc(sizeof *net, "network");
    if (!net)
        return SR_E_MEMORY;
    sr_arena_init(&net->arena);
    sr_status status = create(net, options);
    if (status != SR_OK) {
        network_free(net);
        return status;
    }
    *out = net;
    return SR_OK;
}

void network_free(network *net) {
    if (!net)
        return;
    int count = net->model ? net->model->param_count : 0;
    for (int i = 0; i < count; i++) {
        if (net->values)
            sr_free(net->values[i]);
        if (net->results)
            sr_free(net->results[i]);
    }
    for (int i = 0; net->raw && i < count + 2; i++)
        sr_free(net->raw[i]);
    sr_free(net->values);
    sr_free(net->results);
    sr_free(net->raw);
    sr_free(net->output);
    sr_free(net->loss);
    sr_context_free(net->context);
    sr_model_free(net->model);
    sr_arena_release(&net->arena);
    sr_free(net);
}

int64_t network_count(const network *net, int i) {
    return sr_info_count(&net->model->params[i].info);
}

// ---- Numbers as f32, or as f64 next to f64 ----

static sr_dtype exact_dtype(const network *net) {
    return net->dtype == SR_F64 ? SR_F64 : SR_F32;
}

// Copies 'values' into memory of the network, with the width of its parameters.
static const void *as_parameters(network *net, const float *values, int64_t count) {
    if (exact_dtype(net) == SR_F32)
        return values;
    double *wide = sr_arena_alloc(&net->arena, (size_t)count * sizeof *wide);
    for (int64_t i = 0; wide && i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

// Requests a value, which is delivered to raw[slot].
static sr_status ask(network *net, int slot, sr_tensor value) {
    sr_info info;
    if (sr_is_none(value) || !sr_tensor_info(value, &info))
        return SR_OK;
    size_t bytes = (size_t)sr_info_count(&info) * sr_dtype_size(info.dtype);
    if (!net->raw[slot])
        net->raw[slot] = sr_alloc(bytes, "a result");
    if (!net->raw[slot])
        return SR_E_MEMORY;
    sr_read_later(value, net->raw[slot], bytes);
    return SR_OK;
}

static void widen(const network *net, int slot, int64_t count, double factor, double *out) {
    const double *wide = net->raw[slot];
    const float *narrow = net->raw[slot];
    for (int64_t i = 0; net->raw[slot] && i < count; i++)
        out[i] = factor * (exact_dtype(net) == SR_F64 ? wide[i] : (double)narrow[i]);
}

// ---- The pass ----

sr_status network_bind(network *net) {
    for (int i = 0; !net->bound && i < net->model->param_count; i++) {
        sr_param *p = &net->model->params[i];
        const void *values = as_parameters(net, net->values[i], network_count(net, i));
        sr_info info = p->info;
        if (!values)
            return SR_E_MEMORY;
        info.dtype = exact_dtype(net);
        p->variable = sr_variable(net->context, p->name, &info, values);
        *p->field = p->variable;
    }
    net->bound = true;
    return SR_OK;
}

static sr_tensor record_input(network *net, const network_pass *pass) {
    if (pass->images) {
        const sr_info info = {
            .dtype = SR_U8, .rank = 4, .dim = {pass->samples, pass->side, pass->side, 3}};
        return sr_normalize(sr_constant(net->context, &info, pass->images), pass->mean, pass->std,
                            net->dtype);
    }
    const sr_info info = {
        .dtype = exact_dtype(net), .rank = 2, .dim = {pass->samples, pass->noise_values}};
    const void *noise = as_parameters(net, pass->noise, sr_info_count(&info));
    return noise ? sr_cast(sr_constant(net->context, &info, noise), net->dtype) : SR_NONE;
}

static double scale_of(const network_pass *pass) {
    return pass->scale > 0 ? pass->scale : 1;
}

// The factors in the output's dtype and shape, times the scale.
static sr_tensor record_factors(network *net, const network_pass *pass) {
    sr_info info = net->output_info;
    info.dtype = exact_dtype(net);
    const int64_t count = sr_info_count(&info);
    float *scaled = sr_arena_alloc(&net->arena, (size_t)count * sizeof *scaled);
    for (int64_t i = 0; scaled && i < count; i++)
        scaled[i] = (float)(pass->factors[i] * scale_of(pass));
    const void *values = scaled ? as_parameters(net, scaled, count) : NULL;
    return values ? sr_cast(sr_constant(net->context, &info, values), net->dtype) : SR_NONE;
}

// The scale for each of the losses.
static sr_tensor record_scales(network *net, const network_pass *pass, sr_tensor loss) {
    sr_info info;
    if (!sr_tensor_info(loss, &info))
        return SR_NONE;
    const int64_t count = sr_info_count(&info);
    float *scales = sr_arena_alloc(&net->arena, (size_t)count * sizeof *scales);
    for (int64_t i = 0; scales && i < count; i++)
        scales[i] = (float)scale_of(pass);
    const void *values = scales ? as_parameters(net, scales, count) : NULL;
    return values ? sr_constant(net->context, &info, values) : SR_NONE;
}

// Labels [samples * pixels] of maps.
static sr_tensor record_labels(network *net, const network_pass *pass, int64_t pixels,
                               int64_t classes) {
    const sr_info info = {.dtype = SR_I32, .rank = 1, .dim = {pass->samples * pixels}};
    int32_t *labels = sr_arena_alloc(&net->arena, (size_t)info.dim[0] * sizeof *labels);
    for (int64_t i = 0; labels && i < info.dim[0]; i++)
        labels[i] = (int32_t)((pass->labels[i / pixels] + i % pixels) % classes);
    return labels ? sr_constant(net->context, &info, labels) : SR_NONE;
}

// [samples] of logits [samples,classes] or [samples,h,w,classes].
static sr_tensor record_cross_entropy(network *net, const network_pass *pass, sr_tensor logits) {
    sr_info info;
    if (!sr_tensor_info(logits, &info))
        return SR_NONE;
    const int64_t classes = info.dim[info.rank - 1];
    const int64_t pixels = sr_info_count(&info) / (pass->samples * classes);
    const int64_t flat[] = {pass->samples * pixels, classes}, rows[] = {pass->samples, pixels};
    const sr_tensor loss =
        sr_softmax_cross_entropy(info.rank == 2 ? logits : sr_reshape(logits, 2, flat),
                                 record_labels(net, pass, pixels, classes), pass->smoothing);
    if (info.rank == 2)
        return loss;
    return sr_mean(sr_reshape(loss, 2, rows), (sr_axes){.count = 1, .axis = {1}});
}

static sr_tensor record_loss(network *net, const network_pass *pass, const sr_outputs *outputs) {
    if (pass->factors && !pass->labels)
        return SR_NONE;
    const sr_tensor output = outputs->item[0].tensor;
    if (!pass->labels)
        return sr_cast(sr_bce_with_logits(output, 1), exact_dtype(net));
    sr_tensor loss = record_cross_entropy(net, pass, output);
    for (int i = 1; i < outputs->count; i++) {
        const sr_output *o = &outputs->item[i];
        if (o->weight > 0)
            loss = sr_add(loss, sr_scale(record_cross_entropy(net, pass, o->tensor), o->weight, 0));
    }
    return loss;
}

static sr_status ask_gradients(network *net, sr_tensor y, sr_tensor dy) {
    int count = net->model->param_count;
    sr_tensor *xs = sr_arena_alloc(&net->arena, 2 * (size_t)count * sizeof *xs);
    if (!xs)
        return SR_E_MEMORY;
    sr_tensor *grads = xs + count;
    for (int i = 0; i < count; i++)
        xs[i] = net->model->params[i].variable;
    sr_gradients(y, dy, xs, count, grads);
    for (int i = 0; i < count; i++)
        if (net->model->params[i].kind != SR_PARAM_BUFFER)
            SR_TRY(ask(net, i, grads[i]));
    return SR_OK;
}

static sr_status record_backward(network *net, const network_pass *pass,
                                 const sr_outputs *outputs) {
    int count = net->model->param_count;
    const sr_tensor output = outputs->item[0].tensor;
    sr_tensor loss = record_loss(net, pass, outputs);
    SR_TRY(ask(net, count, sr_cast(output, exact_dtype(net))));
    SR_TRY(ask(net, count + 1, loss));
    if (!pass->labels && pass->factors)
        return ask_gradients(net, output, record_factors(net, pass));
    return ask_gradients(net, loss, pass->scale > 0 ? record_scales(net, pass, loss) : SR_NONE);
}

static sr_status write_plan(network *net, sr_tensor output, sr_text *out) {
    sr_plan *plan;
    SR_TRY(sr_compile(net->context, &(sr_target){.tensor = output}, 1, &plan));
    return sr_plan_text(plan, out);
}

static sr_status record(network *net, const network_pass *pass, sr_statistics *statistics) {
    static const int32_t key[4];
    const sr_info key_info = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    sr_outputs outputs = {0};
    sr_forward forward = {.context = net->context,
                          .outputs = &outputs,
                          .training = !pass->evaluates,
                          .dtype = net->dtype,
                          .key = sr_constant(net->context, &key_info, key),
                          .statistics = statistics};
    sr_tensor x = record_input(net, pass);
    net->model->desc->forward(&forward, net->model->state, &x);
    SR_TRY(sr_context_status(net->context));
    const sr_tensor output = outputs.count > 0 ? outputs.item[0].tensor : SR_NONE;
    if (!sr_tensor_info(output, &net->output_info))
        return sr_context_status(net->context);
    if (pass->evaluates)
        return ask(net, net->model->param_count, sr_cast(output, exact_dtype(net)));
    SR_TRY(sr_statistics_check(statistics));
    for (int i = 0; i < statistics->count; i++)
        SR_TRY(ask(net, sr_model_param_of(net->model, statistics->items[i].buffer),
                   statistics->items[i].value));
    if (pass->plan)
        SR_TRY(write_plan(net, output, pass->plan));
    SR_TRY(record_backward(net, pass, &outputs));
    return sr_context_status(net->context);
}

static sr_status collect(network *net, const network_pass *pass) {
    int count = net->model->param_count;
    int64_t elements = sr_info_count(&net->output_info);
    if (!net->output)
        net->output = sr_alloc_array((size_t)elements, sizeof *net->output, "the output");
    if (!net->output)
        return SR_E_MEMORY;
    widen(net, count, elements, 1, net->output);
    for (int i = 0; i < count; i++) {
        const bool gradient = net->model->params[i].kind != SR_PARAM_BUFFER;
        widen(net, i, network_count(net, i), gradient ? 1 / scale_of(pass) : 1, net->results[i]);
    }
    if (!net->raw[count + 1])
        return SR_OK;
    if (!net->loss)
        net->loss = sr_alloc_array((size_t)pass->samples, sizeof *net->loss, "losses");
    if (!net->loss)
        return SR_E_MEMORY;
    widen(net, count + 1, pass->samples, 1, net->loss);
    return SR_OK;
}

sr_status network_run(network *net, const network_pass *pass) {
    sr_statistics statistics = {.count = 0};
    sr_context_begin_step(net->context);
    SR_TRY(network_bind(net));
    sr_status status = record(net, pass, &statistics);
    sr_free(statistics.items);
    SR_TRY(status);
    SR_TRY(sr_context_run(net->context));
    return collect(net, pass);
}
