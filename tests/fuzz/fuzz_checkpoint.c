// SPDX-License-Identifier: Apache-2.0
// Fuzzes what is read of a generation after its checksums pass: the target corrects them first, as
// an attacker who builds a checkpoint would. The first byte selects: 0, a manifest without its last
// line; 1, the state list of an optimiser shard; 2, any JSON. A manifest that parses must print as
// one that parses and prints the same; lists that open must read to the last element; a tree must
// have the size that it states.
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/fuzz/scratch.h"
#include "trainer/checkpoint/checkpoint_internal.h"
#include "trainer/checkpoint/json_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// -- manifests -------------------------------------------------------------------------------

static void put_manifest(const void *text, size_t bytes) {
    char last[128], hex[SR_SHA256_HEX];
    uint8_t digest[SR_SHA256_BYTES];
    sr_sha256 *sha;
    sr_text whole;
    require(sr_sha256_create(&sha) == SR_OK);
    require(sr_sha256_update(sha, text, bytes) == SR_OK);
    require(sr_sha256_finish(sha, digest, hex) == SR_OK);
    sr_sha256_free(sha);
    (void)snprintf(last, sizeof last, ",\n\"sha256\": \"%s\"}\n", hex);
    sr_text_init(&whole);
    sr_text_add_bytes(&whole, text, bytes);
    sr_text_add(&whole, "%s", last);
    require(sr_text_check(&whole) == SR_OK);
    scratch_write(MANIFEST_NAME, whole.data, whole.length);
    sr_text_release(&whole);
}

static bool read_and_print(sr_text *out) {
    sr_manifest manifest;
    sr_manifest_files files;
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status = sr_manifest_read(scratch_folder(), &arena, &manifest, &files);
    if (status == SR_OK)
        require(sr_manifest_format(&manifest, &files, out) == SR_OK);
    sr_manifest_files_release(&files);
    sr_arena_release(&arena);
    return status == SR_OK;
}

static void fuzz_manifest(const uint8_t *data, size_t size) {
    sr_text first, second;
    sr_text_init(&first);
    sr_text_init(&second);
    put_manifest(data, size);
    if (read_and_print(&first)) {
        scratch_write(MANIFEST_NAME, first.data, first.length);
        require(read_and_print(&second));
        require(strcmp(first.data, second.data) == 0);
    }
    sr_text_release(&first);
    sr_text_release(&second);
}

// -- state -----------------------------------------------------------------------------------

#define SHARD_NAME "optimizer-00000-of-00001.safetensors"
enum { MOMENTUM = 8, COUNTS = 3, MOST_ELEMENTS = 1 << 16 };

static void put_shard(const char *states) {
    static const float momentum[MOMENTUM] = {1, 2, 3};
    static const int64_t counts[COUNTS] = {4, 5, 6};
    const sr_stored_tensor tensors[] = {
        {.name = "momentum", .dtype = SR_F32, .rank = 1, .shape = {MOMENTUM}, .data = momentum},
        {.name = "counts", .dtype = SR_I64, .rank = 1, .shape = {COUNTS}, .data = counts}};
    const sr_metadata metadata = {.key = STATES_KEY, .value = states};
    sr_file_sums sums = {0};
    sr_manifest_files files = {0};
    sr_manifest manifest = {.generation = 1, .ranks = 1, .batch = 1};
    sr_text text;
    sr_text_init(&text);
    require(sr_safetensors_write(scratch_file(SHARD_NAME), tensors, 2, &metadata, 1, &sums) ==
            SR_OK);
    require(sr_manifest_files_add(&files, SHARD_NAME, &sums) == SR_OK);
    require(sr_manifest_format(&manifest, &files, &text) == SR_OK);
    scratch_write(MANIFEST_NAME, text.data, text.length);
    sr_manifest_files_release(&files);
    sr_text_release(&text);
}

static void read_states(sr_checkpoint *checkpoint) {
    const sr_state_info *states;
    int count;
    if (sr_checkpoint_states(checkpoint, &states, &count) != SR_OK)
        return;
    for (int i = 0; i < count; i++) {
        const sr_range all = {0, states[i].elements};
        require(states[i].elements >= 0 && states[i].elements <= MOST_ELEMENTS);
        void *values =
            sr_alloc((size_t)states[i].elements * sr_dtype_size(states[i].dtype), "state");
        require(values != NULL);
        require(sr_checkpoint_read_state(checkpoint, states[i].name, states[i].dtype,
                                         states[i].elements, &all, 1, false, values) == SR_OK);
        sr_free(values);
    }
}

static void fuzz_states(const char *states) {
    sr_checkpoint *checkpoint;
    sr_text text;
    sr_text_init(&text);
    put_shard(states);
    require(sr_checkpoint_open(scratch_folder(), NULL, &checkpoint) == SR_OK);
    read_states(checkpoint);
    sr_checkpoint_free(checkpoint);
    (void)!sr_checkpoint_describe(scratch_folder(), true, &text);
    sr_text_release(&text);
}

// -- trees -----------------------------------------------------------------------------------

static size_t count_nodes(const sr_json *node, int depth) {
    size_t nodes = 1, children = 0;
    int64_t whole;
    uint64_t positive;
    double real;
    require(depth <= SR_JSON_MAX_DEPTH);
    if (sr_json_int64(node, &whole) || sr_json_uint64(node, &positive))
        require(sr_json_double(node, &real));
    for (const sr_json *child = node->first; child != NULL; child = child->next, children++) {
        require((child->key != NULL) == (node->type == SR_JSON_OBJECT));
        require(child->key == NULL || sr_json_get(node, child->key) == child);
        nodes += count_nodes(child, depth + 1);
    }
    require(children == node->count);
    return nodes;
}

static void fuzz_tree(const char *text, size_t bytes) {
    enum { MOST = 500 };
    const sr_json *root;
    sr_arena arena;
    sr_arena_init(&arena);
    if (sr_json_parse(text, bytes, MOST, "input", &arena, &root) == SR_OK)
        require(count_nodes(root, 0) <= MOST);
    sr_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    sr_log_set_level(SR_LOG_ERROR);
    char *text = sr_alloc(size, "input");
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] % 3 == 0)
        fuzz_manifest(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        fuzz_states(text);
    else
        fuzz_tree(text, size - 1);
    sr_free(text);
    return 0;
}
