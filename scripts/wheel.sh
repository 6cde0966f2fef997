#!/usr/bin/env bash
# Builds the wheel of one target into dist/ with the compiler of the Python package ziglang, checks
# its size, and of Linux what it asks of the system.
#   scripts/wheel.sh TARGET     x86_64-linux, aarch64-linux, aarch64-macos, x86_64-macos or
#                               x86_64-windows
# TESSERA_CUDA=ON: with kernels for GPUs compiled ahead, or it fails; AUTO (the default): where nvcc
# is found.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly largest=30000000  # bytes; kernels for GPUs are most of it
target=${1:-} cuda=${TESSERA_CUDA:-AUTO}

case "$target" in
  x86_64-linux) zig=x86_64-linux-gnu.2.17 tag=linux_x86_64 ;;
  aarch64-linux) zig=aarch64-linux-gnu.2.17 tag=linux_aarch64 ;;
  x86_64-macos) zig=x86_64-macos.11.0 tag=macosx_11_0_x86_64 ;;
  aarch64-macos) zig=aarch64-macos.11.0 tag=macosx_11_0_arm64 ;;
  x86_64-windows) zig=x86_64-windows-gnu tag=win_amd64 ;;
  *)
    sed -n 's/^# //; 4,5p' "$0" >&2
    exit 2
    ;;
esac

scripts/venv.sh build/wheel/tools scripts/wheel-requirements.txt
work=build/wheel/$target
python=$PWD/build/wheel/tools/bin/python
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/build/wheel/zig}
rm -rf "$work/made" "$work/audited" && mkdir -p "$work/made" dist

echo "wheel: compiling for $zig (the first time, zig compiles its C++ library too: minutes)"
"$python" -m pip wheel . --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir "$work/made" -C "build-dir=$work/cmake" -C "wheel.tags=py3-none-$tag" \
  -C "cmake.args=-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/zig.cmake;-DTESSERA_TARGET=$zig;-DTESSERA_ZIG_PYTHON=$python;-DTESSERA_CUDA=$cuda" \
  -C build.tool-args="-j${JOBS:-$(nproc)}" > "$work/log" 2>&1 < /dev/null || {
  tail -n 40 "$work/log" >&2
  echo "wheel: failed for $zig; the whole output is in $work/log" >&2
  exit 1
}

made=("$work"/made/*.whl)
if [[ $target == *-linux ]]; then
  # Renames it to what it fulfils, which must reach back to glibc 2.17.
  PATH=$PWD/build/wheel/tools/bin:$PATH "$python" -m auditwheel -v repair --only-plat --plat auto \
    --wheel-dir "$work/audited" "${made[0]}" > "$work/audit" 2>&1 || {
    cat "$work/audit" >&2
    exit 1
  }
  made=("$work"/audited/*.whl)
  if [[ ${made[0]} != *manylinux_2_17_${target%-linux}* ]]; then
    echo "wheel: auditwheel says ${made[0]}, not manylinux_2_17; $work/audit has its reasons" >&2
    exit 1
  fi
fi
size=$(stat -c %s "${made[0]}")
if [ "$size" -gt "$largest" ]; then
  echo "wheel: ${made[0]} has $size bytes, more than $largest" >&2
  exit 1
fi
mv "${made[0]}" dist/
ahead=$(find "$work/cmake" -path '*/embedded/*' \( -name '*.cubin' -o -name '*.ptx' \) | wc -l)
echo "wheel: dist/$(basename "${made[0]}"), $((size / 1024)) KiB, $ahead kernels compiled ahead"
