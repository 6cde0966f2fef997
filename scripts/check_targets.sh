#!/usr/bin/env bash
# The kernels compile for machines that this one is not: AArch64 and WebAssembly. Run, they are not.
#   scripts/check_targets.sh SOURCE INCLUDE_FOLDER HIGHWAY_FOLDER
set -euo pipefail
source=$1 view=$2 highway=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

mkdir "$out/include"  # of all that lies beside Highway, nothing else is for those machines
ln -s "$highway/hwy" "$out/include/hwy"
flags=(-std=c++20 -O1 -Wall -Wextra -Wconversion -Wshadow -Werror -I "$view" -isystem "$out/include")
aarch64-linux-gnu-g++ "${flags[@]}" -c "$source" -o "$out/neon.o"
clang++-19 --target=wasm32-wasi -msimd128 -fno-exceptions -fno-rtti "${flags[@]}" \
  -c "$source" -o "$out/wasm.o"

names() {  # the file in between, or grep -q could end before nm does, which then fails
  "$1" "$out/$2.o" >"$out/names"
  grep -q "$3" "$out/names" || { echo "targets: no code of $3 in $2.o" >&2; exit 1; }
}
names aarch64-linux-gnu-nm neon N_NEON
names llvm-nm-19 wasm N_WASM
echo "targets: neon and wasm compile"
