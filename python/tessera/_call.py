"""One attention call as the bytes of a tessera_attention_desc."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tessera import _descriptors as d
from tessera._options import Options
from tessera._scalars import backend_number, band, is_offsets, number, word
from tessera._tensors import Kind, Shape, adopt, check_kind, kinds, one_kind


class Call(NamedTuple):
    """What a call needs: its bytes, and all that they point at."""

    packed: bytes
    kind: Kind
    out: Any
    lse: Any  # None: not wanted
    memory: Any  # kept alive until the call returns


# ---- Tensors of options --------------------------------------------------------------------------

_PLACES = {name: i for i, name in enumerate(d.OPTIONAL)}
OPTIONS = Options.__optional_keys__
# Vectors that count rows: these may be lists.
LISTS = frozenset(
    ["offsets", "kv_lengths", "kv_starts", "cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k"]
)


def _integers(name: str, values: Sequence[Any]) -> list[int]:
    for i, x in enumerate(values):
        if isinstance(x, bool) or not hasattr(x, "__index__"):
            raise ValueError(f"{name}[{i}] is {x!r}; a list of {name} must hold integers")
    return [int(x) for x in values]


def optional(
    kind: Kind, name: str, x: Any, memory: list[Any], lead: int = 0, like: Any = None
) -> bytes:
    """A packed tensor, or an absent one; what it points at goes into memory. A list goes to the
    device of `like`.
    """
    if x is None:
        return d.ABSENT
    listed = name in LISTS and isinstance(x, (list, tuple))
    x = kind.integers(_integers(name, x), like) if listed else adopt(x, name)
    own = kinds[type(x)]
    check_kind(kind, own, "q", name)
    if name in ("mask", "bias"):
        lead = max(0, 4 - len(x.shape))  # as NumPy broadcasts
    memory.append(x)
    return d.TENSOR.pack(*own.read(x, name, x.shape, lead))


def _state(kind: Kind, state: Any, lead: int, memory: list[Any]) -> bytes:
    if state is None:
        return d.ABSENT + d.ABSENT
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise ValueError("state must be (out, lse) in float32, as an earlier call returned them")
    out = optional(kind, "state_out", state[0], memory, lead)
    return out + optional(kind, "state_lse", state[1], memory, lead)


def pack_rest(kind: Kind, extras: Extras | None, lead: int, q: Any) -> tuple[bytes, list[Any]]:
    """The end of a descriptor, and the memory that it points at."""
    memory: list[Any] = []
    stream = kind.stream(q) or 0
    tensors = [d.ABSENT] * len(d.OPTIONAL)
    if extras is None:
        return d.rest(tensors, stream=stream) if stream else d.NO_REST, memory
    for name, x in extras.tensors.items():
        tensors[_PLACES[name]] = optional(kind, name, x, memory, like=q)
    p, offset, seed = extras.dropout
    words = (number("dropout_p", p), word("dropout_offset", offset, 32), word("seed", seed, 64))
    return d.rest(tensors, words, _state(kind, extras.state, lead, memory), stream), memory


# ---- The call ------------------------------------------------------------------------------------


class Scalars(NamedTuple):
    """The options of a call that are numbers and names."""

    band: tuple[int, int, int, int]
    scale: Any = None
    softcap: Any = 0.0
    backend: str | None = None
    flags: int = 0


class Extras(NamedTuple):
    """The options of a call that most calls leave out."""

    tensors: dict[str, Any]
    dropout: tuple[Any, Any, Any]  # p, offset, seed
    state: Any

    @staticmethod
    def of(tensors: dict[str, Any], dropout: Any, state: Any) -> Extras | None:
        """The extras of a call, None if it has none."""
        if not tensors and state is None and not any(dropout):
            return None
        return Extras(tensors, dropout, state)


def _check_ranks(shapes: Sequence[Shape], extras: Extras | None) -> None:
    """Raises ValueError unless q, k and v have 4 dimensions, or 3 where they are packed."""
    tensors = extras.tensors if extras else {}
    for name, shape in zip("qkv", shapes):
        side = "cu_seqlens_q" if name == "q" else "cu_seqlens_k"
        if len(shape) == 4 or (len(shape) == 3 and tensors.get(side) is not None):
            continue
        raise ValueError(
            f"{name} has shape {tuple(shape)}; it must be [batch, sequence, heads, dim], or "
            f"[total, heads, dim] with {side}"
        )


def _same_kind(q: Any, k: Any, v: Any) -> bool:
    kind = kinds.get(type(q))
    return kind is not None and kinds.get(type(k)) is kind and kinds.get(type(v)) is kind


def made(x: Any, name: str, lead: int) -> tuple[int, bytes]:
    """An output that we made."""
    if type(x) not in kinds:
        adopt(x, name)
    return kinds[type(x)].read(x, name, x.shape, lead)


def given_output(
    kind: Kind, name: str, x: Any, lead: int, memory: list[Any] | None = None
) -> tuple[int, bytes]:
    """An output that the caller gave: an array, a torch tensor, or, where `memory` may hold what
    points at it, a tensor on a GPU that comes by DLPack.
    """
    found = adopt(x, name)
    own = kinds[type(found)]
    if found is not x and (memory is None or own.stream(found) is None):
        raise TypeError(
            f"{name} is of type {type(x).__name__}; an output must be a NumPy array or a torch "
            "tensor (numpy.from_dlpack makes an array of other memory)"
        )
    if memory is not None:
        memory.append(found)
    check_kind(kind, own, "q", name)
    return own.write(found, name, found.shape, lead)


def lse_shape(q_shape: Shape) -> Shape:
    """[B, H, L], or [H, total] of packed queries."""
    return (*q_shape[:-3], q_shape[-2], q_shape[-3])


def statistics_dtype(kind: Kind, q: Any) -> int:
    """The dtype of lse: float32, or float64 where q is."""
    return d.FLOAT64 if kind.dtype(q, "q") == d.FLOAT64 else d.FLOAT32


def _outputs(
    kind: Kind, q: Any, v: Any, out: Any, lse: Any, lead: int, memory: list[Any]
) -> tuple[Any, ...]:  # fmt: skip
    """out and lse, made if need be, each with address and layout."""
    if out is None:
        out = kind.empty_like(q, (*q.shape[:-1], v.shape[-1]))
        at_out = made(out, "out", lead)
    else:
        at_out = given_output(kind, "out", out, lead, memory)
    if lse is False:
        return out, None, *at_out, 0, d.ABSENT_LAYOUT
    lse = kind.empty(q, lse_shape(q.shape), statistics_dtype(kind, q))
    return out, lse, *at_out, *made(lse, "lse", lead)


def _answers(kind: Kind, out: Any, lse: Any, lead: int) -> tuple[Any, ...]:
    """out and lse of an earlier call, which its gradients read."""
    out, lse = adopt(out, "out"), adopt(lse, "lse")
    for name, x in (("out", out), ("lse", lse)):
        check_kind(kind, kinds[type(x)], "q", name)
    at_out = kinds[type(out)].read(out, "out", out.shape, lead)
    return out, lse, *at_out, *kinds[type(lse)].read(lse, "lse", lse.shape, lead)


def pack(
    q: Any, k: Any, v: Any, out: Any, lse: Any, scalars: Scalars, extras: Extras | None
) -> Call:
    """Packs a call. out: None makes one. lse: True makes one, False wants none; a tensor is, like
    out, what an earlier call returned, and only read.
    """
    if not _same_kind(q, k, v):
        q, k, v = one_kind({"q": q, "k": k, "v": v})
    kind = kinds[type(q)]
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    lead_q = lead_k = lead_v = 0
    if not len(q_shape) == len(k_shape) == len(v_shape) == 4:
        _check_ranks((q_shape, k_shape, v_shape), extras)
        lead_q, lead_k, lead_v = 4 - len(q_shape), 4 - len(k_shape), 4 - len(v_shape)
    q_data, q_layout = kind.read(q, "q", q_shape, lead_q)
    k_data, k_layout = kinds[type(k)].read(k, "k", k_shape, lead_k)
    v_data, v_layout = kinds[type(v)].read(v, "v", v_shape, lead_v)

    band, scale, softcap, backend, flags = scalars
    scale = math.nan if scale is None else number("scale", scale)
    softcap = number("softcap", softcap) if softcap else 0.0
    rest, memory = pack_rest(kind, extras, lead_q, q)

    if lse is True or lse is False:
        answer = _outputs(kind, q, v, out, lse, lead_q, memory)
    else:
        answer = _answers(kind, out, lse, lead_q)

    # fmt: off
    packed = d.CALL.pack(
        d.CALL_SIZE, flags, backend_number(backend) if backend else 0, band[0],
        q_data, q_layout, k_data, k_layout, v_data, v_layout,
        *answer[2:],
        scale, softcap, band[1], band[2], band[3], rest,
    )
    # fmt: on
    return Call(packed, kind, answer[0], answer[1], (q, k, v, memory))


def pack_options(q: Any, k: Any, v: Any, out: Any, lse: Any, options: Mapping[str, Any]) -> Call:
    """Packs a call from the keywords of tessera.attention.

    Raises:
      TypeError: a keyword is unknown.
    """
    unknown = set(options) - OPTIONS
    if unknown:
        raise TypeError(
            f"unknown option {', '.join(sorted(unknown))}; the options are "
            f"{', '.join(sorted(OPTIONS))}"
        )
    get = options.get
    align = get("align")
    dropout = (get("dropout_p", 0.0), get("dropout_offset", 0), get("seed", 0))
    tensors = {name: options[name] for name in d.OPTIONAL if get(name) is not None}
    if is_offsets(align):
        tensors["offsets"] = align
    extras = Extras.of(tensors, dropout, get("state"))
    scalars = Scalars(
        band(get("causal", False), get("window"), align),
        get("scale"),
        get("softcap", 0.0),
        get("backend"),
        d.BATCH_INVARIANT if get("batch_invariant") else 0,
    )
    return pack(q, k, v, out, lse, scalars, extras)
