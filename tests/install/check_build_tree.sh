#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_build_tree.sh BUILD SOURCE: a sample builds with pkg-config against the build folder, without an
# installation, and runs.
set -euo pipefail
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

export PKG_CONFIG_PATH=$build
unset LD_LIBRARY_PATH
read -ra flags <<<"$(pkg-config --cflags --libs serried)"
cc -std=c17 -O1 -Wall -Wextra -Wpedantic -Werror "$source/tests/samples/lenet.c" "${flags[@]}" -o "$folder/lenet"
loaded=$(ldd "$folder/lenet" | awk '/libserried/ { print $3 }')
[ "$(readlink -f "$loaded")" = "$(readlink -f "$build/libserried.so")" ] || {
    echo "build tree: the sample loads $loaded" >&2
    exit 1
}
"$folder/lenet"
[ "$(pkg-config --modversion serried)" = "$(cat "$source/VERSION")" ]
echo "build tree: pkg-config works"
