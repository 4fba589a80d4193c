# SPDX-License-Identifier: Apache-2.0
"""A resident PyTorch that takes training steps on request: the peer of `serried bench step`.

Prints "ready JSON" once it is warm; then, for every line "run K" on stdin, the seconds that K steps
took, by its own clock, on a line; ends at the end of stdin. Pictures and labels are random and
fixed; pictures lie there normalised, channels last, so the peer does less than serried, which
normalises u8 in every step. tcmalloc is preloaded where it is found (1.7x on a CPU), and from
PyTorch 2 on eager and compiled are both tried and the faster one kept: the peer's best counts.
"""
import argparse
import ctypes.util
import json
import os
import sys
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--image", type=int, default=224)
    p.add_argument("--classes", type=int, default=1000)
    p.add_argument("--stem", default="imagenet")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--accumulate", type=int, default=1, help="forward and backward a step")
    p.add_argument("--lr", type=float, default=1e-4, help="small: random data teaches nothing")
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--nesterov", type=int, default=0)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--label-smoothing", type=float, default=0.0)
    p.add_argument("--mode", choices=("best", "eager", "compile"), default="best")
    return p.parse_args()


def preload_allocator():
    """Starts this script again under tcmalloc; returns its name, or "default malloc"."""
    if "SERRIED_PEER_MALLOC" in os.environ:
        return os.environ["SERRIED_PEER_MALLOC"]
    library = ctypes.util.find_library("tcmalloc_minimal")
    environment = dict(os.environ, SERRIED_PEER_MALLOC="tcmalloc" if library else "default malloc")
    if library:
        environment["LD_PRELOAD"] = library
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def make_step(a, torch, forward, model, optimizer):
    images = torch.randn(a.batch, 3, a.image, a.image)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(a.classes, (a.batch,))
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=a.label_smoothing)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=a.precision == "bf16")

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(a.accumulate):
            with autocast:
                loss = loss_of(forward(images), labels)
            (loss / a.accumulate).backward()
        optimizer.step()

    return step


def seconds_of(step, count):
    start = time.perf_counter()
    for _ in range(count):
        step()
    return time.perf_counter() - start


def warm_best(a, torch, model, optimizer):
    """The faster of eager and compiled, warm; and its name."""
    best = None
    modes = ("eager", "compile") if a.mode == "best" else (a.mode,)
    for mode in modes:
        if mode == "compile" and not hasattr(torch, "compile"):
            continue
        try:
            forward = torch.compile(model) if mode == "compile" else model
            step = make_step(a, torch, forward, model, optimizer)
            seconds_of(step, 1)
            seconds = min(seconds_of(step, 1) for _ in range(2))
        except Exception as error:  # no compiler: eager stays
            print(f"{mode}: {error}", file=sys.stderr)
            continue
        if best is None or seconds < best[0]:
            best = (seconds, mode, step)
    if best is None:
        sys.exit("PyTorch took no step")
    return best[1:]


def main():
    a = arguments()
    malloc = preload_allocator()
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    import torch
    import torchvision
    import torch_models
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    try:
        model = torch_models.create(a.model, a.classes, a.stem)
    except KeyError:
        sys.exit(f"no network equal to {a.model}")
    model = model.to(memory_format=torch.channels_last).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, a.lr, a.momentum, nesterov=bool(a.nesterov),
                                weight_decay=a.weight_decay)
    mode, step = warm_best(a, torch, model, optimizer)
    about = {"torch": torch.__version__, "torchvision": torchvision.__version__, "mode": mode,
             "malloc": malloc, "threads": torch.get_num_threads()}
    print("ready", json.dumps(about), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["run"]:
            print(seconds_of(step, int(words[1])), flush=True)


if __name__ == "__main__":
    main()
