#!/usr/bin/env bash
# Makes a Python environment of what a requirements file pins; quick when it is there already. What
# the file beside it, REQUIREMENTS without .txt and with -alone.txt, pins comes without dependencies.
#   scripts/venv.sh FOLDER REQUIREMENTS
set -euo pipefail
folder=$1 requirements=$2
python=${PYTHON:-python3}

alone=${requirements%.txt}-alone.txt
[ -f "$alone" ] || alone=/dev/null
wanted=$({ "$python" --version; cat "$requirements" "$alone"; } | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$folder/stamp" 2> /dev/null)" = "$wanted" ] && [ -x "$folder/bin/python" ]; then
  echo "setup: $folder has what $requirements pins"
  exit 0
fi
fail() {
  echo "setup: $*" >&2
  exit 1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "setup: making $folder with the packages of $requirements (torch, where pinned, takes minutes)"
"$python" -m venv --clear "$folder" > "$log" 2>&1 || {
  cat "$log" >&2
  fail "$python cannot make an environment; install its venv module (Debian: python3-venv)"
}
install() {
  "$folder/bin/python" -m pip install --disable-pip-version-check --quiet "$@"
}
{ install -r "$requirements" && install --no-deps -r "$alone"; } > "$log" 2>&1 < /dev/null || {
  tail -n 20 "$log" >&2
  fail "pip could not install what $requirements pins: it needs the network, or a pip that is" \
    "configured for a mirror; the C++ library needs none of it (make build)"
}
echo "$wanted" > "$folder/stamp"
echo "setup: $folder is ready"
