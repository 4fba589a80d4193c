// SPDX-License-Identifier: Apache-2.0
// The table that a kind of device fills.
#ifndef SR_KERNELS_DEVICE_DEVICE_INTERNAL_H
#define SR_KERNELS_DEVICE_DEVICE_INTERNAL_H

#include <pthread.h>

#include "kernels/device/stream.h"

#define SR_DEVICE_ABI 2

// A reserved range of addresses.
typedef struct sr_device_range {
    sr_address base;
    size_t limit, committed; // whole pages
    size_t bytes;            // that were asked for
    uint32_t owner;          // of kernels/base/memory_owners.h
    void *mapping;           // the device's: where kernels see it
    intptr_t handle;
} sr_device_range;

typedef struct sr_device_ops {
    uint32_t struct_size, abi;
    const char *name;
    const char *help; // one line, for listings
    // Fills the properties; 'ordinal' is what ":N" of the name says, -1 without. May set 'state'.
    sr_status (*open)(sr_device *device, int ordinal);
    void (*close)(sr_device *device); // NULL: nothing to do
    // Memory. 'limit' is whole pages; the call fills 'base', 'mapping' and 'handle'.
    sr_status (*reserve)(sr_device *device, sr_device_range *range);
    // 'bytes' is whole pages, more than committed and within the limit.
    sr_status (*commit)(sr_device *device, sr_device_range *range, size_t bytes);
    void (*release)(sr_device *device, sr_device_range *range);
    sr_status (*register_host)(sr_device *device, void *memory, size_t bytes); // NULL: nothing
    void (*unregister_host)(sr_device *device, void *memory);
    // Copies; the stream is NULL for one that is complete when the call returns.
    sr_status (*upload)(sr_device *device, sr_stream *stream, sr_address to, const void *from,
                        size_t bytes);
    sr_status (*download)(sr_device *device, sr_stream *stream, void *to, sr_address from,
                          size_t bytes);
    sr_status (*copy)(sr_device *device, sr_stream *stream, sr_address to, sr_address from,
                      size_t bytes);
    // Streams and events: the calls of stream.h.
    sr_status (*stream_create)(sr_device *device, const sr_stream_options *options,
                               sr_stream **out);
    void (*stream_free)(sr_stream *stream);
    sr_status (*stream_clear)(sr_stream *stream, sr_address memory, size_t bytes);
    sr_status (*stream_launch)(sr_stream *stream, const sr_kernel_call *call);
    sr_status (*stream_wait_event)(sr_stream *stream, sr_event *event);
    sr_status (*stream_wait)(sr_stream *stream);
    sr_status (*event_create)(sr_device *device, sr_event **out);
    void (*event_free)(sr_event *event);
    sr_status (*event_record)(sr_event *event, sr_stream *stream);
    bool (*event_done)(const sr_event *event);
    sr_status (*event_wait)(sr_event *event, double seconds);
    int64_t (*event_elapsed_ns)(const sr_event *begin, const sr_event *end);
} sr_device_ops;

struct sr_device {
    const sr_device_ops *ops;
    sr_device_properties properties;
    void *state; // of its kind

    pthread_mutex_t lock; // of the ranges
    sr_device_range *ranges;
    size_t range_count, range_capacity;
};

// Streams and events of every kind begin with these.
struct sr_stream {
    sr_device *device;
};
struct sr_event {
    sr_device *device;
};

// Adds a module's kind; 'ops' stays valid. SR_E_USAGE if it is of another ABI or the name is taken.
SR_NODISCARD sr_status sr_device_add_kind(const sr_device_ops *ops, const char *origin);

// Copies the range that contains an address to *out; returns false if no range contains it.
bool sr_device_find_range(sr_device *device, sr_address address, sr_device_range *out);

#define SR_DEVICE(ops) extern const sr_device_ops ops;
#include "kernels/device/device_list.def"
#undef SR_DEVICE

#endif
