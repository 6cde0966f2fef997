"""patch_sdpa: models that call F.scaled_dot_product_attention, computed by the library."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tessera.torch._sdpa import scaled_dot_product_attention, theirs

functional: Any = torch.nn.functional
_lock = threading.Lock()
_depth = 0


def _enter() -> None:
    global _depth
    with _lock:
        _depth += 1
        functional.scaled_dot_product_attention = scaled_dot_product_attention


def _leave() -> None:
    global _depth
    with _lock:
        _depth -= 1
        ours = functional.scaled_dot_product_attention is scaled_dot_product_attention
        if not _depth and ours:  # a function that someone put over ours stays
            functional.scaled_dot_product_attention = theirs


@contextmanager
def patch_sdpa() -> Iterator[None]:
    """Puts tessera.torch.scaled_dot_product_attention in the place of torch's within the block.

      with tessera.torch.patch_sdpa():
          model(x)

    What is replaced is the attribute torch.nn.functional.scaled_dot_product_attention: code that
    looks it up there when it runs, as nn.MultiheadAttention does, computes with tessera. Code that
    bound the name before (`from torch.nn.functional import scaled_dot_product_attention`) keeps
    torch's. So do the fused C++ paths that nn.MultiheadAttention and nn.TransformerEncoder take in
    evaluation without gradients; torch.backends.mha.set_fastpath_enabled(False) turns those off.
    What is compiled keeps the function of the moment it was compiled: enter the block before the
    first call of a compiled model.

    Nesting: blocks may be nested; torch's function comes back when the outermost ends.
    Exceptions: it comes back also when one leaves the block.
    Threads: the attribute belongs to the process, so while any thread is in a block, all threads
    compute with tessera; torch's function comes back when the last of them leaves.
    Also a decorator: @patch_sdpa().
    """
    _enter()
    try:
        yield
    finally:
        _leave()
