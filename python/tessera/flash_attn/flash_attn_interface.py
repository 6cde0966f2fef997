"""The functions under the path where flash-attn 2 keeps them."""

from __future__ import annotations

from tessera.flash_attn._kvcache import flash_attn_with_kvcache
from tessera.flash_attn._packed import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from tessera.flash_attn._separate import flash_attn_func, flash_attn_varlen_func

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]
