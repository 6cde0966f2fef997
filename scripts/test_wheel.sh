#!/usr/bin/env bash
# Installs the wheel of this system from dist/ into a fresh environment, without any other package
# and without an index, and then runs the Python tests on it; .venv lends them the test packages.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD fresh=$PWD/build/wheel/fresh
unset TESSERA_LIBRARY PYTHONPATH

wheels=(dist/tessera_attn-*manylinux*"_$(uname -m)".whl)
if [ ${#wheels[@]} -ne 1 ] || [ ! -f "${wheels[0]}" ]; then
  echo "wheel: dist/ must hold one wheel of this system; it holds: ${wheels[*]}" >&2
  exit 1
fi
echo "wheel: installing ${wheels[0]} into a fresh environment"
"${PYTHON:-python3}" -m venv --clear "$fresh"
"$fresh/bin/python" -m pip install --disable-pip-version-check --quiet --no-index "${wheels[0]}"
cd "$fresh"
bin/python -m tessera info | sed 's/^/  /'

# Each kernel of the build must be in the library that was installed, and load without a GPU.
ahead=$(find "$root/build/wheel/$(uname -m)-linux/cmake" -path '*/embedded/*' \
  \( -name '*.cubin' -o -name '*.ptx' \) | wc -l)
bin/python - "$ahead" << 'PYTHON'
import json, sys
from tessera import _native
describe = _native._function("tessera_gpus_describe", *_native._DESCRIBE[1:])
about = json.loads(_native.describe(describe))
held = about.get("kernels_compiled_ahead", 0)
assert held == int(sys.argv[1]), f"the wheel holds {held} kernels, the build made {sys.argv[1]}"
print(f"  {held} kernels compiled ahead; GPUs: {len(about['devices'])}")
PYTHON

echo "wheel: running the Python tests on it"
"$root"/.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > lent
mv lent "$(bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lent.pth"
bin/python -c 'import sys, tessera; assert tessera.__file__.startswith(sys.prefix), tessera.__file__'
bin/python -B -m pytest -q -p no:cacheprovider -c "$root/pyproject.toml" --rootdir "$root" \
  "$root/tests/python"
