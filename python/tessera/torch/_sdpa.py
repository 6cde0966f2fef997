"""torch's scaled_dot_product_attention, computed by the library."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

from tessera.torch._attention import PLAIN, autocast, call, is_eager, single
from tessera.torch._function import needs_gradients
from tessera.torch._plain import computed, plain

theirs: Any = torch.nn.functional.scaled_dot_product_attention
_broadcast_shapes: Any = torch.broadcast_shapes  # torch gives it no types
_MASK_DTYPES = {torch.bool, torch.float32}


def _check_dtypes(query: Any, key: Any, value: Any, mask: Any) -> None:
    """Raises RuntimeError where torch has rules that the library has not."""
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"query, key and value have dtypes {query.dtype}, {key.dtype} and {value.dtype}; they "
            "must share one: convert them"
        )
    if mask is not None and mask.dtype not in _MASK_DTYPES and mask.dtype != query.dtype:
        raise RuntimeError(
            f"attn_mask has dtype {mask.dtype}; it must be bool, float32 or query's dtype, "
            f"{query.dtype}: convert it"
        )


def _shared_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """key and value with one number of heads, which divides that of query."""
    heads, key_heads, value_heads = query.shape[-3], key.shape[-3], value.shape[-3]
    if not key_heads or not value_heads or heads % key_heads or heads % value_heads:
        raise RuntimeError(
            f"query has {heads} heads, key {key_heads} and value {value_heads}; with enable_gqa "
            "those of key and value must divide those of query"
        )
    if key_heads == value_heads:
        return key, value
    key = key.repeat_interleave(heads // key_heads, -3)
    return key, value.repeat_interleave(heads // value_heads, -3)


def _broadcast(query: Any, key: Any, value: Any, gqa: bool) -> tuple[Any, Any, Any]:
    """The three with the same leading dimensions, but for heads that are shared."""
    given = (query, key, value)
    own = 3 if gqa else 2  # dimensions that are not broadcast
    try:
        lead = _broadcast_shapes(*(x.shape[:-own] for x in given))
    except RuntimeError:
        shapes = ", ".join(str(tuple(x.shape)) for x in given)
        raise RuntimeError(
            f"query, key and value have shapes {shapes}; all dimensions but the last "
            f"{'three' if gqa else 'two'} must be equal or 1"
            + ("" if gqa else " (enable_gqa lets heads of query share one of key and value)")
        ) from None
    query, key, value = (x.expand(*lead, *x.shape[-own:]) for x in given)
    return query, key, value


def _four(x: Any) -> Any:
    """x [..., heads, length, dim] as [batch, heads, length, dim]."""
    rank = x.dim()
    if rank > 4:
        return x.flatten(0, rank - 4)
    return x[(None,) * (4 - rank)] if rank < 4 else x


def _four_mask(mask: Any, lead: Any) -> Any:
    """A mask of more than four dimensions as four."""
    if mask is None or len(lead) <= 2 or mask.dim() <= 3:
        return mask
    return _four(mask.expand(*lead[:-1], *mask.shape[-3:]))


def _compute(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: Any, causal: Any, scale: Any
) -> Any:
    """The call on [B, H, L, D]."""
    if mask is None and not dropout_p and is_eager(query, key, value):
        gradients = needs_gradients(query, key, value, None, None)
        return (plain if gradients else computed)(query, key, value, causal, scale)
    options = {"scale": scale, "causal": causal, "align": "top_left" if causal else None}
    if dropout_p:
        options["dropout_p"] = dropout_p
    if mask is not None:
        if mask.dtype == torch.bool:
            options["mask"] = mask
        else:
            options["bias"] = single(mask)
    return call(query, key, value, options, False, heads_first=True)


def _general(query: Any, key: Any, value: Any, mask: Any, gqa: bool, *options: Any) -> Any:
    """Any leading dimensions, any sharing of heads."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() < 2:
            raise RuntimeError(
                f"{name} has shape {tuple(x.shape)}; it must be [..., length, dim]: at least two "
                "dimensions"
            )
    if gqa and min(query.dim(), key.dim(), value.dim()) < 3:
        raise RuntimeError(
            "enable_gqa needs the dimension of heads: [..., heads, length, dim] for query, key and "
            "value"
        )
    if gqa:
        key, value = _shared_heads(query, key, value)
    query, key, value = _broadcast(query, key, value, gqa)
    lead = query.shape[:-2]
    out = _compute(_four(query), _four(key), _four(value), _four_mask(mask, lead), *options)
    return out.reshape(*lead, *out.shape[-2:]) if out.dim() != len(lead) + 2 else out


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention, computed by tessera on the CPU.

    out_i = sum_j P_ij value_j, P = dropout(softmax over visible j of scale <query_i, key_j> + mask)

    Args:
      query: [..., H, L, E] float32, float16, bfloat16 or (slow) float64.
      key: [..., H, S, E] of query's dtype; leading dimensions broadcast. [..., Hk, S, E] with
        enable_gqa, H % Hk == 0.
      value: [..., H, S, Ev], as key.
      attn_mask: of a shape that broadcasts to [..., H, L, S]: bool, true means "attend", or
        float32 or of query's dtype, added to scores; -inf hides a key. Float masks have gradients.
        float64 is read in float32.
      dropout_p: in [0, 1], applied whenever it is not 0; the seed is drawn from torch's generator,
        so torch.manual_seed repeats the pattern, which is not the one that torch draws.
      is_causal: key j is visible to query i iff j <= i (top-left, also where S != L); not together
        with attn_mask.
      scale: finite; None: 1 / sqrt(E).
      enable_gqa: query heads share key heads in groups of H / Hk neighbours.

    Returns:
      [..., H, L, Ev] of query's dtype. A row that sees no key is 0.

    Raises:
      RuntimeError: what torch refuses in this way, too: dtypes, shapes, attn_mask with is_causal.
      ValueError, NotImplementedError: as tessera.attention.

    A tensor subclass with a __torch_function__ of its own gets torch's function, which knows it.
    Gradients can be taken once; a second derivative is a RuntimeError.

    Source: the documentation of torch.nn.functional.scaled_dot_product_attention.
    """
    given = (query, key, value)
    if not torch.compiler.is_compiling() and has_torch_function_variadic(*given, attn_mask):
        return _intercepted(given, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    query, key, value = autocast(query, key, value)
    if attn_mask is not None and is_causal:
        raise RuntimeError(
            "attn_mask and is_causal are both given; pass one of them: combine the two in a mask"
        )
    if attn_mask is not None or not query.dtype == key.dtype == value.dtype:
        _check_dtypes(query, key, value, attn_mask)
    if scale is not None and scale < 0:  # the library has scales of 0 and more
        query, scale = -query, -scale
    if dropout_p == 1:  # every pair is dropped: no key is seen
        attn_mask, is_causal, dropout_p = query.new_zeros((), dtype=torch.bool), False, 0.0
    shape = query.shape
    if len(shape) == 4 and shape[:2] == key.shape[:2] == value.shape[:2] and key.dim() == 4:
        return _compute(query, key, value, attn_mask, dropout_p, is_causal, scale)
    options = (dropout_p, is_causal, scale)
    return _general(query, key, value, attn_mask, enable_gqa, *options)


def _intercepted(
    given: tuple[Any, Any, Any], mask: Any, dropout_p: Any, is_causal: Any, scale: Any, gqa: Any
) -> Any:
    """Hands the call to whoever intercepts torch's functions: modes get ours, which they may call;
    subclasses get torch's, which they know.
    """
    ours: Any = scaled_dot_product_attention
    known = all(type(x) in PLAIN for x in (*given, mask) if x is not None)
    # fmt: off
    return handle_torch_function(
        ours if known else theirs, (*given, mask), *given,
        attn_mask=mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=gqa,
    )
    # fmt: on
