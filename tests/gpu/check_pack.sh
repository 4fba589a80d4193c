#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_pack.sh BUILD: an archive of a build for the software GPU runs in an empty folder, where it uses
# nothing of the build and no Open MPI but its own.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tests/gpu/pack "$work/archive.tar.gz" --soft --build "$1"
[ "$(stat -c %s "$work/archive.tar.gz")" -le 50000000 ] || {
    echo "the archive is larger than 50 MB"
    exit 1
}
mkdir "$work/bin" "$work/there"
# A machine without Open MPI in PATH, and without what builds or runs tests.
for name in bash sh env cat cp date df dirname find getconf grep head ls mkdir mktemp nproc printf python3 ps realpath rm sed sleep \
    stat tail tar tee timeout touch tr uname which gzip hostname id; do
    [ ! -x "/usr/bin/$name" ] || ln -s "/usr/bin/$name" "$work/bin/$name"
done
tar -C "$work/there" -xf "$work/archive.tar.gz"
cd "$work/there"
env -i PATH="$work/bin" HOME="$work" serried-gpu/tests/gpu/run --soft ranks losses bench
for program in serried-gpu/build/softgpu/{serried,libserried-cuda.so,tests/test_*} serried-gpu/openmpi/bin/mpirun; do
    if ldd "$program" | grep -E "$1|lib(mpi|open-rte|cmocka).*=> /(usr/)?lib"; then
        echo "$program takes these from outside the archive"
        exit 1
    fi
done
