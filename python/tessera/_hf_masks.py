"""What a layer of transformers may see, in little memory.

transformers asks a mask function once for a forward pass and hands what it gives to all layers. A
band, padding and packed sequences need no matrix: the library has options for them. Ours therefore
gives a mask that carries these options, and becomes the matrix only where somebody else reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch.utils._pytree import tree_map
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    packed_sequence_mask_function,
    remap_positions_for_packed_sequence,
    sdpa_mask,
    sliding_window_overlay,
)
from transformers.utils.import_utils import is_tracing

Options = dict[str, Any]  # of tessera.attention


class Mask(torch.Tensor):
    """A bool mask [B, 1, Lq, Lk] that is made when an operator of torch reads it.

    options: what says the same to tessera.attention.
    """

    whole: Callable[[], torch.Tensor]
    options: Options

    @staticmethod
    def __new__(
        cls: Any, whole: Callable[[], torch.Tensor], shape: Any, device: Any, options: Options
    ) -> Mask:
        made: Mask = torch.Tensor._make_wrapper_subclass(
            cls, shape, dtype=torch.bool, device=device
        )
        made.whole, made.options = cache(whole), options
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch declares it without the operator
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The operator, on the matrix."""
        args, kwargs = tree_map(_whole, (args, kwargs or {}))
        return function(*args, **kwargs)


def _whole(x: Any) -> Any:
    return x.whole() if isinstance(x, Mask) else x


# ---- What a mask function says -------------------------------------------------------------------

_NONE = torch.empty(0)
_AND = and_masks().__code__
_WINDOW = sliding_window_overlay(1).__code__
_REMAPPED = remap_positions_for_packed_sequence(causal_mask_function, _NONE).__code__
_PACKED = packed_sequence_mask_function(_NONE).__code__


def _made_from(function: Any, code: Any) -> dict[str, Any]:
    """What transformers made a mask function from; nothing if it made it in another way."""
    is_it = getattr(function, "__code__", None) is code
    return dict(inspect.getclosurevars(function).nonlocals) if is_it else {}


def _band(function: Any) -> Options | None:
    """The options of a band, None for other masks."""
    if function is bidirectional_mask_function:
        return {}
    if function is causal_mask_function:
        return {"causal": True}
    parts = _made_from(function, _AND).get("mask_functions", ())
    if len(parts) == 2 and parts[1] is causal_mask_function:
        window = _made_from(parts[0], _WINDOW).get("sliding_window")
        if isinstance(window, int) and window > 0:
            return {"causal": True, "window": (window - 1, None)}
    return None


def _packed(function: Any) -> Options | None:
    """The options of a band within each of some packed sequences, None for other masks.

    Positions go up by one within a sequence, so that a band of positions is one of rows.
    """
    parts = _made_from(function, _AND).get("mask_functions", ())
    if len(parts) != 2:
        return None
    band = _band(_made_from(parts[0], _REMAPPED).get("mask_function"))
    sequences = _made_from(parts[1], _PACKED).get("packed_sequence_mask")
    if band is None or sequences is None:
        return None
    begins = torch.ones_like(sequences, dtype=torch.bool)
    begins[:, 1:] = sequences[:, 1:] != sequences[:, :-1]
    starts = begins.flatten().nonzero()[:, 0]  # among all B L rows
    bounds = torch.cat([starts, starts.new_tensor([sequences.numel()])]).int()
    return {**band, "align": "bottom_right", "cu_seqlens_q": bounds, "cu_seqlens_k": bounds}


def _keys_that_exist(padding: torch.Tensor, kv_offset: Any, kv_length: int) -> torch.Tensor:
    """[B, kv_length] bool; keys that the mask does not reach do not exist."""
    keys = padding[:, kv_offset : kv_offset + kv_length].bool()
    return torch.nn.functional.pad(keys, (0, kv_length - keys.shape[-1]))


def _padding(padding: torch.Tensor | None, kv_offset: Any, kv_length: int) -> Options:
    """The options of a padding mask: the first key and the end of each row, if all between exist,
    else one row of the mask for all queries.
    """
    if padding is None:
        return {}
    keys = _keys_that_exist(padding, kv_offset, kv_length)
    starts, counts = keys.int().argmax(1), keys.sum(1)
    ends, places = starts + counts, torch.arange(kv_length, device=keys.device)
    run = (places >= starts[:, None]) & (places < ends[:, None])
    if keys.all():
        return {}
    return {"kv_starts": starts, "kv_lengths": ends} if run.equal(keys) else {"mask": _row(keys)}


def _row(keys: torch.Tensor) -> torch.Tensor:
    """[B, Lk] as [B, 1, 1, Lk], in uint8: the band of the call holds beside it."""
    return keys[:, None, None, :].to(torch.uint8)


def _options(
    function: Any, padding: torch.Tensor | None, q_offset: Any, kv_offset: Any, kv_length: int
) -> Options | None:
    """The options that say what a mask function and a padding mask say, None if there are none."""
    band = _band(function)
    if band is None:
        return _packed(function) if padding is None else None
    # The key on the diagonal of the first query: lengths move the one at the bottom right.
    return {**band, "align": int(q_offset - kv_offset), **_padding(padding, kv_offset, kv_length)}


# ---- The mask function ---------------------------------------------------------------------------


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    **kwargs: Any,
) -> torch.Tensor | None:
    """The mask of a forward pass, as transformers.masking_utils asks for it.

    Args:
      batch_size, q_length, kv_length: sizes of the mask.
      q_offset, kv_offset: the positions of the first query and the first key.
      mask_function: mask_function(b, h, q, kv) tells whether a pair is visible.
      attention_mask: [batch_size, keys seen] bool, false: padding.
      local_size: keys of a sliding window or chunk.
      allow_is_causal_skip: None may stand for "causal".
      allow_is_bidirectional_skip: None may stand for "everything".
      kwargs: for transformers' own function.

    Returns:
      None where the band of the call says it all; else a mask bool [batch_size, 1, q_length,
      kv_length], true: visible, which takes memory only if something else than a band, padding and
      packed sequences is in it. Under a trace, where values of tensors must not decide what it
      holds, padding beside the band of the call is uint8 [batch_size, 1, 1, kv_length].
    """
    is_local = local_size is not None and kv_length >= local_size
    given = (attention_mask, q_offset, kv_offset)
    traced = any(isinstance(x, torch.Tensor) and is_tracing(x) for x in given)
    traced = traced or torch.compiler.is_compiling()
    together = not isinstance(q_offset, torch.Tensor) or not traced
    together = together and bool(q_offset + q_length == kv_offset + kv_length)
    by_the_call = allow_is_bidirectional_skip or (allow_is_causal_skip and together)
    whole: Any = partial(
        sdpa_mask,
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        local_size=local_size,
        allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False,
        **kwargs,
    )
    if by_the_call and not is_local and (attention_mask is None or traced):
        if attention_mask is None:
            return None
        return _row(_keys_that_exist(attention_mask, kv_offset, kv_length))
    options = None if traced else _options(mask_function, *given, kv_length)
    if options is None:
        made: torch.Tensor = whole()
        return made
    if by_the_call and not is_local and not options.keys() & {"kv_starts", "mask"}:
        return None
    device = kwargs.get("device") or (None if attention_mask is None else attention_mask.device)
    return Mask(whole, (batch_size, 1, q_length, kv_length), device, options)
