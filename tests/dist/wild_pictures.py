# SPDX-License-Identifier: Apache-2.0
"""Small pictures of every kind that packing may get, made byte by byte: ITU-T T.81 (JPEG), ISO/IEC 15948 (PNG).

Colours come only from DC coefficients, one flat block of 8 x 8 next to the other: enough to distinguish pictures, with
an entropy coding that fits on a page. Not an encoder for anything else.
"""
import random
import struct
import zlib


def _segment(marker, body):
    return bytes([0xff, marker]) + struct.pack(">H", len(body) + 2) + body


class _Bits:
    def __init__(self):
        self.text = []

    def add(self, value, count):
        if count:
            self.text.append(format(value, f"0{count}b"))

    def stuffed(self):
        text = "".join(self.text)
        text += "1" * (-len(text) % 8)
        data = bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))
        return data.replace(b"\xff", b"\xff\x00")


def _exif(orientation):
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    return _segment(0xe1, b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4))


def _scan(components, first, last, blocks):
    """One scan of the components' values; blocks[c] are quantised DC values, one a block."""
    head = bytes([len(components)]) + b"".join(bytes([c + 1, 0]) for c in components)
    bits, before = _Bits(), [0] * 4
    for i in range(len(blocks[0])):
        for c in components:
            if first == 0:
                step = blocks[c][i] - before[c]
                before[c] = blocks[c][i]
                size = abs(step).bit_length()
                bits.add(size, 4)
                bits.add(step if step > 0 else step + (1 << size) - 1, size)
            if last > 0:
                bits.add(0, 2)  # end of block
    return _segment(0xda, head + bytes([first, last, 0])) + bits.stuffed()


def jpeg(width=40, height=32, components=3, progressive=False, bands=1, adobe=None, orientation=0, seed=0,
         claims=None):
    """bands: the number of scans per component for the AC coefficients of a progressive picture; adobe: the
    transform of its marker (2: YCCK); claims: the size in the header, whatever follows."""
    draw = random.Random(seed)
    count = ((width + 7) // 8) * ((height + 7) // 8)
    blocks = [[draw.randint(-120, 120) for _ in range(count)] for _ in range(components)]
    out = b"\xff\xd8"
    if adobe is not None:
        out += _segment(0xee, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, adobe))
    if orientation:
        out += _exif(orientation)
    out += _segment(0xdb, bytes([0] + [8] * 64))
    size = claims or (width, height)
    out += _segment(0xc2 if progressive else 0xc0, struct.pack(">BHHB", 8, size[1], size[0], components) +
                    b"".join(bytes([c + 1, 0x11, 0]) for c in range(components)))
    # Codes of 4 bits for the sizes 0 to 11 of DC steps; of 2 bits for the end of a block and one never used.
    out += _segment(0xc4, bytes([0x00, 0, 0, 0, 12] + [0] * 12 + list(range(12))))
    out += _segment(0xc4, bytes([0x10, 0, 2] + [0] * 14 + [0x00, 0x01]))
    everyone = list(range(components))
    if not progressive:
        return out + _scan(everyone, 0, 63, blocks) + b"\xff\xd9"
    out += _scan(everyone, 0, 0, blocks)
    edges = [1 + 63 * i // bands for i in range(bands + 1)]
    for c in everyone:
        for first, after in zip(edges, edges[1:]):
            out += _scan([c], first, after - 1, blocks)
    return out + b"\xff\xd9"


def _chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6


def png_of(size, kind, rows, depth=8, palette=b""):
    """A PNG of rows of samples without filters."""
    out = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, kind, 0, 0, 0))
    if kind == PALETTE:
        out += _chunk(b"PLTE", palette)
    return out + _chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + _chunk(b"IEND", b"")


def png(width=40, height=32, kind=RGB, depth=8, seed=0, claims=None):
    draw = random.Random(seed)
    samples = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}[kind]
    rows = [bytes(draw.randrange(256) for _ in range(width * samples * depth // 8)) for _ in range(height)]
    palette = bytes(draw.randrange(256) for _ in range(768)) if kind == PALETTE else b""
    return png_of(claims or (width, height), kind, rows, depth, palette)


def cut(data, keep=0.7):
    """The begin of a file whose end was lost."""
    return data[:int(len(data) * keep)]


def scratched(data, where=0.8):
    """Some bytes in the middle replaced by a marker that does not belong there."""
    at = int(len(data) * where)
    return data[:at] + b"\xff\xd3" + data[at + 2:]
