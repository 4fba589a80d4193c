// SPDX-License-Identifier: Apache-2.0
// run_network MODEL CLASSES WEIGHTS INPUTS OUT: one forward and backward pass in training mode in
// f64, f32 and bf16, for comparison with PyTorch (check_resnet50.py). All files are safetensors.
//
// WEIGHTS: the model's tensors by name. INPUTS: images u8 [N,S,S,3] and labels i32 [N]. OUT, after
// a prefix: logits [N,CLASSES], loss [N], grad.NAME (of the summed loss) for every trained
// parameter, and stat.NAME for every buffer (the statistic of this batch). Prefixes: "f64.",
// "f32.", "bf16."; "f32-exact." and "bf16-exact." are f64 with the sides of ReLUs and the positions
// of maxima of that precision (network_choices.h).
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/graph/network_choices.h"
#include "tests/unit/trainer/network_fixture.h"
#include "trainer/checkpoint/safetensors.h"

enum { PASSES = 5 };

typedef struct network_job {
    network_options options;
    network_pass pass;
    uint8_t *pixels;
    int32_t *labels;
    const char *weights;
    choices *chosen;
    network *nets[PASSES];
    sr_stored_tensor *tensors;
    int count;
    sr_arena arena;
} network_job;

// Reads a whole tensor into new memory.
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

static sr_status read_images(network_job *j, sr_safetensors *file) {
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    const sr_stored_tensor *images = sr_safetensors_find(file, "images");
    if (!images || images->rank != 4 || images->shape[1] != images->shape[2])
        return SR_FAIL(SR_E_SHAPE, "%s has no images [N,S,S,3]", sr_safetensors_path(file));
    int64_t samples = images->shape[0], count = sr_stored_elements(images);
    j->pixels = sr_alloc((size_t)count, "pictures");
    j->labels = sr_alloc_array((size_t)samples, sizeof *j->labels, "labels");
    if (!j->pixels || !j->labels)
        return SR_E_MEMORY;
    SR_TRY(read_tensor(file, "images", SR_U8, count, j->pixels));
    SR_TRY(read_tensor(file, "labels", SR_I32, samples, j->labels));
    j->pass = (network_pass){.samples = samples,
                             .side = images->shape[1],
                             .images = j->pixels,
                             .mean = mean,
                             .std = std,
                             .labels = j->labels};
    return SR_OK;
}

static sr_status read_inputs(network_job *j, const char *path) {
    sr_safetensors *file;
    SR_TRY(sr_safetensors_open(path, &file));
    sr_status status = read_images(j, file);
    sr_safetensors_free(file);
    return status;
}

static sr_status add(network_job *j, const char *prefix, const char *kind, const char *name,
                     int rank, const int64_t *dim, const double *data) {
    char full[SR_NAME_BYTES + 32];
    (void)snprintf(full, sizeof full, "%s.%s%s", prefix, kind, name);
    sr_stored_tensor *tensor = &j->tensors[j->count++];
    *tensor = (sr_stored_tensor){
        .name = sr_arena_strdup(&j->arena, full), .dtype = SR_F64, .rank = rank, .data = data};
    for (int i = 0; i < rank; i++)
        tensor->shape[i] = dim[i];
    return tensor->name ? SR_OK : SR_E_MEMORY;
}

static sr_status add_results(network_job *j, const network *net, const char *prefix) {
    SR_TRY(add(j, prefix, "", "logits", 2, net->output_info.dim, net->output));
    SR_TRY(add(j, prefix, "", "loss", 1, net->output_info.dim, net->loss));
    for (int i = 0; i < net->model->param_count; i++) {
        const sr_param *p = &net->model->params[i];
        const char *kind = p->kind == SR_PARAM_BUFFER ? "stat." : "grad.";
        if (p->kind != SR_PARAM_FROZEN)
            SR_TRY(add(j, prefix, kind, p->name, p->info.rank, p->info.dim, net->results[i]));
    }
    return SR_OK;
}

// One pass; results stay in nets[number] until the file is written.
static sr_status run_pass(network_job *j, int number, sr_dtype dtype, bool given,
                          const char *prefix) {
    j->options.dtype = dtype;
    SR_TRY(network_create(&j->options, &j->nets[number]));
    network *net = j->nets[number];
    SR_TRY(read_weights(net, j->weights));
    if (given)
        choices_give(j->chosen, net->context);
    else
        choices_note(j->chosen);
    sr_status status = network_run(net, &j->pass);
    choices_end();
    SR_TRY(status);
    if (given && !choices_all_given(j->chosen))
        return SR_FAIL(SR_E_INTERNAL, "not every choice was given");
    if (number == 0) {
        size_t tensors = PASSES * (2 + (size_t)net->model->param_count);
        j->tensors = sr_arena_alloc(&j->arena, tensors * sizeof *j->tensors);
    }
    return j->tensors ? add_results(j, net, prefix) : SR_E_MEMORY;
}

static sr_status run(network_job *j, char **argv) {
    j->options = (network_options){.model = argv[1], .classes = strtoll(argv[2], NULL, 10)};
    j->weights = argv[3];
    j->chosen = choices_create();
    if (!j->chosen)
        return SR_E_MEMORY;
    SR_TRY(read_inputs(j, argv[4]));
    SR_TRY(run_pass(j, 0, SR_F64, false, "f64"));
    SR_TRY(run_pass(j, 1, SR_F32, false, "f32"));
    SR_TRY(run_pass(j, 2, SR_F64, true, "f32-exact"));
    SR_TRY(run_pass(j, 3, SR_BF16, false, "bf16"));
    SR_TRY(run_pass(j, 4, SR_F64, true, "bf16-exact"));
    return sr_safetensors_write(argv[5], j->tensors, j->count, NULL, 0, NULL);
}

static void release(network_job *j) {
    for (int i = 0; i < PASSES; i++)
        network_free(j->nets[i]);
    choices_free(j->chosen);
    sr_free(j->pixels);
    sr_free(j->labels);
    sr_arena_release(&j->arena);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        (void)fprintf(stderr, "usage: run_network MODEL CLASSES WEIGHTS INPUTS OUT\n");
        return 2;
    }
    network_job j = {.count = 0};
    sr_arena_init(&j.arena);
    sr_status status = run(&j, argv);
    if (status != SR_OK)
        (void)fprintf(stderr, "run_network: %s\n", sr_error_message());
    release(&j);
    return sr_status_exit_code(status);
}
