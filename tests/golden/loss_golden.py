# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/loss_CASE.txt: the losses of 20 training steps in PyTorch.

    /usr/bin/python3 tests/golden/loss_golden.py [CASE...]

Weights, pictures and labels are those of network_golden.py, with new pictures in each step. A step
divides its batch into lanes, each normalised separately; gradients are those of the mean loss of the
batch; biases and norms do not decay. In step s of n the learning rate is lr (1 - s / n).

The file contains the settings of the case; the largest difference of PyTorch's own float32 losses from
its float64 ones, and the root mean square of bfloat16's; the float64 losses.
"""
import os
import sys

import torch
import torch.nn.functional as F

import network_golden

STEPS, SEED = 20, 3
BFLOAT16 = torch.bfloat16
# model, stem, classes, side, batch, lanes, lr, momentum, nesterov, weight decay, label smoothing
CASES = {
    "tiny": ("tiny", "-", 5, 32, 32, 4, 0.1, 0.9, 0, 0.01, 0.1),
    "nesterov": ("tiny", "-", 5, 32, 32, 1, 0.1, 0.85, 1, 0.01, 0.0),
}


def train(case, dtype, layout=torch.contiguous_format):
    model, stem, classes, side, batch, lanes, lr, momentum, nesterov, decay, smoothing = CASES[case]
    made, _ = network_golden.network(model, stem, classes)
    made = made.to(torch.float32 if dtype == BFLOAT16 else dtype, memory_format=layout)
    groups = [{"params": [p for p in made.parameters() if p.dim() > 1], "weight_decay": decay},
              {"params": [p for p in made.parameters() if p.dim() == 1]}]
    optimizer = torch.optim.SGD(groups, lr, momentum, nesterov=bool(nesterov))
    losses, share = [], batch // lanes
    for step in range(STEPS):
        x, labels = network_golden.pictures(step, classes, side, batch)
        x, total = x.to(dtype).contiguous(memory_format=layout), 0
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - step / STEPS)
        optimizer.zero_grad()
        for lane in range(lanes):
            part = slice(lane * share, (lane + 1) * share)
            if hasattr(made, "dropout"):
                made.dropout.key = (SEED, step, lane)
            with torch.autocast("cpu", BFLOAT16, enabled=dtype == BFLOAT16):
                output = made(x[part])
            output = output if dtype == torch.float64 else output.float()
            loss = F.cross_entropy(output, labels[part], reduction="sum", label_smoothing=smoothing)
            (loss / batch).backward()
            total += loss.item()
        optimizer.step()
        losses.append(total / batch)
    return torch.tensor(losses, dtype=torch.float64)


def write(case):
    exact = train(case, torch.float64)
    last = torch.channels_last
    single = max((train(case, torch.float32, f) - exact).abs().max().item()
                 for f in (torch.contiguous_format, last))
    half = max((train(case, BFLOAT16, f) - exact).square().mean().sqrt().item()
               for f in (torch.contiguous_format, last))
    name = os.path.join(network_golden.FOLDER, f"loss_{case}.txt")
    with open(name, "w", encoding="ascii") as file:
        print(*CASES[case], file=file)
        print(f"{single:.3g} {half:.3g}", file=file)
        for loss in exact.tolist():
            print(f"{loss:.9g}", file=file)
    print(case, f"float32 {single:.2g}, bfloat16 {half:.2g}; {exact[0]:.3f} to {exact[-1]:.3f}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        write(chosen)
