"""Exact attention on NumPy arrays, torch tensors and whatever else speaks DLPack.

  out = tessera.attention(q, k, v, causal=True)      # [B, L, H, D], as the C library has it

Importing this module imports neither NumPy nor torch.
"""

from __future__ import annotations

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
