# SPDX-License-Identifier: Apache-2.0
"""A resident data loader that delivers batches on request: the peer of `serried bench data`.

    data_peers.py {ffcv|dali|torchvision} FOLDER [--image PX] [--kind u8|float] [--cpus LIST] ...

FOLDER contains pictures of one class, JPEG or, as raw pixels, NumPy arrays. Prints "ready JSON" once
everything is compiled and warm, then answers "run K" with the seconds of K epochs: each takes at
least --pictures pictures (those of FOLDER repeatedly) through a random resized crop and a flip to
PX x PX, as u8 or normalised to float, in batches, with one worker. What a loader has prepared between
two runs is discarded before the clock starts. FFCV reads its own file in FOLDER, made from the same
pixels: JPEG at quality 90, or raw.

The defaults of --batch, --ahead, --order and so on are what loader_settings.py found fastest.
"""
import argparse
import glob
import importlib.metadata
import itertools
import json
import os
import sys
import time

MEAN = [0.485 * 255, 0.456 * 255, 0.406 * 255]
STD = [0.229 * 255, 0.224 * 255, 0.225 * 255]
SCALE, RATIO = (0.08, 1.0), (0.75, 4 / 3)
QUALITY = 90
BATCH = {"ffcv": 16, "dali": 16, "torchvision": 32}
AHEAD = {"ffcv": 1, "dali": 2, "torchvision": 0}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("peer", choices=("ffcv", "dali", "torchvision"))
    p.add_argument("folder")
    p.add_argument("--image", type=int, default=224)
    p.add_argument("--pictures", type=int, default=2400, help="of an epoch, at least")
    p.add_argument("--kind", choices=("u8", "float"), default="u8")
    p.add_argument("--cpus", help="0-2,4: processors that it may use; default: those at its start")
    p.add_argument("--name", default="peer", help="of its file in FOLDER")
    p.add_argument("--batch", type=int, help="pictures of a batch")
    p.add_argument("--ahead", type=int, help="batches ahead (FFCV), prefetch queue (DALI)")
    p.add_argument("--order", choices=("random", "quasi_random", "sequential"), default="random")
    p.add_argument("--own-cache", action="store_true", help="FFCV's cache, not the system's")
    p.add_argument("--fast-idct", action="store_true", help="DALI: less exact decoding")
    p.add_argument("--source", action="store_true", help="DALI: raw pixels from Python's memory")
    a = p.parse_args()
    a.batch = a.batch or BATCH[a.peer]
    a.ahead = AHEAD[a.peer] if a.ahead is None else a.ahead
    return a


def processors(text):
    """{0, 1, 2, 4} of "0-2,4"."""
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def files_of(folder):
    files = sorted(glob.glob(os.path.join(folder, "*")))
    if not files:
        sys.exit(f"{folder}: no pictures")
    return files


def repeats(a, files):
    return -(-a.pictures // len(files))


def ffcv_epochs(a, files, about):
    import numpy
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor
    from ffcv.writer import DatasetWriter
    from PIL import Image

    raw = files[0].endswith(".npy")

    class Files:
        def __len__(self):
            return len(files)

        def __getitem__(self, index):
            if raw:
                return numpy.load(files[index]), 0
            return Image.open(files[index]).convert("RGB"), 0

    path = os.path.join(a.folder, f".{a.kind}.{a.name}.beton")
    field = RGBImageField(write_mode="raw" if raw else "jpg", jpeg_quality=QUALITY)
    DatasetWriter(path, {"image": field, "label": IntField()},
                  num_workers=1).from_indexed_dataset(Files())
    size = (a.image, a.image)
    image = [RandomResizedCropRGBImageDecoder(size, scale=SCALE, ratio=RATIO),
             RandomHorizontalFlip()]
    if a.kind == "float":
        image.append(NormalizeImage(numpy.array(MEAN), numpy.array(STD), numpy.float32))
    loader = Loader(path, batch_size=a.batch, num_workers=1, order=OrderOption[a.order.upper()],
                    seed=1, drop_last=False, os_cache=not a.own_cache, batches_ahead=a.ahead,
                    indices=numpy.tile(numpy.arange(len(files), dtype="uint64"), repeats(a, files)),
                    pipelines={"image": [*image, ToTensor()], "label": [IntDecoder(), ToTensor()]})
    about["version"] = f"FFCV {importlib.metadata.version('ffcv')}"
    about["setting"] = f"batches of {a.batch}, {a.ahead} ahead"
    about["bytes_per_picture"] = 0  # it is stored in pages of 8 MiB
    about["pictures"] = len(files) * repeats(a, files)
    return lambda: (len(batch[0]) for batch in loader)


def dali_epochs(a, files, about):
    import numpy
    import nvidia.dali as dali
    from nvidia.dali import fn, types
    raw = files[0].endswith(".npy")
    arrays = [numpy.load(f) for f in files] if raw and a.source else []
    shuffle = numpy.random.default_rng(1)
    area = {"random_area": list(SCALE), "random_aspect_ratio": list(RATIO)}

    def batch_of_arrays():
        return [arrays[i] for i in shuffle.integers(0, len(arrays), a.batch)]

    def crops():
        if raw:
            if a.source:
                pixels = fn.external_source(source=batch_of_arrays, batch=True, no_copy=True,
                                            layout="HWC", dtype=types.UINT8, ndim=3)
            else:
                pixels = fn.readers.numpy(files=files, random_shuffle=True, initial_fill=len(files),
                                          cache_header_information=True)
                pixels = fn.reshape(pixels, layout="HWC")
            return fn.random_resized_crop(pixels, size=[a.image, a.image], **area)
        encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=len(files))
        image = fn.decoders.image_random_crop(encoded, device="cpu", use_fast_idct=a.fast_idct,
                                              **area)
        return fn.resize(image, size=[a.image, a.image])

    @dali.pipeline_def(batch_size=a.batch, num_threads=1, device_id=None, seed=1,
                       prefetch_queue_depth=a.ahead)
    def pipeline():
        mirror = fn.random.coin_flip()
        if a.kind == "u8":
            return fn.flip(crops(), horizontal=mirror)
        return fn.crop_mirror_normalize(crops(), mirror=mirror, dtype=types.FLOAT, mean=MEAN,
                                        std=STD, output_layout="HWC")

    pipe = pipeline()
    pipe.build()
    batches = -(-a.pictures // a.batch)
    about["version"] = f"DALI {dali.__version__}"
    about["setting"] = f"batches of {a.batch}, queue of {a.ahead}"
    about["pictures"] = batches * a.batch
    about["ahead"] = a.ahead + 1
    return lambda: (len(pipe.run()[0]) for _ in itertools.count())


def torchvision_epochs(a, files, about):
    import numpy
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    steps = [v2.RandomResizedCrop(a.image, scale=SCALE, ratio=RATIO, antialias=True),
             v2.RandomHorizontalFlip()]
    if a.kind == "float":
        steps += [v2.ToDtype(torch.float32), v2.Normalize(MEAN, STD)]
    transform = v2.Compose(steps)
    raw = files[0].endswith(".npy")
    data = [torch.from_numpy(numpy.load(f)).permute(2, 0, 1) if raw else
            torch.frombuffer(bytearray(open(f, "rb").read()), dtype=torch.uint8) for f in files]

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return len(data) * repeats(a, files)

        def __getitem__(self, index):
            picture = data[index % len(data)]
            return transform(picture if raw else decode_jpeg(picture, mode=ImageReadMode.RGB))

    loader = torch.utils.data.DataLoader(Pictures(), batch_size=a.batch, shuffle=True)
    about["version"] = f"torchvision {torchvision.__version__}"
    about["setting"] = f"batches of {a.batch}, in process"
    about["pictures"] = len(data) * repeats(a, files)
    return lambda: (len(batch) for batch in loader)


def seconds_of(batches, about):
    """Seconds for about["pictures"] pictures, without those that were prepared before."""
    for _ in range(about.get("ahead", 0)):
        next(batches)
    start, done = time.perf_counter(), 0
    while done < about["pictures"]:
        done += next(batches)
    return (time.perf_counter() - start) * about["pictures"] / done


def main():
    a = arguments()
    if a.cpus:
        os.sched_setaffinity(0, processors(a.cpus))
    files = files_of(a.folder)
    about = {"peer": a.peer, "kind": a.kind, "cpus": sorted(os.sched_getaffinity(0)),
             "bytes_per_picture": sum(map(os.path.getsize, files)) / len(files)}
    start = {"ffcv": ffcv_epochs, "dali": dali_epochs, "torchvision": torchvision_epochs}
    epoch = start[a.peer](a, files, about)
    seconds_of(epoch(), about)  # compiles, and reads every picture
    print("ready", json.dumps(about), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["run"]:
            print(sum(seconds_of(epoch(), about) for _ in range(int(words[1]))), flush=True)


if __name__ == "__main__":
    main()
