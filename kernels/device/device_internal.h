// SPDX-License-Identifier: Apache-2.0
// The table that a kind of device fills.
#ifndef SR_KERNELS_DEVICE_DEVICE_INTERNAL_H
#define SR_KERNELS_DEVICE_DEVICE_INTERNAL_H

#include "kernels/device/device.h"

#define SR_DEVICE_ABI 1

typedef struct sr_device_ops {
    uint32_t struct_size, abi;
    const char *name;
    bool host_access;
    bool delays; // random pauses between launches, to shake out synchronous assumptions
    sr_status (*alloc)(sr_device *device, size_t bytes, void **out);
    sr_status (*reserve)(sr_device *device, size_t limit, void **out);
    sr_status (*commit)(sr_device *device, void *range, size_t bytes);
    void (*free)(sr_device *device, void *memory);
    void *(*kernel_address)(sr_device *device, void *memory);
} sr_device_ops;

typedef struct sr_device_range {
    unsigned char *base;   // the address that callers hold
    unsigned char *kernel; // the address that kernels use
    size_t limit, committed;
    uint32_t owner; // of kernels/base/memory_owners.h
    int fd;
} sr_device_range;

struct sr_device {
    const sr_device_ops *ops;
    sr_device_range *ranges;
    size_t range_count, range_capacity;
};

static inline size_t sr_device_round_page(size_t bytes) {
    return (bytes + 4095) & ~(size_t)4095;
}

// Shared by the CPU devices: the ranges' list.
SR_NODISCARD sr_status sr_device_add_range(sr_device *device, sr_device_range range);
sr_device_range *sr_device_find_range(sr_device *device, const void *memory);
void sr_device_drop_range(sr_device *device, sr_device_range *range);
// The failure of a commit beyond the limit of its range.
sr_status sr_device_over_limit(const sr_device_range *range, size_t bytes);

// sr_device_kernel_address of memory that is only read.
static inline const void *sr_device_source_address(sr_device *device, const void *memory) {
    union {
        const void *in;
        void *out;
    } source = {.in = memory};
    return device->ops->kernel_address(device, source.out);
}

#define SR_DEVICE(ops) extern const sr_device_ops ops;
#include "kernels/device/device_list.def"
#undef SR_DEVICE

#endif
