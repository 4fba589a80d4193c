#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""KPLRecord directories compared with protobuf's own tools: check_kplrecord.py SERRIED RECIPE

- protoc reads the golden bytes by dataio/record/kplrecord.proto;
- Python's protobuf reads everything that `pack --format kpl-dir` writes, and gives the packed pictures;
- serried trains on, counts and verifies what tests/samples/write_kplrecord.py writes with it, and gives the same
  digest if its checksums already exist.
"""
import json
import os
import subprocess
import sys
import tempfile

SERRIED, RECIPE = sys.argv[1:3]
PYTHON = "/usr/bin/python3"  # has the distribution's protobuf
GOLDEN = ("0a0c0a046461746112041a02ffd80a0d0a07656e636f646564120228010a170a057368617065120e3a0c0a022802"
          "0a0228030a0228030a0f0a056c6162656c12063a040a022800")
READ = """
import sys
from google.protobuf import text_format
import kplrecord_pb2 as kpl
folder = sys.argv[1]
read = lambda name: open(f"{folder}/root.{name}", "rb").read()
data, index = read("data"), kpl.Index.FromString(read("index")).index
meta, prop = kpl.Meta(), kpl.Property.FromString(read("prop"))
text_format.Parse(read("meta").decode(), meta)
assert index[0] == 0 and index[-1] == len(data)
assert meta.version == 1 and meta.record_type.basicType == kpl.RecordType.map
assert meta.record_type.properties["shape"].item.basicType == kpl.RecordType.int64
print(*[v.string_field for v in prop.map["classes"].list_field])
print(prop.map["split"].string_field, len(prop.map["mean"].list_field))
for begin, end in zip(index, index[1:]):
    record = kpl.FeatureMap.FromString(data[begin:end]).map
    print(record["name"].bytes_field.decode(), record["label"].feature_list.list[0].int64_field,
          len(record["data"].bytes_field))
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def available(*command):
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def check_golden(folder):
    path = os.path.join(folder, "golden")
    with open(path, "wb") as file:
        file.write(bytes.fromhex(GOLDEN))
    with open(path, "rb") as file:
        text = run("protoc", "-I", "dataio/record", "--decode=dataset_proto.FeatureMap", "kplrecord.proto",
                   stdin=file)
    for line in ('key: "encoded"', 'bytes_field: "\\377\\330"', "int64_field: 3"):
        assert line in text, (line, text)


def check_reading(folder, pictures, environment):
    packed = os.path.join(folder, "packed")
    run(SERRIED, "pack", pictures, packed, "--format", "kpl-dir")
    lines = run(PYTHON, "-c", READ, packed + "/train", env=environment).splitlines()
    classes = sorted(os.listdir(pictures))
    assert lines[:2] == [" ".join(classes), "train 3"], lines[:2]
    seen = set()
    for line in lines[2:]:
        name, label, length = line.split()
        assert classes[int(label)] == name.split("/")[-2] and int(length) > 100, line
        seen.add(name)
    assert len(seen) == len(lines) - 2 == 40, len(lines)


def train(folder, data, name):
    out = os.path.join(folder, name)
    run(SERRIED, "train", RECIPE, "-n", "1", "-o", out, f"data.train={data}", "data.val=" + data, "steps=3")
    with open(os.path.join(out, "exit.json"), encoding="utf-8") as file:
        return json.load(file)["digest"]


def check_writing(folder, pictures, environment):
    written = os.path.join(folder, "written")
    run(PYTHON, "tests/samples/write_kplrecord.py", pictures, written, env=environment)
    digest = train(folder, written, "first")
    assert os.path.exists(written + "/root.sums")
    stat = json.loads(run(SERRIED, "stat", "--json", written))["splits"][0]
    assert stat["records"] == 40 and stat["median_side"] > 0, stat
    assert [c["name"] for c in stat["classes"]] == sorted(os.listdir(pictures)), stat
    assert sum(c["records"] for c in stat["classes"]) == 40, stat
    assert ": intact: 1 KPLRecord directory, 40 records" in run(SERRIED, "verify", written)
    assert train(folder, written, "again") == digest


def main():
    if not available("protoc", "--version"):
        print("NOT RUN: protoc is not installed (Debian: protobuf-compiler)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        check_golden(folder)
        run("protoc", "-I", "dataio/record", f"--python_out={folder}", "kplrecord.proto")
        environment = dict(os.environ, PYTHONPATH=folder)
        if not available(PYTHON, "-c", "import google.protobuf"):
            print("NOT RUN: only protoc's reading was tested; no protobuf for Python (Debian: python3-protobuf)")
            return 77
        pictures = os.path.join(folder, "pictures")
        run(SERRIED, "render", pictures, "--count", "4")
        check_reading(folder, pictures, environment)
        check_writing(folder, pictures, environment)
    print("protobuf and serried agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
