#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that clang-format 14 would not change any tracked C file. Exit 77: not run, with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."

not_run() {
    echo "NOT RUN: format: $1"
    exit 77
}

git rev-parse --is-inside-work-tree >/dev/null 2>&1 || not_run "not a git checkout"
tool=$(command -v clang-format-14 || command -v clang-format) || not_run "clang-format is missing"
"$tool" --version | grep -q 'version 14\.' || not_run "$("$tool" --version), but version 14 is required"
git ls-files -z '*.c' '*.h' '*.cu' | xargs -0 -r -P "$(nproc)" -n 40 "$tool" --dry-run -Werror
echo "format: clean"
