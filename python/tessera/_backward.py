"""The gradients of a call: tessera.attention_backward."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tessera import _call, _native, _repeat
from tessera import _descriptors as d
from tessera._call import given_output, made
from tessera._run import run
from tessera._scalars import is_offsets
from tessera._tensors import Kind, adopt, kinds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tessera._options import Options

DIFFERENTIABLE = ("bias", "sink")  # of the options


class Gradients(NamedTuple):
    """The gradients of one call; those that were not wanted are None."""

    dq: Any = None  # [B, Lq, H, D]
    dk: Any = None  # [B, Lk, Hk, D]
    dv: Any = None  # [B, Lk, Hk, Dv]
    d_bias: Any = None  # of bias's shape
    d_sink: Any = None  # [H]


def _new_gradients(wanted: Iterable[str], of: dict[str, Any], kind: Kind) -> Gradients:
    """Memory for the gradients wanted, each of the shape and dtype of its tensor."""
    names = set(wanted)
    for name in sorted(names):
        if name not in Gradients._fields:
            raise ValueError(f"wanted has '{name}'; it may have {', '.join(Gradients._fields)}")
        if of[name] is None:
            raise ValueError(f"{name} is wanted, but the call has no {name[2:]}")
    parts = {name: _like(kind, of["dq"], of[name], name) for name in names}
    return Gradients(**parts)


def _like(kind: Kind, q: Any, x: Any, name: str) -> Any:
    wide = name == "d_bias" and kind.dtype(q, "q") == d.FLOAT64
    own = adopt(x, name)
    dtype = d.FLOAT64 if wide else kinds[type(own)].dtype(own, name)
    return kind.empty(q, tuple(own.shape), dtype)


def _pack_gradients(kind: Kind, gradients: Gradients, given: bool, leads: dict[str, int]) -> bytes:
    packed = []
    for name, x in gradients._asdict().items():
        if x is None:
            packed.append(d.ABSENT)
            continue
        lead = leads.get(name, 0)
        at = given_output(kind, name, x, lead) if given else made(x, name, lead)
        packed.append(d.TENSOR.pack(*at))
    return b"".join(packed)


_Block = ctypes.c_char * d.BLOCK_SIZE


def block(flags: int, upstream: bytes, gradients: bytes, forward: bytes) -> ctypes.Array[Any]:
    """A backward call with its forward call behind it."""
    made = _Block()
    at_forward = ctypes.addressof(made) + d.BACKWARD.size
    d.BACKWARD.pack_into(made, 0, d.BACKWARD.size, flags, at_forward, upstream, gradients)
    ctypes.memmove(at_forward, forward, d.CALL_SIZE)
    return made


class Backward(NamedTuple):
    """What a backward call needs."""

    packed: Any  # a block
    kind: Kind
    gradients: Gradients
    memory: Any  # kept alive until the call returns


def pack(
    tensors: tuple[Any, ...],  # d_out, q, k, v, out, lse, d_lse
    wanted: Iterable[str],
    into: Gradients | None,
    accumulate: bool,
    options: Mapping[str, Any],
) -> Backward:
    """Packs a call of attention_backward."""
    d_out, q, k, v, out, lse, d_lse = tensors
    q, k, v = adopt(q, "q"), adopt(k, "k"), adopt(v, "v")
    options = {
        n: adopt(x, n) if n in DIFFERENTIABLE and x is not None else x for n, x in options.items()
    }
    call = _call.pack_options(q, k, v, out, lse, options)
    kind, bias, sink = call.kind, options.get("bias"), options.get("sink")
    lead_q, bias_lead = 4 - len(q.shape), 0 if bias is None else 4 - len(bias.shape)
    leads = {"dq": lead_q, "dk": 4 - len(k.shape), "dv": 4 - len(v.shape), "d_bias": bias_lead}
    if accumulate and into is None:
        raise ValueError("accumulate is set without into; pass the gradients to add to")
    of = {"dq": q, "dk": k, "dv": v, "d_bias": bias, "d_sink": sink}
    gradients = _new_gradients(wanted, of, kind) if into is None else Gradients(*into)
    read: list[Any] = [call]
    upstream = _call.optional(kind, "d_out", d_out, read, lead_q)
    upstream += _call.optional(kind, "d_lse", d_lse, read, lead_q)
    at_gradients = _pack_gradients(kind, gradients, into is not None, leads)
    packed = block(d.ACCUMULATE if accumulate else 0, upstream, at_gradients, call.packed)
    return Backward(packed, kind, gradients, read)


_NOT_GIVEN = Gradients()
_calls = _repeat.Kept(d.BLOCK_PLACES, d.GRADIENTS, [(d.FORWARD_PLACE, d.BACKWARD.size)])


def _parts(options: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The tensors among the options, in the order of a descriptor, and the others."""
    tensors: dict[str, Any] = {}
    scalars: list[Any] = []
    for name, x in options.items():
        if type(x) in kinds and name in d.OPTIONAL:
            tensors[name] = x
        elif name == "align" and is_offsets(x):
            tensors["offsets"] = x
        else:
            values = x if type(x) is tuple else (x,)
            scalars += (name, *values, *map(type, values))
    if options.get("dropout_p"):
        scalars.append(_repeat.NEVER)
    return tuple(map(tensors.get, d.OPTIONAL)) if tensors else (), tuple(scalars)


def attention_backward(
    d_out: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    *,
    d_lse: Any = None,
    wanted: Iterable[str] = ("dq", "dk", "dv"),
    into: Gradients | None = None,
    accumulate: bool = False,
    threads: int | None = None,
    **options: Unpack[Options],
) -> Gradients:
    """The gradients of one call of tessera.attention.

    With P, out and lse as there, Z_ij the weight that dropout gives a pair, t_ij the slope of the
    soft cap (1 without them), and D_i = <d_out_i, out_i> - d_lse_i:
      dP_ij = Z_ij <d_out_i, v_j>;         dS_ij = P_ij (dP_ij - D_i);   d_bias_ij = dS_ij
      dq_i = scale sum_j dS_ij t_ij k_j;   dk_j = scale sum_i dS_ij t_ij q_i
      dv_j = sum_i P_ij Z_ij d_out_i;      d_sink = - sum_i exp(sink - lse_i) D_i
    Key heads sum over the query heads that share them, d_bias over what the bias is broadcast to.

    Args:
      d_out: the gradient of out, of its shape, float32 or of q's dtype, any strides.
      q, k, v, options: those of the call.
      out, lse: what the call returned, with return_lse.
      d_lse: the gradient of lse, of its shape and dtype; None: 0.
      wanted: names of the gradients to compute: "dq", "dk", "dv", "d_bias", "d_sink".
      into: memory for them, of their shapes, in float32 or the dtypes of their tensors; wanted is
        then what is not None there.
      accumulate: add to what `into` holds.
      threads: as for tessera.attention.

    Returns:
      Gradients(dq, dk, dv, d_bias, d_sink), each of the shape and dtype of its tensor; None where
      not wanted.

    Raises:
      As tessera.attention; NotImplementedError for pages and for a call that starts from a state.

    Source: Dao, "FlashAttention-2", 2023, for the backward pass without the matrix.
    """
    wanted = tuple(wanted)
    extras, scalars = _parts(options) if options else ((), ())
    given = _NOT_GIVEN if into is None else Gradients(*into)
    tensors = (d_out, d_lse, *given, q, k, v, out, lse, *extras)
    types = (*map(type, tensors),)
    scalars += ("wanted", *wanted, accumulate) if into is None else (accumulate,)
    repeat = _calls.find(types, tensors, scalars)
    if repeat is None:
        call = pack((d_out, q, k, v, out, lse, d_lse), wanted, into, accumulate, options)
        made = call.gradients if into is None else _NOT_GIVEN
        _calls.keep(types, tensors, scalars, call.packed.raw, made._asdict())
        run(_native.attention_backward, call.packed, call.kind, threads)
        return call.gradients
    kind, prototypes, lend, idle = repeat
    if into is None:
        new = kind.new
        gradients = Gradients._make([None if x is None else new(x) for x in prototypes])
    else:
        gradients = given
        kind.touch([x for x in gradients if x is not None])
    lent = lend(idle, (d_out, d_lse, *gradients, q, k, v, out, lse, *extras))
    run(_native.attention_backward, lent[1], kind, threads)
    idle.append(lent)
    return gradients
