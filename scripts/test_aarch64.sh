#!/usr/bin/env bash
# Compiles the library and tests of it for AArch64 Linux, as the wheel is compiled, and runs them
# under qemu-user: all unit tests of core and cpu, and the laws that take seconds there. Kernels for
# GPUs are not compiled ahead: nothing here would run them.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/wheel/aarch64-tests
python=$PWD/build/wheel/tools/bin/python
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/build/wheel/zig}
readonly emulator=(qemu-aarch64-static -L /usr/aarch64-linux-gnu)  # where libc6-arm64-cross lies
# The portable kernels are those that AArch64 compiles in its own way: `cpu/neon`. The others are the
# same C++ as everywhere.
readonly laws=('Chunk/Differential.*/0'
  On/{Merging,States,Visibility,GradientLaws,'*Regression'}'.*/cpu_neon')

scripts/venv.sh build/wheel/tools scripts/wheel-requirements.txt
echo "aarch64: compiling tests"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DTESSERA_TARGET=aarch64-linux-gnu.2.17 \
  "-DTESSERA_ZIG_PYTHON=$python" -DTESSERA_TOOLS=OFF -DTESSERA_INSTALL=OFF -DTESSERA_NVCC=OFF \
  "-DCMAKE_CROSSCOMPILING_EMULATOR=$(IFS=';'; echo "${emulator[*]}")" > /dev/null
cmake --build "$build" -j "${JOBS:-$(nproc)}" \
  --target unit_core unit_cpu laws example_c_attention > "$build/log" 2>&1 || {
  tail -n 40 "$build/log" >&2
  exit 1
}
echo "aarch64: running them under qemu (minutes)"
run() {  # a program in one process: each start of qemu translates the library anew
  SECONDS=0
  "${emulator[@]}" "$build/$1" --gtest_brief=1 --gtest_filter="$2"
  echo "aarch64: $1 took $SECONDS s"
}
selects() {  # whether a program has a test that this filter selects: a name may have changed
  "${emulator[@]}" "$build/$1" --gtest_list_tests --gtest_filter="$2" | grep '^  ' > /dev/null
}
run tests/bin/unit_core '-*Slow*'
# Under qemu a child that is forked while other threads compute hangs in some runs, and it is not
# known whether qemu or the library is at fault; forks of an idle parent are tested.
run tests/bin/unit_cpu '-*Slow*:Fork.AlsoWhileTheParentComputes'
for law in "${laws[@]}"; do
  selects tests/bin/laws "$law" || {
    echo "aarch64: no test of laws is called $law; name those that there are in $0" >&2
    exit 1
  }
done
run tests/bin/laws "$(IFS=:; echo "${laws[*]}")"
ctest --test-dir "$build" --output-on-failure --no-tests=error -R '^examples\.c\.attention$'
