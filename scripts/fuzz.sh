#!/usr/bin/env bash
# Searches the fuzz targets under AddressSanitizer and UndefinedBehaviorSanitizer, and keeps inputs
# that reach something new as numbered seeds.
#   scripts/fuzz.sh SECONDS [TARGET...]     of each target, all of them if none is named
# An input that fails lies in build/fuzz/ and ends this: repair the cause, and keep the input in
# tests/fuzz/corpus/TARGET under a name that says what it was.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?"fuzz: give the seconds of each target, such as scripts/fuzz.sh 600 differential"}
shift
[ $# -gt 0 ] || set -- $(cd tests/fuzz && printf '%s\n' *_fuzz.cpp | sed 's/_fuzz\.cpp$//')

cmake --preset fuzz > /dev/null
for target in "$@"; do
  program=build/fuzz/tests/bin/${target}_fuzz corpus=tests/fuzz/corpus/$target
  found=build/fuzz/found_$target merged=build/fuzz/merged_$target
  cmake --build --preset fuzz -j "${JOBS:-$(nproc)}" --target "${target}_fuzz" > /dev/null
  mkdir -p "$found"
  echo "fuzz: $target for $seconds s"
  "$program" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=4096 -verbosity=0 \
    -artifact_prefix="build/fuzz/$target-" "$found" "$corpus"
  rm -rf "$merged" && cp -r "$corpus" "$merged"
  "$program" -set_cover_merge=1 -use_counters=0 -verbosity=0 "$merged" "$found"
  number=$(find "$corpus" -name 'seed*' | wc -l)
  for input in "$merged"/*; do
    [ -e "$corpus/$(basename "$input")" ] && continue
    cp "$input" "$corpus/$(printf 'seed%02d' "$number")"
    number=$((number + 1))
  done
done
echo "fuzz: done; git status tells which seeds are new"
