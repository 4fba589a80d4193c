# SPDX-License-Identifier: Apache-2.0
"""Lists the operators of serried that the random cases compare, and why others are not compared.

check_random.py --table compares this with `serried info ops`: a new operator needs a line here.
"""

# Kinds of cases (random_operators.py) that are named like the operator whose result they compute.
SAME_NAME = (
    "conv2d", "linear", "matmul", "bias_add", "channel_sum", "channel_dot", "batchnorm_train", "batchnorm_infer",
    "relu", "gelu", "leaky_relu", "tanh", "sigmoid", "softplus", "silu", "gelu_tanh", "mish", "hard_sigmoid",
    "hard_swish", "elu", "prelu", "add", "sub", "mul", "div", "square", "exp", "log", "sqrt", "rsqrt", "reciprocal",
    "sin", "cos", "atan", "erf", "power", "pow", "abs", "clip", "maximum", "minimum", "greater", "equal", "where", "scale",
    "scale_by", "fill_by", "cast", "normalize", "dropout", "drop_path", "maxpool2d", "avgpool2d", "upsample2d",
    "resize2d", "reshape", "permute", "slice", "pad", "concat", "gather", "scatter_add", "one_hot", "reduce_sum",
    "softmax_xent", "softmax", "log_softmax", "logsumexp", "topk_hits", "attention", "sgd", "ema",
)
# Others: the kind of case whose result or gradient they compute.
COMPARED = {
    **{name: name for name in SAME_NAME},
    **{name + "_grad": name for name in (
        "relu", "gelu", "leaky_relu", "tanh", "sigmoid", "softplus", "silu", "gelu_tanh", "mish", "hard_sigmoid",
        "hard_swish", "elu", "prelu", "div", "rsqrt", "reciprocal", "atan", "erf", "power", "pow", "abs", "clip",
        "maximum", "maxpool2d", "avgpool2d", "upsample2d", "resize2d",
        "softmax_xent", "softmax", "log_softmax", "attention")},
    "conv2d_dx": "conv2d_transpose", "conv2d_dw": "conv2d", "linear_dx": "linear", "linear_dw": "linear",
    "batchnorm_grad": "batchnorm_train", "groupnorm": "group_norm", "groupnorm_grad": "group_norm",
    "pow_exponent_grad": "pow", "mask": "where", "mask_not": "where", "sum_to": "sum", "expand": "sum",
    "extreme": "max_over",
    "sort_rows": "sort", "attention_bias_grad": "attention",
    "gather_sum": "grid_sample", "scatter_sum": "grid_sample", "gather_dot": "grid_sample", "taps2d": "grid_sample",
    "upfirdn2d": "upfirdn2d", "nms": "nms", "roi_align": "roi_align", "roi_align_grad": "roi_align",
}

NOT_COMPARED = {
    "random_normal": "draws of its own generator: tests/unit/graph/test_ops.c has their moments",
    "stop_gradient": "changes no value; that its gradient is zero is in tests/unit/graph/test_ops.c",
    "batchnorm_moments": "has the bits of batchnorm_train: tests/unit/kernels/test_kernels_sums.c, tests/unit/graph/test_lanes.c",
    "batchnorm_group": "has the values of batchnorm_train: tests/unit/graph/test_lanes.c",
    "batchnorm_sums": "has the bits of batchnorm_grad: tests/unit/kernels/test_kernels_sums.c",
    "batchnorm_dx": "has the bits of batchnorm_grad: tests/unit/kernels/test_kernels_sums.c",
    "lane_sum": "has more than one lane only in training: trainer/exchange",
    "add_relu": "made by graph/pass_fuse.c alone: tests/unit/graph/test_passes.c",
    "add_relu_grad": "made by graph/pass_fuse.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_train_relu": "made by graph/pass_fuse.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_train_pair_relu": "made by graph/pass_fuse.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_infer_relu": "made by graph/pass_fuse.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_relu_grad": "made by graph/pass_fuse.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_add_relu_grad": "made by graph/pass_fuse.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_relu_linear": "made by graph/pass_prologue.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_relu_linear_dw": "made by graph/pass_prologue.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_train_relu_maxpool": "made by graph/pass_fuse_pool.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_infer_relu_maxpool": "made by graph/pass_fuse_pool.c alone: tests/unit/graph/test_passes.c",
    "batchnorm_relu_maxpool_grad": "made by graph/pass_fuse_pool.c alone: tests/unit/graph/test_passes.c",
    "add_groupnorm": "made by graph/pass_fuse_norm.c alone: tests/unit/graph/test_passes.c",
    "groupnorm_add_grad": "made by graph/pass_fuse_norm.c alone: tests/unit/graph/test_passes.c",
    "mix_batch": "draws of its own generator, not in PyTorch: tests/unit/graph/test_mix.c",
}

# Compositions of operators that have a call of their own.
COMPOSED = (
    "conv2d_transpose", "layer_norm", "rms_norm", "instance_norm", "global_avgpool", "global_maxpool",
    "adaptive_avgpool2d", "pad2d", "pixel_shuffle", "pixel_unshuffle", "flip", "index_select", "embedding", "mean", "var",
    "norm", "min_over", "argmax", "argmin", "topk", "argsort", "bce_with_logits",
)


def problems(operators, kinds):
    """What is wrong with the table for these operators of serried and kinds of cases."""
    found = []
    for name in operators:
        if (name in COMPARED) == (name in NOT_COMPARED):
            found.append(f"operator {name} stands neither in COMPARED nor with a reason in "
                         "NOT_COMPARED of tests/peers/random_table.py, or in both")
    for name in [*COMPARED, *NOT_COMPARED]:
        if name not in operators:
            found.append(f"serried has no operator {name}, which random_table.py names")
    for kind in sorted({*COMPARED.values(), *COMPOSED} ^ set(kinds)):
        found.append(f"the kind of case {kind} is in one of random_table.py and "
                     "random_operators.py, not in both")
    return found
