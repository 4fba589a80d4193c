# SPDX-License-Identifier: Apache-2.0
"""Lists the operators of serried that the random cases compare, and why others are not compared.

check_random.py --table compares this with `serried info ops`: a new operator needs a line here.
"""

# Operator: the kind of case (random_operators.py) whose result or gradient it computes.
COMPARED = {
    "conv2d": "conv2d", "conv2d_dx": "conv2d_transpose", "conv2d_dw": "conv2d",
    "linear": "linear", "linear_dx": "linear", "linear_dw": "linear",
    "bias_add": "bias_add", "channel_sum": "channel_sum", "channel_dot": "channel_dot",
    "batchnorm_train": "batchnorm_train", "batchnorm_grad": "batchnorm_train",
    "batchnorm_infer": "batchnorm_infer",
    "relu": "relu", "relu_grad": "relu", "gelu": "gelu", "gelu_grad": "gelu",
    "leaky_relu": "leaky_relu", "leaky_relu_grad": "leaky_relu", "tanh": "tanh",
    "tanh_grad": "tanh", "sigmoid": "sigmoid", "sigmoid_grad": "sigmoid",
    "softplus": "softplus", "softplus_grad": "softplus",
    "add": "add", "sub": "sub", "mul": "mul", "scale": "scale",
    "scale_by": "scale_by", "fill_by": "fill_by", "cast": "cast", "normalize": "normalize",
    "dropout": "dropout", "maxpool2d": "maxpool2d", "maxpool2d_grad": "maxpool2d",
    "avgpool2d": "avgpool2d", "avgpool2d_grad": "avgpool2d", "upsample2d": "upsample2d",
    "upsample2d_grad": "upsample2d", "reshape": "reshape", "reduce_sum": "reduce_sum",
    "softmax_xent": "softmax_xent", "softmax_xent_grad": "softmax_xent", "softmax": "softmax",
    "topk_hits": "topk_hits", "sgd": "sgd", "ema": "ema",
    "gather_sum": "grid_sample", "scatter_sum": "grid_sample", "gather_dot": "grid_sample", "taps2d": "grid_sample",
    "upfirdn2d": "upfirdn2d", "nms": "nms", "roi_align": "roi_align", "roi_align_grad": "roi_align",
}

NOT_COMPARED = {
    "random_normal": "draws of its own generator: tests/unit/graph/test_ops.c has their moments",
    **{name: "not yet: values by hand and central differences are in tests/unit/graph/op_cases_*.c"
       for name in ("silu", "silu_grad", "div", "square", "exp", "expand", "sum_to", "gelu_tanh", "gelu_tanh_grad", "mish",
                    "mish_grad", "hard_sigmoid", "hard_sigmoid_grad", "hard_swish", "hard_swish_grad", "elu", "elu_grad",
                    "prelu", "prelu_grad", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "erf", "power", "pow",
                    "abs", "abs_grad", "clip", "clip_grad", "maximum", "minimum", "maximum_grad", "greater", "equal",
                    "where", "mask", "mask_not", "permute", "slice", "pad", "concat", "gather", "scatter_add",
                    "resize2d", "resize2d_grad", "groupnorm", "groupnorm_grad", "matmul", "softmax_grad", "log_softmax",
                    "log_softmax_grad", "logsumexp", "extreme", "one_hot", "sort_rows", "attention",
                    "attention_grad", "attention_bias_grad")},
    "drop_path": "dropout of whole samples: tests/unit/kernels/test_kernels_reference.c compares it with dropout",
    "mix_batch": "draws of its own generator, not in PyTorch: tests/unit/graph/test_mix.c",
}

# Compositions of operators that have a call of their own.
COMPOSED = ("global_avgpool", "global_maxpool", "bce_with_logits")


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
