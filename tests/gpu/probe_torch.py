# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own speed at training on this GPU, which serried has to beat.

    probe_torch.py NETWORK MODE TYPE SECONDS DONE [BATCH...]
    probe_torch.py NETWORK MODE TYPE warm [BATCH...]

NETWORK: resnet50 (torchvision), or a name of timm. MODE: eager, compile (default mode) or graphs
(compile with CUDA graphs). TYPE: bf16 or fp16 (autocast; fp16 with a gradient scaler), or bf16-pure
(weights and activations in bf16, batch norm's values in fp32). One line for each batch that is not in
the file DONE, until SECONDS are over: network, mode, type, batch, images/s (median of 5 blocks of 50
steps), the slowest and the fastest block, maximal GiB allocated and reserved, versions; separated by
tabs. warm: only compiles, into the cache of TORCHINDUCTOR_CACHE_DIR.

PyTorch at its best: channels last, cudnn.benchmark, fused SGD, gradients set to none; random
normalised pictures in GPU memory; label smoothing 0.1, momentum 0.9, weight decay 5e-5.
"""
import statistics
import sys
import time

import torch
import torchvision

BLOCKS, STEPS, SIDE, CLASSES = 5, 50, 224, 1000
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "bf16-pure": torch.bfloat16}


def make_model(network, kind):
    if network == "resnet50":
        model = torchvision.models.resnet50()
    else:
        import timm
        model = timm.create_model(network)
    model = model.cuda().to(memory_format=torch.channels_last).train()
    if kind == "bf16-pure":
        for module in model.modules():
            if not isinstance(module, torch.nn.BatchNorm2d):
                for parameter in module.parameters(recurse=False):
                    parameter.data = parameter.data.bfloat16()
    return model


def make_step(network, mode, kind, batch):
    pure = kind == "bf16-pure"
    model = make_model(network, kind)
    forward = model if mode == "eager" else torch.compile(
        model, dynamic=False, mode="reduce-overhead" if mode == "graphs" else "default")
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, 0.9, weight_decay=5e-5, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=kind == "fp16")
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    images = torch.randn(batch, 3, SIDE, SIDE, device="cuda",
                         dtype=torch.bfloat16 if pure else torch.float32)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", TYPES[kind], enabled=not pure):
            loss = loss_of(forward(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def seconds_of(step, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000


def warm_up(step):
    """Until three blocks in a row differ by less than 1 %, at most 15 blocks."""
    last = []
    for _ in range(15):
        last = (last + [seconds_of(step, 20)])[-3:]
        if len(last) == 3 and max(last) < 1.01 * min(last):
            return


def measure(network, mode, kind, batch):
    torch.cuda.empty_cache()
    if mode != "eager":
        torch.compiler.reset()
    step = make_step(network, mode, kind, batch)
    warm_up(step)
    torch.cuda.reset_peak_memory_stats()
    rates = [STEPS * batch / seconds_of(step, STEPS) for _ in range(BLOCKS)]
    gib = [value / 2**30 for value in
           (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())]
    versions = (f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, "
                f"cuDNN {torch.backends.cudnn.version()}")
    print(network, mode, kind, batch, f"{statistics.median(rates):.1f}", f"{min(rates):.1f}",
          f"{max(rates):.1f}", f"{gib[0]:.2f}", f"{gib[1]:.2f}", versions, sep="\t", flush=True)


def main():
    network, mode, kind, seconds = sys.argv[1:5]
    torch.backends.cudnn.benchmark = True
    if seconds == "warm":
        for batch in sys.argv[5:]:
            step = make_step(network, mode, kind, int(batch))
            for _ in range(3):
                step()
            torch.cuda.synchronize()
        return
    with open(sys.argv[5], encoding="utf-8") as file:
        have = {tuple(line.split("\t")[:4]) for line in file}
    begin = time.monotonic()
    for batch in sys.argv[6:] or ("32", "64", "128", "256"):
        if (network, mode, kind, batch) in have:
            continue
        if time.monotonic() - begin > float(seconds):
            sys.exit(3)  # the next call continues here
        measure(network, mode, kind, int(batch))


main()
