// SPDX-License-Identifier: Apache-2.0
// run_network MODEL CLASSES WEIGHTS INPUTS OUT: one forward and backward pass in training mode, for
// comparison with PyTorch (check_resnet50.py). All files are safetensors.
//
// WEIGHTS: the model's tensors by name. INPUTS: images u8 [N,S,S,3] and labels i32 [N]. OUT: logits
// [N,CLASSES], loss [N], grad.NAME (of the summed loss) for every parameter that trains, and
// stat.NAME for every buffer (the statistic of this batch).
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/network_fixture.h"
#include "trainer/safetensors.h"

static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};

// All of a tensor, in new memory.
static sr_status read_tensor(sr_safetensors *file, const char *name, sr_dtype dtype, int64_t count,
                             void *out) {
    const sr_stored_tensor *tensor = sr_safetensors_find(file, name);
    if (!tensor)
        return SR_FAIL(SR_E_NOT_FOUND, "%s has no tensor %s", sr_safetensors_path(file), name);
    if (tensor->dtype != dtype || sr_stored_elements(tensor) != count)
        return SR_FAIL(SR_E_SHAPE, "%s: %s is not %lld elements of %s", sr_safetensors_path(file),
                       name, (long long)count, sr_dtype_name(dtype));
    return sr_safetensors_read(file, tensor, 0, count, out);
}

static sr_status read_weights(network *net, const char *path) {
    sr_safetensors *file;
    sr_status status = SR_OK;
    SR_TRY(sr_safetensors_open(path, &file));
    for (int i = 0; i < net->model->param_count && status == SR_OK; i++)
        status = read_tensor(file, net->model->params[i].name, SR_F32, network_count(net, i),
                             net->values[i]);
    sr_safetensors_free(file);
    return status;
}

static sr_status run_on(network *net, sr_safetensors *file, int64_t *samples) {
    const sr_stored_tensor *images = sr_safetensors_find(file, "images");
    if (!images || images->rank != 4 || images->shape[1] != images->shape[2])
        return SR_FAIL(SR_E_SHAPE, "%s has no images [N,S,S,3]", sr_safetensors_path(file));
    *samples = images->shape[0];
    int64_t count = sr_stored_elements(images);
    uint8_t *pixels = sr_alloc((size_t)count, "pictures");
    int32_t *labels = sr_alloc_array((size_t)*samples, sizeof *labels, "labels");
    sr_status status = pixels && labels ? SR_OK : SR_E_MEMORY;
    if (status == SR_OK)
        status = read_tensor(file, "images", SR_U8, count, pixels);
    if (status == SR_OK)
        status = read_tensor(file, "labels", SR_I32, *samples, labels);
    if (status == SR_OK)
        status = network_run(net, *samples, images->shape[1], pixels, labels, mean, std);
    sr_free(pixels);
    sr_free(labels);
    return status;
}

static sr_stored_tensor describe(const char *name, int rank, const int64_t *dim, const void *data) {
    sr_stored_tensor tensor = {.name = name, .dtype = SR_F32, .rank = rank, .data = data};
    for (int i = 0; i < rank; i++)
        tensor.shape[i] = dim[i];
    return tensor;
}

static sr_status write_results(network *net, int64_t samples, const char *path) {
    int64_t logits[2] = {samples, net->classes};
    int count = net->model->param_count;
    sr_stored_tensor *tensors = sr_arena_alloc(&net->arena, ((size_t)count + 2) * sizeof *tensors);
    if (!tensors)
        return SR_E_MEMORY;
    tensors[0] = describe("logits", 2, logits, net->logits);
    tensors[1] = describe("loss", 1, logits, net->loss);
    int n = 2;
    for (int i = 0; i < count; i++) {
        const sr_param *p = &net->model->params[i];
        char name[SR_NAME_BYTES + 8];
        if (p->kind == SR_PARAM_FROZEN)
            continue;
        (void)snprintf(name, sizeof name, "%s.%s", p->kind == SR_PARAM_BUFFER ? "stat" : "grad",
                       p->name);
        const char *copy = sr_arena_strdup(&net->arena, name);
        if (!copy)
            return SR_E_MEMORY;
        tensors[n++] = describe(copy, p->info.rank, p->info.dim, net->results[i]);
    }
    return sr_safetensors_write(path, tensors, n, NULL, 0, NULL);
}

static sr_status run(char **argv) {
    network *net;
    sr_safetensors *inputs;
    int64_t samples = 0;
    SR_TRY(network_create(argv[1], strtoll(argv[2], NULL, 10), &net));
    sr_status status = read_weights(net, argv[3]);
    if (status == SR_OK)
        status = sr_safetensors_open(argv[4], &inputs);
    if (status == SR_OK) {
        status = run_on(net, inputs, &samples);
        sr_safetensors_free(inputs);
    }
    if (status == SR_OK)
        status = write_results(net, samples, argv[5]);
    network_free(net);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        (void)fprintf(stderr, "usage: run_network MODEL CLASSES WEIGHTS INPUTS OUT\n");
        return 2;
    }
    sr_status status = run(argv);
    if (status != SR_OK)
        (void)fprintf(stderr, "run_network: %s\n", sr_error_message());
    return sr_status_exit_code(status);
}
