// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of weight files. What opens must conform to the format: every tensor can be
// read, and the tensors cover the file exactly.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/base/memory.h"
#include "trainer/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(sr_safetensors *file, const uint8_t *data, size_t size) {
    uint64_t offset = sr_safetensors_data_offset(file), covered = offset;
    for (int i = 0; i < sr_safetensors_count(file); i++) {
        const sr_stored_tensor *tensor = sr_safetensors_get(file, i);
        size_t bytes = (size_t)(tensor->end - tensor->begin);
        uint8_t *copy = sr_alloc(bytes, "tensor");
        if (copy == NULL || sr_safetensors_find(file, tensor->name) != tensor ||
            sr_safetensors_read(file, tensor, 0, sr_stored_elements(tensor), copy) != SR_OK ||
            memcmp(copy, data + offset + tensor->begin, bytes) != 0)
            abort();
        covered += bytes;
        sr_free(copy);
    }
    if (covered != size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("weights", MFD_CLOEXEC);
    sr_safetensors *file = NULL;
    char path[64];
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (sr_safetensors_open(path, &file) == SR_OK)
        check(file, data, size);
    sr_safetensors_free(file);
    (void)close(fd);
    return 0;
}
