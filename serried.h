// SPDX-License-Identifier: Apache-2.0
// Everything that serried offers to other programs and to plug-ins, by what one looks for.
//
// This list is the public interface: exactly these headers are installed. The others serve the
// rooms among themselves.
#ifndef SERRIED_H
#define SERRIED_H

// The ground: statuses and messages, memory, options, texts, randomness, numbers.
#include "kernels/base/dtype.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/base/options.h"
#include "kernels/base/rng.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

// Tensors, operators, gradients: record, compile, run.
#include "autograd/gradients.h"
#include "graph/context.h"
#include "graph/ops.h"
#include "graph/tensor.h"
#include "kernels/chooser.h"
#include "kernels/device/device.h"

// An operator of one's own: its descriptor and its kernels.
#include "graph/op.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

// Models, losses, optimisers, schedules.
#include "trainer/built_model.h"
#include "trainer/layers.h"
#include "trainer/loss.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/task.h"

// Own code: what a plug-in is, and how it comes to be used.
#include "kernels/base/plugin.h"
#include "trainer/plugins.h"

// Data: records and shards, pictures, transforms, the pipeline of a rank.
#include "dataio/canvas.h"
#include "dataio/dataset.h"
#include "dataio/decode.h"
#include "dataio/pipeline.h"
#include "dataio/record.h"
#include "dataio/shard.h"
#include "dataio/transform.h"

// Ranks: bytes between them, sums over lanes.
#include "collective/comm.h"
#include "trainer/exchange.h"
#include "trainer/fingerprint.h"

// Training: recipes, steps, checkpoints, and what was trained in use.
#include "trainer/checkpoint.h"
#include "trainer/choices.h"
#include "trainer/digest.h"
#include "trainer/engine.h"
#include "trainer/feed.h"
#include "trainer/inference.h"
#include "trainer/metrics.h"
#include "trainer/phase.h"
#include "trainer/recipe.h"
#include "trainer/safetensors.h"
#include "trainer/state.h"
#include "trainer/train.h"

#endif
