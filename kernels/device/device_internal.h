// SPDX-License-Identifier: Apache-2.0
// The table that a kind of device fills.
#ifndef SR_KERNELS_DEVICE_DEVICE_INTERNAL_H
#define SR_KERNELS_DEVICE_DEVICE_INTERNAL_H

#include <pthread.h>

#include "kernels/device/stream.h"

#define SR_DEVICE_ABI 6

// A reserved range of addresses.
typedef struct sr_device_range {
    sr_address base;
    size_t limit, committed; // whole pages
    size_t bytes;            // that were asked for
    uint32_t owner;          // number from kernels/base/memory_owners.h
    void *mapping;           // where kernels access it; set by the device
    intptr_t handle;
    bool sparse; // much of it is never touched
} sr_device_range;

typedef struct sr_device_ops {
    uint32_t struct_size, abi;
    const char *name;
    const char *help;    // one line, for listings
    const char *kernels; // kind of kernels that it runs: "cpu", also for "cpu-async"
    // Devices of this table, numbered from 0; NULL: one. If there are none, an error gives the
    // reason and the cure: "no NVIDIA driver is loaded; install one", to which callers add an
    // alternative.
    sr_status (*count)(int *out);
    // Fills the properties of a device except for table, kind, name and number; 'memory_owner' may
    // be left empty. Does not open the device. Errors are like those of 'count'.
    sr_status (*describe)(int ordinal, sr_device_properties *out);
    // The calls of device.h; NULL: no features.
    uint32_t (*features)(int ordinal);
    void (*restrict_features)(uint32_t keep);
    char *(*numerics)(int ordinal, uint32_t features, char out[SR_DEVICE_TEXT]);
    char *(*identity)(int ordinal, char out[SR_DEVICE_IDENTITY]);
    char *(*details)(int ordinal, char out[SR_DEVICE_IDENTITY]); // NULL: ""
    // Called when the properties are filled. May set 'state'. NULL: nothing to do.
    sr_status (*open)(sr_device *device);
    void (*close)(sr_device *device); // NULL: nothing to do
    // Memory. 'limit' is whole pages; the call fills 'base', 'mapping' and 'handle'.
    sr_status (*reserve)(sr_device *device, sr_device_range *range);
    // 'bytes' is whole pages, more than committed and within the limit.
    sr_status (*commit)(sr_device *device, sr_device_range *range, size_t bytes);
    void (*release)(sr_device *device, sr_device_range *range);
    bool (*get_memory)(sr_device *device, sr_device_memory *out);              // NULL: unknown
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
    sr_status (*stream_flush)(sr_stream *stream); // NULL: work begins when it is enqueued
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
    void *state; // owned by its kind

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

// Adds a module's kinds, a list that ends with NULL, all or nothing; they and 'origin' must stay
// valid. SR_E_UNSUPPORTED for one with another ABI, SR_E_USAGE if a name is taken.
SR_NODISCARD sr_status sr_device_add_kinds(const sr_device_ops *const *list, const char *origin);
// The kind of this name, and the kind of its kernels; NULL if the table has no such name.
const sr_device_ops *sr_device_find_kind(const char *name, sr_device_kind *kind);
// Fails with SR_E_USAGE for a name that is not in the table; the message suggests the nearest one.
SR_NODISCARD sr_status sr_device_fail_unknown(const char *name);
// Row i of the table; NULL after the last.
const sr_device_ops *sr_device_kind_at(size_t i);

// Copies the range that contains an address to *out; returns false if no range contains it.
bool sr_device_find_range(sr_device *device, sr_address address, sr_device_range *out);

#define SR_DEVICE(ops) extern const sr_device_ops ops;
#include "kernels/device/device_list.def"
#undef SR_DEVICE

#endif
