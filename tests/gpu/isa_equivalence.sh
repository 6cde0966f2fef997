#!/usr/bin/env bash
# Builds and runs tests/gpu/isa_equivalence: each word on a GPU of sm_90 against the emulator.
#   tests/gpu/isa_equivalence.sh [SEED]
#   tests/gpu/isa_equivalence.sh --build    builds alone: a machine with nvcc needs no GPU for it
#   tests/gpu/isa_equivalence.sh --alone    the emulator against itself: neither nvcc nor GPU
# Needs g++ (or CXX) and nvcc (or NVCC); everything lands in build/isa_equivalence.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/isa_equivalence
cxx=${CXX:-g++} nvcc=${NVCC:-nvcc}
mkdir -p "$out"/{view,emulator,device}
for room in core device emulator; do ln -sfn "$PWD/src/$room" "$out/view/$room"; done
ln -sfn "$PWD/tests/gpu" "$out/view/gpu"
for world in emulator device; do ln -sfn "$PWD/src/$world/isa" "$out/$world/isa"; done

objects=()
jobs=()
build() {  # build OBJECT COMMAND...: in the background, as many at a time as there are cores
  objects+=("$out/$1")
  "${@:2}" -o "$out/$1" &
  jobs+=($!)
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 0.1; done
}
software=("$cxx" -std=c++20 -O3 -DNDEBUG -c "-I$out/view" "-I$out/emulator")
if [ "${1:-}" = --alone ]; then
  linker=$cxx
  build silicon.o "${software[@]}" tests/gpu/no_silicon.cpp
else
  linker=$nvcc
  build silicon.o "$nvcc" -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -c \
    "-I$out/view" "-I$out/device" tests/gpu/silicon.cu
fi
build emulated.o "${software[@]}" tests/gpu/emulated.cpp
build main.o "${software[@]}" tests/gpu/isa_equivalence.cpp
build switch.o "$cxx" -c src/emulator/switch_x86_64.S
for source in src/emulator/*.cpp src/core/{json,json_digits,error}.cpp; do
  case $source in */backend*.cpp | */params*.cpp) continue ;; esac  # those need more rooms
  build "$(basename "$source" .cpp)_room.o" "${software[@]}" "$source"
done
for job in "${jobs[@]}"; do wait "$job"; done
"$linker" "${objects[@]}" -o "$out/isa_equivalence"
[ "${1:-}" = --build ] || "$out/isa_equivalence" "$@"
