#!/bin/sh
# The demonstration behind "make demo": attention on the real input in examples/data, verified
# against the definition, then tiled against standard attention as the sequence grows, and a picture.
#
#   scripts/demo.sh [CLI]      CLI is build/release/bin/tessera unless given
set -eu
cd "$(dirname "$0")/.."
cli=${1:-build/release/bin/tessera}
picture=demo.svg

if [ ! -x "$cli" ]; then
  echo "demo: $cli is not there; build it first with 'make build'" >&2
  exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

for input in examples/data/minilm-layer*.safetensors; do
  name=$(basename "$input" .safetensors)
  echo "== $name: one layer of a sentence encoder on real text"
  "$cli" run --input "$input" --out "$scratch/$name.safetensors" --lse "$scratch/$name.safetensors"
  "$cli" verify --input "$input" --result "$scratch/$name.safetensors"
  echo
done

echo "== Tiled against standard attention, N from 1K to 16K (the same kernels, the matrix stored)"
"$cli" bench --sweep 1024..16384 --against standard --samples "${DEMO_SAMPLES:-5}" \
  --picture "$picture"
echo
echo "The same as a picture: $picture"
