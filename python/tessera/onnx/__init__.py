"""The ONNX operator Attention, of opsets 23, 24 and 25, on NumPy arrays through tessera.attention.

  Y, present_key, present_value, _ = tessera.onnx.attention(Q, K, V, opset=24, is_causal=1)
  outputs = tessera.onnx.evaluate(model, {"Q": Q, "K": K, "V": V})
  session = onnx.reference.ReferenceEvaluator(model, new_ops=[tessera.onnx.Attention])

The second and the third need the package onnx, which is imported when they are first used.

Source: ONNX operator schemas, Attention-23, Attention-24 and Attention-25.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessera.onnx._graph import evaluate, require_onnx
from tessera.onnx._operator import attention

if TYPE_CHECKING:
    from tessera.onnx._reference import Attention

__all__ = ["Attention", "attention", "evaluate"]


def __getattr__(name: str) -> Any:
    if name != "Attention":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_onnx()
    from tessera.onnx._reference import Attention

    return Attention
