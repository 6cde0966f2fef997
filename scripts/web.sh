#!/usr/bin/env bash
# The explainer, without network once its packages are there.
#   scripts/web.sh packages    web/node_modules, as web/package-lock.json pins them
#   scripts/web.sh build       web/dist
#   scripts/web.sh test        builds, then tests in Node and in Chromium; needs bin/tessera
set -euo pipefail
cd "$(dirname "$0")/../web"

fail() { echo "web: $*" >&2; exit 1; }
command -v node > /dev/null || fail "no Node; 'make web' installs it on Debian, version 18.19 is enough"
command -v npm > /dev/null || fail "no npm; it comes with Node, or as the Debian package npm"

packages() {
  local stamp=node_modules/.package-lock.json
  if [ -e "$stamp" ] && [ ! package-lock.json -nt "$stamp" ]; then return; fi
  echo "web: installing the packages of web/package-lock.json"
  npm ci --silent
  touch "$stamp"
}

case "${1:-}" in
  packages) packages ;;
  build) packages; npm run --silent build; echo "web: web/dist/index.html opens from its file" ;;
  test) packages; npm test --silent ;;
  *) fail "unknown step '${1:-}'; it is packages, build or test" ;;
esac
