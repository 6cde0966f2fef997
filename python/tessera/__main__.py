"""python -m tessera info: what is installed, where it lies, what it would run on."""

from __future__ import annotations

import argparse
import importlib
import json
import platform

from tessera import __version__, _native


def _module_version(name: str) -> str:
    try:
        return str(importlib.import_module(name).__version__)
    except ImportError as error:
        return f"not importable ({error})"


def info() -> str:
    """One line for each fact."""
    about = json.loads(_native.describe_context())
    present = [t["name"] for t in about["targets"] if t["present"]]
    absent = [t["name"] for t in about["targets"] if not t["present"]]
    facts = {
        "tessera": __version__,
        "library": _native.path,
        "build": f"{about['build']['compiler']}, {about['build']['flags']}",
        "processor": platform.machine(),
        "target": f"{about['target']} ({about['why_target']})",
        "targets": ", ".join(present) + (f" (not here: {', '.join(absent)})" if absent else ""),
        "threads": f"{about['threads']} ({about['why_threads']})",
        "python": platform.python_version(),
        **{name: _module_version(name) for name in ("numpy", "ml_dtypes", "torch")},
    }
    return "\n".join(f"{name:<10} {fact}" for name, fact in facts.items())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tessera", description="Exact attention.")
    parser.add_argument("command", choices=["info"], help="tell what is installed")
    parser.parse_args()
    print(info())


if __name__ == "__main__":
    main()
