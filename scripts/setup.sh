#!/usr/bin/env bash
# Installs what the build, the tests and the lint need. Idempotent; quick when nothing is missing.
#   scripts/setup.sh          everything
#   scripts/setup.sh build    what building, the demo and the tests in C++ need
#   scripts/setup.sh python   .venv, with what the tests and checks of the Python package need
#   scripts/setup.sh cross    what `make wheels` needs beside
#   scripts/setup.sh web      what the explainer and its tests need: WebAssembly, Node, Chromium
set -euo pipefail

build=(g++ cmake ninja-build pkg-config ccache python3 help2man
       libhwy-dev libgtest-dev libgmock-dev libbenchmark-dev
       libcli11-dev libfmt-dev nlohmann-json3-dev libxxhash-dev)
lint=(git clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19 lld-19
      wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32 g++-aarch64-linux-gnu
      gcovr valgrind)
python=(python3 python3-venv gcc libc6-dev)
cross=(googletest qemu-user-static libc6-arm64-cross)
web=(clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32 python3
     chromium fonts-liberation)
# A Node of another origin brings its own npm, beside which that of Debian cannot be installed.
command -v npm > /dev/null || web+=(nodejs npm)

case "${1:-all}" in
  build) wanted=("${build[@]}") ;;
  python) wanted=("${python[@]}") ;;
  cross) wanted=("${build[@]}" "${python[@]}" "${cross[@]}") ;;
  web) wanted=("${web[@]}") ;;
  all) wanted=("${build[@]}" "${lint[@]}" "${python[@]}") ;;
  *) echo "setup: unknown group '$1'; it is build, python, cross, web or all" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")/.." && pwd)
case "${1:-all}" in
  python | all) finish() { cd "$here" && scripts/venv.sh .venv tests/python/requirements.txt; } ;;
  web) finish() { cd "$here" && scripts/web.sh packages; } ;;
  *) finish() { :; } ;;
esac

if ! command -v apt-get > /dev/null; then
  echo "setup: no apt-get here; these are needed, by their Debian names: ${wanted[*]}"
  finish  # of the others, CMake names what is really missing
  exit
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2> /dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qx "installed $package" <<< "$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#wanted[@]} packages are there"
  finish
  exit
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || {
    echo "setup: neither root nor sudo; ask an administrator to install: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {  # says nothing unless it fails
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" > "$log" 2>&1 < /dev/null && return
  cat "$log" >&2
  echo "setup: failed: $*" >&2
  exit 1
}
echo "setup: ${#missing[@]} of ${#wanted[@]} packages are missing: ${missing[*]}"
echo "setup: [1/2] reading the package lists"
quietly apt-get update
echo "setup: [2/2] installing (about a minute on a new machine)"
quietly apt-get install -y --no-install-recommends "${missing[@]}"
echo "setup: done"
finish
