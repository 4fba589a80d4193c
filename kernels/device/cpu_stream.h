// SPDX-License-Identifier: Apache-2.0
// For code that runs kernels on a CPU: pointers of addresses, and the team of a stream.
//
// Only launchers include this (tests/check_layers.py): all other code accesses device memory
// through kernels and copies.
#ifndef SR_KERNELS_DEVICE_CPU_STREAM_H
#define SR_KERNELS_DEVICE_CPU_STREAM_H

#include "kernels/device/stream.h"

// The pointer through which CPU kernels access an address. SR_E_ARGUMENT if it is not memory of the
// device.
SR_NODISCARD sr_status sr_cpu_pointer(sr_device *device, sr_address address, void **out);

// Number of threads of a stream's team; 1 for a direct stream.
int sr_cpu_stream_threads(const sr_stream *stream);
// Grows the scratch of every worker to at least 'bytes' bytes. Must not be called while the stream
// runs kernels.
SR_NODISCARD sr_status sr_cpu_stream_reserve_scratch(sr_stream *stream, size_t bytes);
// The scratch of a worker, 64-byte aligned; NULL if none was reserved.
void *sr_cpu_stream_scratch(const sr_stream *stream, int worker);

// Enqueues a call of fn(user) on the stream. It runs on the stream's thread, which leads the team.
// Work enqueued after a failed call is skipped.
typedef sr_status (*sr_cpu_stream_fn)(void *user);
SR_NODISCARD sr_status sr_cpu_stream_call(sr_stream *stream, sr_cpu_stream_fn fn, void *user);
// Inside such a call: runs blocks 0 .. count - 1 of fn over the team and waits for them. 'worker'
// is 0 .. threads - 1.
typedef void (*sr_cpu_team_fn)(void *user, int64_t block, int worker);
void sr_cpu_team_run(sr_stream *stream, int64_t count, sr_cpu_team_fn fn, void *user);

#endif
