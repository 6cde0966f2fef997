"""The node tests of ONNX for Attention, with the tolerances of its own runner."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import tessera.onnx


def node_tests():
    """The tests by name. *_expanded ones spell the operator in other operators: no Attention."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tests of other operators divide by zero and overflow
        from onnx.backend.test.case.node import collect_testcases

        found = {case.name: case for case in collect_testcases("Attention")}
    return {
        name: case
        for name, case in found.items()
        if any(node.op_type == "Attention" for node in case.model.graph.node)
    }


CASES = node_tests()


def agree(outputs, expected, case):
    assert len(outputs) == len(expected)
    for x, known in zip(outputs, expected):
        assert (x.dtype, x.shape) == (known.dtype, known.shape)
        # ONNX's runner allows two units in the last place of bfloat16.
        rtol = 2**-6 if x.dtype.name == "bfloat16" else case.rtol
        x, known = x.astype(np.float64), known.astype(np.float64)
        np.testing.assert_allclose(x, known, rtol=rtol, atol=case.atol)


def test_there_are_tests_of_each_opset():
    assert len(CASES) >= 93
    versions = {case.model.opset_import[0].version for case in CASES.values()}
    assert versions == {23, 24, 25}


@pytest.mark.parametrize("name", CASES)
def test_node(name):
    case = CASES[name]
    for inputs, expected in case.data_sets:
        agree(tessera.onnx.evaluate(case.model, inputs), expected, case)


@pytest.mark.parametrize("name", CASES)
def test_node_in_the_reference_evaluator(name):
    case = CASES[name]
    session = ReferenceEvaluator(case.model, new_ops=[tessera.onnx.Attention])
    names = [x.name for x in case.model.graph.input]
    for inputs, expected in case.data_sets:
        agree(session.run(None, dict(zip(names, inputs))), expected, case)


def test_the_newest_opset_has_the_operator_of_25():
    from tessera.onnx._attributes import NEWEST_OPSET

    version = min(NEWEST_OPSET, onnx.defs.onnx_opset_version())
    assert onnx.defs.get_schema("Attention", version).since_version == 25
