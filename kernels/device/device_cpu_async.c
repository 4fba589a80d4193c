// SPDX-License-Identifier: Apache-2.0
// "cpu-async": a CPU that behaves like an accelerator, for tests.
//
// Every range is one memory file mapped twice: the address that callers hold allows nothing (a host
// access is a fault at the very line), the kernels' address allows reading and writing. Streams
// pause at random between launches (stream_cpu.c).
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text.h"
#include "kernels/device/device_internal.h"

static void unmap_range(sr_device_range *r) {
    if (r->base)
        (void)munmap(r->base, r->limit);
    if (r->kernel)
        (void)munmap(r->kernel, r->limit);
    if (r->fd >= 0)
        (void)close(r->fd);
}

static sr_status async_reserve(sr_device *device, size_t limit, void **out) {
    char text[16];
    sr_device_range r = {.limit = sr_device_round_page(limit),
                         .fd = memfd_create("cpu-async", MFD_CLOEXEC)};
    void *base = mmap(NULL, r.limit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED)
        r.base = base;
    void *kernel = MAP_FAILED;
    if (r.fd >= 0)
        kernel = mmap(NULL, r.limit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r.fd, 0);
    if (kernel != MAP_FAILED)
        r.kernel = kernel;
    if (!r.base || !r.kernel) {
        unmap_range(&r);
        return SR_FAIL(SR_E_MEMORY, "cannot reserve %s of addresses: %s",
                       sr_text_bytes(limit, text), strerror(errno));
    }
    sr_status status = sr_device_add_range(device, r);
    if (status != SR_OK) {
        unmap_range(&r);
        return status;
    }
    *out = r.base;
    return SR_OK;
}

static sr_status async_commit(sr_device *device, void *memory, size_t bytes) {
    char text[16];
    sr_device_range *r = sr_device_find_range(device, memory);
    bytes = sr_device_round_page(bytes);
    if (bytes <= r->committed)
        return SR_OK;
    if (bytes > r->limit)
        return sr_device_over_limit(r, bytes);
    const int error = ftruncate(r->fd, (off_t)bytes) != 0 ? errno : 0;
    if (error == EFBIG)
        return sr_file_fail("device memory", "cannot grow", error);
    if (error != 0)
        return SR_FAIL(SR_E_MEMORY, "cannot grow device memory to %s: %s; lower the batch or lanes",
                       sr_text_bytes(bytes, text), strerror(error));
    r->committed = bytes;
    return SR_OK;
}

static void async_free(sr_device *device, void *memory) {
    sr_device_range *r = sr_device_find_range(device, memory);
    unmap_range(r);
    sr_device_drop_range(device, r);
}

static sr_status async_alloc(sr_device *device, size_t bytes, void **out) {
    SR_TRY(async_reserve(device, bytes, out));
    sr_status status = async_commit(device, *out, bytes);
    if (status != SR_OK)
        async_free(device, *out);
    return status;
}

static void *async_kernel_address(sr_device *device, void *memory) {
    sr_device_range *r = sr_device_find_range(device, memory);
    return r ? r->kernel + ((unsigned char *)memory - r->base) : memory;
}

const sr_device_ops sr_device_cpu_async = {
    .struct_size = sizeof(sr_device_ops),
    .abi = SR_DEVICE_ABI,
    .name = "cpu-async",
    .delays = true,
    .alloc = async_alloc,
    .reserve = async_reserve,
    .commit = async_commit,
    .free = async_free,
    .kernel_address = async_kernel_address,
};
