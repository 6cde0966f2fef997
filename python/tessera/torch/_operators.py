"""tessera::attention_forward and tessera::attention_backward, the operators that torch traces.

A traced graph (torch.compile, torch.export, vmap) holds these; eager code calls the library at once
(_function.py). An operator takes tensors, numbers and words alone, at fixed places: `pack` puts the
options of tessera.attention there, `unpack` takes them from there; heads_first, the last, says how
the memory of out lies. Gradients are not registered here: the autograd.Function around the
operators has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera._attention import attention
from tessera._backward import Gradients, attention_backward
from tessera._call import LISTS, lse_shape
from tessera._scalars import is_offsets

# The options that are tensors, behind q, k, v; `wanted` of the backward pass counts on bias and
# sink being the first.
# fmt: off
TENSORS = (
    "bias", "sink", "mask", "alibi", "offsets", "kv_lengths", "kv_starts", "cache_batch_idx",
    "cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "block_table", "state_out",
    "state_lse", "seed",
)
_SCALARS = {
    "causal": "bool", "left": "SymInt?", "right": "SymInt?", "align": "str?", "offset": "SymInt?",
    "scale": "float?", "softcap": "float", "dropout_p": "float", "dropout_offset": "int",
    "batch_invariant": "bool", "backend": "str?", "threads": "int?",
    "heads_first": "bool",
}
_DEFAULTS = {
    "causal": False, "softcap": 0.0, "dropout_p": 0.0, "dropout_offset": 0, "batch_invariant": False
}
# fmt: on
_LISTS = sorted(LISTS)  # torch.compile walks along it
_FIELDS = (*TENSORS, *_SCALARS)
_PASSED_ON = [n for n in TENSORS if n not in ("offsets", "state_out", "state_lse", "seed")]
_PASSED_ON += [n for n in _SCALARS if n not in ("left", "right", "align", "offset", "heads_first")]
_INPUTS = ", ".join(
    ["Tensor q", "Tensor k", "Tensor v"]
    + [f"Tensor? {name}" for name in TENSORS]
    + [f"{kind} {name}" for name, kind in _SCALARS.items()]
)
_WORD = 2**64 - 1


def as_word(seed: Any) -> int:
    """A seed as the 64 bits of an unsigned word, from a tensor of int64."""
    return int(seed) & _WORD


def _tensor(x: Any) -> Any:
    return torch.tensor(x, dtype=torch.int64) if isinstance(x, (list, tuple)) else x


def _seed_tensor(seed: Any) -> Any:
    """An int or a tensor as a tensor of int64: a graph then takes it as data, not as a constant."""
    if isinstance(seed, torch.Tensor):
        return seed
    if seed >= 2**63:  # no SymInt of torch.compile goes so far; a range makes it a constant
        seed = range(seed, seed + 1)[0] - 2**64
    return torch.full((), seed, dtype=torch.int64)


def pack(options: dict[str, Any]) -> tuple[Any, ...]:
    """The options of a call as the operators take them, in the order of their schemas."""
    get = options.get
    fields: dict[str, Any] = {name: get(name, _DEFAULTS.get(name)) for name in _PASSED_ON}
    align, window, state = get("align"), get("window"), get("state")
    word = align is None or isinstance(align, str)
    vector = not word and is_offsets(align)
    fields["align"] = align if word else None
    fields["offsets"] = align if vector else None
    for name in _LISTS:
        fields[name] = _tensor(fields[name])
    fields["offset"] = None if word or vector else align
    fields["heads_first"] = get("heads_first", False)
    fields["left"], fields["right"] = (None, None) if window is None else window
    fields["state_out"], fields["state_lse"] = (None, None) if state is None else state
    seed = get("seed") if get("dropout_p") else None
    fields["seed"] = None if seed is None else _seed_tensor(seed)
    return tuple(fields[name] for name in _FIELDS)


def unpack(packed: Sequence[Any]) -> dict[str, Any]:
    """The keywords of tessera.attention from what pack() made."""
    fields = dict(zip(_FIELDS, packed))
    options = {name: fields[name] for name in _PASSED_ON}
    align, offset, offsets = fields["align"], fields["offset"], fields["offsets"]
    options["align"] = offsets if offsets is not None else align if offset is None else offset
    sides = (fields["left"], fields["right"])
    options["window"] = None if sides == (None, None) else sides
    state = (fields["state_out"], fields["state_lse"])
    options["state"] = None if state[0] is None else state
    options["seed"] = 0 if fields["seed"] is None else as_word(fields["seed"])
    return options


# ---- Forward -------------------------------------------------------------------------------------


def lse_dtype(q: Any) -> Any:
    """float32, or float64 where q is."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def new_out(q: Any, v: Any, heads_first: bool) -> Any:
    """Memory for out, [B, Lq, H, Dv] of [B, H, Lq, Dv] if heads_first."""
    if not heads_first:
        # new_empty: empty_like would keep the strides of a permuted q, which the library does not.
        return q.new_empty((*q.shape[:-1], v.shape[-1]))
    batch, rows, heads, _ = q.shape
    return q.new_empty((batch, heads, rows, v.shape[-1])).transpose(1, 2)


def _forward(q: Any, k: Any, v: Any, *packed: Any) -> tuple[Any, Any]:
    out = new_out(q, v, True) if packed[-1] else None
    found: tuple[Any, Any] = attention(q, k, v, out=out, return_lse=True, **unpack(packed))
    return found


def _fake_forward(q: Any, k: Any, v: Any, *packed: Any) -> tuple[Any, Any]:
    return new_out(q, v, packed[-1]), q.new_empty(lse_shape(q.shape), dtype=lse_dtype(q))


# ---- Backward ------------------------------------------------------------------------------------


def _backward(
    d_out: Any, d_lse: Any, out: Any, lse: Any, wanted: Sequence[bool], q: Any, k: Any, v: Any,
    *packed: Any,
) -> tuple[Any, ...]:  # fmt: skip
    options = unpack(packed)
    names = [name for name, want in zip(Gradients._fields, wanted) if want]
    threads = options.pop("threads")
    found = attention_backward(
        d_out, q, k, v, out, lse, d_lse=d_lse, wanted=names, threads=threads, **options
    )
    return tuple(q.new_empty(0) if x is None else x for x in found)


def _fake_backward(
    d_out: Any, d_lse: Any, out: Any, lse: Any, wanted: Sequence[bool], q: Any, k: Any, v: Any,
    *packed: Any,
) -> tuple[Any, ...]:  # fmt: skip
    wide = torch.float64 if q.dtype == torch.float64 else None  # of d_bias
    found = []
    for name, want, x in zip(Gradients._fields, wanted, (q, k, v, packed[0], packed[1])):
        dtype = (wide if name == "d_bias" else None) or (x.dtype if want else q.dtype)
        found.append(q.new_empty(x.shape if want else (0,), dtype=dtype if want else q.dtype))
    return tuple(found)


# ---- Registration --------------------------------------------------------------------------------

torch.library.define("tessera::attention_forward", f"({_INPUTS}) -> (Tensor, Tensor)")
torch.library.define(
    "tessera::attention_backward",
    f"(Tensor d_out, Tensor? d_lse, Tensor out, Tensor lse, bool[5] wanted, {_INPUTS}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
)
for _device in ("CPU", "CUDA"):  # the library refuses what it cannot do, in its own words
    torch.library.impl("tessera::attention_forward", _device, _forward)
    torch.library.impl("tessera::attention_backward", _device, _backward)
torch.library.register_fake("tessera::attention_forward", _fake_forward)
torch.library.register_fake("tessera::attention_backward", _fake_backward)

forward_operator = torch.ops.tessera.attention_forward.default
backward_operator = torch.ops.tessera.attention_backward.default
