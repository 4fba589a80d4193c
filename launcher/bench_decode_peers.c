// SPDX-License-Identifier: Apache-2.0
// Other data loaders beside serried bench decode (tests/peers/data_peers.py): the pictures of the
// records as files, JPEG as they are stored or raw ones as PPM, and a process for each loader and
// kind of output. Each answers on one processor, in turns with ours.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataio/record.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "launcher/bench_decode_internal.h"
#include "trainer/json_tree.h"

enum { MAX_ABOUT_NODES = 32, PATH = 512 };
static const double ready_seconds = 300, answer_seconds = 300;

const char *const sr_decode_peer_names[SR_DECODE_PEERS] = {"ffcv", "dali", "torchvision"};

// ---- Files ----

static sr_status write_picture(const sr_decode_record *record, const char *folder, int64_t number) {
    char path[PATH];
    sr_sample s;
    SR_TRY(sr_sample_read(record->data, record->bytes, &s));
    if (!s.encoded && s.channels != 3)
        return SR_FAIL(SR_E_USAGE, "peers are measured on JPEG and on raw RGB");
    (void)snprintf(path, sizeof path, "%s/%08lld.%s", folder, (long long)number,
                   s.encoded ? "jpg" : "ppm");
    sr_text content;
    sr_text_init(&content);
    if (!s.encoded)
        sr_text_add(&content, "P6\n%lld %lld\n255\n", (long long)s.width, (long long)s.height);
    sr_text_add_bytes(&content, (const char *)s.data, s.bytes);
    sr_status status = sr_text_check(&content);
    if (status == SR_OK)
        status = sr_file_write_quickly(path, content.data, content.length);
    sr_text_release(&content);
    return status;
}

static void remove_pictures(const sr_decode_bench *b) {
    static const char *const others[] = {".u8.beton", ".float.beton"}; // of data_peers.py
    char path[PATH];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", b->folder, others[i]);
        (void)unlink(path);
    }
    for (int64_t i = 0; i < b->count; i++) {
        for (int raw = 0; raw < 2; raw++) {
            (void)snprintf(path, sizeof path, "%s/%08lld.%s", b->folder, (long long)i,
                           raw ? "ppm" : "jpg");
            (void)unlink(path);
        }
    }
    (void)rmdir(b->folder);
}

// ---- Processes ----

static sr_status read_about(sr_decode_peer *p, const char *text) {
    const sr_json *about;
    sr_arena arena;
    sr_arena_init(&arena);
    const sr_status status =
        sr_json_parse(text, strlen(text), MAX_ABOUT_NODES, "the peer", &arena, &about);
    if (status == SR_OK) {
        const char *version = sr_json_string(sr_json_get(about, "version"));
        (void)snprintf(p->version, sizeof p->version, "%s", version ? version : "?");
        (void)sr_json_double(sr_json_get(about, "bytes_per_picture"), &p->picture_bytes);
    }
    sr_arena_release(&arena);
    return status;
}

static sr_status start(sr_decode_peer *p, const char *name, const char *folder, int64_t side,
                       int kind) {
    char image[16];
    const char *about;
    (void)snprintf(image, sizeof image, "%lld", (long long)side);
    const char *const args[] = {
        name, folder, "--image", image, kind == SR_DECODE_FLOATS ? "--normalise" : NULL, NULL};
    SR_TRY(sr_peer_start("data_peers.py", args, &p->process[kind]));
    SR_TRY(sr_peer_ready(p->process[kind], ready_seconds, &about));
    sr_peer_pause(p->process[kind]);
    return read_about(p, about);
}

static void give_up(sr_decode_peer *p) {
    (void)snprintf(p->reason, sizeof p->reason, "%s", sr_error_message());
    for (int k = 0; k < SR_DECODE_KINDS; k++) {
        sr_peer_stop(p->process[k]);
        p->process[k] = NULL;
    }
}

sr_status sr_decode_peers_start(sr_decode_bench *b) {
    if (b->transform_count != 2 || strcmp(b->transforms[0].name, "random_resized_crop") != 0 ||
        b->transforms[0].arguments || strcmp(b->transforms[1].name, "flip") != 0)
        return SR_FAIL(SR_E_USAGE, "peers are measured with random_resized_crop and flip alone");
    char folder[] = "/tmp/serried-bench-XXXXXX";
    if (!mkdtemp(folder))
        return SR_FAIL(SR_E_IO, "%s: %s", folder, strerror(errno));
    memcpy(b->folder, folder, sizeof folder);
    sr_status status = SR_OK;
    for (int64_t i = 0; i < b->count && status == SR_OK; i++)
        status = write_picture(&b->records[i], folder, i);
    for (int i = 0; i < SR_DECODE_PEERS && status == SR_OK; i++)
        for (int k = 0; k < SR_DECODE_KINDS && !b->peer[i].reason[0]; k++)
            if (start(&b->peer[i], sr_decode_peer_names[i], folder, b->side, k) != SR_OK)
                give_up(&b->peer[i]);
    return status;
}

sr_status sr_decode_peers_round(sr_decode_bench *b) {
    for (int i = 0; i < SR_DECODE_PEERS; i++) {
        sr_decode_peer *p = &b->peer[i];
        for (int k = 0; k < SR_DECODE_KINDS && !p->reason[0]; k++) {
            double seconds;
            sr_status status = sr_peer_begin(p->process[k], 1);
            if (status == SR_OK)
                status = sr_peer_wait(p->process[k], answer_seconds, &seconds);
            if (status != SR_OK) {
                give_up(p);
                break;
            }
            sr_series_add(&p->per_s[k], (double)b->count / seconds);
            sr_peer_pause(p->process[k]); // loaders read ahead
        }
    }
    return SR_OK;
}

void sr_decode_peers_stop(sr_decode_bench *b) {
    for (int i = 0; i < SR_DECODE_PEERS; i++)
        for (int k = 0; k < SR_DECODE_KINDS; k++)
            sr_peer_stop(b->peer[i].process[k]);
    if (b->folder[0])
        remove_pictures(b);
}
