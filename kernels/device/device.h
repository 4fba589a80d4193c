// SPDX-License-Identifier: Apache-2.0
// Devices: memory, copies and properties. Streams of work are in stream.h.
//
// Each kind of device has one table of calls and one line in device_list.def; a module's kinds
// (module.h) are added when it is opened. One process drives one device.
//
// Device memory is identified by addresses, which are not pointers: only kernels and copies can
// access it, even if the device is the CPU. "cpu-async" enforces this. It is a CPU whose streams
// run late and ahead of each other, and whose memory faults when the host accesses it, so that no
// code relies on a CPU's synchronous, shared memory.
//
// Threads: any thread may allocate, free and copy. Streams must be freed before their device is
// closed, and so should memory; memory that is left is freed with the device.
#ifndef SR_KERNELS_DEVICE_DEVICE_H
#define SR_KERNELS_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// An opened device.
typedef struct sr_device sr_device;

// An address in the memory of a device; 0: none.
typedef struct sr_address {
    uintptr_t at;
} sr_address;

// No address.
static inline sr_address sr_address_none(void) {
    sr_address none = {0};
    return none;
}
// Whether this is no address.
static inline bool sr_address_is_none(sr_address address) {
    return address.at == 0;
}
// The address 'bytes' bytes after another.
static inline sr_address sr_address_add(sr_address address, size_t bytes) {
    address.at += bytes;
    return address;
}
// Whether two addresses are the same.
static inline bool sr_address_equal(sr_address a, sr_address b) {
    return a.at == b.at;
}

// The kind of kernels that a device runs: SR_DEVICE_CPU, or a number that is assigned when a module
// is opened. The number is valid only in this process; files and messages contain the name.
typedef uint32_t sr_device_kind;
#define SR_DEVICE_CPU 0u    // kernels for the host's processors
#define SR_DEVICE_KINDS 16u // at most

#define SR_DEVICE_TEXT 96      // bytes of the texts below, terminator included
#define SR_DEVICE_IDENTITY 256 // of sr_device_identity

// Properties of a device.
typedef struct sr_device_properties {
    const struct sr_device_ops *ops; // its table
    sr_device_kind kind;
    char name[SR_DEVICE_TEXT];         // the name it is opened by: "cpu", "cuda:1"
    const char *help;                  // of its table, one line
    char model[SR_DEVICE_TEXT];        // "AMD EPYC 9654"
    int ordinal, count;                // among the devices of its table
    uint64_t memory;                   // bytes that it has in total
    char memory_owner[SR_DEVICE_TEXT]; // the owner of that memory: "this machine", "device cuda:1"
    bool addresses_limited;            // reserved addresses count as memory
    size_t alignment;                  // of allocations
    // Its memory is the host's: kernels read host memory in place (sr_device_host_address), and
    // copies between the two are not needed.
    bool unified;
    // Runs concurrently with the host: kernels are enqueued on streams one by one. Otherwise a
    // launcher on the host runs their blocks.
    bool asynchronous;
    // Useful number of executors; 0: one for each core of the rank. Lanes of one executor run one
    // after the other.
    int executors;
} sr_device_properties;

// The name of the kind in messages and tables, as "cpu" or "cuda".
const char *sr_device_kind_name(sr_device_kind kind);

// Opens the device of this name: "cpu", "cpu-async", or one of a module, which is opened; ":N"
// selects one of several. NULL: SERRIED_TEST_DEVICE if set, else the default, which is the first
// device of an installed module that can be used, or "cpu". SR_E_USAGE for an unknown name, or for
// a device that cannot be used here; the message gives the reason and the cure.
SR_NODISCARD sr_status sr_device_open(const char *name, sr_device **out);
// Describes the device that sr_device_open would open, without opening it. Returns the same errors.
SR_NODISCARD sr_status sr_device_describe(const char *name, sr_device_properties *out);
// Number of devices that a name without ":N" selects from; 1 for a name with ":N". Errors as above.
SR_NODISCARD sr_status sr_device_count(const char *name, int *out);
// Calls 'visit' for the name of each kind of device: those in the table, and those of modules that
// are listed or installed, whether or not they can be used.
void sr_device_visit_kinds(void (*visit)(void *user, const char *name), void *user);

// Device features that decide which kernels run and which bits they give, in the format of
// sr_kernel_entry.needs. 0 if its kernels need none.
uint32_t sr_device_features(const sr_device_properties *device);
// Keeps only these features from now on; called before any kernel is chosen.
void sr_device_restrict(const sr_device_properties *device, uint32_t keep);
// The device's component of the fingerprint, "NAME WHAT" as "processor avx2 avx512" without ';':
// everything that decides the bits of its kernels, where 'features' are the features that do.
// Returns out.
char *sr_device_numerics(const sr_device_properties *device, uint32_t features,
                         char out[SR_DEVICE_TEXT]);
// What the speed of its kernels depends on besides their code: model and features. Returns out.
char *sr_device_identity(const sr_device_properties *device, char out[SR_DEVICE_IDENTITY]);

// Further information for users, such as "driver of CUDA 13.0; peer access to 7 of 7 others", or
// "". Returns out.
char *sr_device_details(const sr_device_properties *device, char out[SR_DEVICE_IDENTITY]);

// Closes the device, after its memory and streams have been freed; NULL is legal.
void sr_device_close(sr_device *device);
// The properties of the device. Borrowed.
const sr_device_properties *sr_device_get_properties(const sr_device *device);
// The name it was opened by, as "cpu".
const char *sr_device_name(const sr_device *device);

// Device memory, zero-filled, aligned as its properties say. 'what' names it in SR_E_MEMORY and in
// memory reports.
SR_NODISCARD sr_status sr_device_alloc(sr_device *device, size_t bytes, const char *what,
                                       sr_address *out);
// The same for memory most of which may never be touched: a CPU backs it with small pages as they
// are touched, instead of huge ones.
SR_NODISCARD sr_status sr_device_alloc_sparse(sr_device *device, size_t bytes, const char *what,
                                              sr_address *out);
// Frees memory of sr_device_alloc, sr_device_alloc_sparse or a range of sr_device_reserve, which no
// stream uses any more; sr_address_none is legal.
void sr_device_free(sr_device *device, sr_address memory);

// Reserves an address range that grows in place: 'limit' bytes of addresses, whose first bytes, up
// to the largest commit, are backed by memory that is zero until it is written. Freed with
// sr_device_free. 'what' names it in memory reports. SR_E_MEMORY if the limit or the machine's
// memory is exhausted.
SR_NODISCARD sr_status sr_device_reserve(sr_device *device, size_t limit, const char *what,
                                         sr_address *out);
// Backs the first 'bytes' bytes of a reserved range with memory; a smaller number than before has
// no effect.
SR_NODISCARD sr_status sr_device_commit(sr_device *device, sr_address range, size_t bytes);

// The memory of a device, in bytes. The rest belongs to other processes, or to the driver and
// libraries of this one.
typedef struct sr_device_memory {
    uint64_t total;
    uint64_t available; // free
    uint64_t own;       // in ranges and allocations of this device
} sr_device_memory;

// The present values; returns false if the device does not report them, like a CPU.
bool sr_device_get_memory(sr_device *device, sr_device_memory *out);

// Copies from the host, complete when the call returns. Like the next three, it must not be called
// while a stream uses the device memory.
SR_NODISCARD sr_status sr_device_upload(sr_device *device, sr_address to, const void *from,
                                        size_t bytes);
// Copies to the host.
SR_NODISCARD sr_status sr_device_download(sr_device *device, void *to, sr_address from,
                                          size_t bytes);
// Copies inside the device.
SR_NODISCARD sr_status sr_device_copy(sr_device *device, sr_address to, sr_address from,
                                      size_t bytes);

// Repeats the first 'unit' bytes until there are so many bytes.
SR_NODISCARD sr_status sr_device_repeat(sr_device *device, sr_address memory, size_t unit,
                                        size_t bytes);

// Gives the host access to device memory, which no stream may use in the meantime: to the memory
// itself if the device is unified, else to a copy. Every map is followed by an unmap.
SR_NODISCARD sr_status sr_device_map(sr_device *device, sr_address memory, size_t bytes,
                                     void **out);
// Ends the access; with 'write', writes the copy back.
SR_NODISCARD sr_status sr_device_unmap(sr_device *device, sr_address memory, size_t bytes,
                                       void *mapped, bool write);
// The address through which kernels read this host memory in place; none unless the device is
// unified.
sr_address sr_device_host_address(const sr_device *device, const void *memory);
// Prepares host memory for fast copies to and from the device, until it is unregistered. Does
// nothing on devices that gain nothing from it.
SR_NODISCARD sr_status sr_device_register_host(sr_device *device, void *memory, size_t bytes);
// Undoes sr_device_register_host; no copy of the memory may be in progress.
void sr_device_unregister_host(sr_device *device, void *memory);

#ifdef __cplusplus
}
#endif
#endif
