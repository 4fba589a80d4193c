#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_install.sh BUILD SOURCE: installs to a temporary prefix and moves it; every public header
# compiles alone as C17 and C++17; a program builds and runs with pkg-config and with CMake.
set -euo pipefail
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/prefix" # packages must follow a moved prefix
prefix=$folder/prefix
include=$prefix/include/serried
library=$(dirname "$(find "$prefix" -name libserried.so)")

fail() {
    echo "install: $1" >&2
    exit 1
}

[ -z "$(find "$include" -name '*_internal.h')" ] || fail "internal headers are installed"
[ -z "$(find "$prefix" -type d -empty)" ] || fail "empty folders: $(find "$prefix" -type d -empty)"
! grep -rqF "$source" "$library/pkgconfig" "$library/cmake" || fail "a package names the source"
readelf -d "$library/libserried.so" | grep -q 'SONAME.*libserried\.so\.[0-9]' || fail "no SONAME"
! ldd "$library/libserried.so" | grep 'not found' || fail "libraries are missing"

# The installed headers are those that serried.h includes.
listed=$(sed -n 's/^#include "\(.*\)"$/\1/p' "$include/serried.h" | sort)
[ "$listed" = "$(cd "$include" && find . -name '*.h' ! -name serried.h -printf '%P\n' | sort)" ] ||
    fail "the installed headers are not those of serried.h"

alone() { # header: with nothing before it, as both languages, by every compiler there is
    local warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$include") tool
    for tool in gcc clang; do
        command -v "$tool" >/dev/null || continue
        echo "#include \"$1\"" | "$tool" -std=c17 "${warnings[@]}" -x c - || exit 255
        echo "#include \"$1\"" | "$tool" -std=c++17 "${warnings[@]}" -x c++ - || exit 255
    done
}
export -f alone
export include
(cd "$include" && find . -name '*.h' -printf '%P\n') | xargs -P "$(nproc)" -I{} bash -c 'alone {}' ||
    fail "a header does not compile alone"

export PKG_CONFIG_PATH=$library/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs serried)"
cc -std=c17 "$source/tests/install/use_serried.c" "${flags[@]}" -o "$folder/by_pkg_config"
LD_LIBRARY_PATH=$library "$folder/by_pkg_config"

cmake -S "$source/tests/install" -B "$folder/build" -Dserried_DIR="$library/cmake/serried" >/dev/null
cmake --build "$folder/build" >/dev/null
"$folder/build/use_serried"

if [ -x "$prefix/bin/serried" ]; then
    "$prefix/bin/serried" version >/dev/null || fail "the installed command does not run"
    "$prefix/bin/serried" info commands | while read -r name _; do
        [ -s "$prefix/share/man/man1/serried-$name.1" ] || fail "no man page of $name"
    done
    for file in man/man1/serried.1 man/man1/serried-convert.1 bash-completion/completions/serried \
        zsh/site-functions/_serried fish/vendor_completions.d/serried.fish; do
        [ -s "$prefix/share/$file" ] || fail "no share/$file"
    done
fi
"$prefix/bin/serried-convert" --help | grep -q safetensors || fail "serried-convert does not run"
echo "install: $(find "$include" -name '*.h' | wc -l) headers, pkg-config and CMake work"
