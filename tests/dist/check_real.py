#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real pictures and annotations: SERRIED_TEST_DATA names a folder with imagenet300.tar (photographs, one folder per
class), bccd.tar (Pascal VOC) and camvid.tar (pictures and masks).

  check_real.py SERRIED TEST_CROPS

Every file of a tar is packed, an annotation, left out, ignored or named in refused.csv; what was packed is intact; and
crops of the photographs, packed unchanged and in other ways, have the pixels of libjpeg-turbo's whole picture.
"""
import os
import shutil
import subprocess
import sys
import tarfile

import suite

TARS = ("imagenet300.tar", "bccd.tar", "camvid.tar")
ACCOUNTS = ("train", "val", "test", "refused", "ignored", "annotations", "unlabelled")
WAYS = ([], ["--row-index", "8"], ["--row-index", "8", "--max-size", "512"])


class Real(suite.Suite):
    def call(self, *line):
        return subprocess.run(line, env=suite.environment(), capture_output=True, text=True, errors="replace",
                              check=False)

    def tar(self, path):
        name, data = os.path.basename(path), os.path.join(self.folder, "real")
        with tarfile.open(path) as archive:
            files = sum(member.isfile() for member in archive)
        done = self.call(self.serried, "pack", path, data)
        with open(os.path.join(data, "pack.txt"), encoding="utf-8") as file:
            summary = dict(row.split() for row in file)
        count = sum(int(summary.get(key, 0)) for key in ACCOUNTS)
        self.report(done.returncode in (0, 3) and count == files, f"{name}: {files} files, all accounted for",
                    f"{count}: {summary} {done.stderr[-300:]}")
        verified = self.call(self.serried, "verify", data)
        self.report(verified.returncode == 0, f"{name}: intact", verified.stderr[-600:])
        shutil.rmtree(data)

    def crops(self, path, test_crops):
        for options in WAYS:
            data = os.path.join(self.folder, "photographs")
            packed = self.call(self.serried, "pack", path, data, *options)
            done = self.call(test_crops, data)
            words = [line for line in done.stdout.splitlines() if " crops of " in line]
            self.report(packed.returncode in (0, 3) and done.returncode == 0,
                        f"{' '.join(words)}, pack {' '.join(options)}", packed.stderr[-300:] + done.stderr[-600:])
            shutil.rmtree(data)


def main():
    serried, test_crops = (os.path.abspath(path) for path in sys.argv[1:3])
    source = os.environ.get("SERRIED_TEST_DATA")
    missing = [name for name in TARS if not source or not os.path.exists(os.path.join(source, name))]
    for name in missing:
        suite.not_run(f"{name}: " + (f"not in {source}" if source else "SERRIED_TEST_DATA does not name its folder"))
    if missing == list(TARS):
        return 77

    def body(folder):
        tests = Real(serried, folder)
        for name in TARS:
            if name not in missing:
                tests.tar(os.path.join(source, name))
        if TARS[0] not in missing:
            tests.crops(os.path.join(source, TARS[0]), test_crops)
        return tests

    return suite.run(body)


if __name__ == "__main__":
    sys.exit(main())
