#!/usr/bin/env bash
# Compiles the library and tests of it for AArch64 Linux, as the wheel is compiled, and runs them
# under qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/wheel/aarch64-tests
python=$PWD/build/wheel/tools/bin/python
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/build/wheel/zig}

scripts/venv.sh build/wheel/tools scripts/wheel-requirements.txt
echo "aarch64: compiling tests"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DTESSERA_TARGET=aarch64-linux-gnu.2.17 \
  "-DTESSERA_ZIG_PYTHON=$python" -DTESSERA_TOOLS=OFF -DTESSERA_INSTALL=OFF \
  "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static;-L;/usr/aarch64-linux-gnu" > /dev/null
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target unit_core unit_cpu example_c_attention \
  > "$build/log" 2>&1 || {
  tail -n 40 "$build/log" >&2
  exit 1
}
echo "aarch64: running them under qemu"
ctest --test-dir "$build" -j "${JOBS:-$(nproc)}" --output-on-failure --no-tests=error \
  -R '^unit_core\.|^unit_cpu\.|^examples\.c\.attention$'
