#!/usr/bin/env python3
"""Serves web/dist on this machine alone, prints the address and opens the browser."""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import sys
import webbrowser
from pathlib import Path

DIST = Path(__file__).resolve().parent.parent / "web" / "dist"
TRIED = 100  # ports, from the first one on


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files alone, without a line for each."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def listen(folder: Path, first: int) -> http.server.ThreadingHTTPServer:
    """A server on the first port that is free."""
    handler = functools.partial(Quiet, directory=str(folder))
    for port in range(first, min(first + TRIED, 65536)):
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            continue
    raise SystemExit(f"explainer: no port from {first} on is free; name another with --port")


def has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="the first one to try")
    parser.add_argument("--no-browser", action="store_true", help="print the address alone")
    parser.add_argument("--folder", type=Path, default=DIST)
    args = parser.parse_args()
    if not (args.folder / "index.html").exists():
        print(f"explainer: {args.folder} has no page; `make web` builds it", file=sys.stderr)
        return 1
    server = listen(args.folder, args.port)
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    print(f"explainer: {address} (Ctrl-C ends it)", flush=True)
    if not args.no_browser and has_display():
        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
