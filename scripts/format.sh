#!/usr/bin/env bash
# clang-format over every C and C++ file that is or may be committed: checks, or with --write rewrites.
set -euo pipefail
cd "${TESSERA_LINT_ROOT:-$(dirname "$0")/..}"

mapfile -t files < <(git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp' '*.cuh' |
                     sort -u | while read -r file; do [ -f "$file" ] && echo "$file"; done)
[ ${#files[@]} -gt 0 ] || { echo "format: no file found" >&2; exit 1; }
if [ "${1:-}" = --write ]; then
  clang-format-19 -i "${files[@]}"
else
  clang-format-19 --dry-run -Werror "${files[@]}"
fi
echo "format: ${#files[@]} files"
