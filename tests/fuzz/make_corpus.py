#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz targets: tests/fuzz/make_corpus.py. Inputs that fuzzing found are added next
to them under libFuzzer's names. The seeds of recipe are recipes, maintained by hand."""
import gzip
import io
import os
import struct
import tarfile
import zlib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")

OPTIONS = [
    (0, "true"), (1, "1e6"), (1, "-9223372036854775808"), (2, "0.1"), (2, "-inf"), (3, "a b"),
    (4, "exact"), (5, "1.5GiB"), (5, "9223372036854775807"), (6, "500ms"), (6, "1e308h"),
    (7, "90ep"), (7, "0.5epochs"), (8, "[1, 2]"), (8, "1,2,"), (9, "[0.1, 1e3]"),
    (10, "[a, 'b, c', \"d\\\"\"]"), (10, "[]"), (10, "[a, '\n', b]"),
]


def write(target, name, data):
    folder = os.path.join(FOLDER, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def safetensors(header, data=b""):
    text = header.encode()
    return struct.pack("<Q", len(text)) + text + data


SAFETENSORS = [
    safetensors("{}"),
    safetensors('{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
                '"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}} ', bytes(16)),
    safetensors('{"a":{"dtype":"U8","shape":[0,4],"data_offsets":[0,0]}}'),
    safetensors('{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'),
    safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                '"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)),
    safetensors("[" * 40),
    struct.pack("<Q", 2**63) + b"{}",
]


# ---- records: the first byte selects what the rest is (fuzz_record.c) -------------------------------

def varint(value):
    value &= 2**64 - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key, feature):
    return field(1, field(1, key.encode()) + field(2, feature))


def integer(value):
    return varint(5 << 3) + varint(value)


def real(value):
    return varint(4 << 3 | 1) + struct.pack("<d", value)


def items(*features):
    return field(7, b"".join(field(1, f) for f in features))


SAMPLE = (entry("data", field(3, b"\xff\xd8")) + entry("encoded", integer(1)) +
          entry("shape", items(integer(2), integer(3), integer(3))) +
          entry("label", items(integer(7))) + entry("orientation", integer(6)) +
          entry("segments", field(3, struct.pack("<3I", 1, 2, 9))) +
          entry("name", field(2, b"cat/1.jpg")))
OBJECT = field(8, entry("name", field(3, b"dog")) + entry("label", integer(1)) +
               entry("xmin", real(1)) + entry("ymin", real(-2)) + entry("xmax", real(1e300)) +
               entry("ymax", real(float("nan"))) + entry("difficult", integer(1)) +
               entry("mask", field(3, b"\x01\x02")))
DETECTION = (entry("id", field(3, b"000001")) + entry("content", field(3, b"\xff\xd8")) +
             entry("height", integer(-1)) + entry("width", integer(2**40)) +
             entry("depth", integer(3)) + entry("object", items(OBJECT, OBJECT)))
META = """version: 1 id: "root" # a comment
record_type < basicType: map
  properties { key: "b" value { basicType: list item: { basicType: int64 } } }
  properties: { key: 'a\\x21\\n' value { basicType: 1 } } keys: "a" keys: "b" >
unknown { x: -1.5e3, y: ["z"] }
"""
RECORDS = [
    b"\0" + SAMPLE, b"\0" + DETECTION, b"\0" + field(1, SAMPLE),
    b"\0" + entry("data", field(9, b"x")) + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\1{data: bytes, 'a b': [{x: float64}], s: STRING}", b"\1{a: [[[[[[[[[[[[[[[[[int]]]]]]]]]]]]]]]]]}",
    b"\2" + META.encode(), b"\2record_type{basicType:map keys:'x'}",
    b"\3" + field(1, varint(0) + varint(10) + varint(10) + varint(2**63)),
    b"\3\x08\0\x08\x05\x08\x04", b"\3",
]


# ---- shards: the target corrects checksums (fuzz_shard.c) --------------------------------------------

def shard(records, classes, meta, **changes):
    names = b"".join(struct.pack("<I", len(c)) + c for c in classes)
    body = (struct.pack(f"<{len(classes)}Q", *range(len(classes))) + names + meta)
    body += bytes(-(136 + len(body)) % 8)
    header_bytes = changes.get("header_bytes", 136 + len(body) + 8)
    header = struct.pack("<8sIIQQQII16sIIIIQ6Q", b"\x89KPL\r\n\x1a\n", 1, header_bytes, 0,
                         changes.get("count", len(records)), changes.get("first", 0), 0, 1,
                         changes.get("split", b"train"), changes.get("class_count", len(classes)),
                         changes.get("names", len(names)), len(meta), 64, 2**63, *[2**63] * 6)
    at, index = len(header) + len(body) + 8, b""
    for record in records:
        index += struct.pack("<QQQ", at, len(record), 0)
        at += len(record)
    return header + body + bytes(8) + b"".join(records) + index + bytes(40)


SHARD_META = (b'record_type { basicType: map properties { key: "data" value { basicType: bytes } } '
              b'keys: "data" }')
SHARDS = [
    shard([SAMPLE, b"", SAMPLE], [b"cat", b"dog"], SHARD_META),
    shard([], [], SHARD_META),
    shard([SAMPLE], [b"cat"], b"record_type {}", class_count=2**32 - 1),
    shard([SAMPLE], [b"cat\0x"], b"", names=2**32 - 1, split=b"a" * 16),
    shard([SAMPLE], [b""], SHARD_META, count=2**61, first=2**64 - 1),
    shard([SAMPLE], [b"c"], SHARD_META, header_bytes=144),
    b"\x89KPL", b"",
]


# ---- containers: the first byte selects what the rest is (fuzz_container.c) -------------------------

def value(kind, *parts):
    return (varint(8) + varint(kind) if kind else b"") + b"".join(parts)


def texts(*names):
    return value(4, *[field(6, value(0, field(2, n)) if n else b"") for n in names])


def triple(*numbers):
    return value(4, *[field(6, value(2, varint(4 << 3 | 1) + struct.pack("<d", n))) for n in numbers])


def pair(key, content):
    return field(1, field(1, key) + field(2, content))


def contents(records, classes=(b"cat", b"dog"), **changes):
    whole = bytearray(shard(records, classes, SHARD_META, **changes))
    header, = struct.unpack_from("<I", whole, 12)
    lengths = [len(r) for r in records]
    whole[16:24] = struct.pack("<Q", sum(lengths))
    index = b"".join(struct.pack("<QQQ", sum(lengths[:i]), n, 0) for i, n in enumerate(lengths))
    return bytes(whole[:header]) + index + bytes(40)


def lmdb_page(number, kind, lower, upper, content, size=256):
    return struct.pack("<QHHHH", number, 0, kind, lower, upper) + content + bytes(size - 16 - len(content))


def lmdb(records, root=2, **changes):
    """Pages of 256 bytes: two meta pages, a leaf, and after it the table of contents."""
    table = contents(records, **changes)
    keys = [struct.pack(">Q", i) for i in range(len(records))] + [b"serried"]
    nodes, offsets, at = b"", [], 16 + 2 * len(keys)
    for key, data in zip(keys, [*records, None]):
        node = struct.pack("<HHHH", len(table if data is None else data), 0, data is None, len(key)) + key
        node += struct.pack("<Q", 3) if data is None else data
        offsets.append(at + len(nodes))
        nodes += node + bytes(len(node) % 2)
    leaf = struct.pack(f"<{len(offsets)}H", *offsets) + nodes
    meta = struct.pack("<IIQQ", 0xbeefc0de, 1, 0, 2**20)
    meta += struct.pack("<IHHQQQQQ", 256, 0, 0, 0, 0, 0, 0, 2**64 - 1)
    meta += struct.pack("<IHHQQQQQ", 0, 0, 1, 0, 1, 4, len(keys), root) + struct.pack("<Q", 9)
    pages = -(-(16 + len(table)) // 256)
    return (lmdb_page(0, 8, 0, 0, meta + struct.pack("<Q", 1)) + lmdb_page(1, 8, 0, 0, meta + bytes(8)) +
            lmdb_page(2, 2, at, at, leaf) +
            lmdb_page(3, 4, pages, 0, table, 256 * pages))


TINY = entry("data", field(3, b"x"))
PROPERTY = (pair(b"classes", texts(b"cat", b"", b"v\xc3\xb6gel")) + pair(b"split", value(0, field(2, b"val"))) +
            pair(b"median_side", value(3, varint(5 << 3) + varint(-5))) +
            pair(b"mean", triple(0.5, 0.25, 0)) + pair(b"std", triple(1, 2, float("inf"))) +
            pair(b"other", value(5, field(7, field(1, b"k")))))
CONTAINERS = [
    b"\0" + PROPERTY, b"\0" + PROPERTY[:-3], b"\0" + pair(b"classes", value(2)), b"\0" + pair(b"", b""),
    b"\1" + contents([TINY, b"", TINY]), b"\1" + contents([], ()), b"\1" + contents([TINY], count=2**60),
    b"\2" + lmdb([TINY, TINY]), b"\2" + lmdb([]), b"\2" + lmdb([TINY], root=3), b"\2" + lmdb([TINY], root=2**63),
    b"\2" + lmdb([TINY, b"", TINY])[:900],
]


# ---- pictures: constant ones, whose scans are all zeros ---------------------------------------------

def marker(code, data=b""):
    return bytes([0xff, code]) + struct.pack(">H", len(data) + 2) + data


def jpeg(side, factors, sof=0xc0, rows=False, before=b""):
    """Every code is one zero bit: the difference 0, and the end of the block."""
    frame = struct.pack(">BHHB", 8, side, side, len(factors))
    frame += b"".join(bytes([i + 1, f, 0]) for i, f in enumerate(factors))
    table = bytes([1]) + bytes(15) + b"\0"
    tables = marker(0xdb, b"\0" + b"\1" * 64)
    tables += marker(0xc4, b"\0" + table) + marker(0xc4, b"\x10" + table)
    single = len(factors) == 1
    across = -(-side // (8 if single else 8 * max(f >> 4 for f in factors)))
    down = -(-side // (8 if single else 8 * max(f & 15 for f in factors)))
    blocks = 1 if single else sum((f >> 4) * (f & 15) for f in factors)
    bits = 1 if sof == 0xc2 else 2
    row = bytes(-(-across * blocks * bits // 8))
    scan = bytes([len(factors)]) + b"".join(bytes([i + 1, 0]) for i in range(len(factors)))
    scan += b"\0\0\0" if sof == 0xc2 else b"\0\x3f\0"
    if rows:
        tables += marker(0xdd, struct.pack(">H", across))
        data = b"".join(row + bytes([0xff, 0xd0 + i % 8]) for i in range(down - 1)) + row
    else:
        data = bytes(-(-across * down * blocks * bits // 8))
    return (b"\xff\xd8" + before + tables + marker(sof, frame) + marker(0xda, scan) + data +
            b"\xff\xd9")


def exif(code, order=">"):
    tiff = (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(order + "IHHHIHH", 8, 1, 0x0112, 3,
                                                                  1, code, 0)
    return tiff + bytes(4)


def png(width, height, depth, kind, *chunks):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    rows = (b"\0" + bytes((width * channels * depth + 7) // 8)) * height
    out = b"\x89PNG\r\n\x1a\n"
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)), *chunks,
             (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    for name, data in parts:
        out += struct.pack(">I", len(data)) + name + data
        out += struct.pack(">I", zlib.crc32(name + data))
    return out


YUV = (0x22, 0x11, 0x11)
PICTURES = [
    jpeg(140, YUV), jpeg(140, YUV, rows=True), jpeg(136, (0x11,)), jpeg(130, (0x21, 0x11, 0x11)),
    jpeg(129, (0x12, 0x11, 0x11), sof=0xc2), jpeg(40, (0x11,), sof=0xc2),
    jpeg(16, (0x11,) * 4, before=marker(0xee, b"Adobe\0\x64\0\0\0\0\2")),
    jpeg(24, YUV, before=marker(0xe1, b"Exif\0\0" + exif(6))),
    jpeg(24, (0x11, 0x22, 0x11), sof=0xc1),
    png(9, 7, 8, 2), png(9, 7, 16, 6), png(9, 7, 1, 0), png(3, 3, 8, 4, (b"eXIf", exif(3, "<"))),
    png(4, 4, 2, 3, (b"PLTE", bytes(range(12)))), png(2**31 - 1, 0, 8, 2), exif(5), b"",
]


# ---- archives ---------------------------------------------------------------------------------------

def archive(members, mode="w", form=tarfile.USTAR_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as tar:
        for name, data, kind in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.mtime = kind, len(data), 1
            info.linkname = "elsewhere" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def plain(name, data):
    return name, data, tarfile.REGTYPE


SMALL = png(2, 2, 8, 0)
INNER = archive([plain("1.jpg", jpeg(8, (0x11,))), plain("2.png", SMALL)])
TAR = archive([plain("set/train/cat/1.png", SMALL), plain("./set/train/dog/2.png", SMALL),
               plain("set/val/cat/3.png", SMALL), plain("set/train/n01.tar", INNER),
               plain("../out.png", SMALL), plain("/abs.png", SMALL), plain("set/.hidden", b""),
               ("set/link.png", b"", tarfile.SYMTYPE), ("set/hard.png", b"", tarfile.LNKTYPE),
               plain("a/" + "long" * 60 + ".png", SMALL)], form=tarfile.PAX_FORMAT)


def zipped(flag):
    """Two stored entries, the second with this flag (1: encrypted)."""
    out, entries = b"", b""
    for name, flags in ((b"a/1.png", 0), (b"b/2.png", flag)):
        common = struct.pack("<HHHHHIIIHH", 20, flags, 0, 0, 33, zlib.crc32(SMALL), len(SMALL), len(SMALL), len(name), 0)
        entries += b"PK\1\2\x14\0" + common + struct.pack("<HHHII", 0, 0, 0, 0, len(out)) + name
        out += b"PK\3\4" + common + name + SMALL
    return out + entries + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 2, 2, len(entries), len(out), 0)


ARCHIVES = [TAR, zlib.compress(TAR, 9, 31), INNER, TAR[:-1500], archive([]), b"BZh9", b"", zipped(0), zipped(1), INNER + INNER,
            zlib.compress(INNER + INNER, 9, 31)]


# ---- decoding: choices, row index, picture (fuzz_decode.c) ------------------------------------------

def choices(segments=0, raw=False, orientation=1, region=(64, 64, 128, 128), scale=0, shape=(0, 0, 0)):
    height, width, channels = shape
    return struct.pack("16B", segments, 3 if raw else 0, orientation, 0, *region, scale, 1, height & 255,
                       height >> 8, width & 255, width >> 8, channels, 0)


def indexed(side, factors):
    """With one restart interval per row of MCUs, and the offsets of the rows as packing stores them."""
    picture = jpeg(side, factors, rows=True)
    begin = picture.index(b"\xff\xda") + 2
    begin += struct.unpack(">H", picture[begin:begin + 2])[0]
    offsets = [begin] + [i + 2 for i in range(begin, len(picture) - 2)
                         if picture[i] == 0xff and 0xd0 <= picture[i + 1] <= 0xd7] + [len(picture) - 2]
    return choices(len(offsets)) + struct.pack(f"<{len(offsets)}I", *offsets) + picture


DECODES = [
    indexed(140, YUV), indexed(136, (0x11,)), indexed(130, (0x21, 0x11, 0x11)),
    choices(orientation=6, scale=2) + jpeg(140, YUV), choices(scale=3) + jpeg(136, (0x11,)),
    choices(orientation=0) + jpeg(24, YUV, before=marker(0xe1, b"Exif\0\0" + exif(6))),
    choices() + jpeg(16, (0x11,) * 4, before=marker(0xee, b"Adobe\0\x64\0\0\0\0\2")),
    choices() + jpeg(129, (0x12, 0x11, 0x11), sof=0xc2), choices(orientation=8) + png(9, 7, 16, 6),
    choices() + png(4, 4, 2, 3, (b"PLTE", bytes(range(12)))),
    choices(raw=True, shape=(5, 4, 3)) + bytes(range(60)), choices(raw=True, shape=(5, 4, 1)) + bytes(20),
    choices(raw=True, shape=(5, 4, 4), orientation=5) + bytes(80), choices(),
]


# ---- checkpoints: the first byte selects what the rest is (fuzz_checkpoint.c) -------------------------

EMPTY_SUM = "2d06800538d394c2"  # XXH3-64 of nothing, with seed 0
MANIFEST = """{"format": "serried checkpoint",
"version": 1,
"generation": 12,
"position": 3072,
"step": 48,
"epoch": 2,
"ranks": 1,
"lanes": 8,
"batch": 64,
"seed": 18446744073709551615,
"task": "classify",
"model": "tiny",
"recipe": "test",
"recipe_identity": "aa",
"data_identity": "bb",
"fingerprint": "v1 avx2",
"digest": "cc",
"image_height": 32,
"image_width": 48,
"mean": [0.485, 0.456, 0.406],
"std": [0.229, 0.224, 0.225],
"metric": "val/top1",
"metric_value": null,
"best_value": 62.5,
"best_step": 8,
"classes": ["cat", "dog \\"x\\"", "b\u00e4r"],
"extra": {"loss_scale": "65536"},
"files": [
  {"name": "optimizer-00000-of-00001.safetensors", "bytes": 0, "xxh3": "SUM", "chunks": []},
  {"name": "model.safetensors", "bytes": 0, "xxh3": "SUM", "chunks": []}]""".replace("SUM", EMPTY_SUM)
WHOLE_SLOTS = ('{"momentum":{"elements":8,"ranges":[[0,3],[3,8]]},"counts":{"elements":3,"ranges":[[0,3]]}}')
CHECKPOINTS = [
    b"\0" + MANIFEST.encode(), b"\0" + MANIFEST.replace("\n", "").encode(),
    b"\0" + MANIFEST.replace('"ranks": 1', '"ranks": 65536').encode(),
    b"\0" + MANIFEST.replace("model.safetensors", "../model.safetensors").encode(),
    b"\0" + MANIFEST.replace('"version": 1', '"version": 2').encode(),
    b"\0" + MANIFEST.replace('"classes": [', '"classes": [1e400, ').encode(),
    b"\1" + WHOLE_SLOTS.encode(), b"\1{}", b'\1{"momentum":{"elements":8,"ranges":[[5,8],[0,5]]}}',
    b'\1{"momentum":{"elements":9223372036854775807,"ranges":[[0,9223372036854775807]]}}',
    b'\1{"momentum":{"elements":8,"ranges":[[0,8],[8,8],[0,0]]},"other":{"elements":0,"ranges":[]}}',
    b'\1{"momentum":{"elements":-1,"ranges":[[-3,5]]}}',
    b'\2{"a": [1, -2.5e3, null, true, {"b": "\\u00e9\\ud83d\\ude00"}], "": {}}',
    b"\2" + b"[" * 17 + b"]" * 17, b'\2{"a": 1, "a": 2}', b'\2"\\u0000"', b"\2-0", b"\2 \n", b"\2[1]]",
]


# ---- small files of run folders and data sets (fuzz_run_folder.c) -------------------------------------

IDENTITY = b"00112233445566778899aabbccddeeff" * 2
NOTHING = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256: no files
PACKED = (b"serried-pack 1\nidentity " + NOTHING + b"\ntrain 160\nval 40\ntest 0\nclasses 10\nbytes 81234\n"
          b"refused 0\nignored 1\nunlabelled 0\nval_existed 0\nprogressive 0\ngreyscale 3\ncmyk 0\n"
          b"oriented 1\npng 2\npng_reduced 0\nresized 0\nstate complete\n")
TABLE = b"step,samples,digest\n1,64,ab\n2,128,\"c,d\"\n3,192,ef\n"
RUN_FILES = [
    b"\0" + TABLE, b"\0" + TABLE[:-4], b"\0" + TABLE + b"4,25", b"\0step,samples,digest", b"\0",
    b"\0step,samples\n1,2\n", b"\0step,samples,digest\n1,64\n", b'\0step,samples,digest\n1,64,"a\nb"\n2,3,4\n',
    b"\0step,samples,digest\nnan,-inf,1e999\n,,\n0x10,1e2,\n", b"\0" + TABLE.replace(b"2", b"\0"),
    b"\1" + IDENTITY + b"\n", b"\1" + IDENTITY[:-1] + b"\n", b"\1", b"\1" + b"a" * 300, b"\1\n\n",
    b'\2{"status": "finished", "wall_seconds": 12.5}', b'\2{"status": "stopped", "wall_seconds": 1e400}',
    b'\2{"status": ["finished"]', b"\2[]", b'\2{"wall_seconds": null}',
    b"\3" + PACKED, b"\3" + PACKED.replace(b"160", b"-99999999999999999999"), b"\3" + PACKED[:90],
    b"\3serried-pack 1\nidentity x\nstate packing\n", b"\3other", b"\3" + PACKED.replace(b"\n", b"\0"),
]


# ---- the cache of the chooser (fuzz_chooser.c) --------------------------------------------------------

def measurement(kernel=b"conv2d", args=4, entry=b"conv2d/x86-winograd", variant=b"tiles-12"):
    return (struct.pack("<24sii16s", kernel, args, 0, bytes([0, 0, 8, 0])) + struct.pack("<24Q", *range(24)) +
            struct.pack("<Q64s32sQQ", 1 << 28, entry, variant, 1000, 1200))


BEGINNING = struct.pack("<8sIIQ480s", b"SRCHOOSE", 1, 1, 0, b"fuzz")
MEASUREMENTS = [
    b"\3" + BEGINNING, b"\3" + BEGINNING + measurement(), b"\3" + BEGINNING + 3 * measurement(),
    b"\3" + BEGINNING + measurement(args=-1), b"\3" + BEGINNING + measurement(entry=b"a" * 64),
    b"\3" + BEGINNING + measurement(kernel=b"k" * 24) + measurement(variant=b"v" * 32),
    b"\3" + BEGINNING + measurement()[:-1], b"\0" + BEGINNING + measurement(), b"\2" + BEGINNING, b"\0",
]


# ---- shared memory of the data processes: writes to the plan or after it (fuzz_stage.c) --------------

def over(kind, *writes, number=1):
    return bytes([kind, number]) + b"".join(struct.pack("<IB", at, len(data)) + data for at, data in writes)


ONES = b"\xff" * 8
STAGES = [
    over(0), over(1), over(2), over(3, number=4),
    *(over(2 | kind, *((at, word) for at in range(first, 1536, 64))) for kind in (0, 1) for first in (8, 24, 40)
      for word in (bytes(8), ONES, struct.pack("<Q", 64))),
    *(over(kind, *((at, ONES) for at in range(first, 60000, 509)), number=2) for kind in (0, 1) for first in (0, 200)),
    over(3, (12, struct.pack("<I", 256))), over(3, (16, struct.pack("<Q", 2**62))), over(2, (32, struct.pack("<Q", 8))),
]


# ---- importers: the first byte selects the parser (fuzz_import.c) --------------------------------------

COCO = (b'{"info": {"a": [null, {}]}, "images": [{"id": 5, "file_name": "a/1.jpg", "width": 30, "height": 20}],\n'
        b'"annotations": [{"image_id": 5, "category_id": 90, "bbox": [1, 2.5, 10, 4], "iscrowd": 0, "segmentation": '
        b'[[1, 2.5, 11, 2.5, 11, 6.5], [1e3, -2]]}, {"category_id": 2, "image_id": 5, "bbox": [0, 0, 3, 2], "iscrowd": '
        b'1, "segmentation": {"counts": [1, 4, 1], "size": [2, 3]}}, {"bbox": [0, 0, 1, 1], "image_id": 7, '
        b'"category_id": 1, "segmentation": {"size": [2, 3], "counts": "141"}}],'
        b'"categories": [{"id": 90, "name": "ant\\u00e9"}, {"id": 2, "name": "b"}]}')
VOC = (b'<?xml version="1.0" encoding="UTF-8"?>\n<annotation><filename>a &amp; b.jpg</filename><size><width>40</width>'
       b'<height>30</height><depth>3</depth></size><object><name>dog</name><part><name>head</name><bndbox><xmin>1'
       b'</xmin></bndbox></part><bndbox><xmin>1</xmin><ymin> 2.5 </ymin><xmax>1e2</xmax><ymax>-3</ymax></bndbox>'
       b'<difficult>1</difficult></object></annotation>')
CIFAR10 = b"".join(bytes([i]) + bytes([i]) * 3072 for i in (3, 9))
CIFAR100 = b"".join(bytes([i, 5 * i]) + bytes([i]) * 3072 for i in (3, 19))
YOLO = (b"# comment\npath: ../ds\ntrain: [images/train, images/more]\nval: val.txt\ntest:\nnc: 2\nnames:\n  1: b\n"
        b"  0: 'a b'\ndownload: |\n  x\n")
IDX_PICTURES = struct.pack(">IIII", 0x803, 2, 2, 3) + bytes(range(12))
IDX_LABELS = struct.pack(">II", 0x801, 2) + b"\7\2"


def idx(labels, pictures):
    return b"\5" + struct.pack("<H", len(labels)) + labels + pictures


IMPORTS = [
    b"\x00" + b"61X13mN000`0", b"\0", b"\0oooooooo", b"\0PPPPPPPP@",
    b"\1" + COCO, b"\1" + COCO[:-2], b"\1" + COCO.replace(b"90", b"1e999"), b"\1" + COCO.replace(b"[1, 4, 1]", b"[9]"),
    b"\1" + COCO.replace(b"4]", b"4, 5]", 1), b'\1{"images": []}', b'\1[{"images": []}]', b"\1" + b'{"a":' * 70,
    b'\1{"images": [{"id": 1, "id": 2, "file_name": "a", "file_name": "b"}]}', b"\1{}", b"\1",
    b"\2" + VOC, b"\2" + VOC[:-9], b"\2<annotation><object/></annotation>", b"\2<html/>",
    b'\2<!DOCTYPE annotation [<!ENTITY a "aaaa">]><annotation><filename>&a;</filename></annotation>',
    b"\2" + b"<annotation>" * 40, b"\2" + VOC.replace(b"1e2", b"nan"),
    b"\3a b.jpg\tred fox\r\n\nc.jpg\t1\tval\n", b"\3a\tb\tc\n", b"\3a\n", b"\3\n\n", b"\3a\tb\0",
    b"\4" + CIFAR10, b"\4" + CIFAR100, b"\4" + CIFAR10[:-1], b"\4\xff" + CIFAR10[1:], b"\4",
    idx(IDX_LABELS, IDX_PICTURES), idx(IDX_LABELS[:-1], IDX_PICTURES), idx(IDX_LABELS, IDX_PICTURES[:-1]),
    idx(IDX_LABELS, gzip.compress(IDX_PICTURES, mtime=0)), idx(IDX_LABELS, gzip.compress(IDX_PICTURES, mtime=0)[:-9]),
    idx(b"", IDX_PICTURES), idx(IDX_LABELS, struct.pack(">IIII", 0x803, 2, 0, 3)),
    idx(IDX_LABELS, struct.pack(">IIII", 0x803, 2**32 - 1, 2**32 - 1, 2**32 - 1)),
    *(b"\6" + png(5, 3, depth, color) for depth, color in ((8, 0), (1, 0), (2, 0), (4, 0), (8, 2), (16, 0))),
    b"\6\x89PNG\r\n\x1a\n",
    b"\1" + COCO.replace(b"2.5, 10", b"NaN, -Infinity"), b"\1" + COCO.replace(b'"image_id": 5', b'"image_id": "5"'),
    b"\1" + COCO.replace(b'"id": 5', b'"id": null'), b"\1" + COCO.replace(b"1, 2.5, 10", b"1e308, 2.5, 1e308"),
    b"\7" + YOLO, b"\7" + YOLO.replace(b"nc: 2", b"nc: 3"), b"\7names: [a, \"\xc3\xa9\"]", b"\7names: {0: [a]}",
    b"\7train: &x a\nval: *x\nnames: [a]", b"\7nc: 3", b"\7- names", b"\7" + b"[" * 200, b"\7? [a, b]\n: c\nnc: 1",
    b"\7names: ", b"\x080 0.5 0.5 0.25 0.25", b"\x081.0 .1 .2 .3 .4 .5 6e-1\r", b"\x083 0.5 0.5 nan 1", b"\x082 0.1 0.1 0.1 0.1 7 8 9",
    b"\x081 1.2 0 0 0", b"\x08-1 0 0 0 0", b"\x08" + b"1" * 80,
    b"\x090 sky\n11: void\r\n3,2nd floor\n* ignore\n", b"\x0964 128 64\tAnimal\n0 0 0\t\tVoid\n", b"\x09# x\n1 2 3 a\n1 2 3 b",
    b"\x09256 a", b"\x091 2\n1 3", b"\x09*\n",
]


def main():
    for number, (kind, text) in enumerate(OPTIONS):
        write("options", f"seed{number:02}", bytes([kind]) + text.encode())
    for number, data in enumerate(SAFETENSORS):
        write("safetensors", f"seed{number:02}", data)
    for target, seeds in (("record", RECORDS), ("shard", SHARDS), ("container", CONTAINERS), ("picture", PICTURES),
                          ("archive", ARCHIVES), ("decode", DECODES), ("checkpoint", CHECKPOINTS),
                          ("run_folder", RUN_FILES), ("stage", STAGES),
                          ("chooser", MEASUREMENTS), ("import", IMPORTS)):
        for number, data in enumerate(seeds):
            write(target, f"seed{number:02}", data)


if __name__ == "__main__":
    main()
