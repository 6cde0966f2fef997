"""The pages of the Python package: their snippets run, and the reference leaves no argument out."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tessera

DOCS = Path(__file__).resolve().parents[2] / "docs"
PLACES = [*DOCS.glob("start/*.md"), *DOCS.glob("reference/python*.md")]
PAGES = sorted(page for page in PLACES if "```python\n" in page.read_text(encoding="utf-8"))
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def program(page):
    """The snippets of a page as one program, each on the lines where it stands."""
    text, lines = page.read_text(encoding="utf-8"), []
    for match in SNIPPET.finditer(text):
        lines += [""] * (text.count("\n", 0, match.start(1)) - len(lines))
        lines += match[1].split("\n")[:-1]
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run(page, tmp_path):
    code = program(page)
    assert code.strip(), f"{page} has no snippet that is closed"
    file = tmp_path / f"{page.stem}.py"
    file.write_text(code, encoding="utf-8")
    # A page may patch torch, so each is a process of its own.
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, f"{page}:\n{ran.stderr}"


def test_a_snippet_that_fails_is_told_by_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\n```\n\n```sh\nls\n```\n\n```python\nx / 0\n```\n")
    assert program(page).split("\n") == ["", "", "", "x = 1", *[""] * 7, "x / 0"]


FUNCTIONS = [getattr(tessera, name) for name in tessera.__all__ if name != "__version__"]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_reference_names_each_argument(function):
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    section = re.search(rf"^## `tessera\.{function.__name__}`.*?(?=^## |\Z)", text, re.M | re.S)
    assert section, f"docs/reference/python.md has no section of tessera.{function.__name__}"
    for name in inspect.signature(function).parameters:
        assert re.search(rf"\b{name}\b", section[0]), f"{name} of {function.__name__} is left out"


def test_the_pages_tell_the_wheel_of_this_version():
    version = tessera.__version__
    assert f"tessera_attn-{version}-" in (DOCS / "start" / "python.md").read_text(encoding="utf-8")
