// SPDX-License-Identifier: Apache-2.0
// Other data loaders to compare with: writes the pictures of a data set as files, JPEGs as they are
// stored or raw pixels as NumPy arrays, and starts a process for each loader, affinity and kind of
// output.
//
// The blocks of a loader alternate with ours. It is paused in between, since loaders read ahead.
// Some loaders are faster pinned to our processor, others with a worker that may run anywhere, so
// both are measured.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "kernels/base/file.h"
#include "kernels/kernel_params.h"
#include "launcher/bench/bench_loaders_internal.h"
#include "trainer/checkpoint/json_tree.h"

enum { MAX_ABOUT_NODES = 64, PATH = 512, NPY_HEADER = 128 };
static const double ready_seconds = 600, answer_seconds = 300;

static const struct {
    const char *name;
    bool pinned;
} usual[SR_LOADERS] = {
    {"ffcv", true}, {"ffcv", false}, {"dali", true}, {"dali", false}, {"torchvision", true}};

const char *const sr_loader_kind_names[SR_LOADER_KINDS] = {"u8", "float"};
const char *const sr_loader_kind_keys[SR_LOADER_KINDS] = {"images_per_s",
                                                          "normalised_images_per_s"};

sr_status sr_bench_one_core(sr_cpu_set *all, int *cpu) {
    sr_cpu_set one = {{0}};
    *all = sr_cpu_set_of_thread();
    *cpu = 0;
    while (*cpu < SR_CPUS - 1 && !sr_cpu_set_has(all, *cpu))
        ++*cpu;
    sr_cpu_set_add(&one, *cpu);
    return sr_cpu_set_bind(&one);
}

sr_status sr_bench_normalise_prepare(int64_t pixels, sr_kernel_request *request, sr_prepared *out) {
    *request =
        (sr_kernel_request){.kernel = SR_KERNEL_normalize, .args = 2, .dtype = {SR_U8, SR_F32}};
    const sr_normalize_params params = {.rows = pixels,
                                        .channels = 3,
                                        .mean = {123.7, 116.3, 103.5},
                                        .inverse_std = {0.0171, 0.0175, 0.0174}};
    memcpy(request->params, &params, sizeof params);
    return sr_kernel_prepare(request, out);
}

// ---- Files ----

static void path_of(const char *folder, int64_t number, bool encoded, char path[PATH]) {
    (void)snprintf(path, PATH, "%s/%08lld.%s", folder, (long long)number, encoded ? "jpg" : "npy");
}

// An array of version 1.0 of NumPy's format (numpy.lib.format): magic, length of the header, a
// Python literal, padded so that the values are aligned.
static void npy_header(const sr_sample *s, char out[NPY_HEADER]) {
    char text[NPY_HEADER];
    const int n = snprintf(text, sizeof text,
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (%lld, %lld, 3), }",
                           (long long)s->height, (long long)s->width);
    memset(out, ' ', NPY_HEADER);
    memcpy(out, "\x93NUMPY\x01\x00\x76\x00", 10); // 118 bytes follow
    memcpy(out + 10, text, (size_t)n);
    out[NPY_HEADER - 1] = '\n';
}

static sr_status write_picture(const void *record, size_t bytes, const char *folder,
                               int64_t number) {
    char path[PATH], header[NPY_HEADER];
    sr_sample s;
    SR_TRY(sr_sample_read(record, bytes, &s));
    if (!s.encoded && s.channels != 3)
        return SR_FAIL(SR_E_USAGE, "--peers needs a data set of JPEG or raw RGB pictures");
    path_of(folder, number, s.encoded, path);
    sr_text content;
    sr_text_init(&content);
    if (!s.encoded) {
        npy_header(&s, header);
        sr_text_add_bytes(&content, header, sizeof header);
    }
    sr_text_add_bytes(&content, (const char *)s.data, s.bytes);
    sr_status status = sr_text_check(&content);
    if (status == SR_OK)
        status = sr_file_write_quickly(path, content.data, content.length);
    sr_text_release(&content);
    return status;
}

static sr_status write_pictures(const sr_loader_options *o, sr_loaders *l) {
    sr_dataset *dataset;
    int64_t all = 0;
    SR_TRY(sr_dataset_open(o->dataset, o->split, &dataset));
    sr_status status = SR_OK;
    for (int64_t i = 0; i < sr_dataset_count(dataset) && all < o->memory && status == SR_OK; i++) {
        const void *record;
        size_t bytes;
        status = sr_dataset_read(dataset, i, &record, &bytes);
        if (status == SR_OK)
            status = write_picture(record, bytes, l->folder, i);
        l->count += status == SR_OK;
        all += status == SR_OK ? (int64_t)bytes : 0;
    }
    sr_dataset_free(dataset);
    return status;
}

static void remove_pictures(const sr_loaders *l) {
    char path[PATH];
    for (int i = 0; i < SR_LOADERS; i++) {
        for (int k = 0; k < SR_LOADER_KINDS; k++) { // written by data_peers.py
            (void)snprintf(path, sizeof path, "%s/.%s.%s.beton", l->folder, sr_loader_kind_names[k],
                           usual[i].pinned ? "pinned" : "free");
            (void)unlink(path);
        }
    }
    for (int64_t i = 0; i < l->count; i++) {
        for (int encoded = 0; encoded < 2; encoded++) {
            path_of(l->folder, i, encoded, path);
            (void)unlink(path);
        }
    }
    (void)rmdir(l->folder);
}

// ---- Processes ----

static sr_status read_about(sr_loader *p, const char *text) {
    const sr_json *about;
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status =
        sr_json_parse(text, strlen(text), MAX_ABOUT_NODES, "the peer", &arena, &about);
    if (status == SR_OK) {
        const char *version = sr_json_string(sr_json_get(about, "version"));
        const char *setting = sr_json_string(sr_json_get(about, "setting"));
        (void)snprintf(p->title, sizeof p->title, "%s", version ? version : p->name);
        (void)snprintf(p->setting, sizeof p->setting, "%s%s%s", setting ? setting : "",
                       setting ? ", " : "", p->pinned ? "pinned" : "not pinned");
        (void)sr_json_double(sr_json_get(about, "bytes_per_picture"), &p->picture_bytes);
        if (!sr_json_double(sr_json_get(about, "pictures"), &p->pictures) || !(p->pictures > 0))
            status = SR_FAIL(SR_E_PEER, "the peer does not report how many pictures it used");
    }
    sr_arena_release(&arena);
    return status;
}

static sr_status start(const sr_loader_options *o, const sr_loaders *l, sr_loader *p, int kind) {
    char image[24], pictures[24], cpus[256];
    const char *about;
    sr_cpu_set one = {{0}};
    sr_cpu_set_add(&one, o->cpu);
    (void)snprintf(image, sizeof image, "%lld", (long long)o->side);
    (void)snprintf(pictures, sizeof pictures, "%d", SR_LOADER_PICTURES);
    const char *const args[] = {
        p->name,      l->folder,
        "--image",    image,
        "--pictures", pictures,
        "--cpus",     sr_cpu_set_text(p->pinned ? &one : &o->cpus, cpus, sizeof cpus),
        "--kind",     sr_loader_kind_names[kind],
        "--name",     p->pinned ? "pinned" : "free",
        NULL};
    SR_TRY(sr_peer_start("data_peers.py", args, &p->process[kind]));
    SR_TRY(sr_peer_ready(p->process[kind], ready_seconds, &about));
    sr_peer_pause(p->process[kind]);
    return read_about(p, about);
}

static void give_up(sr_loader *p) {
    (void)snprintf(p->reason, sizeof p->reason, "%s", sr_error_message());
    for (int k = 0; k < SR_LOADER_KINDS; k++) {
        sr_peer_stop(p->process[k]);
        p->process[k] = NULL;
    }
}

sr_status sr_loaders_start(const sr_loader_options *o, sr_loaders *l) {
    if (o->transform_count != 2 || strcmp(o->transforms[0].name, "random_resized_crop") != 0 ||
        o->transforms[0].arguments || strcmp(o->transforms[1].name, "flip") != 0)
        return SR_FAIL(SR_E_USAGE,
                       "--peers supports only the transforms random_resized_crop and flip");
    char folder[] = "/tmp/serried-bench-XXXXXX";
    if (!mkdtemp(folder))
        return SR_FAIL(SR_E_IO, "%s: %s", folder, strerror(errno));
    memcpy(l->folder, folder, sizeof folder);
    SR_TRY(write_pictures(o, l));
    for (int i = 0; i < SR_LOADERS; i++) {
        sr_loader *p = &l->list[i];
        p->name = usual[i].name;
        p->pinned = usual[i].pinned;
        for (int k = 0; k < SR_LOADER_KINDS && !p->reason[0]; k++)
            if (start(o, l, p, k) != SR_OK)
                give_up(p);
    }
    return SR_OK;
}

static sr_status take_block(sr_loader *p, int kind) {
    sr_peer *process = p->process[kind];
    const double before = sr_peer_cpu_seconds(process);
    double seconds;
    SR_TRY(sr_peer_begin(process, 1));
    SR_TRY(sr_peer_wait(process, answer_seconds, &seconds));
    sr_peer_pause(process);
    sr_series_add(&p->per_s[kind], p->pictures / seconds);
    sr_series_add(&p->busy[kind], (sr_peer_cpu_seconds(process) - before) / seconds);
    return SR_OK;
}

void sr_loaders_round(sr_loaders *l) {
    for (int i = 0; i < SR_LOADERS; i++)
        for (int k = 0; k < SR_LOADER_KINDS && !l->list[i].reason[0]; k++)
            if (take_block(&l->list[i], k) != SR_OK)
                give_up(&l->list[i]);
}

void sr_loaders_stop(sr_loaders *l) {
    for (int i = 0; i < SR_LOADERS; i++)
        for (int k = 0; k < SR_LOADER_KINDS; k++)
            sr_peer_stop(l->list[i].process[k]);
    if (l->folder[0])
        remove_pictures(l);
}

int sr_loaders_fastest(const sr_loaders *l, int kind) {
    int best = -1;
    for (int i = 0; i < SR_LOADERS; i++) {
        const sr_loader *p = &l->list[i];
        if (p->reason[0] || p->per_s[kind].count == 0)
            continue;
        if (best < 0 ||
            sr_series_median(&p->per_s[kind]) > sr_series_median(&l->list[best].per_s[kind]))
            best = i;
    }
    return best;
}

sr_status sr_loaders_check(const sr_loaders *l) {
    for (int k = 0; k < SR_LOADER_KINDS; k++) {
        if (sr_loaders_fastest(l, k) >= 0)
            return SR_OK;
    }
    return SR_FAIL(SR_E_NOT_FOUND, "no other loader was measured: %s", l->list[0].reason);
}
