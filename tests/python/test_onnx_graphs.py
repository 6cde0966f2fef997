"""Nodes and models: tessera.onnx.evaluate, and tessera.onnx.Attention in whole models."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tessera.onnx

NAMES = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]


def node(inputs=("Q", "K", "V"), outputs=("Y",), **attributes):
    return helper.make_node("Attention", list(inputs), list(outputs), **attributes)


def model(nodes, inputs, outputs, initializers=(), opset=25, rank=4, functions=(), **imports):
    """A model whose inputs and outputs are float32 of `rank` unnamed dimensions."""

    def infos(names):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * rank) for n in names]

    graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), list(initializers))
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, version) for domain, version in imports.items()]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


@pytest.fixture
def qkv(draw):
    return [draw(2, 4, 3, 8), draw(2, 2, 5, 8), draw(2, 2, 5, 6)]


# ---- evaluate ------------------------------------------------------------------------------------


def test_a_node_takes_arrays_by_name_or_in_order(qkv):
    expected = tessera.onnx.attention(*qkv, is_causal=1)[0]
    attention = node(is_causal=1)
    for inputs in (qkv, dict(zip(NAMES, qkv))):
        (y,) = tessera.onnx.evaluate(attention, inputs)
        np.testing.assert_array_equal(y, expected)


def test_the_opset_of_a_node_decides(qkv):
    with pytest.raises(ValueError, match="from opset 25 on"):
        tessera.onnx.evaluate(node(left_window_size=1), qkv, opset=24)
    (y,) = tessera.onnx.evaluate(node(left_window_size=1), qkv, opset=25)
    np.testing.assert_array_equal(y, tessera.onnx.attention(*qkv, left_window_size=1)[0])


def test_outputs_are_those_that_are_named(qkv):
    every = ("Y", "present_key", "present_value", "scores")
    expected = tessera.onnx.attention(*qkv, qk_matmul_output_mode=0)
    for outputs, places in [(every, [0, 1, 2, 3]), (("Y", "", "", "scores"), [0, 3])]:
        found = tessera.onnx.evaluate(node(outputs=outputs), qkv)
        assert len(found) == len(places)
        for x, place in zip(found, places):
            np.testing.assert_array_equal(x, expected[place])


def test_inputs_that_are_left_out_are_not_counted(qkv):
    attention = node([*NAMES[:3], "", "", "", NAMES[6]], is_causal=1)
    lengths = np.array([2, 5])
    (y,) = tessera.onnx.evaluate(attention, [*qkv, lengths])
    expected = tessera.onnx.attention(*qkv, nonpad_kv_seqlen=lengths, is_causal=1)[0]
    np.testing.assert_array_equal(y, expected)


def test_a_model_brings_its_initializers(qkv):
    mask = np.tri(3, 5, dtype=bool)
    constant = numpy_helper.from_array(mask, "attn_mask")
    whole = model([node(NAMES[:4])], NAMES[:3], ["Y"], [constant])
    (y,) = tessera.onnx.evaluate(whole, qkv)
    np.testing.assert_array_equal(y, tessera.onnx.attention(*qkv, mask)[0])


def test_the_outputs_of_a_model_have_its_order(qkv):
    attention = node(outputs=("Y", "key", "value"))
    value, y = tessera.onnx.evaluate(model([attention], NAMES[:3], ["value", "Y"]), qkv)
    np.testing.assert_array_equal(value, qkv[2])
    np.testing.assert_array_equal(y, tessera.onnx.attention(*qkv)[0])


def test_bfloat16_in_a_model(draw):
    qkv = [draw(1, 2, 3, 8).astype(ml_dtypes.bfloat16) for _ in range(3)]
    constant = numpy_helper.from_array(qkv[2], "V")
    (y,) = tessera.onnx.evaluate(model([node()], NAMES[:2], ["Y"], [constant]), qkv[:2])
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, tessera.onnx.attention(*qkv)[0])


def q(*shape):
    return np.ones(shape or (1, 1, 2, 4), np.float32)


REFUSALS = {
    "no node": (lambda: ("Attention", []), TypeError, "node_or_model is of type str"),
    "other operator": (
        lambda: (helper.make_node("MatMul", ["Q", "K"], ["Y"]), []),
        ValueError,
        "the node is MatMul of domain ''; it must be Attention",
    ),
    "other domain": (
        lambda: (helper.make_node("Attention", NAMES[:3], ["Y"], domain="com.microsoft"), []),
        ValueError,
        "of domain 'com.microsoft'",
    ),
    "two nodes": (
        lambda: (model([node(), node(outputs=["Z"])], NAMES[:3], ["Y"]), []),
        ValueError,
        r"the model has 2 nodes; .*ReferenceEvaluator\(model, new_ops",
    ),
    "too few inputs": (lambda: (node(NAMES[:2]), []), ValueError, "the node has 2 inputs and 1 "),
    "count": (
        lambda: (node(), [q()]),
        ValueError,
        "inputs has 1 arrays; there must be 3: Q, K, V",
    ),
    "unknown name": (
        lambda: (node(), {"q": q()}),
        ValueError,
        "inputs has 'q', which is no input; the inputs are Q, K, V",
    ),
    "missing name": (lambda: (node(), {"Q": q(), "K": q()}), ValueError, "inputs lacks 'V'"),
    "attribute": (
        lambda: (node(num_heads=2), [q()] * 3),
        ValueError,
        "num_heads is no attribute of Attention of opset 25",
    ),
    "opset": (
        lambda: (model([node()], NAMES[:3], ["Y"], opset=21), [q()] * 3),
        ValueError,
        "opset is 21",
    ),
    "output": (
        lambda: (model([node()], NAMES[:3], ["Z"]), [q()] * 3),
        ValueError,
        "the model has the output 'Z', which its node does not compute; the node computes Y",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name):
    make, kind, sentence = REFUSALS[name]
    with pytest.raises(kind, match=sentence):
        tessera.onnx.evaluate(*make())


# ---- onnx.reference ------------------------------------------------------------------------------


def block():
    """x -> projections -> Attention -> projection + x, with weights as initializers."""
    generator = np.random.default_rng(5)
    weights = [
        numpy_helper.from_array(generator.standard_normal((16, n), dtype=np.float32) / 4, name)
        for name, n in (("wq", 16), ("wk", 8), ("wv", 8), ("wo", 16))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("MatMul", ["x", "wv"], ["v"]),
        node(["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2, is_causal=1),
        helper.make_node("MatMul", ["y", "wo"], ["z"]),
        helper.make_node("Add", ["x", "z"], ["out"]),
    ]
    return nodes, weights


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_a_block_agrees_with_onnx(draw, opset):
    nodes, weights = block()
    whole = model(nodes, ["x"], ["out"], weights, opset, rank=3)
    onnx.checker.check_model(whole)
    x = draw(2, 7, 16)
    ours = ReferenceEvaluator(whole, new_ops=[tessera.onnx.Attention]).run(None, {"x": x})
    theirs = ReferenceEvaluator(whole).run(None, {"x": x})
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-5)


def test_attributes_of_a_function_reach_the_operator(qkv):
    inner = node(is_causal=1)
    capped = onnx.AttributeProto(
        name="softcap", ref_attr_name="cap", type=onnx.AttributeProto.FLOAT
    )
    inner.attribute.append(capped)
    opsets = [helper.make_opsetid("", 25)]
    function = helper.make_function("own", "Capped", NAMES[:3], ["Y"], [inner], opsets, ["cap"])
    expected = tessera.onnx.attention(*qkv, is_causal=1, softcap=1.5)[0]
    feeds = dict(zip(NAMES, qkv))
    session = ReferenceEvaluator(function, new_ops=[tessera.onnx.Attention])
    np.testing.assert_array_equal(session.run(None, feeds, attributes={"cap": 1.5})[0], expected)
    # onnx hands new_ops to no function of a model: the way is to inline them.
    outer = helper.make_node("Capped", NAMES[:3], ["Y"], domain="own", cap=1.5)
    whole = model([outer], NAMES[:3], ["Y"], functions=[function], own=1)
    inlined = onnx.inliner.inline_local_functions(whole)
    session = ReferenceEvaluator(inlined, new_ops=[tessera.onnx.Attention])
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


def test_sentences_pass_through_the_reference_evaluator(qkv):
    whole = model([node(left_window_size=1)], NAMES[:3], ["Y"], opset=24)
    session = ReferenceEvaluator(whole, new_ops=[tessera.onnx.Attention])
    with pytest.raises(ValueError, match=r"left_window_size is an attribute .* from opset 25 on"):
        session.run(None, dict(zip(NAMES, qkv)))


def test_the_package_onnx_is_imported_when_it_is_needed():
    script = (
        "import sys, numpy, tessera.onnx\n"
        "x = numpy.ones((1, 1, 2, 4), numpy.float32)\n"
        "tessera.onnx.attention(x, x, x)\n"
        "assert 'onnx' not in sys.modules\n"
        "tessera.onnx.Attention\n"
        "assert 'onnx' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert not hasattr(tessera.onnx, "Attentions")


def test_without_the_package_onnx_a_sentence_says_so(monkeypatch, qkv):
    attention = node()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="need the package onnx, which does not import"):
        tessera.onnx.evaluate(attention, qkv)
    with pytest.raises(ImportError, match=r"or call tessera\.onnx\.attention"):
        _ = tessera.onnx.Attention
