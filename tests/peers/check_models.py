# SPDX-License-Identifier: Apache-2.0
"""check_models.py BUILD [--no-training | --options | --features | --timm | --segment] [MODEL...]: models in serried and
in torchvision are equal.

1. Weights that torchvision's own code initialised, with running statistics of a few batches, load through
   `weights:` (run_model.c) and give its logits in evaluation mode: their error, beside torchvision in
   float64, is at most four times torchvision's own in float32 (the worse of planar and channels-last), or
   8 eps of their norm.
2. So do weights whose tensors have the names of another library, written by rules of this file, and position
   embeddings of smaller pictures, which torchvision's interpolate_embeddings resizes.
3. Networks of timm, which timm_models.py has, have the published number of parameters.
4. With a MODEL given also what tests/unit/trainer/test_models.c compares, from a file that
   tests/models/model_golden.py writes first: for those models of tests/models/cases.txt that have none
   there. Training is the longest part of it.

5. With --features: the maps of a model's stages inside another model, with a classifier's weights in it.

Without a MODEL: those that the short tests compare. With --options: 1 for networks with other options. With --timm:
1 for the networks that timm itself makes (timm_library.py), if it is installed; with --segment for those of libraries
for segmentation (segment_library.py).
Exits with 77 if torch or torchvision is missing.
"""
import importlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision  # noqa: F401
    from torchvision.models import feature_extraction
except ImportError as error:
    print(f"NOT RUN: {error}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "models"))
import model_golden  # noqa: E402
import timm_models  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
SAMPLES, WARM_UP, FACTOR, LEAST_EPS = 4, 3, 4, 8
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Options of serried, torchvision's arguments that say the same, and the side of pictures unless it is that of
# cases.txt.
VARIANTS = [
    ("resnet18", "output_stride: 16", {"output_stride": 16}),
    ("resnet34", "output_stride: 8", {"output_stride": 8}),
    ("resnet50", "output_stride: 16", {"replace_stride_with_dilation": [False, False, True]}),
    ("resnet50", "output_stride: 8", {"replace_stride_with_dilation": [False, True, True]}),
    ("resnet18", "stem: v1c", {"stem": "v1c"}),
    ("mobilenet_v3_large", "width_mult: 0.6, reduced_tail: true", {"width_mult": 0.6, "reduced_tail": True}),
    ("mobilenet_v3_small", "dilated: true", {"dilated": True}),
    ("mobilenet_v2", "width_mult: 1.3", {"width_mult": 1.3}),
    ("googlenet", "transform_input: true", {"transform_input": True}),
    ("googlenet", "aux_logits: true", {"aux_logits": True}),
    ("inception_v3", "aux_logits: true", {"aux_logits": True, "side": 299}),
    ("resnet18", "blurpool: true", {"blurpool": True}),
    ("resnet50", "blurpool: true", {"blurpool": True}),
    ("skresnet50", "output_stride: 8", {"output_stride": 8}),
    ("resnest50d", "output_stride: 16", {"output_stride": 16}),
    ("fcn", "backbone: {name: resnet50, output_stride: 16}, aux: true", {"output_stride": 16, "aux_stage": -2}),
    ("deeplabv3", "backbone: resnet101", {"backbone": "resnet101"}),
    ("deeplabv3", "backbone: {name: resnet18, output_stride: 16}, channels: 128",
     {"backbone": "resnet18", "output_stride": 16, "channels": 128, "rates": (6, 12, 18), "side": 320}),
    ("deeplabv3", "backbone: mobilenet_v3_large, rates: [12, 24, 36], aux: true, aux_stage: 2",
     {"backbone": "mobilenet_v3_large", "aux_stage": -4}),
    ("lraspp", "backbone: resnet50", {"backbone": "resnet50", "low_stage": 1}),
]
# The same, and the module whose result each stage is.
RESNET = ("layer1", "layer2", "layer3", "layer4")
FEATURES = [
    ("resnet34", "stem_stage: true", {}, ("relu", *RESNET)),
    ("resnet18", "", {}, RESNET),
    ("resnet18", "output_stride: 8", {"output_stride": 8}, RESNET),
    ("resnet50", "output_stride: 16", {"replace_stride_with_dilation": [False, False, True]}, RESNET),
    ("resnet50", "output_stride: 8", {"replace_stride_with_dilation": [False, True, True]}, RESNET),
    ("mobilenet_v3_large", "dilated: true", {"dilated": True},
     ("features.1", "features.3", "features.6", "features.12", "features.16")),
    # As torchvision's networks for segmentation take them.
    ("mobilenet_v3_large", "dilated: true, stage_maps: first", {"dilated": True},
     ("features.0", "features.2", "features.4", "features.7", "features.13", "features.16")),
    ("mobilenet_v3_small", "stage_maps: first", {},
     ("features.0", "features.1", "features.2", "features.4", "features.9", "features.12")),
    ("densenet121", "", {}, ("features.denseblock1", "features.denseblock2", "features.denseblock3", "relu")),
    ("regnet_y_400mf", "", {}, tuple(f"trunk_output.block{i}" for i in range(1, 5))),
    ("convnext_tiny", "", {}, ("features.1", "features.3", "features.5", "features.7")),
]
failures = []


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def save_weights(state, path):
    torch.save(state, path + ".pth")
    run(sys.executable, os.path.join(BUILD, "serried-convert"), path + ".pth", path + ".safetensors")
    return path + ".safetensors"


def save_images(images, path):
    """A safetensors file without serried-convert, which starts PyTorch again."""
    raw = images.numpy().tobytes()
    head = {"images": {"dtype": "U8", "shape": list(images.shape), "data_offsets": [0, len(raw)]}}
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + raw)
    return path


def load_tensors(path):
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        raw = bytearray(file.read())
    return {name: torch.frombuffer(raw, dtype=torch.float32, count=(entry["data_offsets"][1] - entry["data_offsets"][0]) // 4,
                                   offset=entry["data_offsets"][0]).reshape(entry["shape"]).double()
            for name, entry in head.items() if name != "__metadata__"}


def normalise(images, dtype):
    mean, std = torch.tensor((MEAN, STD), dtype=torch.float64)
    return ((images.double() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous().to(dtype)


def warmed_up(name, side, arguments):
    """torchvision's network with its own initial values and running statistics of pictures."""
    torch.manual_seed(7)
    made = model_golden.create(name, side, **arguments).train()
    with torch.no_grad():
        for _ in range(WARM_UP):
            made(normalise(torch.randint(256, (SAMPLES, side, side, 3)), torch.float32))
    return without_zeros(made.eval())


def compare(model, what, ours, evaluate, made):
    """Tensors of serried are those of PyTorch, which evaluate(network, memory format, dtype) returns."""
    own = [evaluate(made, layout, torch.float32) for layout in (torch.contiguous_format, torch.channels_last)]
    truth = evaluate(made.double(), torch.contiguous_format, torch.float64)
    made.float()
    for name, exact in truth.items():
        error = (ours[name] - exact).norm().item()
        limit = max(FACTOR * max((o[name] - exact).norm().item() for o in own),
                    LEAST_EPS * torch.finfo(torch.float32).eps * exact.norm().item())
        good = error <= limit
        print(f"{'ok    ' if good else 'FAILED'} {model}: {name} of {what}: {error:.1e}, limit {limit:.1e}", flush=True)
        if not good:
            failures.append(model)


def check_logits(model, what, made, tensors, side, folder):
    """Logits of a file with 'tensors' are those of 'made'."""
    images = torch.randint(256, (SAMPLES, side, side, 3), dtype=torch.uint8)
    weights = save_weights(tensors, os.path.join(folder, "weights"))
    inputs = save_images(images, os.path.join(folder, "inputs.safetensors"))
    out = os.path.join(folder, "out.safetensors")
    run(os.path.join(BUILD, "tests", "run_model"), model, str(model_golden.CLASSES), weights, inputs, out)

    def evaluate(network, layout, dtype):
        with torch.no_grad():
            x = normalise(images, dtype).to(memory_format=layout)
            return {"logits": model_golden.channels_last(network.to(memory_format=layout)(x)).double()}

    compare(model, what, load_tensors(out), evaluate, made)


def check_features(given):
    """Maps of the stages, of a model inside another, with a classifier's weights."""
    sides = {name: side for name, side, _ in model_golden.cases()}
    for name, options, arguments, nodes in FEATURES:
        if given and name not in given:
            continue
        made = warmed_up(name, sides[name], arguments)
        stages = {node: f"stage{i}" for i, node in enumerate(nodes)}
        extractor = feature_extraction.create_feature_extractor(made, stages).eval()
        images = torch.randint(256, (SAMPLES, sides[name], sides[name], 3), dtype=torch.uint8)
        model = f"{{name: {name}, {options}}}" if options else name

        def evaluate(network, layout, dtype, images=images):
            with torch.no_grad():
                maps = network.to(memory_format=layout)(normalise(images, dtype).to(memory_format=layout))
            return {stage: x.permute(0, 2, 3, 1).double() for stage, x in maps.items()}

        with tempfile.TemporaryDirectory() as folder:
            weights = save_weights(made.state_dict(), os.path.join(folder, "weights"))
            inputs = save_images(images, os.path.join(folder, "inputs.safetensors"))
            out = os.path.join(folder, "out.safetensors")
            run(os.path.join(BUILD, "tests", "run_features"), model, weights, inputs, out)
            ours = load_tensors(out)
        if len(ours) != len(nodes):
            sys.exit(f"{model} has {len(ours)} stages, not {len(nodes)}")
        compare(model, "its features", ours, evaluate, extractor)


def check_weights(name, side, folder, options="", arguments=None):
    made = warmed_up(name, side, arguments or {})
    model = f"{{name: {name}, {options}}}" if options else name
    check_logits(model, "its weights", made, made.state_dict(), side, folder)


# Rules from torchvision's names, each for the names that the ones before it gave.
LAYOUTS = {
    "convnext_tiny": {
        "timm": (("features.0", "stem"), ("classifier.0", "head.norm"), ("classifier.2", "head.fc"),
                 (r"features\.([246])", lambda m: f"stages.{int(m[1]) // 2}.downsample"),
                 (r"features\.([1357])", lambda m: f"stages.{int(m[1]) // 2}.blocks"), ("layer_scale", "gamma"),
                 ("block.0", "conv_dw"), ("block.2", "norm"), ("block.3", "mlp.fc1"), ("block.5", "mlp.fc2")),
        "Facebook": (("classifier.0", "norm"), ("classifier.2", "head"), ("layer_scale", "gamma"),
                     (r"features\.([0246])", lambda m: f"downsample_layers.{int(m[1]) // 2}"),
                     (r"features\.([1357])", lambda m: f"stages.{int(m[1]) // 2}"),
                     ("block.0", "dwconv"), ("block.2", "norm"), ("block.3", "pwconv1"), ("block.5", "pwconv2")),
    },
    "swin_t": {
        "timm": (("mlp.0", "mlp.fc1"), ("mlp.3", "mlp.fc2"), ("^head", "head.fc"),
                 ("features.0.0", "patch_embed.proj"), ("features.0.2", "patch_embed.norm"),
                 (r"features\.([246])", lambda m: f"layers.{int(m[1]) // 2}.downsample"),
                 (r"features\.([1357])", lambda m: f"layers.{int(m[1]) // 2}.blocks")),
        "Microsoft": (("mlp.0", "mlp.fc1"), ("mlp.3", "mlp.fc2"),
                      ("features.0.0", "patch_embed.proj"), ("features.0.2", "patch_embed.norm"),
                      (r"features\.([246])", lambda m: f"layers.{int(m[1]) // 2 - 1}.downsample"),
                      (r"features\.([1357])", lambda m: f"layers.{int(m[1]) // 2}.blocks")),
    },
    "vit_tiny_patch16_224": {
        "torchvision": (),
        "torchvision before 0.13": (("mlp.0", "mlp.linear_1"), ("mlp.3", "mlp.linear_2")),
    },
}


def in_layout(tensors, rules):
    found = {}
    for name, tensor in tensors.items():
        for pattern, by in rules:
            name = re.sub(pattern, by, name)
        if name.endswith("gamma"):
            tensor = tensor.flatten()
        found[name] = tensor
    return found


def vit_tiny(side):
    vit = torchvision.models.vision_transformer.VisionTransformer
    return vit(side, 16, 12, 3, 192, 768, num_classes=model_golden.CLASSES).eval()


def without_zeros(made):
    """A last layer of zeros, as torchvision's vision transformers have it at first, hides everything."""
    for parameter in made.parameters():
        if parameter.dim() == 2 and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return made


def check_layouts(name, side, folder):
    """Of the networks of LAYOUTS, one for each table of names."""
    if name not in LAYOUTS:
        return
    torch.manual_seed(8)
    for layout, rules in LAYOUTS[name].items():
        made = without_zeros(vit_tiny(side) if name.startswith("vit") else model_golden.create(name, side).eval())
        check_logits(name, f"weights with names of {layout}", made, in_layout(made.state_dict(), rules), side, folder)
    if name.startswith("vit"):
        small, large = without_zeros(vit_tiny(side)), vit_tiny(2 * side)
        tensors = {n: t.clone() for n, t in small.state_dict().items()}
        large.load_state_dict(torchvision.models.vision_transformer.interpolate_embeddings(2 * side, 16, tensors))
        check_logits(name, "resized positions", large, small.state_dict(), 2 * side, folder)


def check_parameters(name):
    """The network that this one is compared with has as many parameters as was published."""
    published = timm_models.PARAMETERS.get(name)
    if published is None:
        return
    own = sum(parameter.numel() for parameter in timm_models.create(name, 1000, 224, {}).parameters())
    print(f"{'ok    ' if own == published else 'FAILED'} {name}: {own} parameters, published {published}", flush=True)
    if own != published:
        failures.append(name)


def check_options(given):
    sides = {name: side for name, side, _ in model_golden.cases()}
    for name, options, arguments in VARIANTS:
        if given and name not in given:
            continue
        arguments = dict(arguments)
        side = arguments.pop("side", sides[name])
        with tempfile.TemporaryDirectory() as folder:
            check_weights(name, side, folder, options, arguments)


def check_library(given, library):
    """Networks that another library makes: library is the name of a module that has them."""
    try:
        networks = importlib.import_module(library)
    except ImportError as error:
        print(f"NOT RUN: {error}")
        sys.exit(77)
    for name, theirs, options, side in networks.networks():
        if given and name not in given:
            continue
        made = networks.create(theirs, model_golden.CLASSES)
        model = f"{{name: {name}, {options}}}" if options else name
        with torch.no_grad():
            for _ in range(WARM_UP):
                made(normalise(torch.randint(256, (SAMPLES, side, side, 3)), torch.float32))
        what = theirs if isinstance(theirs, str) else theirs.__name__
        with tempfile.TemporaryDirectory() as folder:
            check_logits(model, f"its library's {what}", made.eval(), made.state_dict(), side, folder)
            larger = networks.resized(made, theirs, side + side // 7) if hasattr(made, "pos_embed") else None
            if larger:
                check_logits(model, "resized positions", larger, made.state_dict(), side + side // 7, folder)


def check_cases(given):
    for name, side, how in model_golden.cases():
        if how == "own" or name not in given and (given or how != "short"):
            continue
        check_parameters(name)
        with tempfile.TemporaryDirectory() as folder:
            if how != "short":
                case = (name, side, "names" if how == "names" else "all")
                model_golden.write(case, folder, "--no-training" not in sys.argv)
                print(run(os.path.join(BUILD, "tests", "test_models"), os.path.join(folder, f"{name}.txt")), flush=True)
            if how != "names":
                check_weights(name, side, folder)
                check_layouts(name, side, folder)


def main():
    given = [word for word in sys.argv[2:] if not word.startswith("--")]
    if "--options" in sys.argv:
        check_options(given)
    elif "--features" in sys.argv:
        check_features(given)
    elif "--timm" in sys.argv:
        check_library(given, "timm_library")
    elif "--segment" in sys.argv:
        check_library(given, "segment_library")
    else:
        check_cases(given)
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
