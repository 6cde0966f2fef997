#!/bin/sh
# Runs the Python of .venv, or of TESSERA_TEST_PYTHON, with the package of this tree.
here=$(cd "$(dirname "$0")/.." && pwd)
python=${TESSERA_TEST_PYTHON:-$here/.venv/bin/python}
if [ ! -x "$python" ]; then
  echo "python: $python is not there; 'scripts/setup.sh python' makes .venv (it needs pip and" \
    "the network), or set TESSERA_TEST_PYTHON to a Python with tests/python/requirements.txt" >&2
  exit 2
fi
PYTHONPATH=$here/python exec "$python" -B "$@"
