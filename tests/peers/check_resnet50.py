# SPDX-License-Identifier: Apache-2.0
"""check_resnet50.py BUILD: residual networks in serried and in torchvision are equal.

1. Logits, losses, every gradient and every batch statistic of one training pass over 4 pictures, for
   ResNet-50 at 64 and at 224 pixels, ResNet-34 and -101 at 64, with weights that torchvision
   initialised and trained for a few steps: in float64 they equal torchvision's (1e-9 of each tensor's
   norm); in float32 and bfloat16 the error is at most four times torchvision's own in that precision
   (the factor of Winograd's filtering; the worse of planar and channels-last), or 8 eps of the norm.
   The exact values are float64 with the sides of ReLUs and positions of maxima of the rounded run, on
   both sides (run_network.c, torch_kinks.py).
2. `serried predict` names the class that torchvision finds in the same pixels (--save-pixels), and
   `serried val` counts the hits that torchvision finds there.
3. A checkpoint that serried trained loads with load_state_dict(strict=True).

Weights are converted by serried-convert in both directions. Exits with 77 if torch or torchvision is missing.
"""
import csv
import io
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision
except ImportError as error:
    print(f"NOT RUN: {error}")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_kinks  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
SERRIED = os.path.join(BUILD, "serried")
CLASSES, SAMPLES, PREDICT_SIDE = 10, 4, 64
NETWORKS = (("resnet50", 64), ("resnet50", 224), ("resnet34", 64), ("resnet101", 64))
PICTURES, HELD_OUT = 6, 2  # of each class
EXACT, FACTOR, LEAST_EPS = 1e-9, 4, 8
PRECISIONS = {"f32": torch.float32, "bf16": torch.bfloat16}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
failures = []


def check(name, value, limit):
    good = value <= limit
    print(f"{'ok    ' if good else 'FAILED'} {name}: {value:.2e}, limit {limit:.2e}")
    if not good:
        failures.append(name)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def convert(source, target):
    run(sys.executable, os.path.join(BUILD, "serried-convert"), source, target)


def save(tensors, name):
    torch.save(tensors, name + ".pth")
    convert(name + ".pth", name + ".safetensors")
    return name + ".safetensors"


def load(path):
    convert(path, path + ".pth")
    return torch.load(path + ".pth")


def normalise(images, dtype):
    mean, std = torch.tensor((MEAN, STD), dtype=torch.float64)
    return ((images.double() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous().to(dtype)


def pictures(count, side):
    """Blurred blobs of colour: neighbouring pixels are similar, as in photographs."""
    coarse = torch.rand(count, 3, 8, 8) * 255
    fine = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear")
    return (fine + torch.randn(count, 3, side, side) * 8).clamp(0, 255).byte() \
        .permute(0, 2, 3, 1).contiguous()


def copy_of(model, dtype):
    twin = torchvision.models.__dict__[model.kind](num_classes=CLASSES)
    twin.load_state_dict(model.state_dict())
    return twin.to(dtype)


def trained_model(kind):
    """Random initial values, a few steps of SGD, then matching running statistics."""
    model = torchvision.models.__dict__[kind](num_classes=CLASSES).train()
    model.kind = kind
    optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9)
    images, labels = pictures(16, PREDICT_SIDE), torch.randint(CLASSES, (16,))
    x = normalise(images, torch.float32)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
    with torch.no_grad():
        for _ in range(20):
            model(x)
    return model


def torch_pass(model, images, labels, dtype, layout=torch.contiguous_format):
    """Tensors of one pass by the names of run_network.c."""
    half = dtype == torch.bfloat16
    twin = copy_of(model, torch.float32 if half else dtype).train().to(memory_format=layout)
    for module in twin.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0  # running statistics are those of the batch
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        logits = twin(normalise(images, dtype).to(memory_format=layout))
    wide = logits.float() if half else logits
    loss = torch.nn.functional.cross_entropy(wide, labels, reduction="none")
    loss.sum().backward()
    found = {"logits": logits.detach(), "loss": loss.detach()}
    found.update((f"grad.{n}", p.grad) for n, p in twin.named_parameters())
    found.update((f"stat.{n}", b) for n, b in twin.named_buffers() if b.is_floating_point())
    return {n: t.double() for n, t in found.items()}


def own_errors(model, images, labels, dtype):
    errors = []
    for layout in (torch.contiguous_format, torch.channels_last):
        with torch_kinks.Choices() as choices:
            rounded = torch_pass(model, images, labels, dtype, layout)
        with choices.given():
            exact = torch_pass(model, images, labels, torch.float64)
        errors.append({n: (rounded[n] - t).norm().item() for n, t in exact.items()})
    return {n: max(e[n] for e in errors) for n in errors[0]}


def check_worst(name, values):
    """Checks the (value, limit) that is nearest to its limit."""
    worst = max(values, key=lambda n: values[n][0] / values[n][1])
    check(f"{name}: {len(values)} tensors, the worst {worst}", *values[worst])


def check_training(kind, weights, model, side):
    images, labels = pictures(SAMPLES, side), torch.randint(CLASSES, (SAMPLES,))
    inputs = save({"images": images, "labels": labels.int()}, "inputs")
    run(os.path.join(BUILD, "tests", "run_network"), kind, str(CLASSES), weights, inputs,
        "out.safetensors")
    ours = load("out.safetensors")
    truth = torch_pass(model, images, labels, torch.float64)
    check_worst(f"{kind}, {side} px, float64", {
        n: ((ours["f64." + n] - t).norm().item() / t.norm().item(), EXACT)
        for n, t in truth.items()})
    for prefix, dtype in PRECISIONS.items():
        eps = torch.finfo(dtype).eps
        limits = {n: max(FACTOR * e, LEAST_EPS * eps * truth[n].norm().item())
                  for n, e in own_errors(model, images, labels, dtype).items()}
        check_worst(f"{kind}, {side} px, {prefix}", {
            n: ((ours[f"{prefix}.{n}"] - ours[f"{prefix}-exact.{n}"]).norm().item(), limit)
            for n, limit in limits.items()})


VIEW = ("data.val=data", f"image={PREDICT_SIDE}", f"eval.crop={PREDICT_SIDE}", "eval.resize=72")


def predict(weights, files):
    """Rows of the table, and the pixels that the network received."""
    text = run(SERRIED, "predict", "resnet50", f"weights={weights}", *VIEW,
               "--save-pixels=pixels.safetensors", *files)
    return list(csv.DictReader(io.StringIO(text))), load("pixels.safetensors")["pixels"]


def check_predict(model, weights):
    names = sorted(os.listdir("pics"))
    files = [f"pics/{n}/{i:04d}.jpg" for n in names for i in range(PICTURES)]
    _, pixels = predict(weights, files)
    model = copy_of(model, torch.float64).eval()
    with torch.no_grad():  # logits are spread, so that many classes are found
        x = normalise(pixels, torch.float64)
        logits = model(x)
        spread = logits.std(0)
        model.fc.weight.div_(spread[:, None])
        model.fc.bias.copy_((model.fc.bias - logits.mean(0)) / spread)
        model.float().double()  # what the file will contain
        chances = model(x).softmax(1)
    spread = save(model.float().state_dict(), "spread")
    found, again = predict(spread, files)
    best, index = chances.max(1)
    other = sum(row["class"] != names[i] for row, i in zip(found, index.tolist()))
    classes = len(set(index.tolist()))
    check("predict: pixels that changed between two runs", (again != pixels).sum().item(), 0)
    check(f"predict: {len(files)} pictures in {classes} classes, others than PyTorch's", other, 0)
    check("predict: probabilities",
          max(abs(float(r["probability"]) - p) for r, p in zip(found, best.tolist())), 1e-4)
    # The packed val split contains the last pictures of each class.
    labels = torch.arange(len(files)) // PICTURES
    held_out = torch.arange(len(files)) % PICTURES >= PICTURES - HELD_OUT
    places = (chances.argsort(1, descending=True) == labels[:, None]).int().argmax(1)[held_out]
    metrics = json.loads(run(SERRIED, "val", "resnet50", f"weights={spread}", *VIEW, "--json"))
    check("val: pictures of the split that are missing",
          abs(metrics["samples"] - CLASSES * HELD_OUT), 0)
    check("val: top-1 and top-5, others than PyTorch's",
          max(abs(metrics[f"val_top{k}"] - (places < k).double().mean().item()) for k in (1, 5)),
          1e-9)
    if classes < 3:
        failures.append("predict: all pictures look alike")


def check_checkpoint(weights):
    run(SERRIED, "train", "resnet50", f"weights={weights}", "data.train=data", "batch=4",
        "lanes=1", "steps=2", "schedule.name=constant", f"image={PREDICT_SIDE}",
        f"eval.crop={PREDICT_SIDE}", "eval.resize=72", "-o", "run", "--quiet")
    state = load("run/last/model.safetensors")
    model = torchvision.models.resnet50(num_classes=CLASSES)
    model.load_state_dict(state, strict=True)
    with open("run/last/manifest.json", encoding="utf-8") as file:
        assert json.load(file)["step"] == 2
    before = load(weights)
    moved = sum(not torch.equal(state[n], before[n]) for n in before if n.endswith("weight"))
    total = sum(n.endswith("weight") for n in before)
    check("checkpoint: loads strictly; weights that training did not move", total - moved, 0)
    check("checkpoint: steps missing in num_batches_tracked",
          abs(2 - state["bn1.num_batches_tracked"].item()), 0)


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run(SERRIED, "render", "pics", "--count", str(PICTURES))
        run(SERRIED, "pack", "pics", "data", "--val-fraction", str(HELD_OUT / PICTURES))
        for kind, side in NETWORKS:
            model = trained_model(kind)
            check_training(kind, save(model.state_dict(), "weights"), model, side)
        model = trained_model("resnet50")
        weights = save(model.state_dict(), "weights")
        check_predict(model, weights)
        check_checkpoint(weights)
        os.chdir("/")
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
