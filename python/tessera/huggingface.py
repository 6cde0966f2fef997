"""Attention for the models of Hugging Face transformers.

  tessera.huggingface.register()
  model = AutoModel.from_pretrained(path, attn_implementation="tessera")

transformers (version 5) asks twice: a mask function makes the mask of a forward pass, and an
attention function computes each layer with it. Registered alone, an attention function gets no mask
at all, and causality and padding are lost without a word; register() therefore sets both.

When a mask is None, the call itself says what is visible: the band from is_causal and
sliding_window, whose diagonal ends at the last query and the last key. When there is a mask, it
says everything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import transformers
from transformers.masking_utils import (
    AttentionMaskInterface,
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
)
from transformers.modeling_utils import AttentionInterface
from transformers.utils import logging
from transformers.utils.import_utils import is_tracing

from tessera.torch import attention

__all__ = ["attention_forward", "make_mask", "register"]

_logger = logging.get_logger(__name__)
_TAKEN = ("flash", "sdpa", "flex_attention", "/", "|")  # transformers reads these in a name

# Keywords that models hand on to every layer and that change nothing here: what they say is in the
# mask, in the rotated queries and keys, or matters to other layers.
# fmt: off
_HARMLESS = frozenset([
    "cache_position", "deterministic", "logits_to_keep", "max_length_k", "max_length_q",
    "max_seqlen_k", "max_seqlen_q", "num_items_in_batch", "output_attentions",
    "output_hidden_states", "output_router_logits", "position_embeddings", "position_ids",
    "return_dict", "seq_idx", "use_cache",
])
# fmt: on


# ---- Masks ---------------------------------------------------------------------------------------


def _hides_keys(padding: torch.Tensor | None, kv_offset: Any, kv_length: int) -> bool:
    """Whether a 2-D mask hides one of the keys [kv_offset, kv_offset + kv_length)."""
    if padding is None:
        return False
    if is_tracing(padding) or padding.shape[-1] < kv_offset + kv_length:
        return True  # values of tensors must not decide what a trace holds
    return not bool(padding[:, kv_offset : kv_offset + kv_length].all())


def _ends_together(q_offset: Any, q_length: int, kv_offset: Any, kv_length: int) -> bool:
    """Whether the last query is at the last key: not so in a static cache that has room left."""
    if isinstance(q_offset, torch.Tensor) and is_tracing(q_offset):
        return False
    return bool(q_offset + q_length == kv_offset + kv_length)


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
      None where the band of the call says it all, else bool [batch_size, 1, q_length, kv_length],
      true: visible. A mask of padding alone is one row for all queries, expanded.
    """
    padded = _hides_keys(attention_mask, kv_offset, kv_length)
    is_local = local_size is not None and kv_length >= local_size
    if not padded and not is_local:
        if allow_is_bidirectional_skip:
            return None
        if allow_is_causal_skip and _ends_together(q_offset, q_length, kv_offset, kv_length):
            return None
    if attention_mask is not None and mask_function is bidirectional_mask_function:
        keys = attention_mask[:, kv_offset : kv_offset + kv_length].bool()
        keys = torch.nn.functional.pad(keys, (0, kv_length - keys.shape[-1]))
        return keys[:, None, None, :].expand(batch_size, 1, q_length, kv_length)
    mask: torch.Tensor | None = sdpa_mask(
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
    return mask


# ---- Attention -----------------------------------------------------------------------------------


def _check_keywords(keywords: dict[str, Any], ignored: frozenset[str]) -> None:
    """Raises for a keyword that may change what attention computes."""
    for name, value in keywords.items():
        if name in _HARMLESS or name in ignored or value is None or value is False:
            continue
        raise NotImplementedError(
            f"the model passes {name} to its attention, which tessera does not know and which may "
            "change the result; use attn_implementation='eager', or, if it changes nothing, "
            f"tessera.huggingface.register(ignore=['{name}'])"
        )
    if keywords.get("output_attentions"):
        _logger.warning_once(
            "tessera returns no attention weights, as it never has them in memory; use "
            "attn_implementation='eager' to see them"
        )


def _check_packed(q: torch.Tensor, position_bias: Any) -> None:
    if q.shape[0] != 1:
        raise ValueError(
            f"cu_seq_lens_q is given with a batch of {q.shape[0]}; packed sequences lie in one row"
        )
    if position_bias is not None:
        raise NotImplementedError(
            "position_bias is given with cu_seq_lens_q; pass packed sequences by position_ids, "
            "from which transformers makes a mask"
        )


def _within(mask: torch.Tensor, cu_q: torch.Tensor, cu_k: torch.Tensor) -> torch.Tensor:
    """The mask, with pairs hidden that are not of one packed sequence."""
    ids = [
        torch.searchsorted(cu, torch.arange(n, device=cu.device, dtype=cu.dtype), right=True)
        for cu, n in ((cu_q, mask.shape[-2]), (cu_k, mask.shape[-1]))
    ]
    same = ids[0][:, None] == ids[1]
    return mask & same if mask.dtype == torch.bool else mask.masked_fill(~same, -torch.inf)


def _mask_options(mask: torch.Tensor, bias: Any, keys: int) -> dict[str, Any]:
    """A bool mask as mask, and one to be added as bias."""
    if mask.dim() != 4:
        raise ValueError(
            f"attention_mask has shape {tuple(mask.shape)} when it reaches the layer; it must be "
            "[batch, heads or 1, queries, keys], as tessera.huggingface.make_mask makes it"
        )
    mask = mask[..., :keys]  # models cut a mask for a longer cache in this way
    if mask.dtype == torch.bool:
        return {"mask": mask, "bias": bias}
    return {"bias": mask if bias is None else bias + mask}


def _band_options(is_causal: bool, sliding_window: int | None) -> dict[str, Any]:
    """sliding_window counts the token itself; without causality it holds for both sides."""
    options: dict[str, Any] = {"causal": is_causal, "align": "bottom_right"}
    if sliding_window is not None:
        options["window"] = (sliding_window - 1, sliding_window - 1)
    return options


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    ignored: frozenset[str] = frozenset(),
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """One layer's attention, as transformers' AttentionInterface asks for it; differentiable.

    Args:
      module: the layer; its is_causal counts where the argument is None.
      query: [B, H, Lq, D]; key, value: [B, Hk, Lk, D or Dv], heads not repeated.
      attention_mask: what make_mask gave, or [B, 1 or H, Lq, Lk] to be added to scores, or None.
      dropout: the probability, from torch's generator; 0 in evaluation.
      scaling: of the scores; None: 1 / sqrt(D).
      sliding_window: keys that a query sees, itself included; used where there is no mask.
      softcap: of the scores, as in Gemma 2.
      s_aux: [H] sink logits, as in gpt-oss.
      position_bias: [B or 1, H, Lq, Lk], added to scores, as in T5.
      cu_seq_lens_q, cu_seq_lens_k: [sequences + 1] where packed sequences begin, for a batch of 1.
      ignored: more keywords that change nothing.

    Returns:
      ([B, Lq, H, Dv], None): there are no weights to return.

    Raises:
      NotImplementedError: a keyword that may change the result is not known.
      ValueError: as tessera.torch.attention.
    """
    _check_keywords(kwargs, ignored)
    if query.shape[0] != key.shape[0]:  # learned queries, one set for the whole batch
        query = query.expand(key.shape[0], -1, -1, -1)
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    options: dict[str, Any] = {
        "scale": scaling,
        "softcap": softcap or 0.0,
        "sink": None if s_aux is None else s_aux.reshape(-1),
        "dropout_p": dropout,
    }
    if attention_mask is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        options.update(_band_options(bool(causal), sliding_window), bias=position_bias)
    if cu_seq_lens_q is None or cu_seq_lens_k is None:
        if attention_mask is not None:
            options.update(_mask_options(attention_mask, position_bias, k.shape[1]))
        return attention(q, k, v, **options), None
    _check_packed(q, position_bias)
    if attention_mask is not None:
        mask = _within(attention_mask[..., : k.shape[1]], cu_seq_lens_q, cu_seq_lens_k)
        options.update(_mask_options(mask, None, k.shape[1]))
        return attention(q, k, v, **options), None
    options.update(cu_seqlens_q=cu_seq_lens_q, cu_seqlens_k=cu_seq_lens_k)
    return attention(q[0], k[0], v[0], **options)[None], None


# ---- Registration --------------------------------------------------------------------------------


def register(name: str = "tessera", *, ignore: Iterable[str] = ()) -> None:
    """Makes attn_implementation=name choose this library, for every model of transformers.

    Calling it again replaces what stood under the name.

    Args:
      name: the name to choose it by.
      ignore: keywords of a model of yours that change nothing in attention; others that are not
        known raise NotImplementedError when the model runs.

    Raises:
      ValueError: transformers would read something else in the name.
      NotImplementedError: this version of transformers makes masks in another way.
    """
    for part in _TAKEN:
        if part in name:
            raise ValueError(
                f"name is '{name}'; transformers takes names with '{part}' for its own: choose "
                "another, such as 'tessera'"
            )
    if "q_offset" not in inspect.signature(sdpa_mask).parameters:
        raise NotImplementedError(
            f"transformers {transformers.__version__} is installed, whose masks are made in "
            "another way; tessera was tested with 5.24: install that or a later one"
        )
    ignored = frozenset(ignore)
    forward = partial(attention_forward, ignored=ignored) if ignored else attention_forward
    AttentionMaskInterface.register(name, make_mask)
    AttentionInterface.register(name, forward)
