#!/usr/bin/env bash
# Installs what the build, the tests and the lint need. Idempotent; quick when nothing is missing.
#   scripts/setup.sh          everything
#   scripts/setup.sh build    what building, testing and the demo need
set -euo pipefail

build=(g++ cmake ninja-build pkg-config ccache python3 help2man
       libhwy-dev libgtest-dev libgmock-dev libbenchmark-dev
       libcli11-dev libfmt-dev nlohmann-json3-dev)
lint=(git clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19 lld-19
      wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32 g++-aarch64-linux-gnu
      gcovr valgrind)

case "${1:-all}" in
  build) wanted=("${build[@]}") ;;
  all) wanted=("${build[@]}" "${lint[@]}") ;;
  *) echo "setup: unknown group '$1'; it is build or all" >&2; exit 2 ;;
esac

if ! command -v apt-get > /dev/null; then
  echo "setup: no apt-get here; the build needs, by their Debian names: ${wanted[*]}"
  exit 0  # CMake names what is really missing
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2> /dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qx "installed $package" <<< "$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#wanted[@]} packages are there"
  exit 0
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
