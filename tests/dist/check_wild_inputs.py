#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Malformed and unusual inputs, through the command: what `serried pack` may find in folders and archives, and what
`serried train` may find in shards.

ACCEPTED, REFUSED, IGNORED and the rows of archives and folders are packed one by one, each among valid pictures, as a
folder and as a tar (which must give the same shards). Accepted: exit code 0, counted in the summary, nothing refused.
Refused: everything else is packed, refused.csv contains this file and the cause, exit code 3 with one message, 0 with
--allow-refused. Then all of them in one folder are packed and trained on, on one and on two ranks, to one digest.
STORED are pictures that a foreign writer put into shards with valid checksums: training ends with code 3 and one
message that names shard, record and cause, or skips and counts them.

  check_wild_inputs.py SERRIED WRITE_SHARDS RECIPE [--few]    a third of the rows
"""
import collections
import csv
import filecmp
import gzip
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib

import suite
from wild_pictures import GREY, GREY_ALPHA, PALETTE, RGBA, cut, jpeg, png, scratched

MIB = 1 << 20
# path: as it is listed; make: its bytes; words: those of the summary, or the cause in refused.csv.
Row = collections.namedtuple("Row", "path make words")

ACCEPTED = [
    Row("a/png.png", lambda: png(), ["1 png"]),
    Row("a/png under another name.jpg", lambda: png(seed=1), ["1 png"]),
    Row("a/no ending", lambda: jpeg(seed=2), []),
    Row("a/palette.png", lambda: png(kind=PALETTE), ["1 png", "1 png_reduced"]),
    Row("a/16 bit.png", lambda: png(depth=16), ["1 png", "1 png_reduced"]),
    Row("a/alpha.png", lambda: png(kind=RGBA), ["1 png", "1 png_reduced"]),
    Row("a/grey.png", lambda: png(kind=GREY), ["1 png", "1 greyscale"]),
    Row("a/grey 16 bit.png", lambda: png(kind=GREY, depth=16), ["1 png", "1 greyscale", "1 png_reduced"]),
    Row("a/grey alpha.png", lambda: png(kind=GREY_ALPHA), ["1 png", "1 greyscale", "1 png_reduced"]),
    Row("a/grey.jpg", lambda: jpeg(components=1), ["1 greyscale"]),
    Row("a/cmyk.jpg", lambda: jpeg(components=4), ["1 cmyk"]),
    Row("a/ycck.jpg", lambda: jpeg(components=4, adobe=2), ["1 cmyk"]),
    Row("a/turned.jpg", lambda: jpeg(orientation=6), ["1 oriented"]),
    Row("a/mirrored.jpg", lambda: jpeg(160, 136, orientation=2), ["1 oriented"]),
    Row("a/progressive.jpg", lambda: jpeg(progressive=True, bands=3), ["1 progressive"]),
    Row("a/progressive large.jpg", lambda: jpeg(160, 136, progressive=True), ["1 progressive"]),
    Row("a/all at once.jpg", lambda: jpeg(components=1, progressive=True, orientation=3),
        ["1 progressive", "1 greyscale", "1 oriented"]),
]
REFUSED = [
    Row("a/cut.jpg", lambda: cut(jpeg()), "JPEG: Premature end of JPEG file"),
    Row("a/cut progressive.jpg", lambda: cut(jpeg(progressive=True)), "JPEG: Premature end of JPEG file"),
    Row("a/cut in its header.jpg", lambda: jpeg()[:60], "JPEG: Premature end of JPEG file"),
    Row("a/cut.png", lambda: cut(png()), "PNG: truncated inside a chunk"),
    Row("a/cut after a chunk.png", lambda: png()[:-12], "PNG: truncated: no IEND chunk"),
    Row("a/corrupt.jpg", lambda: scratched(jpeg()), "JPEG: Corrupt JPEG data"),
    Row("a/corrupt.png", lambda: scratched(png()), "PNG: wrong checksum of the chunk"),
    Row("a/page, not found.jpg", lambda: b"<html>404</html>", "not a picture: its content is neither JPEG nor PNG"),
    Row("a/empty.jpg", lambda: b"", "empty file"),
    Row("a/moving.jpg", lambda: b"GIF89a" + bytes(20), "GIF is not supported; convert it to JPEG or PNG"),
    Row("a/web.png", lambda: b"RIFF\0\0\0\0WEBPVP8 ", "WebP is not supported; convert it to JPEG or PNG"),
    Row("a/pixels.jpg", lambda: jpeg(claims=(60000, 60000)), "60000 x 60000 is over the limit of 64 Mpx"),
    Row("a/pixels.png", lambda: png(claims=(60000, 60000)), "60000 x 60000 is over the limit of 64 Mpx"),
    Row("a/scans.jpg", lambda: jpeg(progressive=True, bands=63), "JPEG: more than 100 scans"),
    Row("a/memory.jpg", lambda: jpeg(claims=(8000, 8000)), "JPEG: decoding needs more than 256 MiB of memory"),
    Row("a/file.jpg", lambda: (jpeg(), 257 * MIB), "over the limit of 256 MiB"),
    Row("loose.jpg", lambda: jpeg(), "is not in a class folder"),
]
IGNORED = [
    Row("a/.DS_Store", lambda: b"\0\0\0\1Bud1", ["1 file ignored"]),
    Row("a/._1.jpg", lambda: jpeg(), ["1 file ignored"]),
    Row(".cache/a/1.jpg", lambda: jpeg(), ["1 file ignored"]),
    Row("a/notes.txt", lambda: b"notes", ["1 file ignored"]),
]
ARCHIVED = [  # entries that only an archive can contain: make gives the type of the entry and its target
    Row("../../out.jpg", lambda: (tarfile.REGTYPE, None), "a path that leaves the archive (..)"),
    Row("a/../../out.jpg", lambda: (tarfile.REGTYPE, None), "a path that leaves the archive (..)"),
    Row("/tmp/out.jpg", lambda: (tarfile.REGTYPE, None), "an absolute path in an archive"),
    Row("a/symbolic.jpg", lambda: (tarfile.SYMTYPE, "/etc/passwd"), "a symbolic link in an archive"),
    Row("a/hard.jpg", lambda: (tarfile.LNKTYPE, "a/1.jpg"), "a hard link in an archive"),
    Row("a/device.jpg", lambda: (tarfile.CHRTYPE, None), "a device or other special file"),
    Row("a/1.jpg", lambda: (tarfile.REGTYPE, None), "the name appears twice in the archive"),
]
LINKED = [  # entries that only a folder can contain: make gives the target of a link
    Row("a/dangling.jpg", lambda: "nowhere.jpg", "cannot open: No such file or directory"),
    Row("a/loop", lambda: "..", "a link to itself"),
]
LISTED = [  # a list, and its effect: the number of records and the rows of refused.csv
    ("a byte order mark", b"\xef\xbb\xbfa/1.jpg\tx\n", 1, []),
    ("parts that are '.' and '..'", b"./a/1.jpg\tx\n../source/a/2.jpg\tx\n", 2, []),
    ("the same line twice", b"a/1.jpg\tx\nb/1.jpg\ty\na/1.jpg\tx\n", 2, []),
    ("two classes of a picture", b"a/1.jpg\tx\nb/1.jpg\ty\na/1.jpg\ty\n", 1,
     [["a/1.jpg", "the list names it twice, with another class or split"]]),
]
STORED = [
    Row("cut.jpg", lambda: cut(jpeg()), "JPEG: Premature end of JPEG file"),
    Row("corrupt.png", lambda: scratched(png(), 0.5), "PNG: "),
    Row("page.jpg", lambda: b"<html>404</html>", "neither JPEG nor PNG"),
    Row("pixels.jpg", lambda: jpeg(claims=(60000, 60000)), "60000 x 60000"),
    Row("memory.jpg", lambda: jpeg(progressive=True, components=4, claims=(9000, 9000)),
        "needs more than 512 MiB of memory"),
    Row("scans.jpg", lambda: jpeg(64, 64, progressive=True, bands=63, components=4), "more than 200 scans"),
]
SOUND = {"a/1.jpg": 11, "a/2.jpg": 12, "b/1.jpg": 13, "b/2.jpg": 14}


def put(folder, path, content):
    content, length = content if isinstance(content, tuple) else (content, len(content))
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
        file.truncate(length)


def put_sound(folder):
    for path, seed in SOUND.items():
        put(folder, path, jpeg(seed=seed))


def make_tar(path, folder, entries=()):
    """A tar of the files of the folder, then of entries (name, type, target)."""
    with tarfile.open(path, "w") as tar:
        for at, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                tar.add(os.path.join(at, name), os.path.relpath(os.path.join(at, name), folder))
        for name, kind, target in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target or ""
            body = jpeg(seed=99) if kind == tarfile.REGTYPE else b""
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))


def read_refused(data):
    path = os.path.join(data, "refused.csv")
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


class WildInputs(suite.Suite):
    def __init__(self, serried, write_shards, recipe, folder):
        super().__init__(serried, folder)
        self.write_shards, self.recipe = write_shards, recipe

    def fresh(self, name):
        path = os.path.join(self.folder, name)
        if os.path.lexists(path):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        return path

    def note(self, what, faults, detail):
        self.report(not faults, what, "".join(f"\n    {fault}" for fault in faults) + "\n    " +
                    detail.strip().replace("\n", "\n    "))

    def pack(self, source, data, *options):
        return subprocess.run([self.serried, "pack", source, data, "-j", "2", *options], text=True,
                              capture_output=True, timeout=60 * suite.SLOW, check=False)

    # -- packing: a source with one such file among valid ones ------------------------------------

    def judge_accepted(self, row, data, done, records):
        faults = []
        if done.returncode != 0:
            faults.append(f"exit code {done.returncode}, not 0")
        for words in [f"{records} train; 2 classes", *row.words]:
            if words not in done.stdout:
                faults.append(f"the summary lacks '{words}'")
        if read_refused(data) or "serried:" in done.stderr:
            faults.append("something was refused")
        return faults

    def judge_refused(self, row, source, data, done):
        faults = []
        if done.returncode != 3:
            faults.append(f"exit code {done.returncode}, not 3")
        messages = [line for line in done.stderr.splitlines() if "refused" in line]
        if len(messages) != 1 or "refused.csv" not in messages[0] or "--allow-refused 1" not in messages[0]:
            faults.append(f"{len(messages)} messages of what was refused")
        if f"{len(SOUND)} train; 2 classes" not in done.stdout:
            faults.append("the rest is not packed")
        refused = read_refused(data)
        if len(refused) != 1 or refused[0][0] != row.path or row.words not in refused[0][1]:
            faults.append(f"refused.csv says {refused}, not {row.path} with '{row.words}'")
        again = self.pack(source, data, "--allow-refused", "1")
        if again.returncode != 0 or "(was already packed)" not in again.stdout:
            faults.append(f"--allow-refused 1: exit code {again.returncode}")
        return faults

    def one(self, kind, row, source, form, records):
        data = self.fresh("data-" + form)
        done = self.pack(source, data)
        refuses = isinstance(row.words, str)
        faults = (self.judge_refused(row, source, data, done) if refuses else
                  self.judge_accepted(row, data, done, records))
        left = [name for name in os.listdir(data) if not name.endswith((".kpl", ".csv", ".txt"))]
        if left:
            faults.append(f"left behind: {left}")
        self.note(f"{kind}, {form}: {row.path}", faults, done.stdout + done.stderr)
        return data

    def files(self, kind, rows, more):
        """Rows that can be files: as a folder and as a tar, with the same shards."""
        for row in rows:
            source, tar = self.fresh("source"), self.fresh("source.tar")
            put_sound(source)
            put(source, row.path, row.make())
            make_tar(tar, source)
            folder_data = self.one(kind, row, source, "folder", len(SOUND) + more)
            tar_data = self.one(kind, row, tar, "tar", len(SOUND) + more)
            shards = [os.path.join(data, "train-00000.kpl") for data in (folder_data, tar_data)]
            if not filecmp.cmp(*shards, shallow=False):
                self.note(f"{kind}: {row.path}", ["folder and tar give other shards"], "")

    def archives(self):
        """Zips, and tars from before tars had a format mark: the same shards as the folder's."""
        source, tar, old = self.fresh("source"), self.fresh("source.tar"), self.fresh("old.tar")
        put_sound(source)
        want = self.fresh("data-folder")
        self.pack(source, want)
        make_tar(tar, source)
        with open(tar, "rb") as file:
            content = bytearray(file.read())
        at = 0
        while content[at]:  # each header without its magic, with its checksum
            size = int(content[at + 124:at + 136].split(b"\0")[0], 8)
            content[at + 257:at + 512] = bytes(255)
            content[at + 148:at + 156] = b" " * 8
            content[at + 148:at + 156] = b"%06o\0 " % sum(content[at:at + 512])
            at += 512 + (size + 511) // 512 * 512
        with open(old, "wb") as file:
            file.write(content)
        forms = {"old tar": old}
        for name, method in (("stored zip", zipfile.ZIP_STORED), ("deflated zip", zipfile.ZIP_DEFLATED)):
            forms[name] = self.fresh(name.replace(" ", "-") + ".zip")
            with zipfile.ZipFile(forms[name], "w", method) as archive:
                for path in sorted(SOUND):
                    archive.write(os.path.join(source, path), path)
        for name, path in forms.items():
            data = self.fresh("data-archive")
            done = self.pack(path, data)
            faults = [] if done.returncode == 0 else [f"exit code {done.returncode}"]
            if done.returncode == 0 and not filecmp.cmp(os.path.join(want, "train-00000.kpl"),
                                                        os.path.join(data, "train-00000.kpl"), shallow=False):
                faults.append("other shards than the folder's")
            self.note(name, faults, done.stdout + done.stderr)
        bomb = self.fresh("bomb.zip")
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(4):
                archive.writestr(f"a/{number}.jpg", jpeg() + bytes(64 * MIB))
        done = self.pack(bomb, self.fresh("data"), "--max-unpacked", "100MiB")
        self.note("zip that expands", [] if done.returncode == 3 and "more than 100 MiB" in done.stderr else
                  [f"exit code {done.returncode}"], done.stderr)

    def spoil(self, path, entry, local, listed, method=zipfile.ZIP_STORED):
        """A zip of the valid pictures in which one entry's bytes at an offset of its header, and of its directory
        entry, are changed."""
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, seed in SOUND.items():
                archive.writestr(name, jpeg(seed=seed))
        with open(path, "rb") as file:
            content = bytearray(file.read())
        for magic, changes in ((b"PK\3\4", local), (b"PK\1\2", listed)):
            at = -1
            for _ in range(entry + 1):
                at = content.index(magic, at + 1)
            for offset, value in changes.items():
                content[at + offset] = value
        with open(path, "wb") as file:
            file.write(content)

    def entries_of_zips(self):
        """An entry that cannot be read is refused, and no other."""
        for name, method, local, listed, expected in (
                ("encrypted", zipfile.ZIP_STORED, {6: 1}, {8: 1}, "encrypted; unpack the archive with its password"),
                ("of an unknown method", zipfile.ZIP_STORED, {8: 77}, {10: 77}, "cannot be read from the archive: "),
                ("with a wrong checksum", zipfile.ZIP_STORED, {150: 0x55}, {},
                 "cannot be read from the archive: ZIP bad CRC"),
                ("whose first block is of no type", zipfile.ZIP_DEFLATED, {30 + len("a/2.jpg"): 7}, {},
                 "cannot be read from the archive: ZIP decompression failed")):
            path, data = self.fresh("spoilt.zip"), self.fresh("data")
            self.spoil(path, 1, local, listed, method)
            done, refused = self.pack(path, data), read_refused(data)
            faults = [] if done.returncode == 3 and "3 train; 2 classes" in done.stdout else [f"code {done.returncode}"]
            if len(refused) != 1 or refused[0][0] != "a/2.jpg" or expected not in refused[0][1]:
                faults.append(f"refused.csv says {refused}")
            self.note(f"zip with an entry {name}", faults, done.stdout + done.stderr)
        path = self.fresh("streams.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(130):
                archive.writestr(f"a/{number:03}.jpg", jpeg(seed=number))
        with open(path, "rb") as file:
            whole = file.read()
        for broken, code, expected in ((99, 3, "31 train; 1 class"), (110, 3, "damaged archive")):
            content = bytearray(whole)
            for number in range(broken):
                content[content.index(b"a/%03d.jpg" % number) + len("a/000.jpg")] = 7
            with open(path, "wb") as file:
                file.write(content)
            done = self.pack(path, self.fresh("data"))
            self.note(f"zip with {broken} broken entries", [] if done.returncode == code and
                      expected in done.stdout + done.stderr else [f"exit code {done.returncode}"], done.stdout + done.stderr)
        source = self.fresh("source")
        os.makedirs(source)
        self.spoil(os.path.join(source, "all.zip"), 0, {}, {})
        done = self.pack(source, self.fresh("data"))
        self.note("zip in a folder", [] if done.returncode == 0 and "4 train; 2 classes" in done.stdout else
                  [f"exit code {done.returncode}"], done.stdout + done.stderr)
        with zipfile.ZipFile(self.fresh("empty.zip"), "w"):
            pass
        done = self.pack(os.path.join(self.folder, "empty.zip"), self.fresh("data"))
        self.note("empty zip", [] if done.returncode == 3 and "empty archive" in done.stderr else
                  [f"exit code {done.returncode}"], done.stderr)

    def joined_tars(self):
        """Concatenated tars, as `cat` makes them, plain and compressed; and endless zeros after one."""
        source, want = self.fresh("source"), self.fresh("want")
        put_sound(source)
        self.pack(source, want)
        plain = b""
        for part in "ab":
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                for number in "12":
                    tar.add(os.path.join(source, part, number + ".jpg"), f"{part}/{number}.jpg")
            plain += buffer.getvalue()
        for name, content in (("joined.tar", plain), ("joined.tar.gz", gzip.compress(plain)),
                              ("padded.tar", plain + bytes(1 << 16))):
            path, data = self.fresh(name), self.fresh("data")
            with open(path, "wb") as file:
                file.write(content)
            done = self.pack(path, data)
            faults = [] if done.returncode == 0 else [f"exit code {done.returncode}"]
            if done.returncode == 0 and not filecmp.cmp(os.path.join(want, "train-00000.kpl"),
                                                        os.path.join(data, "train-00000.kpl"), shallow=False):
                faults.append("other shards than the folder's")
            self.note(name, faults, done.stdout + done.stderr)
        path = self.fresh("zeros.tar.gz")
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(plain)
            for _ in range(256):
                file.write(bytes(MIB))
        done = self.pack(path, self.fresh("data"), "--max-unpacked", "100MiB")
        self.note("zeros after a compressed tar", [] if done.returncode == 3 and "more than 100 MiB" in done.stderr else
                  [f"exit code {done.returncode}"], done.stderr)

    def lists(self):
        for name, content, records, want in LISTED:
            source, data, path = self.fresh("source"), self.fresh("data"), self.fresh("list.tsv")
            put_sound(source)
            with open(path, "wb") as file:
                file.write(content)
            done = self.pack("--list", path, source, data)
            faults = [] if done.returncode == (3 if want else 0) else [f"exit code {done.returncode}"]
            if f"{records} train;" not in done.stdout or read_refused(data) != want:
                faults.append(f"not {records} records, or refused: {read_refused(data)}")
            self.note(f"list with {name}", faults, done.stdout + done.stderr)

    def destinations(self):
        """An existing destination is left alone and refused with code 2; a folder inside the source is allowed."""
        source, taken = self.fresh("source"), self.fresh("taken")
        put_sound(source)
        with open(taken, "w", encoding="utf-8") as file:
            file.write("precious")
        for name, path, expected in (("a file", taken, "is not a folder"), ("a device", "/dev/null", "is not a folder"),
                                 ("the source", source, "not made by serried pack")):
            done = self.pack(source, path)
            self.note(f"destination that is {name}", [] if done.returncode == 2 and expected in done.stderr else
                      [f"exit code {done.returncode}"], done.stderr)
        with open(taken, encoding="utf-8") as file:
            self.note("existing destination", [] if file.read() == "precious" else ["was changed"], "")
        data = self.fresh("data")
        self.pack(source, data, "--val-fraction", "0.5")
        shard = os.path.join(data, "val-00000.kpl")
        with open(shard, "rb") as file:
            want = file.read()
        for name, spoil in (("removed", lambda: os.remove(shard)), ("cut off", lambda: os.truncate(shard, 1000))):
            spoil()
            done = subprocess.run([self.serried, "verify", data], env=suite.environment(), text=True, capture_output=True,
                                  timeout=60, check=False)
            self.note(f"verify of a split that was {name}", [] if done.returncode == 3 and "val" in done.stderr else
                      [f"exit code {done.returncode}"], done.stderr)
            done = self.pack(source, data, "--val-fraction", "0.5")
            faults = [] if done.returncode == 0 and "is packed again" in done.stderr else [f"code {done.returncode}"]
            with open(shard, "rb") as file:
                faults += [] if file.read() == want else ["other bytes"]
            self.note(f"destination with a shard {name}", faults, done.stderr)
        inside = os.path.join(source, "packed")
        codes = [self.pack(source, inside).returncode for _ in range(2)]
        self.note("destination inside of the source, twice", [] if codes == [0, 0] else [str(codes)], "")
        data = self.fresh("data")
        both = [subprocess.Popen([self.serried, "pack", source, data], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True) for _ in range(4)]
        output = [process.communicate()[1] for process in both]
        codes = [process.returncode for process in both]
        faults = [] if 0 in codes and set(codes) <= {0, 2} else [str(codes)]
        if any(code == 2 and "another pack works on this folder" not in text for code, text in zip(codes, output)):
            faults.append("without the reason")
        if subprocess.run([self.serried, "verify", data], capture_output=True, check=False).returncode != 0:
            faults.append("not whole")
        self.note("four at once into one folder", faults, "".join(output))

    def changes(self):
        """Only files that are truncated, emptied and removed after the listing and before their turn are refused."""
        source, data = self.fresh("source"), self.fresh("data")
        for number in range(600):
            put(source, f"a/{number:03}.jpg", jpeg(160, 160, seed=number))
        process = subprocess.Popen([self.serried, "pack", source, data, "-j", "1"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        number = 0
        while process.poll() is None:
            path = os.path.join(source, f"a/{number % 600:03}.jpg")
            if number % 3 == 0 and os.path.exists(path):
                os.remove(path)
            elif os.path.exists(path):
                os.truncate(path, number % 200)
            number += 5
        output = "".join(process.communicate())
        whole = subprocess.run([self.serried, "verify", data], capture_output=True, check=False).returncode
        packed = re.search(r"(\d+) train;", output)
        faults = [] if process.returncode in (0, 3) and whole == 0 and packed and int(packed[1]) >= 480 else [
            f"exit code {process.returncode}, verify {whole}"]
        self.note("a folder that changes", faults, output[-600:])

    def fractions(self):
        for count, fraction, held in ((10, "0.3", 3), (100, "0.29", 29), (1, "0.9999999999", 0), (3, "0.9999999999", 2)):
            source, data = self.fresh("source"), self.fresh("data")
            for number in range(count):
                put(source, f"a/{number}.jpg", jpeg(8, 8, seed=number))
            done = self.pack(source, data, "--val-fraction", fraction)
            want = f"{count - held} train, {held} val;" if held else f"{count} train;"
            self.note(f"{fraction} of {count}", [] if done.returncode == 0 and want in done.stdout else
                      [f"exit code {done.returncode}, not {want}"], done.stdout + done.stderr)

    def many_classes(self):
        """100,000 COCO categories, and as many annotations; 3,000 class folders."""
        source, data = self.fresh("source"), self.fresh("data")
        put_sound(source)
        many = range(100000)
        put(source, "all.json", json.dumps({
            "images": [{"id": 1, "file_name": "a/1.jpg"}], "categories": [{"id": i, "name": f"c{i}"} for i in many],
            "annotations": [{"id": i, "image_id": 1, "category_id": i, "bbox": [1, 2, 3, 4]} for i in many]}).encode())
        done = self.pack(source, data)
        self.note("100,000 categories", [] if done.returncode == 0 and "1 train; 100000 classes" in done.stdout else
                  [f"exit code {done.returncode}"], done.stdout + done.stderr)
        source, data = self.fresh("source"), self.fresh("data")
        for number in range(3000):
            put(source, f"c{number}/1.jpg", jpeg(8, 8))
        done = self.pack(source, data)
        self.note("3,000 folders", [] if done.returncode == 0 and "3000 train; 3000 classes" in done.stdout else
                  [f"exit code {done.returncode}"], done.stdout + done.stderr)

    def names(self):
        """Names are printed to a terminal, here stderr and stdout of a pseudo-terminal, without control characters, and
        so they are written to refused.csv."""
        source, data = self.fresh("source"), self.fresh("data")
        put_sound(source)
        odd = "a/\x1b]0;title\x07\x1b[31mred\nline,\"quoted\"\x9b2J"
        put(source, odd + ".jpg", b"<html>")
        put(source.encode(), b"a/caf\xe9.jpg", jpeg(seed=5))
        done = self.pack(source, data)
        refused = read_refused(data)
        faults = [] if done.returncode == 3 and "5 train" in done.stdout else [f"exit code {done.returncode}"]
        shown = "".join(c if " " <= c < "\x7f" or c >= "\xa0" else f"\\x{ord(c):02x}" for c in odd)
        if [row[0] for row in refused] != [shown + ".jpg"]:
            faults.append(f"refused.csv says {refused}")
        self.note("odd names, packed", faults, done.stderr)
        self.train(data, 1, "steps=3")
        picture = os.path.join(self.folder, "\x1b[31m\x9b2J.jpg")
        put(self.folder, picture, jpeg(seed=1))
        words = [self.serried, "predict", os.path.join(self.folder, "run"), picture, os.path.join(source, odd + ".jpg")]
        parent, child = pty.openpty()
        process = subprocess.Popen(words, stdout=child, stderr=child, env=suite.environment())
        os.close(child)
        output = b""
        try:
            while piece := os.read(parent, 65536):
                output += piece
        except OSError:  # the other end was closed
            pass
        os.close(parent)
        process.wait()
        faults = [] if process.returncode == 3 and b"\\x1b[31m\\x9b2J.jpg" in output else [f"code {process.returncode}"]
        if b"\x1b]0" in output or b"\x1b[31mred" in output or b"\xc2\x9b" in output:
            faults.append("control characters reached the terminal")
        self.note("odd names, predicted on a terminal", faults, repr(output))
        done = subprocess.run(words[:-1], capture_output=True, text=True, env=suite.environment(), check=False)
        rows = list(csv.reader(io.StringIO(done.stdout)))
        self.note("odd names, predicted into a file", 
                  [] if done.returncode == 0 and rows[1][0].endswith("/\\x1b[31m\\x9b2J.jpg") else [str(rows)],
                  done.stderr)

    def predicted(self):
        """There is one decoder: a PNG that its EXIF data rotates is rotated for `predict` as for training."""
        source, data = self.fresh("source"), self.fresh("data")
        put_sound(source)
        self.pack(source, data)
        self.train(data, 1, "steps=3")
        plain, turned = png(), png()
        tiff = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x03\0\0\0\0\0\0\0"  # orientation 3
        chunk = len(tiff).to_bytes(4, "big") + b"eXIf" + tiff + zlib.crc32(b"eXIf" + tiff).to_bytes(4, "big")
        turned = turned[:33] + chunk + turned[33:]
        pixels = []
        for name, content in (("plain.png", plain), ("turned.png", turned)):
            put(self.folder, name, content)
            out = os.path.join(self.folder, name + ".safetensors")
            subprocess.run([self.serried, "predict", "--save-pixels", out, os.path.join(self.folder, "run"),
                            os.path.join(self.folder, name)], env=suite.environment(), check=True, capture_output=True)
            with open(out, "rb") as file:
                stored = file.read()
            pixels.append(stored[8 + int.from_bytes(stored[:8], "little"):])
        half_turn = b"".join(pixels[0][at:at + 3] for at in range(len(pixels[0]) - 3, -1, -3))
        self.note("turned PNG, predicted", [] if pixels[1] == half_turn != pixels[0] else ["other pixels"], "")

    def class_names(self):
        source = self.fresh("source").encode()
        put(source, b"caf\xe9/1.jpg", jpeg())
        put(source, b"b/1.jpg", jpeg())
        done = self.pack(source, self.fresh("data"))
        self.note("class that is not UTF-8", [] if done.returncode == 3 and "is not UTF-8; rename it" in done.stderr
                  else [f"exit code {done.returncode}"], done.stderr)

    def entries(self, stride):
        for row in ARCHIVED[::stride]:
            source, tar = self.fresh("source"), self.fresh("source.tar")
            put_sound(source)
            make_tar(tar, source, [(row.path, *row.make())])
            self.one("archived", row, tar, "tar", len(SOUND))
        for row in LINKED[::stride]:
            source = self.fresh("source")
            put_sound(source)
            os.symlink(row.make(), os.path.join(source, row.path))
            self.one("linked", row, source, "folder", len(SOUND))

    # -- training ---------------------------------------------------------------------------------

    def train(self, data, ranks, *values):
        run = self.fresh("run")
        done = subprocess.run([self.serried, "train", self.recipe, "-n", str(ranks), "-o", run,
                               "data.train=" + data, "batch=16", "lanes=2", *values], env=suite.environment(),
                              text=True, capture_output=True, timeout=60 * suite.SLOW, check=False)
        parsed = {}
        if os.path.exists(os.path.join(run, "exit.json")):
            with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
                parsed = json.load(file)
        return done, parsed

    def all_in_one(self):
        """Everything in one folder: one pack, then more than an epoch of training, on 1 and 2 ranks."""
        source, data = self.fresh("source"), self.fresh("data")
        put_sound(source)
        refused = [row for row in REFUSED if "file.jpg" not in row.path]
        for row in [*ACCEPTED, *refused, *IGNORED]:
            put(source, row.path, row.make())
        done = self.pack(source, data, "--val-fraction", "0.25", "--allow-refused", str(len(refused)))
        want = sorted(row.path for row in refused)
        found = [name for name, _ in read_refused(data)]
        faults = [] if done.returncode == 0 and want == found else [f"exit code {done.returncode}, {found}"]
        records = len(SOUND) + len(ACCEPTED)
        held = (len(ACCEPTED) + 2) // 4 # of class a; b is too small
        if f"{records - held} train, {held} val" not in done.stdout:
            faults.append(f"not {records - held} train, {held} val")
        self.note("all, packed", faults, done.stdout + done.stderr)
        digests = []
        for ranks in (1, 2):
            done, parsed = self.train(data, ranks, f"steps={records // 16 + 2}")
            digests.append(parsed.get("digest"))
            faults = [] if done.returncode == 0 and "val_top1" in done.stdout else [f"code {done.returncode}"]
            if digests[-1] is None or digests[-1] != digests[0]:
                faults.append(f"digests {digests}")
            self.note(f"all, trained on, {ranks} ranks", faults, done.stderr[-1500:])

    def store(self, row, places):
        """Shards of 24 pictures, some of which are the row's."""
        source, data = self.fresh("source"), self.fresh("data")
        paths = []
        for i in range(24):
            paths.append(os.path.join(source, f"{i}.jpg"))
            put(source, paths[-1], row.make() if i in places else jpeg(seed=i))
        subprocess.run([self.write_shards, data, *paths], check=True)
        return data

    def stored(self, row, ranks):
        done, parsed = self.train(self.store(row, [13]), ranks, "steps=4")
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        faults = [] if done.returncode == 3 == parsed.get("exit_code") else [f"exit code {done.returncode}"]
        if len(errors) != 1 or "train-00000.kpl record 13" not in errors[0] or row.words not in errors[0]:
            faults.append(f"{len(errors)} errors, not one of train-00000.kpl record 13 with '{row.words}'")
        if "rank 0 (" in done.stderr and ranks == 1:
            faults.append("a rank is named where there is only one")
        self.note(f"stored, {ranks} ranks: {row.path}", faults, done.stderr[-1500:])

    def too_many(self, row, ranks):
        """Two damaged samples are more than skip:1 allows, also where each of two ranks reads one."""
        done, _ = self.train(self.store(row, [13, 14]), ranks, "steps=4", "data.on_corrupt=skip:1")
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        faults = [] if done.returncode == 3 else [f"exit code {done.returncode}"]
        if len(errors) != 1 or "2 damaged samples, more than on_corrupt: skip:1 allows" not in errors[0]:
            faults.append(f"{len(errors)} errors")
        self.note(f"stored, too many, {ranks} ranks", faults, done.stderr[-1500:])

    def skipped(self, row, ranks):
        """on_corrupt: skip: one damaged picture, read in every epoch, is skipped and reported once."""
        done, parsed = self.train(self.store(row, [13]), ranks, "steps=4", "data.on_corrupt=skip:1")
        notes = [line for line in done.stderr.splitlines() if "skipped 1 damaged sample so far" in line]
        faults = [] if done.returncode == 0 else [f"exit code {done.returncode}"]
        if len(notes) != 1 or "train-00000.kpl record 13" not in notes[0]:
            faults.append(f"not reported once: {notes}")
        self.note(f"stored, skipped, {ranks} ranks", faults, done.stderr[-1500:])
        return parsed.get("digest")


def check(folder):
    serried, write_shards, recipe = (os.path.abspath(path) for path in sys.argv[1:4])
    stride = 3 if "--few" in sys.argv else 1
    tests = WildInputs(serried, write_shards, recipe, folder)
    tests.files("accepted", ACCEPTED[::stride], 1)
    tests.files("refused", REFUSED[::stride], 0)
    tests.files("ignored", IGNORED[::stride], 0)
    tests.entries(stride)
    tests.archives()
    tests.entries_of_zips()
    tests.joined_tars()
    tests.lists()
    tests.destinations()
    tests.changes()
    tests.fractions()
    tests.many_classes()
    tests.class_names()
    tests.names()
    tests.predicted()
    tests.all_in_one()
    for row in STORED[::stride]:
        for ranks in (1, 2):
            tests.stored(row, ranks)
    for ranks in (1, 2):
        tests.too_many(STORED[0], ranks)
    digests = [tests.skipped(STORED[0], ranks) for ranks in (1, 2)]
    tests.note("stored, skipped: one digest", [] if len(set(digests)) == 1 else [str(digests)], "")
    return tests


if __name__ == "__main__":
    suite.run(check)
