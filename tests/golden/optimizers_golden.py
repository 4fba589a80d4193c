#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/optimizers.txt: parameters after 50 updates in PyTorch, in f64.

    python3 tests/golden/optimizers_golden.py

A case is two lines: its name and the recipe's `optimizer`; then the elements of all tensors, in order.
First values and gradients are not stored: both sides draw them (make_goldens.py, fill), with the seeds
below (tests/unit/trainer/update_fixture.c). What torch.optim does not have is a short formula here.
"""
import os

import torch

from make_goldens import fill

STEPS = 50
# name, shape; "bias" and "norm" are the kinds that groups match.
TENSORS = [("conv.weight", (4, 3, 2, 1)), ("conv.bias", (4,)), ("norm.weight", (5,)), ("norm.bias", (5,)),
           ("fc.weight", (5, 4))]
RATE = 0.0625


def value_seed(tensor):
    return 100 + tensor


def gradient_seed(step, lane, tensor):
    return 1000 + 100 * step + 10 * lane + tensor


def torch_optimizer(kind, **options):
    return lambda groups: kind(groups, lr=RATE, **options)


class Formula(torch.optim.Optimizer):
    """An optimiser whose update(p, state, group) changes p in place."""

    def __init__(self, groups, update, **options):
        super().__init__(groups, {"lr": RATE, "weight_decay": 0, **options})
        self.update = update

    @torch.no_grad()
    def step(self):
        norm = torch.cat([p.grad.reshape(-1) for group in self.param_groups for p in group["params"]]).norm()
        for group in self.param_groups:
            group["limit"] = max(1, norm / group["max_grad_norm"]) if group.get("max_grad_norm") else 1
            for p in group["params"]:
                self.update(p, self.state[p], group)


def formula(update, **options):
    return lambda groups: Formula(groups, update, **options)


def lion(p, state, group):
    (b1, b2), m = group["betas"], state.get("m", torch.zeros_like(p))
    p.mul_(1 - group["lr"] * group["weight_decay"])
    p.sub_(group["lr"] * torch.sign(b1 * m + (1 - b1) * p.grad))
    state["m"] = b2 * m + (1 - b2) * p.grad


def rmsprop_tensorflow(p, state, group):
    g = p.grad + group["weight_decay"] * p
    square, a = state.get("s", torch.ones_like(p)), group["alpha"]
    state["s"] = square = a * square + (1 - a) * g * g
    mean = 0
    if group["centered"]:
        state["a"] = mean = a * state.get("a", torch.zeros_like(p)) + (1 - a) * g
    step = group["lr"] * g / torch.sqrt(square - mean * mean + group["eps"])
    state["m"] = step = group["momentum"] * state.get("m", 0) + step
    p.sub_(step)


def trust(o, p, g, ratio):
    """1 where a norm is 0, or where the tensor has no weight decay and does not adapt."""
    adapts = o["weight_decay"] != 0 or o["always_adapt"]
    return ratio if adapts and p.norm() > 0 and g.norm() > 0 else torch.ones(())


def lars(p, state, o):
    g, decay = p.grad, o["weight_decay"]
    ratio = trust(o, p, g, o["trust_coeff"] * p.norm() / (g.norm() + decay * p.norm() + o["eps"]))
    if o["trust_clip"] and (decay != 0 or o["always_adapt"]):
        ratio = torch.clamp(ratio / o["lr"], max=1)
    g = ratio * (g + decay * p)
    if o["momentum"]:
        state["m"] = o["momentum"] * state["m"] + (1 - o["dampening"]) * g if "m" in state else g
        g = g + o["momentum"] * state["m"] if o["nesterov"] else state["m"]
    p.sub_(o["lr"] * g)


def lamb(p, state, o):
    (b1, b2), t = o["betas"], state.get("t", 0) + 1
    g, corrects = p.grad / o["limit"], o["bias_correction"]
    state["t"] = t
    state["m"] = m = b1 * state.get("m", 0) + (1 - b1 if o["grad_averaging"] else 1) * g
    state["v"] = v = b2 * state.get("v", 0) + (1 - b2) * g * g
    u = m / (1 - b1**t if corrects else 1) / (torch.sqrt(v / (1 - b2**t if corrects else 1)) + o["eps"])
    u = u + o["weight_decay"] * p
    ratio = trust(o, p, u, p.norm() / u.norm())
    p.sub_(o["lr"] * (torch.clamp(ratio, max=1) if o["trust_clip"] else ratio) * u)


def muon(p, state, o):
    if (p.dim() < 2 or o["elementwise"]) and o["others"] == "sgd":
        keep, rate = o["others_momentum"], o["lr"] * o["adam_scale"]
        state["m"] = m = keep * state.get("m", 0) + p.grad
        p.mul_(1 - rate * o["weight_decay"]).sub_(rate * (p.grad + keep * m if o["nesterov"] else m))
        return
    if p.dim() < 2 or o["elementwise"]:
        (b1, b2), t = o["betas"], state.get("t", 0) + 1
        state["t"], scale, g = t, o["adam_scale"], p.grad
        state["m"] = m = b1 * state.get("m", 0) + (1 - b1) * g
        state["v"] = v = b2 * state.get("v", 0) + (1 - b2) * g * g
        u = m / (1 - b1**t) / (torch.sqrt(v / (1 - b2**t)) + o["eps"])
        p.mul_(1 - o["lr"] * scale * o["weight_decay"]).sub_(o["lr"] * scale * u)
        return
    g, keep = p.grad.reshape(p.shape[0], -1), o["momentum"]
    state["m"] = m = keep * state.get("m", 0) + (1 - keep) * g
    x = (1 - keep) * g + keep * m if o["nesterov"] else m
    x = x / (x.norm() + 1e-7)
    for _ in range(o["iterations"]):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    rows, columns = x.shape
    scale = 0.2 * max(rows, columns)**0.5 if o["match_rms"] else max(1, rows / columns)**0.5
    p.mul_(rows**0.5 / p.norm() if o["fixed_norm"] else 1)
    p.mul_(1 - o["lr"] * o["weight_decay"]).sub_(o["lr"] * scale * x.reshape(p.shape))


MUON = {"momentum": 0.95, "nesterov": True, "match_rms": False, "betas": (0.9, 0.999), "eps": 1e-8, "adam_scale": 1,
        "elementwise": False, "iterations": 5, "fixed_norm": False, "others": "adamw", "others_momentum": 0.9}
LARS = {"momentum": 0.9, "dampening": 0, "nesterov": False, "trust_coeff": 0.001, "eps": 1e-8,
        "trust_clip": False, "always_adapt": False}
LAMB = {"betas": (0.9, 0.999), "eps": 1e-6, "max_grad_norm": 1, "bias_correction": True,
        "grad_averaging": True, "trust_clip": False, "always_adapt": False}


def of_others(**settings):
    """The settings of biases and norms."""
    return lambda name: settings if name.startswith("norm") or name.endswith("bias") else {}


def by_layer(name):
    depth = {"conv": 0, "norm": 1, "fc": 2}[name.split(".", maxsplit=1)[0]]
    return {"lr": RATE * 0.75**(2 - depth), **of_others(weight_decay=0)(name)}


NONE = of_others()
SGD, ADAM, ADAMW, RMSPROP = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop
# name, options of the recipe, optimiser, settings of a tensor, largest norm
CASES = [
    ("sgd", "momentum: 0", torch_optimizer(SGD), NONE, 0),
    ("sgd, nesterov", "nesterov: true, weight_decay: 0.05",
     torch_optimizer(SGD, momentum=0.9, nesterov=True, weight_decay=0.05), NONE, 0),
    ("sgd, dampening", "momentum: 0.5, dampening: 0.25", torch_optimizer(SGD, momentum=0.5, dampening=0.25), NONE, 0),
    ("adam", "", torch_optimizer(ADAM), NONE, 0),
    ("adam, decay and eps", "weight_decay: 0.1, eps: 0.01, betas: [0.8, 0.95]",
     torch_optimizer(ADAM, betas=(0.8, 0.95), eps=0.01, weight_decay=0.1), NONE, 0),
    ("adam, amsgrad", "amsgrad: true, betas: [0.5, 0.6]", torch_optimizer(ADAM, betas=(0.5, 0.6), amsgrad=True), NONE, 0),
    ("adam, clip_norm", "clip_norm: 0.5, eps: 1", torch_optimizer(ADAM, eps=1), NONE, 0.5),
    ("adamw", "weight_decay: 0.1", torch_optimizer(ADAMW, weight_decay=0.1), NONE, 0),
    ("adamw, groups", "weight_decay: 0.1, groups: [{match: [bias, norm], decay_scale: 0, lr_scale: 0.5}]",
     torch_optimizer(ADAMW, weight_decay=0.1), of_others(weight_decay=0, lr=RATE / 2), 0),
    ("adamw, layers", "weight_decay: 0.1, layer_decay: 0.75, no_decay: [bias, norm]",
     torch_optimizer(ADAMW, weight_decay=0.1), by_layer, 0),
    ("adamw, amsgrad", "weight_decay: 0.1, amsgrad: true, betas: [0.5, 0.6]",
     torch_optimizer(ADAMW, weight_decay=0.1, betas=(0.5, 0.6), amsgrad=True), NONE, 0),
    ("rmsprop", "", torch_optimizer(RMSPROP), NONE, 0),
    ("rmsprop, momentum", "momentum: 0.75, alpha: 0.9, weight_decay: 0.1",
     torch_optimizer(RMSPROP, momentum=0.75, alpha=0.9, weight_decay=0.1), NONE, 0),
    ("rmsprop, centered", "centered: true, momentum: 0.5, eps: 0.001",
     torch_optimizer(RMSPROP, momentum=0.5, centered=True, eps=0.001), NONE, 0),
    ("rmsprop, tensorflow", "tensorflow: true, momentum: 0.9, alpha: 0.9, eps: 0.001, weight_decay: 0.01",
     formula(rmsprop_tensorflow, momentum=0.9, alpha=0.9, eps=0.001, weight_decay=0.01, centered=False), NONE, 0),
    ("rmsprop, tensorflow and centered", "tensorflow: true, centered: true, alpha: 0.9, eps: 0.001",
     formula(rmsprop_tensorflow, momentum=0, alpha=0.9, eps=0.001, centered=True), NONE, 0),
    ("lion", "", formula(lion, betas=(0.9, 0.99)), NONE, 0),
    ("lars", "weight_decay: 0.1", formula(lars, **LARS, weight_decay=0.1), NONE, 0),
    ("lars, no decay", "weight_decay: 0.1, no_decay: [bias, norm], momentum: 0.5, dampening: 0.25, trust_coeff: 0.25",
     formula(lars, **{**LARS, "momentum": 0.5, "dampening": 0.25, "trust_coeff": 0.25}, weight_decay=0.1),
     of_others(weight_decay=0), 0),
    ("lars, trust_clip", "always_adapt: true, trust_clip: true, trust_coeff: 0.125, eps: 0.01, nesterov: true",
     formula(lars, **{**LARS, "always_adapt": True, "trust_clip": True, "trust_coeff": 0.125, "eps": 0.01,
                      "nesterov": True}), NONE, 0),
    ("lars, clip_norm", "weight_decay: 0.1, clip_norm: 0.5, momentum: 0",
     formula(lars, **{**LARS, "momentum": 0}, weight_decay=0.1), NONE, 0.5),
    ("lamb", "weight_decay: 0.1", formula(lamb, **LAMB, weight_decay=0.1), NONE, 0),
    ("lamb, no decay", "weight_decay: 0.1, no_decay: [bias, norm], max_grad_norm: 0, betas: [0.5, 0.75]",
     formula(lamb, **{**LAMB, "max_grad_norm": 0, "betas": (0.5, 0.75)}, weight_decay=0.1),
     of_others(weight_decay=0), 0),
    ("lamb, trust_clip", "always_adapt: true, trust_clip: true, grad_averaging: false, bias_correction: false, eps: 0.5",
     formula(lamb, **{**LAMB, "always_adapt": True, "trust_clip": True, "grad_averaging": False,
                      "bias_correction": False, "eps": 0.5}), NONE, 0),
    ("lamb, clip_norm", "weight_decay: 0.1, clip_norm: 0.5, layer_decay: 0.75, no_decay: [bias, norm]",
     formula(lamb, **LAMB, weight_decay=0.1), by_layer, 0.5),
    ("muon", "weight_decay: 0.1", formula(muon, **MUON, weight_decay=0.1), NONE, 0),
    ("muon, match_rms", "match_rms: true, nesterov: false, momentum: 0.75, adam_scale: 0.5, weight_decay: 0.1, "
     "clip_norm: 0.5", formula(muon, **{**MUON, "match_rms": True, "nesterov": False, "momentum": 0.75,
                                        "adam_scale": 0.5}, weight_decay=0.1), NONE, 0.5),
    ("muon, elementwise", "weight_decay: 0.1, groups: [{match: [fc], elementwise: true}]",
     formula(muon, **MUON, weight_decay=0.1), lambda name: {"elementwise": name.startswith("fc")}, 0),
    ("muon, others sgd", "others: sgd, others_momentum: 0.75, adam_scale: 0.5, weight_decay: 0.1, clip_norm: 0.5, "
     "groups: [{match: [fc], elementwise: true, lr_scale: 2, decay_scale: 0.5}]",
     formula(muon, **{**MUON, "others": "sgd", "others_momentum": 0.75, "adam_scale": 0.5}, weight_decay=0.1),
     lambda name: {"elementwise": True, "lr": 2 * RATE, "weight_decay": 0.05} if name.startswith("fc") else {}, 0.5),
    ("muon, fixed_norm", "fixed_norm: true, iterations: 2, others: sgd, nesterov: false, weight_decay: 0.1",
     formula(muon, **{**MUON, "fixed_norm": True, "iterations": 2, "others": "sgd", "nesterov": False},
             weight_decay=0.1), NONE, 0),
    ("lion, decay", "weight_decay: 0.1, betas: [0.95, 0.98]", formula(lion, betas=(0.95, 0.98), weight_decay=0.1), NONE, 0),
]


def train(make, settings, largest):
    tensors = [fill(value_seed(i), shape).requires_grad_() for i, (_, shape) in enumerate(TENSORS)]
    optimizer = make([{"params": [p], **settings(name)} for p, (name, _) in zip(tensors, TENSORS)])
    for step in range(STEPS):
        for i, p in enumerate(tensors):
            p.grad = fill(gradient_seed(step, 0, i), p.shape)
        if largest:
            torch.nn.utils.clip_grad_norm_(tensors, largest)
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in tensors])


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers.txt")
    with open(path, "w", encoding="utf-8") as out:
        for name, options, make, settings, largest in CASES:
            kind = name.split(",")[0]
            out.write(f"{name}: {{name: {kind}, lr: {RATE}{', ' if options else ''}{options}}}\n")
            out.write(" ".join(f"{v:.9g}" for v in train(make, settings, largest).tolist()) + "\n")


if __name__ == "__main__":
    main()
