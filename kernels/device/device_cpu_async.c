// SPDX-License-Identifier: Apache-2.0
// "cpu-async": a CPU that behaves like an accelerator, for tests.
//
// Every range is one memory file mapped twice: the address that callers hold allows nothing (a host
// access is a fault at the very line), the kernels' mapping allows reading and writing. Streams
// pause at random between launches, and none is direct (stream_cpu.c).
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text.h"
#include "kernels/device/cpu_internal.h"

static sr_status open_async(sr_device *device, int ordinal) {
    return sr_cpu_open(device, ordinal, false);
}

static void release(sr_device *device, sr_device_range *r) {
    (void)device;
    if (r->base.at)
        (void)munmap((void *)r->base.at, r->limit);
    if (r->mapping)
        (void)munmap(r->mapping, r->limit);
    if (r->handle >= 0)
        (void)close((int)r->handle);
}

static sr_status reserve(sr_device *device, sr_device_range *r) {
    char text[16];
    void *base =
        mmap(NULL, r->limit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED)
        r->base.at = (uintptr_t)base;
    r->handle = memfd_create("cpu-async", MFD_CLOEXEC);
    void *mapping = MAP_FAILED;
    if (r->handle >= 0)
        mapping = mmap(NULL, r->limit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                       (int)r->handle, 0);
    if (mapping != MAP_FAILED)
        r->mapping = mapping;
    if (r->base.at && r->mapping)
        return SR_OK;
    const int error = errno;
    release(device, r);
    return SR_FAIL(SR_E_MEMORY, "cannot reserve %s of addresses: %s", sr_text_bytes(r->limit, text),
                   strerror(error));
}

static sr_status commit(sr_device *device, sr_device_range *r, size_t bytes) {
    char text[16];
    (void)device;
    const int error = ftruncate((int)r->handle, (off_t)bytes) != 0 ? errno : 0;
    if (error == EFBIG)
        return sr_file_fail("device memory", "cannot grow", error);
    if (error != 0)
        return SR_FAIL(SR_E_MEMORY, "cannot grow device memory to %s: %s; lower the batch or lanes",
                       sr_text_bytes(bytes, text), strerror(error));
    return SR_OK;
}

const sr_device_ops sr_device_cpu_async = {
    .struct_size = sizeof(sr_device_ops),
    .abi = SR_DEVICE_ABI,
    .name = "cpu-async",
    .help = "a CPU that behaves like an accelerator, for tests",
    .open = open_async,
    .reserve = reserve,
    .commit = commit,
    .release = release,
    SR_CPU_STREAM_OPS,
};
