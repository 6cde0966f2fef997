"""Calls like one before: only the addresses differ, so they alone are put into its bytes.

Python's share of a small call is mostly reading and packing shapes. A call without extras is known
by the shapes, strides and dtypes of q, k and v and by its scalars; its descriptor is kept, with the
addresses cut out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tessera import _descriptors as d
from tessera._call import Call, given_output, statistics_dtype
from tessera._tensors import Seen, kinds


class Repeat(NamedTuple):
    """A call without its addresses."""

    head: bytes
    q: bytes
    k: bytes
    v: bytes
    out: bytes
    end: bytes
    new_out: Any  # what the kind makes out and lse from; None: given, or not wanted
    new_lse: Any


# Scalars of other types, such as arrays without dimensions, may have no hash or change.
_PLAIN_TYPES = {type(None), bool, int, float, str}
_known: Seen[Repeat] = Seen()


def find(q: Any, k: Any, v: Any, out: Any, scalars: tuple[Any, ...]) -> tuple[Any, Any]:
    """The key of a call, None if it is not kept, and its bytes, kind, out and lse, None if it is
    not known. scalars: align, scale, softcap, causal, backend, batch_invariant, return_lse.
    """
    kind = kinds.get(type(q))
    if kind is None or not type(q) is type(k) is type(v):
        return None, None
    for x in scalars:
        if type(x) not in _PLAIN_TYPES:
            return None, None
    given = None
    if out is not None:
        given = given_output(kind, "out", out, 0)
        scalars = (*scalars, given[1])
    key = kind.key(q, k, v, scalars)
    known = None if key is None else _known.get(key)
    if known is None:
        return key, None
    head, q_end, k_end, v_end, out_end, end, new_out, new_lse = known
    address = kind.address
    if given is None:
        out = kind.new(new_out)
    at = (head, address(q), q_end, address(k), k_end, address(v), v_end, address(out))
    if new_lse is None:
        return key, (d.CUT_WITHOUT_LSE.pack(*at, end), kind, out, None)
    lse = kind.new(new_lse)
    return key, (d.CUT_WITH_LSE.pack(*at, out_end, address(lse), end), kind, out, lse)


def keep(key: Any, call: Call, q: Any, given: bool) -> None:
    """Keeps the bytes of a call for the next one like it. given: its out came from the caller."""
    kind, out, lse = call.kind, call.out, call.lse
    new_out = None if given else kind.prototype(q, tuple(out.shape), kind.dtype(q, "q"))
    if lse is None:
        head, _, q_end, _, k_end, _, v_end, _, end = d.CUT_WITHOUT_LSE.unpack(call.packed)
        _known.put(key, Repeat(head, q_end, k_end, v_end, b"", end, new_out, None))
        return
    head, _, q_end, _, k_end, _, v_end, _, out_end, _, end = d.CUT_WITH_LSE.unpack(call.packed)
    new_lse = kind.prototype(q, tuple(lse.shape), statistics_dtype(kind, q))
    _known.put(key, Repeat(head, q_end, k_end, v_end, out_end, end, new_out, new_lse))
