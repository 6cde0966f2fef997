"""flash-attn 3's functions: the names and signatures of its flash_attn_interface.

  from tessera.flash_attn3 import flash_attn_func
  out, lse = flash_attn_func(q, k, v, causal=True, return_attn_probs=True)

What differs from tessera.flash_attn is what differs there: no dropout and no ALiBi, qv, scales of
8-bit tensors (refused here, as the library has no 8-bit tensors), attention_chunk (refused too),
seqused_q and seqused_k, page_table for block_table, and two values for return_attn_probs.
num_splits, pack_gqa, sm_margin, deterministic and scheduler_metadata are accepted and change
nothing: results do not depend on how the library divides its work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tessera.flash_attn._install import StandIn
from tessera.flash_attn3._functions import (
    flash_attn_combine,
    flash_attn_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
)
from tessera.flash_attn3._kvcache import flash_attn_with_kvcache

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
]

_STAND_IN = StandIn(
    "flash_attn_interface", "3.0.0", {"flash_attn_interface": "tessera.flash_attn3"}
)


def install() -> None:
    """Makes `import flash_attn_interface`, flash-attn 3's name, find this module."""
    _STAND_IN.install()


def uninstall() -> None:
    """Undoes install()."""
    _STAND_IN.uninstall()


@contextmanager
def installed() -> Iterator[None]:
    """install() for the time of a with statement."""
    with _STAND_IN.installed():
        yield
