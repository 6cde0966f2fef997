#!/bin/sh
# The demonstration behind "make demo": attention on the real input in examples/data, verified
# against the definition, then timed as the sequence grows, and a picture. On a GPU where there is
# one that the library has code for; else on the CPU, beside standard attention.
#
#   scripts/demo.sh [CLI]      CLI is build/release/bin/tessera unless given
#   DEMO_SAMPLES=5 DEMO_SWEEP=1024..16384 DEMO_PICTURE=demo.svg
set -eu
cd "$(dirname "$0")/.."
cli=${1:-build/release/bin/tessera}
picture=${DEMO_PICTURE:-demo.svg}

if [ ! -x "$cli" ]; then
  echo "demo: $cli is not there; build it first with 'make build'" >&2
  exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

backend=$("$cli" info --json | python3 -c '
import json, sys
gpu = json.load(sys.stdin)["gpu"]
code = gpu.get("kernels_compiled_ahead") or "why_not" not in gpu.get("nvrtc", {"why_not": ""})
print("cuda" if code and any(d["arch"] >= 80 for d in gpu.get("devices", [])[:1]) else "cpu")')
case $backend in
  cuda) echo "demo: on the GPU that 'tessera info' lists first" ;;
  cpu) echo "demo: on the CPU; 'tessera info' says what a GPU would need" ;;
esac
echo

for input in examples/data/minilm-layer*.safetensors; do
  name=$(basename "$input" .safetensors)
  echo "== $name: one layer of a sentence encoder on real text"
  "$cli" run --input "$input" --out "$scratch/$name.safetensors" \
    --lse "$scratch/$name.safetensors" --backend "$backend"
  "$cli" verify --input "$input" --result "$scratch/$name.safetensors"
  echo
done

sweep=${DEMO_SWEEP:-1024..16384}
if [ "$backend" = cuda ]; then
  echo "== 16 heads of 128 dimensions in bfloat16 on the GPU, N = $sweep"
  "$cli" bench --sweep "$sweep" --shape 1,1,1,16,16,128,128 --dtype bf16 --backend cuda \
    --samples "${DEMO_SAMPLES:-5}" --picture "$picture"
else
  echo "== Tiled against standard attention, N = $sweep (the same kernels, the matrix stored)"
  "$cli" bench --sweep "$sweep" --against standard --backend cpu --samples "${DEMO_SAMPLES:-5}" \
    --picture "$picture"
fi
echo
echo "The same as a picture: $picture"
