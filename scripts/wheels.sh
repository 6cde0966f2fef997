#!/usr/bin/env bash
# Cross-builds the wheels of other systems into dist/. Of AArch64 the library is tested as far as
# qemu goes; those of macOS and Windows are not tested at all. Not part of CI.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=()

for target in aarch64-linux aarch64-macos x86_64-macos x86_64-windows; do
  scripts/wheel.sh "$target" || failed+=("$target")
done
scripts/test_aarch64.sh || failed+=("tests on AArch64")

if [ ${#failed[@]} -gt 0 ]; then
  echo "wheels: failed: ${failed[*]}" >&2
  exit 1
fi
echo "wheels: done; macOS and Windows are untested, AArch64 was tested under qemu alone"
