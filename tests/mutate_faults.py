# SPDX-License-Identifier: Apache-2.0
"""The faults that tests/mutate seeds: one wrong line each, mostly small ones.

'old' must occur exactly once in its file (or each of several, in turn); a change of that line changes
the fault, too. 'tests' are the short tests that are tried first. Faults in headers of x86 kernels affect
every vector width.
"""
import collections

Fault = collections.namedtuple("Fault", "name file old new tests")

NETWORKS, LOSSES, OPS = "test_network_golden", "test_loss_golden", "test_ops"
LANES = "test_lanes"
PROVIDERS, REFERENCE = "test_kernels_providers", "test_kernels_reference"
WINDOWS, WINOGRAD = "test_kernels_windows", "test_kernels_winograd"

FAULTS = [
    # Derivative rules: an error here is the same in every precision, so only independent values can
    # detect it.
    Fault("conv2d: gradient of the bias times 0.97", "graph/ops/op_conv2d.c",
          "grad_in[2] = sr_channel_sum(grad_out[0]);",
          "grad_in[2] = sr_scale(sr_channel_sum(grad_out[0]), 0.97, 0);", [NETWORKS, OPS]),
    Fault("softmax: gradient of a loss without its smoothing", "graph/ops/op_softmax.c",
          "const xent_grad_attr attr = {.smoothing = ((const xent_attr *)node->attr)->smoothing,",
          "const xent_grad_attr attr = {.smoothing = 0,", [LOSSES, NETWORKS]),
    Fault("scale: gradient times 0.99", "kernels/expression_list.def",
          "GRADIENT(0, sr_scale(g, k[0], 0.0))", "GRADIENT(0, sr_scale(g, 0.99 * k[0], 0.0))",
          [OPS, NETWORKS]),
    Fault("pooling: gradient of a picture as wide as high", "graph/ops/op_pool2d.c",
          "attr.w = node->in[0].dim[2];", "attr.w = node->in[0].dim[1];", [OPS, NETWORKS]),
    Fault("batch norm of a group: gradient over the rows of one lane", "graph/ops/op_lanes.c",
          ".count = rows * a->lanes};", ".count = rows};", [LANES]),
    Fault("batch norm of a group: statistics over the rows of one lane", "graph/ops/op_lanes.c",
          "const double rows = (double)sr_op_rows(&node->in[0]) * (double)lanes;",
          "const double rows = (double)sr_op_rows(&node->in[0]);", [LANES]),
    Fault("dropout: gradient with a mask of its own", "graph/ops/op_dropout.c",
          "if (wanted[0])\n"
          "        grad_in[0] = sr_op_binary(node->op, node->attr, grad_out[0], node->input[1]);",
          "dropout_attr a = *(const dropout_attr *)node->attr;\n    a.scope++;\n    if (wanted[0])"
          "\n        grad_in[0] = sr_op_binary(node->op, &a, grad_out[0], node->input[1]);",
          [LOSSES, NETWORKS]),
    Fault("gradients: the second of several uses counts 0.99", "autograd/gradients.c",
          "*grad = sr_is_none(*grad) ? more : sr_add(*grad, more);",
          "*grad = sr_is_none(*grad) ? more : sr_add(*grad, sr_scale(more, 0.99, 0));",
          [OPS, LOSSES, NETWORKS]),
    Fault("batch norm: running variance is the biased one", "trainer/models/layers.c",
          "rows / (rows > 1 ? rows - 1 : 1)", "rows / (rows > 1 ? rows : 1)",
          [NETWORKS]),
    Fault("fusion: a sum takes batch norm before its other term is there", "graph/pass_fuse_values.c",
          "return writer == SR_REF_NONE || writer < node - f->p->nodes;",
          "return writer == SR_REF_NONE || f->p != NULL || writer < node - f->p->nodes;", ["test_passes"]),
    Fault("fusion: the gradient of another batch norm than that of y", "graph/pass_fuse.c",
          "return n->input[0] == gradient->input[0] && n->input[1] == SR_REF_NONE &&",
          "return n->input[0] == gradient->input[0] &&", ["test_passes"]),
    # Reference kernels.
    Fault("reference batch norm: dx with a mean of dy over M + 1", "kernels/cpu/reference/reference_rows.inc",
          "LOAD(t->dy[i]) - t->dbeta[c] * inverse - xhat * (t->dgamma[c] * inverse);",
          "LOAD(t->dy[i]) - t->dbeta[c] / (A)(t->count + 1) - xhat * (t->dgamma[c] * inverse);",
          [OPS, REFERENCE]),
    Fault("reference conv2d_dw: the last column is left out", "kernels/cpu/reference/reference_conv.c",
          "input_position(end - 1, s, p->stride_w, p->dilation_w, p->pad_left, p->w) < 0)",
          "input_position(end, s, p->stride_w, p->dilation_w, p->pad_left, p->w) < 0)",
          [WINDOWS, OPS]),
    Fault("reference maximum: the last one of equals wins", "kernels/cpu/reference/reference_pool.inc",
          "if (first || v > LOAD(y[c]) || v != v) {", "if (first || v >= LOAD(y[c]) || v != v) {",
          [WINDOWS]),
    # Kernels for x86.
    Fault("batch norm: gradient with M - 1 for M", "kernels/cpu/x86/x86_batchnorm_internal.h",
          "k[3 * s.padded + c] = -a * (dbeta[c] / (float)count);",
          "k[3 * s.padded + c] = -a * (dbeta[c] / (float)(count - 1));", [PROVIDERS, NETWORKS]),
    Fault("batch norm: no epsilon", "kernels/cpu/x86/x86_batchnorm_internal.h",
          "sqrt((double)var + params->eps)", "sqrt((double)var + 0 * params->eps)",
          [PROVIDERS, NETWORKS]),
    Fault("pooling: the first row of a cut window is left out", "kernels/cpu/x86/x86_pool_internal.h",
          "return (pool_span){first < 0 ? 0 : first, sr_x86_min(first + window, size), first};",
          "return (pool_span){first < 0 ? 1 : first, sr_x86_min(first + window, size), first};",
          [PROVIDERS, NETWORKS]),
    Fault("conv2d_dw: a border column is left out", "kernels/cpu/x86/x86_conv_dw_internal.h",
          "const int64_t before = shift < 0 ? -shift : 0,", "const int64_t before = shift < 0 ? 1 - shift : 0,",
          [PROVIDERS, NETWORKS]),
    Fault("conv2d_dw: elements of a window left of the picture are those of the row before",
          "kernels/cpu/x86/x86_conv_dw_internal.h", "to[j] = i + j < 0 || i + j >= width ?",
          "to[j] = (row == 0 && i + j < 0) || i + j >= width ?", [PROVIDERS, NETWORKS]),
    Fault("Winograd: the last column of a cut tile is zero", "kernels/cpu/x86/x86_winograd_internal.h",
          "inside && column >= 0 && column < x->w\n",
          "inside && column >= 0 && column < x->w - (j == 3)\n",
          [WINOGRAD, NETWORKS]),
    Fault("Winograd: phases of a dilated convolution begin at its first column",
          "kernels/cpu/x86/x86_winograd_internal.h", "return tile / phase + tile % phase",
          "return tile % phase", [WINOGRAD, PROVIDERS]),
    Fault("Winograd: few tiles: later channels replace earlier ones",
          "kernels/cpu/x86/x86_winograd_few_internal.h", "(wg_inner){in.end - in.begin, 0, c > 0}",
          "(wg_inner){in.end - in.begin, 0, false}", [WINOGRAD, PROVIDERS]),
    Fault("Winograd: a constant of the gradient's transform",
          "kernels/cpu/x86/x86_winograd_dw_internal.h",
          "w[to] = sr_v_fma(sr_v_set(WG_A), odd_a, sr_v_mul(sr_v_set(WG_B), odd_b));",
          "w[to] = sr_v_fma(sr_v_set(WG_A), odd_a, sr_v_mul(sr_v_set(WG_B * 0.99f), odd_b));",
          [WINOGRAD, NETWORKS]),
    Fault("gelu: gradient with 0.3989 for 1 / sqrt(2 pi)", "kernels/cpu/x86/x86_activation_internal.h",
          "sr_v_set(0.39894228040143267794f)", "sr_v_set(0.3989f)", [NETWORKS, PROVIDERS]),
    Fault("bf16: ties are rounded up, not to even", "kernels/base/dtype.h",
          "return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);",
          "return (uint16_t)((u + 0x8000u) >> 16);", ["test_base_dtype", PROVIDERS]),
    Fault("f16: parameters are not rounded", "kernels/cpu/x86/x86_vector_internal.h",
          "    if (type == SR_F32)\n        return x;\n", "    if (type != SR_BF16)\n        return x;\n",
          ["test_kernels_pointwise", WINOGRAD, PROVIDERS]),
    # The exchange.
    Fault("exchange: sub-trees are sent in another order than they are received",
          "trainer/exchange/exchange_schedule.c", "for (int i = 0; i < mine; i++)",
          "for (int i = mine - 1; i >= 0; i--)", ["test_exchange"]),
    Fault("exchange: the stream does not wait for the sums of lanes", "trainer/exchange/exchange_stream.c",
          "        SR_TRY(sr_lane_tree_wait(x->buckets[transfer->bucket].tree, x->stream));\n", "",
          ["test_exchange", "test_exchange_device"]),
    Fault("exchange: lane buffers are given back before the stream has read them", "trainer/exchange/exchange_stream.c",
          " && sr_event_done(transfer->updated)", "", ["test_exchange_failures"]),
    # Evaluation.
    Fault("evaluation: padded samples count", "trainer/tasks/metric_topk.c",
          "samples->slot->valid, s->confusion.counts", "label->shape[0], s->confusion.counts", ["evaluation"]),
    Fault("evaluation: blocks in the order of ranks", "trainer/run/evaluate.c",
          "g->data[s * g->lanes + lane] = at;", "g->data[g->steps * first + s * (next - first) + lane - first] = at;",
          ["digest"]),
    # The optimiser.
    Fault("sgd: momentum starts again in step 1", "trainer/optimizers/optimizer_sgd.c",
          "request->step == 0};", "request->step <= 1};", [LOSSES]),
    Fault("sgd: biases and norms decay as weights", "trainer/engine/param_set_update.c",
          ".weight_decay = set->weight_decay * g->decay_scale,",
          ".weight_decay = set->weight_decay,", [LOSSES]),
    # Models inside models.
    Fault("child model: depths begin at 0 again", "trainer/models/child_model.c",
          ".first_layer = outer.layer == SR_NO_DEPTH ? 0 : outer.layer,", ".first_layer = 0,",
          ["test_child_model"]),
    Fault("weights: the layout of a model inside is not looked for", "trainer/engine/load_weights.c",
          "if (is_in(m, part))\n            find_layout(load, m, part);",
          "if (is_in(m, part) && part == 0)\n            find_layout(load, m, part);", ["test_child_model"]),
    Fault("recipe: another backbone keeps the options of the base's", "trainer/recipe/recipe_tree.c",
          "!(choice && names_another(old, child))", "!(!in_choice && choice && names_another(old, child))",
          ["test_recipe_models"]),
    Fault("identity: what a weights file is loaded into does not count", "trainer/recipe/recipe_print.c",
          'sr_text_add(out, "%s=%s\\n", recipe->weights[i].key, hash);',
          'sr_text_add(out, "weights=%s\\n", hash);', ["test_recipe_models"]),
]
