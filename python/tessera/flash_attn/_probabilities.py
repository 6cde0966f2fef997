"""S_dmask: the probabilities of a call, and which of them dropout took."""

from __future__ import annotations

from typing import Any

import torch

from tessera._attention import attention


def _indicators(k: Any, cu: Any, longest: int) -> Any:
    """v with v_j the unit vector of key j (counted within its sequence), so that out_i is P_i."""
    if cu is None:
        eye = torch.eye(k.shape[1], dtype=k.dtype, device=k.device)
        return eye[None, :, None, :].expand(k.shape[0], -1, k.shape[2], -1)
    v = k.new_zeros((k.shape[0], 1, longest))
    for begin, end in zip(cu.tolist(), cu.tolist()[1:]):
        v[begin:end, 0, : end - begin].fill_diagonal_(1)
    return v.expand(-1, k.shape[1], -1)


def _scattered(rows: Any, cu: Any, longest: tuple[int, int]) -> Any:
    """[total, H, max_k] rows as [B, H, max_q, max_k], 0 where a sequence has no such row."""
    bounds = cu.tolist()
    dense = rows.new_zeros((len(bounds) - 1, rows.shape[1], *longest))
    for b, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        dense[b, :, : end - begin] = rows[begin:end].transpose(0, 1)
    return dense


@torch.no_grad()
def probabilities(q: Any, k: Any, options: dict[str, Any], longest: tuple[int, int] | None) -> Any:
    """[B, H, Lq, Lk]: P before dropout, negative where dropout takes the pair away.

    The library applies P to the unit vectors, once without and once with dropout: what is 0 in the
    second alone was dropped.
    """
    cu_q, cu_k = options.get("cu_seqlens_q"), options.get("cu_seqlens_k")
    v = _indicators(k, cu_k, longest[1] if longest else 0)
    plain = attention(q, k, v, **{**options, "dropout_p": 0.0})
    dropped = (attention(q, k, v, **options) == 0) & (plain != 0)
    signed = torch.where(dropped, -plain, plain)
    if cu_q is None or longest is None:
        return signed.transpose(1, 2).contiguous()
    return _scattered(signed, cu_q, longest)
