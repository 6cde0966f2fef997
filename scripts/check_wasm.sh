#!/usr/bin/env bash
# The core compiles to WebAssembly, where there are no exceptions and no operating system.
#   scripts/check_wasm.sh SOURCE_FOLDER INCLUDE_FOLDER
set -euo pipefail
sources=$1 view=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

flags=(--target=wasm32-wasi -std=c++20 -O1 -fno-exceptions -fno-rtti -msimd128
       -ffp-contract=off -Wall -Wextra -Werror -I "$view")
count=0
for source in "$sources"/*.cpp; do
  name=$(basename "$source" .cpp)
  [ "$name" = error ] && continue  # error_trap.cpp stands in for it
  clang++-19 "${flags[@]}" -c "$source" -o "$out/$name.o"
  count=$((count + 1))
done
[ "$count" -gt 0 ] && [ -e "$out/error_trap.o" ] || {
  echo "wasm: no sources, or no error_trap.cpp, in $sources" >&2
  exit 1
}
if llvm-nm-19 --undefined-only "$out"/*.o | grep -E '__cxa_(throw|begin_catch|allocate_exception)'; then
  echo "wasm: the core needs exceptions" >&2
  exit 1
fi
echo "wasm: $count files"
