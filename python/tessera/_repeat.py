"""Calls like one before: only addresses differ, so they alone are put into its bytes.

Python's share of a small call is mostly reading and packing shapes. A call is known by the types of
its arguments, by the shapes, strides, dtypes, devices and flags of its tensors and by its scalars;
its descriptor is kept, cut at the addresses. Calls with lists, a state or dropout are not kept, nor
are tensors that come by DLPack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from struct import Struct, calcsize
from typing import Any, NamedTuple

from tessera._tensors import Kind, Seen, kinds

_WORD = calcsize("<Q")
# Scalars of other types, such as arrays without dimensions, may have no hash or change.
_PLAIN_TYPES = {type(None), bool, int, float, str, type}
NEVER = object()  # a scalar of a call that is not kept


class Repeat(NamedTuple):
    """A descriptor without the words that differ."""

    kind: Kind
    cut: Struct  # pieces and words in turn
    pieces: list[bytes]
    fill: Callable[..., Any]  # fill(pack, pieces, *words)
    streamed: bool  # whether the last word is the stream
    prototypes: list[Any]  # of its outputs, None for those that are not made


class _Table(NamedTuple):
    """Calls whose tensors have the same types."""

    look: Callable[..., Any]  # tells of tensors all that the bytes depend on but addresses
    calls: Seen[Repeat]


_tables: dict[tuple[type, ...], _Table] = {}


# Loops over the tensors are written out, for they cost as much as what they do: 0.5 us a call.


@cache
def _look(kind: Any, count: int) -> Callable[..., Any]:
    names = [f"x{i}" for i in range(count)]
    parts = ", ".join(kind.look.format(x=x) for x in names)
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: ({parts})", kind.names)
    return made


@cache
def _fill(kind: Any, words: str) -> Callable[..., Any]:
    """words: of each word a letter, t for a tensor's address, n for a number."""
    names = [f"x{i}" for i in range(len(words))]
    values = {"t": kind.address, "n": "{x}"}
    parts = [f"pieces[{i}], {values[w].format(x=x)}" for i, (w, x) in enumerate(zip(words, names))]
    body = f"pack({', '.join(parts)}, pieces[{len(words)}])"
    made: Callable[..., Any] = eval(f"lambda pack, pieces, {', '.join(names)}: {body}", kind.names)
    return made


def find(tensors: tuple[Any, ...], names: tuple[Any, ...], scalars: tuple[Any, ...]) -> Any:
    """The Repeat that was kept for a call like this one; None if there is none.

    tensors: those that the call was given; names: of those that not every call has, or what else
    tells them.
    """
    table = _tables.get(tuple(map(type, tensors)))
    if table is None:
        return None
    key = table.look(*tensors), names, scalars
    try:
        return table.calls.get(key)
    except TypeError:  # a scalar has no hash
        return None


def keep(
    tensors: tuple[Any, ...],
    names: tuple[Any, ...],
    scalars: tuple[Any, ...],
    cut: tuple[bytes, Sequence[str], Mapping[str, int]],
    made: Iterable[Any],
) -> None:
    """Keeps a call for the next one like it.

    cut: the bytes of the call, the names of the words that will differ, in their order but for the
    stream, and where they stand; made: its outputs, None for those that the caller gave or does not
    want.
    """
    kind: Any = kinds.get(type(tensors[0]))
    if kind is None or any(kinds.get(type(x)) is not kind for x in tensors):
        return
    if not kind.look or not _PLAIN_TYPES.issuperset(map(type, scalars)):
        return
    packed, words, places = cut
    streamed = kind.stream(tensors[0]) is not None
    words = [*words, "stream"] if streamed else words
    starts = [0, *(places[word] + _WORD for word in words)]
    ends = [*(places[word] for word in words), len(packed)]
    pieces = [packed[start:end] for start, end in zip(starts, ends)]
    letters = "".join("n" if word in ("forward", "stream") else "t" for word in words)
    repeat = Repeat(
        kind,
        Struct("<" + "Q".join(f"{len(piece)}s" for piece in pieces)),
        pieces,
        _fill(kind, letters),
        streamed,
        [None if x is None else kind.prototype(x) for x in made],
    )
    types = tuple(map(type, tensors))
    table = _tables.setdefault(types, _Table(_look(kind, len(tensors)), Seen()))
    table.calls.put((table.look(*tensors), names, scalars), repeat)
