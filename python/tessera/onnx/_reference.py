"""The operator for onnx.reference, which runs whole models."""

from __future__ import annotations

from typing import Any

from onnx.reference.op_run import OpRun

from tessera.onnx._graph import wants_scores
from tessera.onnx._inputs import Inputs
from tessera.onnx._operator import compute


class Attention(OpRun):
    """Attention of opsets 23, 24 and 25 by tessera.

    onnx.reference.ReferenceEvaluator(model, new_ops=[tessera.onnx.Attention]) runs a model in which
    each Attention node is computed by attention(), and each other node by onnx.
    """

    op_domain = ""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        node = self.onnx_node
        # onnx adds defaults of the newest opset, which older ones do not know.
        written = {a.name for a in node.attribute}
        given = {name: value for name, value in attributes.items() if name in written}
        opset = self.run_params["opsets"][node.domain]
        outputs = compute(Inputs(*inputs), opset, given, wants_scores(node))
        return outputs[: len(node.output)]
