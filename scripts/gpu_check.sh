#!/usr/bin/env bash
# Correctness on a GPU, in one call: builds what tests it, where it is not built yet, and runs it.
#   scripts/gpu_check.sh [BUILD]    BUILD: build/release by default
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
bin=$build/tests/bin

if [ ! -x "$bin/gpu_tests" ] || [ ! -x "$bin/conformance" ] || [ ! -x "$bin/laws" ]; then
  cmake --preset release -B "$build"
  cmake --build "$build" --target gpu_tests conformance laws unit_cuda tessera_cli
fi
# Of the packages of Python, that of torch too, if the linker does not find it by itself.
if [ -z "${TESSERA_NVRTC:-}" ]; then
  nvrtc=$(python3 -c 'import glob, site
for folder in site.getsitepackages():
    for file in glob.glob(folder + "/nvidia/*/lib/libnvrtc.so.1?"):
        print(file)' 2> /dev/null | head -n 1 || true)
  [ -z "$nvrtc" ] || export TESSERA_NVRTC=$nvrtc
fi
"$build/bin/tessera" info || true
failed=0
"$bin/gpu_tests" || failed=1
"$bin/conformance" --gtest_filter='*/cuda*' || failed=1
"$bin/laws" --gtest_filter='*/cuda*' || failed=1
if "$bin/gpu_tests" --gtest_filter='GpuForward.long*' | grep -q SKIPPED; then
  echo "gpu_check: there is no GPU here, so nothing has been checked on one" >&2
  exit 77
fi
exit $failed
