"""flash-attn 2's functions on this library, and a way to put them in flash-attn's place.

  from tessera.flash_attn import flash_attn_func
  out = flash_attn_func(q, k, v, causal=True)        # [B, L, H, D], differentiable

Names, argument order, defaults, layouts, returns and conventions are flash-attn 2.8's. What it does
not do is done here too: tensors on the CPU, float32, any head dimension, any page size, dropout
together with a soft cap. What differs is listed in docs/reference/python-flash-attn.md.

Code that imports the name flash_attn finds this package after

  tessera.flash_attn.install()                       # or: with tessera.flash_attn.installed():
"""

from __future__ import annotations

from tessera.flash_attn._install import FLASH_ATTN_VERSION, install, installed, uninstall
from tessera.flash_attn._kvcache import flash_attn_with_kvcache
from tessera.flash_attn._packed import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from tessera.flash_attn._separate import flash_attn_func, flash_attn_varlen_func

__version__ = FLASH_ATTN_VERSION  # whose functions these are
__all__ = [
    "__version__",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "install",
    "installed",
    "uninstall",
]
