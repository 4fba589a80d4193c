// SPDX-License-Identifier: Apache-2.0
// Devices: memory, streams of work, copies. One table per kind of device, one line in
// device_list.def; CUDA's comes from the loadable module.
//
// A stream runs what it is given in order, beside the caller. On a CPU a stream is a thread that
// leads a team; "cpu-async" is the same with delays between launches and with memory that the host
// cannot read through the addresses it holds, so that no code comes to rely on a CPU's synchronous,
// shared memory before a GPU is there.
//
// Threads: memory is taken and given back by one thread while no other uses the device; addresses
// may be asked for by several at once. A stream takes work from one thread at a time. Memory and
// streams are freed before their device is closed (memory that is not goes with it); events end
// with their stream.
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
// A queue of work on a device, run in order beside the caller.
typedef struct sr_stream sr_stream;

// name: "cpu", "cpu-async"; NULL: SERRIED_TEST_DEVICE where set, else "cpu". An unknown name is
// SR_E_USAGE with the known ones.
SR_NODISCARD sr_status sr_device_open(const char *name, sr_device **out);
// Closes the device, after its memory and streams were freed; NULL is legal.
void sr_device_close(sr_device *device);
// The name it was opened by, as "cpu".
const char *sr_device_name(const sr_device *device);
// The host may read and write device memory through the addresses of alloc and reserve.
bool sr_device_host_access(const sr_device *device);

// Zero-filled device memory, 64-byte aligned at least. SR_E_MEMORY and reports of memory name
// 'what'.
SR_NODISCARD sr_status sr_device_alloc(sr_device *device, size_t bytes, const char *what,
                                       void **out);
// Frees memory of sr_device_alloc or a range of sr_device_reserve; NULL is legal.
void sr_device_free(sr_device *device, void *memory);

// One address range that grows in place: 'limit' bytes of addresses, of which the first 'bytes' of
// the largest commit are memory, zero where nothing was written yet. Freed with sr_device_free.
// 'what' names it in reports of memory. SR_E_MEMORY when the limit or the machine has no more.
SR_NODISCARD sr_status sr_device_reserve(sr_device *device, size_t limit, const char *what,
                                         void **out);
// Makes the first 'bytes' bytes of a reserved range memory; fewer than before changes nothing.
SR_NODISCARD sr_status sr_device_commit(sr_device *device, void *range, size_t bytes);

// The address by which kernels on this device reach memory of alloc, reserve, or, where the device
// allows it, of the host.
void *sr_device_kernel_address(sr_device *device, void *memory);

// Copies now, on the calling thread; dst and src are device or host addresses that no stream uses
// meanwhile.
void sr_device_copy(sr_device *device, void *dst, const void *src, size_t bytes);

// A stream with a team of 'threads' (0: all processors of this process) for CPU kernels.
SR_NODISCARD sr_status sr_stream_create(sr_device *device, int threads, sr_stream **out);
void sr_stream_free(sr_stream *stream); // waits first
// Threads of its team.
int sr_stream_threads(const sr_stream *stream);
// Its device. Borrowed.
sr_device *sr_stream_device(sr_stream *stream);

// Runs fn(user) on the host in the stream's order. A failure sticks: later work is skipped and
// sr_stream_wait returns it.
typedef sr_status (*sr_stream_fn)(void *user);
// Puts a call on the stream and returns at once.
SR_NODISCARD sr_status sr_stream_call(sr_stream *stream, sr_stream_fn fn, void *user);
// Copies in the stream's order; dst and src are device or host addresses and must live until then.
SR_NODISCARD sr_status sr_stream_copy(sr_stream *stream, void *dst, const void *src, size_t bytes);
// Waits until the stream is empty; returns and clears its first failure (message adopted).
SR_NODISCARD sr_status sr_stream_wait(sr_stream *stream);

// An event: done when everything that was on the stream at record is done.
typedef struct sr_event {
    sr_stream *stream;
    uint64_t ticket;
} sr_event;
// Marks the present end of the stream.
void sr_event_record(sr_stream *stream, sr_event *out);
// Whether the stream has come that far.
bool sr_event_done(const sr_event *event);

// For the executor, on the stream's own thread (inside sr_stream_call): blocks 0..count-1 of fn
// over the team. The device's delays happen here.
typedef void (*sr_team_fn)(void *user, int64_t block, int worker);
// Runs the blocks and waits for them; 'worker' is 0 .. threads - 1.
void sr_stream_team_run(sr_stream *stream, int64_t count, sr_team_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
