"""What the functions share: flash-attn's conventions as options of tessera.torch.attention."""

from __future__ import annotations

from typing import Any

import torch

from tessera.flash_attn._probabilities import probabilities
from tessera.torch import attention
from tessera.torch._attention import draw_seed


def check_tensors(**tensors: Any) -> None:
    """Raises TypeError for what is no torch tensor."""
    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is of type {type(x).__name__}; it must be a torch tensor")


def check_rank(name: str, x: Any, form: str) -> None:
    """Raises unless x is a torch tensor of as many dimensions as form has, "(B, L, H, D)"."""
    check_tensors(**{name: x})
    if x.dim() != form.count(",") + 1:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be {form}")


def band_options(causal: Any, window_size: Any) -> dict[str, Any]:
    """Causal and windows, both counted from the bottom right corner: the last query at the last
    key of its sequence. Sides of -1 or None are unbounded."""
    window = None if window_size is None or tuple(window_size) == (-1, -1) else tuple(window_size)
    return {"causal": bool(causal), "window": window, "align": "bottom_right"}


def score_options(softmax_scale: Any, softcap: float, alibi_slopes: Any) -> dict[str, Any]:
    """Those of the scores."""
    scale = None if softmax_scale is None else float(softmax_scale)
    return {"scale": scale, "softcap": softcap, "alibi": alibi_slopes}


def dropout_options(dropout_p: float, drawn: bool) -> dict[str, Any]:
    """Those of dropout. The call draws a seed from torch's generator, so that torch.manual_seed
    repeats the pattern, or, where a second call shall repeat it, this function does."""
    seed = int(draw_seed().item()) if drawn and dropout_p else None
    return {"dropout_p": dropout_p, "seed": seed}


def attend(
    q: Any,
    k: Any,
    v: Any,
    options: dict[str, Any],
    return_attn_probs: bool,
    longest: tuple[int, int] | None = None,
) -> Any:
    """out, or (out, lse, S_dmask) with the probabilities of dropout's pattern."""
    if not return_attn_probs:
        return attention(q, k, v, **options)
    out, lse = attention(q, k, v, return_lse=True, **options)
    if not options.get("dropout_p"):
        return out, lse, q.new_empty(0)
    return out, lse, probabilities(q, k, options, longest)
