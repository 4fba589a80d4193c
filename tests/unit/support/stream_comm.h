// SPDX-License-Identifier: Apache-2.0
// A communicator backend that puts messages on streams of the CPU's devices, as NCCL does on a
// GPU's: for tests of what enqueues groups.
//
// Messages of the host are those of the backend "local". A group runs on the stream's own thread,
// posts all its messages with one tag and waits for all of them, so groups are strictly in order,
// and between two ranks nothing but order matches messages: what is enqueued in another order than
// the peer's arrives at the wrong place, or fails where sizes differ. Streams must not be direct.
#ifndef SR_TESTS_UNIT_SUPPORT_STREAM_COMM_H
#define SR_TESTS_UNIT_SUPPORT_STREAM_COMM_H

#include "collective/backend_local_internal.h"

// As sr_local_world_join, of a world of 'ranks' ranks.
SR_NODISCARD sr_status stream_comm_join(sr_local_world *world, int rank, int ranks,
                                        const sr_comm_options *options, sr_comm **out);

// How often the group that runs on the stream of a rank has looked for a message in vain since it
// found the last one; 0 where none waits.
uint64_t stream_comm_looks(const sr_comm *comm);

#endif
