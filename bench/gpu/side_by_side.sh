#!/usr/bin/env bash
# On a machine with a GPU and PyTorch: checks the kernels, then times them beside torch's backends.
#   bench/gpu/side_by_side.sh [LIBRARY] [forward.py's options]    LIBRARY: build/release/lib/libtessera.so
# scripts/gpu_check.sh checks more. To keep the figures: bench/record.py gpu_forward -- this command.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TESSERA_LIBRARY=${1:-build/release/lib/libtessera.so}
[ $# -eq 0 ] || shift
PYTHONPATH=python exec python3 bench/gpu/forward.py "$@"
