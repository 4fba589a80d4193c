// SPDX-License-Identifier: Apache-2.0
// Whole networks in tests (network_fixture.h), through the same calls as any program of a user's.
#include "tests/unit/network_fixture.h"

#include "autograd/gradients.h"

static sr_status create_values(network *net) {
    size_t count = (size_t)net->model->param_count;
    net->values = sr_alloc_array(count, sizeof *net->values, "values");
    net->results = sr_alloc_array(count, sizeof *net->results, "results");
    for (int i = 0; net->values && net->results && i < net->model->param_count; i++) {
        size_t elements = (size_t)network_count(net, i);
        net->values[i] = sr_alloc_array(elements, sizeof **net->values, "values");
        net->results[i] = sr_alloc_array(elements, sizeof **net->results, "results");
        if (!net->values[i] || !net->results[i])
            return SR_E_MEMORY;
    }
    return net->values && net->results ? SR_OK : SR_E_MEMORY;
}

static sr_status create(network *net, const char *name, int64_t classes) {
    const sr_model_desc *desc = sr_model_find(name);
    void *options = NULL;
    if (!desc)
        return SR_FAIL(SR_E_NOT_FOUND, "there is no model %s", name);
    if (desc->options) {
        options = sr_arena_alloc(&net->arena, desc->options->struct_size);
        if (!options)
            return SR_E_MEMORY;
        SR_TRY(sr_options_defaults(desc->options, options, &net->arena));
    }
    const sr_model_build build = {
        .desc = desc, .options = options, .prefix = "", .classes = classes};
    SR_TRY(sr_model_create(&build, &net->model));
    SR_TRY(sr_context_create(NULL, &net->context));
    net->classes = classes;
    return create_values(net);
}

sr_status network_create(const char *model, int64_t classes, network **out) {
    network *net = sr_alloc(sizeof *net, "network");
    if (!net)
        return SR_E_MEMORY;
    sr_arena_init(&net->arena);
    sr_status status = create(net, model, classes);
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
    for (int i = 0; net->model && i < net->model->param_count; i++) {
        if (net->values)
            sr_free(net->values[i]);
        if (net->results)
            sr_free(net->results[i]);
    }
    sr_free(net->values);
    sr_free(net->results);
    sr_free(net->logits);
    sr_free(net->loss);
    sr_context_free(net->context);
    sr_model_free(net->model);
    sr_arena_release(&net->arena);
    sr_free(net);
}

int64_t network_count(const network *net, int i) {
    return sr_info_count(&net->model->params[i].info);
}

static void bind(network *net) {
    for (int i = 0; i < net->model->param_count; i++) {
        sr_param *p = &net->model->params[i];
        p->variable = sr_variable(net->context, p->name, &p->info, net->values[i]);
        *p->slot = p->variable;
    }
}

static void deliver(network *net, int i, sr_tensor value) {
    if (!sr_is_none(value))
        sr_read_later(value, net->results[i], (size_t)network_count(net, i) * sizeof(float));
}

static sr_status deliver_gradients(network *net, sr_tensor loss) {
    int count = net->model->param_count;
    sr_tensor *xs = sr_arena_alloc(&net->arena, 2 * (size_t)count * sizeof *xs);
    if (!xs)
        return SR_E_MEMORY;
    sr_tensor *grads = xs + count;
    for (int i = 0; i < count; i++)
        xs[i] = net->model->params[i].variable;
    sr_gradients(loss, SR_NONE, xs, count, grads);
    for (int i = 0; i < count; i++)
        if (net->model->params[i].kind != SR_PARAM_BUFFER)
            deliver(net, i, grads[i]);
    return SR_OK;
}

static sr_status record(network *net, const sr_info *image, const uint8_t *images,
                        const int32_t *labels, const double *mean, const double *std) {
    const sr_info label = {.dtype = SR_I32, .rank = 1, .dim = {image->dim[0]}};
    sr_statistics statistics = {.count = 0};
    static const int32_t key[4];
    const sr_info key_info = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    sr_forward forward = {.context = net->context,
                          .training = true,
                          .dtype = SR_F32,
                          .key = sr_constant(net->context, &key_info, key),
                          .statistics = &statistics};
    sr_tensor x = sr_normalize(sr_constant(net->context, image, images), mean, std, SR_F32);
    sr_tensor logits = net->model->desc->forward(&forward, net->model->state, &x);
    sr_tensor loss = sr_softmax_cross_entropy(logits, sr_constant(net->context, &label, labels), 0);
    sr_status status = deliver_gradients(net, loss);
    for (int i = 0; i < statistics.count; i++)
        deliver(net, sr_model_param_of(net->model, statistics.items[i].buffer),
                statistics.items[i].value);
    size_t samples = (size_t)image->dim[0];
    sr_read_later(logits, net->logits, samples * (size_t)net->classes * sizeof(float));
    sr_read_later(loss, net->loss, samples * sizeof(float));
    if (status == SR_OK)
        status = sr_statistics_check(&statistics);
    sr_free(statistics.items);
    return status == SR_OK ? sr_context_status(net->context) : status;
}

sr_status network_run(network *net, int64_t samples, int64_t side, const uint8_t *images,
                      const int32_t *labels, const double *mean, const double *std) {
    const sr_info image = {.dtype = SR_U8, .rank = 4, .dim = {samples, side, side, 3}};
    size_t n = (size_t)samples;
    net->logits = sr_alloc_array(n * (size_t)net->classes, sizeof(float), "logits");
    net->loss = sr_alloc_array(n, sizeof(float), "losses");
    if (!net->logits || !net->loss)
        return SR_E_MEMORY;
    sr_context_begin_step(net->context);
    bind(net);
    SR_TRY(record(net, &image, images, labels, mean, std));
    return sr_context_run(net->context);
}
