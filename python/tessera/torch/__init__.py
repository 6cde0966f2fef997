"""Exact attention for torch: differentiable, compiled, and in the place of torch's own.

  out = tessera.torch.attention(q, k, v, causal=True)          # [B, L, H, D], differentiable
  out = tessera.torch.scaled_dot_product_attention(q, k, v)    # [B, H, L, D], as torch's
  with tessera.torch.patch_sdpa():                             # models as they are
      model(x)

Written for torch 2.5 and later, tested with 2.13.
"""

from __future__ import annotations

import tessera.torch._batching  # noqa: F401  (registers)
from tessera.torch._attention import attention
from tessera.torch._patch import patch_sdpa
from tessera.torch._sdpa import scaled_dot_product_attention

__all__ = ["attention", "patch_sdpa", "scaled_dot_product_attention"]
