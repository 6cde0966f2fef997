"""Attention for the models of Hugging Face transformers.

  tessera.huggingface.register()
  model = AutoModel.from_pretrained(path, attn_implementation="tessera")

transformers (version 5) asks twice: a mask function makes the mask of a forward pass, and an
attention function computes each layer with it. Registered alone, an attention function gets no mask
at all, and causality and padding are lost without a word; register() therefore sets both.

When a mask is None, the call itself says what is visible: the band from is_causal and
sliding_window, whose diagonal ends at the last query and the last key. When there is a mask, it
says everything, if need be without its matrix (_hf_masks.py); one of uint8 holds padding alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
import transformers
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface
from transformers.utils import logging

from tessera._hf_masks import Mask, make_mask
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
    return mask & same if not mask.is_floating_point() else mask.masked_fill(~same, -torch.inf)


def _mask_options(mask: torch.Tensor, bias: Any, keys: int) -> dict[str, Any]:
    """A bool mask as mask, and one to be added as bias."""
    if mask.dim() != 4:
        raise ValueError(
            f"attention_mask has shape {tuple(mask.shape)} when it reaches the layer; it must be "
            "[batch, heads or 1, queries, keys], as tessera.huggingface.make_mask makes it"
        )
    mask = mask[..., :keys]  # models cut a mask for a longer cache in this way
    if not mask.is_floating_point():
        return {"mask": mask, "bias": bias}
    return {"bias": mask if bias is None else bias + mask}


def _band_options(is_causal: bool, sliding_window: int | None) -> dict[str, Any]:
    """sliding_window counts the token itself; without causality it holds for both sides."""
    options: dict[str, Any] = {"causal": is_causal, "align": "bottom_right"}
    if sliding_window is not None:
        options["window"] = (sliding_window - 1, sliding_window - 1)
    return options


def _packed(q: Any, k: Any, v: Any, **options: Any) -> torch.Tensor:
    """A call on packed sequences; q [B, L, H, D], of whose B L rows the options tell."""
    out = attention(*(x.flatten(0, 1) for x in (q, k, v)), **options)
    found: torch.Tensor = out.unflatten(0, q.shape[:2])
    return found


def _keeps_apart(mask: Any, *bounds: torch.Tensor) -> bool:
    """Whether a mask carries these bounds of packed sequences already."""
    own = mask.options.get("cu_seqlens_q") if isinstance(mask, Mask) else None
    return own is not None and all(own.shape == x.shape and bool((own == x).all()) for x in bounds)


def _carried(mask: Any, k: Any, position_bias: Any) -> dict[str, Any] | None:
    """The options that a mask carries, if this call can take them."""
    if not isinstance(mask, Mask) or mask.shape[-1] != k.shape[1]:
        return None
    if position_bias is not None and "cu_seqlens_q" in mask.options:
        return None  # a bias has no meaning for packed sequences
    return mask.options


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
    mask = attention_mask
    if mask is None or mask.dtype == torch.uint8:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        options.update(_band_options(bool(causal), sliding_window), mask=mask, bias=position_bias)
    if cu_seq_lens_q is not None and cu_seq_lens_k is not None:
        _check_packed(q, position_bias)
        if mask is None:
            options.update(cu_seqlens_q=cu_seq_lens_q, cu_seqlens_k=cu_seq_lens_k)
            return _packed(q, k, v, **options), None
        if not _keeps_apart(mask, cu_seq_lens_q, cu_seq_lens_k):
            pairs = mask[..., : k.shape[1]].expand(-1, -1, q.shape[1], -1)
            mask = _within(pairs, cu_seq_lens_q, cu_seq_lens_k)
    carried = _carried(mask, k, position_bias)
    if carried is not None:
        options.update(carried, bias=position_bias)
        return (_packed if "cu_seqlens_q" in carried else attention)(q, k, v, **options), None
    if mask is not None:
        options.update(_mask_options(mask, position_bias, k.shape[1]))
    return attention(q, k, v, **options), None


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
