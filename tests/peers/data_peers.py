# SPDX-License-Identifier: Apache-2.0
"""A resident data loader that decodes pictures on request: the peer of `serried bench decode`.

    data_peers.py {ffcv|dali|torchvision} FOLDER [--image PX] [--normalise] [--processor N]

FOLDER holds one class of pictures, JPEG or, for raw pixels, PPM. Each round takes all of them
once through a random resized crop and a flip to PX x PX, as u8 or normalised to float, on one
processor. Prints "ready JSON" once it is warm, then answers "run K" with the seconds of K rounds.
FFCV reads a file of its own in FOLDER, made of the same pixels: JPEG at quality 90, or raw.
"""
import argparse
import glob
import importlib.metadata
import json
import os
import sys
import time

MEAN = [0.485 * 255, 0.456 * 255, 0.406 * 255]
STD = [0.229 * 255, 0.224 * 255, 0.225 * 255]
SCALE, RATIO = (0.08, 1.0), (0.75, 4 / 3)
BATCH, QUALITY = 64, 90


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("peer", choices=("ffcv", "dali", "torchvision"))
    p.add_argument("folder")
    p.add_argument("--image", type=int, default=224)
    p.add_argument("--normalise", action="store_true")
    p.add_argument("--processor", type=int, default=-1, help="-1: the first that is allowed")
    return p.parse_args()


def pictures(folder):
    files = sorted(glob.glob(os.path.join(folder, "*")))
    if not files:
        sys.exit(f"{folder}: no pictures")
    return files


def ffcv_rounds(a, files, about):
    import numpy
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Files:
        def __len__(self):
            return len(files)

        def __getitem__(self, index):
            return Image.open(files[index]).convert("RGB"), 0

    raw = files[0].endswith(".ppm")
    path = os.path.join(a.folder, ".float.beton" if a.normalise else ".u8.beton")
    field = RGBImageField(write_mode="raw" if raw else "jpg", jpeg_quality=QUALITY)
    DatasetWriter(path, {"image": field, "label": IntField()},
                  num_workers=1).from_indexed_dataset(Files())
    size = (a.image, a.image)
    image = [RandomResizedCropRGBImageDecoder(size, scale=SCALE, ratio=RATIO),
             RandomHorizontalFlip()]
    if a.normalise:
        image.append(NormalizeImage(numpy.array(MEAN), numpy.array(STD), numpy.float32))
    loader = Loader(path, batch_size=BATCH, num_workers=1, order=OrderOption.RANDOM, seed=1,
                    drop_last=False, os_cache=True,
                    pipelines={"image": [*image, ToTensor()], "label": [IntDecoder(), ToTensor()]})
    about["version"] = f"FFCV {importlib.metadata.version('ffcv')}"
    about["bytes_per_picture"] = 0  # it lies in pages of 8 MiB

    def run():
        return sum(len(batch[0]) for batch in loader)

    return run


def dali_rounds(a, files, about):
    import nvidia.dali as dali
    from nvidia.dali import fn, types

    @dali.pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=1)
    def pipeline():
        encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=len(files),
                                     name="files")
        image = fn.decoders.image_random_crop(encoded, device="cpu", random_area=list(SCALE),
                                              random_aspect_ratio=list(RATIO))
        image = fn.resize(image, size=[a.image, a.image])
        mirror = fn.random.coin_flip()
        if not a.normalise:
            return fn.flip(image, horizontal=mirror)
        return fn.crop_mirror_normalize(image, mirror=mirror, dtype=types.FLOAT, mean=MEAN, std=STD,
                                        output_layout="HWC")

    pipe = pipeline()
    pipe.build()
    about["version"] = f"DALI {dali.__version__}"

    def run():
        done = 0
        while done < len(files):
            done += len(pipe.run()[0])
        return done

    return run


def torchvision_rounds(a, files, about):
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg
    from PIL import Image
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    steps = [v2.RandomResizedCrop(a.image, scale=SCALE, ratio=RATIO, antialias=True),
             v2.RandomHorizontalFlip()]
    if a.normalise:
        steps += [v2.ToDtype(torch.float32), v2.Normalize(MEAN, STD)]
    transform = v2.Compose(steps)
    raw = files[0].endswith(".ppm")
    data = [v2.functional.pil_to_tensor(Image.open(f)) if raw else
            torch.frombuffer(bytearray(open(f, "rb").read()), dtype=torch.uint8) for f in files]
    about["version"] = f"torchvision {torchvision.__version__}"

    def run():
        for picture in data:
            transform(picture if raw else decode_jpeg(picture, mode=ImageReadMode.RGB))
        return len(data)

    return run


def main():
    a = arguments()
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[0] if a.processor < 0 else a.processor})
    files = pictures(a.folder)
    about = {"peer": a.peer, "normalised": a.normalise,
             "bytes_per_picture": sum(map(os.path.getsize, files)) / len(files)}
    rounds = {"ffcv": ffcv_rounds, "dali": dali_rounds, "torchvision": torchvision_rounds}
    run = rounds[a.peer](a, files, about)
    run()
    print("ready", json.dumps(about), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["run"]:
            start, done = time.perf_counter(), 0
            for _ in range(int(words[1])):
                done += run()
            # A last batch that is filled up counts more pictures than there are.
            print((time.perf_counter() - start) * len(files) * int(words[1]) / done, flush=True)


if __name__ == "__main__":
    main()
