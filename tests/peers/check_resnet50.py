# SPDX-License-Identifier: Apache-2.0
"""check_resnet50.py BUILD: ResNet-50 in serried and in torchvision is the same network.

1. Logits, losses, every gradient and every batch statistic of one training pass over 4 pictures, at
   64 and at 224 pixels, with weights that torchvision made and trained for a few steps.
2. `serried predict` names the class that torchvision finds in the very pixels (--save-pixels), and
   `serried val` counts the hits that torchvision finds there.
3. A checkpoint that serried trained loads with load_state_dict(strict=True).

Weights go through convert_weights.py each way. Ends with 77 where torch or torchvision is missing.

Tolerances. The truth is torchvision in float64; the yardstick is D, how far torchvision's own
float32 is from it (relative; the worst sample's logits, the worst statistic): rounding grows with
depth, and batch norm over few values amplifies it. Ours are within delta = 4 D. Gradients are not
continuous: a ReLU whose input lies within delta of zero may take the other side; at most a share
delta of them does (density 0.4 on either side), each changes the gradient by its own size, so
gradients differ by about sqrt(delta) for each of d layers, by sqrt(d delta) in all. The worst of
161 tensors, some of few elements, may be at 3 times that.
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

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
SERRIED = os.path.join(BUILD, "serried")
CLASSES, SAMPLES, SIDES, PREDICT_SIDE = 10, 4, (64, 224), 64
PICTURES, HELD_OUT = 6, 2  # of each class
FACTOR, FLIPS = 4, 3
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
    run(sys.executable, os.path.join(HERE, "convert_weights.py"), source, target)


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
    """Blots of colour: neighbouring pixels are alike, as in photographs."""
    coarse = torch.rand(count, 3, 8, 8) * 255
    fine = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear")
    return (fine + torch.randn(count, 3, side, side) * 8).clamp(0, 255).byte() \
        .permute(0, 2, 3, 1).contiguous()


def copy_of(model, dtype):
    twin = torchvision.models.resnet50(num_classes=CLASSES)
    twin.load_state_dict(model.state_dict())
    return twin.to(dtype)


def trained_model():
    """Random first values, a few steps of SGD, then running statistics that fit."""
    model = torchvision.models.resnet50(num_classes=CLASSES).train()
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


def torch_pass(model, images, labels, dtype):
    twin, statistics = copy_of(model, dtype).train(), {}

    def keep(name):
        def hook(module, inputs, output):
            x = inputs[0].detach()
            statistics[name + ".running_mean"] = x.mean((0, 2, 3))
            statistics[name + ".running_var"] = x.var((0, 2, 3))
        return hook

    for name, module in twin.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.register_forward_hook(keep(name))
    logits = twin(normalise(images, dtype))
    loss = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    loss.sum().backward()
    gradients = {n: p.grad for n, p in twin.named_parameters()}
    return {"logits": logits.detach(), "loss": loss.detach(), "grad": gradients,
            "stat": statistics}


def distance(ours, truth):
    return ((ours.double() - truth).norm() / truth.norm()).item()


def rows(ours, truth):
    return max(distance(a, b) for a, b in zip(ours, truth))


def check_training(model, weights, side):
    images, labels = pictures(SAMPLES, side), torch.randint(CLASSES, (SAMPLES,))
    inputs = save({"images": images, "labels": labels.int()}, f"inputs{side}")
    run(os.path.join(BUILD, "tests", "run_network"), "resnet50", str(CLASSES), weights, inputs,
        f"out{side}.safetensors")
    ours = load(f"out{side}.safetensors")
    truth = torch_pass(model, images, labels, torch.float64)
    single = torch_pass(model, images, labels, torch.float32)
    yardstick = rows(single["logits"], truth["logits"])
    layers = sum(p.dim() > 1 for p in model.parameters())
    tight = FACTOR * yardstick
    check(f"{side} px: logits (PyTorch's float32: {yardstick:.1e})",
          rows(ours["logits"], truth["logits"]), tight)
    check(f"{side} px: losses", distance(ours["loss"], truth["loss"]), tight)
    for kind in ("grad", "stat"):
        all_ours = {n: distance(ours[f"{kind}.{n}"], t) for n, t in truth[kind].items()}
        theirs = max(distance(single[kind][n], t) for n, t in truth[kind].items())
        limit = FACTOR * theirs if kind == "stat" else FLIPS * (layers * tight) ** 0.5
        worst = max(all_ours, key=all_ours.get)
        check(f"{side} px: worst {kind} of {len(all_ours)}, {worst} "
              f"(PyTorch's float32: {theirs:.1e})", all_ours[worst], limit)


VIEW = ("data.val=data", f"image={PREDICT_SIDE}", f"eval.crop={PREDICT_SIDE}", "eval.resize=72")


def predict(weights, files):
    """Rows of the table, and the pixels that the network saw."""
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
        model.float().double()  # what the file will hold
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
    # The packed val split holds the last pictures of each class.
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
        model = trained_model()
        weights = save(model.state_dict(), "weights")
        for side in SIDES:
            check_training(model, weights, side)
        check_predict(model, weights)
        check_checkpoint(weights)
        os.chdir("/")
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
