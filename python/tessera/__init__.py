"""Exact attention on NumPy arrays, torch tensors and whatever else speaks DLPack.

  out = tessera.attention(q, k, v, causal=True)      # [B, L, H, D], as the C library has it

Importing this module imports neither NumPy nor torch. Its parts tessera.torch, tessera.flash_attn,
tessera.flash_attn3, tessera.huggingface and tessera.onnx are imported when they are first named.
"""

from __future__ import annotations

import importlib
from typing import Any

from tessera._attention import attention, plan
from tessera._backward import Gradients, attention_backward
from tessera._cache import append, decode, merge, rotate
from tessera._native import version as _version

__version__ = _version()
__all__ = [
    "Gradients",
    "__version__",
    "append",
    "attention",
    "attention_backward",
    "decode",
    "merge",
    "plan",
    "rotate",
]
_PARTS = ("flash_attn", "flash_attn3", "huggingface", "onnx", "torch")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"tessera.{name}")
    raise AttributeError(f"module 'tessera' has no attribute '{name}'")
