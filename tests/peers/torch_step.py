# SPDX-License-Identifier: Apache-2.0
"""A resident PyTorch that takes training steps on request: the peer of `serried bench step`.

Prints "ready JSON" once it is warm; then answers each line of stdin with a line: "run K" with the
seconds that K steps took, by its own clock, and "memory" with the bytes of its resident set at its
peak, minus those after import (with --device cuda, too: of the host's memory). Exits at the end of stdin. One process has one setting (--mode,
--malloc, --threads), so that no other setting's peak or state affects its results.

Pictures and labels are random and fixed; pictures are stored normalised, channels last, so the peer
does less than serried, which normalises u8 in every step.
"""
import argparse
import ctypes.util
import json
import os
import sys
import time

WARM_STEPS = 2
# What the libraries that PyTorch uses may use, by the best feature that is not hidden.
ONEDNN = (("amx_bf16", "AVX512_CORE_AMX"), ("fp16", "AVX512_CORE_FP16"),
          ("bf16", "AVX512_CORE_BF16"), ("vnni", "AVX512_CORE_VNNI"), ("avx512", "AVX512_CORE"),
          ("avx2", "AVX2"), ("", "SSE41"))
VECTORS = {  # ATen, MKL, OpenBLAS, torch.compile's compiler
    "avx512": ("avx512", "AVX512", "SkylakeX", "x86-64-v4"),
    "avx2": ("avx2", "AVX2", "Haswell", "x86-64-v3"),
    "": ("default", "SSE4_2", "Nehalem", "x86-64-v2")}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--image", type=int, default=224)
    p.add_argument("--classes", type=int, default=1000)
    p.add_argument("--stem", default="imagenet")
    p.add_argument("--backbone", help="of networks for segmentation")
    p.add_argument("--output-stride", type=int, help="of the backbone")
    p.add_argument("--channels", type=int, help="of the head")
    p.add_argument("--aux", choices=("true", "false"), default="false", help="with an auxiliary classifier")
    p.add_argument("--precision", choices=("fp32", "bf16", "fp16"), default="fp32")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--accumulate", type=int, default=1, help="forward and backward a step")
    p.add_argument("--lr", type=float, default=1e-4, help="small: random data cannot be learned")
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--nesterov", type=int, default=0)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--label-smoothing", type=float, default=0.0)
    p.add_argument("--mode", choices=("eager", "compile"), default="eager")
    p.add_argument("--malloc", choices=("auto", "tcmalloc", "default"), default="auto",
                   help="auto: tcmalloc where it is installed")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--cpus", help="0,1: processors, one for each thread; any")
    p.add_argument("--features", help="use no processor features but these; all")
    return p.parse_args()


def limits_of(features):
    """The environment that hides from PyTorch's libraries what 'features' (a list of words) lacks."""
    aten, mkl, openblas, march = next(VECTORS[v] for v in VECTORS if v in ["", *features])
    isa = next(name for word, name in ONEDNN if word in ["", *features])
    return {"ATEN_CPU_CAPABILITY": aten, "ONEDNN_MAX_CPU_ISA": isa, "DNNL_MAX_CPU_ISA": isa,
            "MKL_ENABLE_INSTRUCTIONS": mkl, "OPENBLAS_CORETYPE": openblas,
            "TORCHINDUCTOR_CPP_MARCH": march}


def binding_of(cpus):
    """The environment that pins each OpenMP thread (libgomp's, libiomp's) to its own processor."""
    return {"OMP_PROC_BIND": "true", "OMP_PLACES": ",".join(f"{{{cpu}}}" for cpu in cpus)}


def enter_environment(a):
    """Restarts this script with the allocator and limits asked for; returns what it found."""
    if "SERRIED_PEER_FOUND" in os.environ:
        return json.loads(os.environ["SERRIED_PEER_FOUND"])
    library = None if a.malloc == "default" else ctypes.util.find_library("tcmalloc_minimal")
    if a.malloc == "tcmalloc" and not library:
        sys.exit("tcmalloc is not installed; tests/peers/install does it")
    limits = {} if a.features is None else limits_of(a.features.split())
    found = {"malloc": "tcmalloc" if library else "default malloc", "limits": limits}
    environment = dict(os.environ, **limits, SERRIED_PEER_FOUND=json.dumps(found))
    environment["OMP_NUM_THREADS"] = str(a.threads)
    environment.pop("LD_PRELOAD", None)
    if library:
        environment["LD_PRELOAD"] = library
    if a.cpus:
        cpus = a.cpus.split(",")
        os.sched_setaffinity(0, set(map(int, cpus)))
        environment.update(binding_of(cpus))
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def status_bytes(name):
    """A line of /proc/self/status (proc(5)), which is in KiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))


def make_optimizer(a, torch, model):
    """SGD in one loop over all values, if this PyTorch has it for processors."""
    trained = [p for p in model.parameters() if p.requires_grad]
    words = {"nesterov": bool(a.nesterov), "weight_decay": a.weight_decay}
    try:
        return torch.optim.SGD(trained, a.lr, a.momentum, fused=True, **words), "fused SGD"
    except (TypeError, RuntimeError):
        return torch.optim.SGD(trained, a.lr, a.momentum, **words), "SGD"


def model_options(a, models):
    """Arguments of networks for segmentation; others have none here."""
    if a.model not in models.SEGMENTATION:
        return {}
    options = {"backbone": a.backbone, "output_stride": a.output_stride, "channels": a.channels,
               "aux_stage": -2 if a.aux == "true" else None,
               "rates": (6, 12, 18) if a.output_stride == 16 and a.model == "deeplabv3" else None}
    return {key: value for key, value in options.items() if value is not None}


def map_loss(torch, label_smoothing):
    """The loss of maps of logits resized to the pictures' size, with half of an auxiliary classifier's, as torchvision's."""
    entropy = torch.nn.CrossEntropyLoss(label_smoothing=label_smoothing, ignore_index=255)

    def one(logits, labels):
        return entropy(torch.nn.functional.interpolate(logits, size=labels.shape[-2:], mode="bilinear"), labels)

    def loss(outputs, labels):
        if isinstance(outputs, tuple):
            return one(outputs.logits, labels) + 0.5 * one(outputs.aux, labels)
        return one(outputs, labels)
    return loss


def make_step(a, torch, forward, optimizer, of_pixels):
    images = torch.randn(a.batch, 3, a.image, a.image, device=a.device)
    images = images.to(memory_format=torch.channels_last)
    shape = (a.batch, a.image, a.image) if of_pixels else (a.batch,)
    labels = torch.randint(a.classes, shape, device=a.device)
    loss_of = (map_loss(torch, a.label_smoothing) if of_pixels
               else torch.nn.CrossEntropyLoss(label_smoothing=a.label_smoothing))
    narrow = torch.float16 if a.precision == "fp16" else torch.bfloat16
    autocast = torch.autocast(a.device, narrow, enabled=a.precision != "fp32")
    scaler = torch.amp.GradScaler(a.device) if a.precision == "fp16" else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(a.accumulate):
            with autocast:
                loss = loss_of(forward(images), labels) / a.accumulate
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()

    return step


def seconds_of(step, count, wait):
    wait()
    start = time.perf_counter()
    for _ in range(count):
        step()
    wait()
    return time.perf_counter() - start


def capability_of(torch):
    """The vector instructions that ATen's own kernels use, as PyTorch reports them."""
    mark = "CPU capability usage: "
    return next((line.split(mark)[1] for line in torch.__config__.show().splitlines()
                 if mark in line), "unknown")


def main():
    a = arguments()
    found = enter_environment(a)
    import torch
    import torchvision
    import torch_models
    imported = status_bytes("VmRSS")
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    if a.mode == "compile" and not hasattr(torch, "compile"):
        sys.exit(f"PyTorch {torch.__version__} has no torch.compile")
    try:
        model = torch_models.create(a.model, a.classes, a.stem, a.image, **model_options(a, torch_models))
    except KeyError:
        sys.exit(f"no network equal to {a.model}")
    if a.device == "cuda":
        torch.backends.cudnn.benchmark = True
    wait = torch.cuda.synchronize if a.device == "cuda" else lambda: None
    model = model.to(device=a.device, memory_format=torch.channels_last).train()
    optimizer, optimizer_name = make_optimizer(a, torch, model)
    step = make_step(a, torch, torch.compile(model) if a.mode == "compile" else model, optimizer,
                     a.model in torch_models.SEGMENTATION)
    seconds_of(step, 1 + WARM_STEPS, wait)
    about = {"torch": torch.__version__, "torchvision": torchvision.__version__, "mode": a.mode,
             "optimizer": optimizer_name, "cpus": sorted(os.sched_getaffinity(0)),
             "threads": torch.get_num_threads(), "capability": capability_of(torch), **found}
    if a.device == "cuda":
        about.update(device=torch.cuda.get_device_name(), cudnn=torch.backends.cudnn.version())
    print("ready", json.dumps(about), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["run"]:
            print(seconds_of(step, int(words[1]), wait), flush=True)
        elif words[:1] == ["memory"]:
            print(status_bytes("VmHWM") - imported, flush=True)


if __name__ == "__main__":
    main()
