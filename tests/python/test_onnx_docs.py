"""docs/reference/python-onnx.md: its snippets run, and its numbers are true."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tessera.onnx._attributes import NEWEST_OPSET
from test_onnx_conformance import CASES

PAGE = (Path(__file__).parents[2] / "docs/reference/python-onnx.md").read_text()


def test_snippets_run():
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) == 2
    exec("\n".join(snippets), {})


def test_the_page_counts_the_node_tests():
    count = Counter(case.model.opset_import[0].version for case in CASES.values())
    text = " ".join(PAGE.split())
    assert f"All {len(CASES)} node tests" in text
    assert f"({count[23]} of opset 23, {count[24]} of 24, {count[25]} of 25)" in text


def test_the_page_names_the_newest_opset():
    assert f"up to {NEWEST_OPSET} the operator" in PAGE
