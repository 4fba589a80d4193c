// SPDX-License-Identifier: Apache-2.0
// The public interface of serried, for programs and plug-ins, by topic.
//
// Exactly these headers are installed; all others are internal.
#ifndef SERRIED_H
#define SERRIED_H

// Basics: statuses and messages, memory, options, texts, random numbers, arithmetic.
#include "kernels/base/device_code.h"
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
#include "graph/call_layers.h"
#include "graph/context.h"
#include "graph/executor_check.h"
#include "graph/ops.h"
#include "graph/program_text.h"
#include "graph/tensor.h"
#include "kernels/chooser.h"
#include "kernels/device/device.h"
#include "kernels/device/stream.h"

// Your own operator: its descriptor and its kernels.
#include "graph/op.h"
#include "graph/op_attr.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"

// Models, losses, optimisers, schedules.
#include "trainer/losses/loss.h"
#include "trainer/losses/loss_functions.h"
#include "trainer/models/attention_layers.h"
#include "trainer/models/built_model.h"
#include "trainer/models/layers.h"
#include "trainer/models/model.h"
#include "trainer/models/weight_names.h"
#include "trainer/optimizers/optimizer.h"
#include "trainer/schedules/schedule.h"
#include "trainer/tasks/task.h"

// Pictures: figures, sheets of samples, and the processes that draw them.
#include "trainer/draw/drawing.h"
#include "trainer/draw/figure.h"
#include "trainer/draw/palette.h"
#include "trainer/draw/raster.h"
#include "trainer/draw/samples_picture.h"

// Plug-ins: what they contain, and how they are loaded.
#include "kernels/base/plugin.h"
#include "trainer/engine/plugins.h"

// Data: records and shards, pictures, transforms, the pipeline of a rank.
#include "dataio/image/canvas.h"
#include "dataio/jpeg/decode.h"
#include "dataio/pipeline/image_growth.h"
#include "dataio/pipeline/pipeline.h"
#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "dataio/transforms/transform.h"

// Ranks: bytes between them, what must be equal on all.
#include "collective/comm.h"
#include "trainer/engine/fingerprint.h"

// Training: recipes, steps, checkpoints, and inference with what was trained.
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/feed.h"
#include "trainer/engine/from_recipe.h"
#include "trainer/engine/param_set.h"
#include "trainer/engine/phase.h"
#include "trainer/engine/state.h"
#include "trainer/engine/stop.h"
#include "trainer/recipe/recipe.h"
#include "trainer/run/inference.h"
#include "trainer/run/train.h"
#include "trainer/tasks/eval_view.h"
#include "trainer/tasks/examples.h"
#include "trainer/tasks/metric.h"

#endif
