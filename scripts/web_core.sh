#!/usr/bin/env bash
# Compiles the part of the core that the explainer shows to WebAssembly.
#   scripts/web_core.sh OUT.wasm
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
most=$((150 * 1024))  # bytes: the page sends it to every reader

flags=(--target=wasm32-wasi -std=c++20 -O2 -msimd128 -fno-exceptions -fno-rtti -ffp-contract=off
       -ffunction-sections -fdata-sections -Wall -Wextra -Werror -I src
       -mexec-model=reactor -Wl,--strip-all,--gc-sections)
sources=(web/core/*.cpp src/core/explain*.cpp src/core/traffic*.cpp src/core/json.cpp)

mkdir -p "$(dirname "$out")"
newest=$(find "${sources[@]}" src/core/*.hpp "$0" -newer "$out" 2> /dev/null || echo all)
if [ -n "$newest" ]; then
  clang++-19 "${flags[@]}" "${sources[@]}" -o "$out"
fi
size=$(stat -c %s "$out")
echo "web: $out, $size bytes"
if [ "$size" -gt "$most" ]; then
  echo "web: the core has $size bytes; the cap is $most" >&2
  exit 1
fi
