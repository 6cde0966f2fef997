"""Calls like one before: only the addresses differ, so they alone are put into its bytes.

Python's share of a small call is mostly reading and packing shapes. A call without extras is known
by the shapes, strides and dtypes of q, k and v and by its scalars; its descriptor is kept, with the
addresses cut out.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from tessera._call import Call, lse_shape, statistics_dtype
from tessera._tensors import Seen, Shape, kinds

# The bytes between the addresses of q, k, v and out, and behind that of lse.
_WITHOUT_LSE = Struct("<16s Q96s Q96s Q96s Q1872s")
_WITH_LSE = Struct("<16s Q96s Q96s Q96s Q96s Q1768s")


class Repeat(NamedTuple):
    """A call without its addresses."""

    head: bytes
    q: bytes
    k: bytes
    v: bytes
    out: bytes
    end: bytes
    out_shape: Shape  # (): that of q
    lse_shape: Shape
    lse_dtype: int


# Scalars of other types, such as arrays without dimensions, may have no hash or change.
_PLAIN_TYPES = {type(None), bool, int, float, str}
_known: Seen[Repeat] = Seen()


def find(q: Any, k: Any, v: Any, scalars: tuple[Any, ...]) -> tuple[Any, Any]:
    """The key of a call, None if it is not kept, and its bytes, kind, out, lse and memory, None if
    it is not known. scalars: causal, align, scale, softcap, backend, batch_invariant, return_lse.
    """
    kind = kinds.get(type(q))
    if kind is None or not type(q) is type(k) is type(v):
        return None, None
    if not _PLAIN_TYPES.issuperset(map(type, scalars)):
        return None, None
    key = kind.key(q, k, v, scalars)
    known = None if key is None else _known.get(key)
    if known is None:
        return key, None
    head, q_end, k_end, v_end, out_end, end, out_shape, lse_of, lse_dtype = known
    address = kind.address
    out = kind.empty_like(q, out_shape) if out_shape else kind.twin(q)
    lse = None
    at = (head, address(q), q_end, address(k), k_end, address(v), v_end, address(out))
    if lse_dtype:
        lse = kind.empty(q, lse_of, lse_dtype)
        packed = _WITH_LSE.pack(*at, out_end, address(lse), end)
    else:
        packed = _WITHOUT_LSE.pack(*at, end)
    return key, (packed, kind, out, lse, None)


def keep(key: Any, call: Call, q: Any) -> None:
    """Keeps the bytes of a call for the next one like it."""
    out_shape = tuple(call.out.shape)
    out_shape = () if out_shape == tuple(q.shape) else out_shape
    if call.lse is None:
        head, _, q_end, _, k_end, _, v_end, _, end = _WITHOUT_LSE.unpack(call.packed)
        pieces: tuple[Any, ...] = (
            head,
            q_end,
            k_end,
            v_end,
            b"",
            end,
            tuple(call.out.shape),
            (),
            0,
        )
    else:
        head, _, q_end, _, k_end, _, v_end, _, out_end, _, end = _WITH_LSE.unpack(call.packed)
        of_lse = (lse_shape(q.shape), statistics_dtype(call.kind, q))
        pieces = (head, q_end, k_end, v_end, out_end, end, out_shape, *of_lse)
    _known.put(key, Repeat(*pieces))
