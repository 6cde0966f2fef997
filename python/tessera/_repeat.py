"""Calls like one before: only addresses differ, so they alone are written into its descriptor.

Python's share of a small call is mostly reading and packing shapes. A call is known by the types of
its arguments, by the shapes, strides, dtypes and devices of its tensors and by its scalars; its
descriptor is kept, and lent to one call at a time. Calls with lists, a state or dropout are not
kept, nor are tensors that come by DLPack or that the call has to refuse.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from struct import calcsize
from typing import Any, NamedTuple

from tessera._tensors import Kind, Seen, kinds

_WORD = calcsize("<Q")
# Scalars of other types, such as arrays without dimensions, may have no hash or change.
_PLAIN_TYPES = {type(None), bool, int, float, str, type}
NEVER = object()  # a scalar of a call that is not kept

# ---- Descriptors ---------------------------------------------------------------------------------

Lent = tuple[Any, int]  # a descriptor as an array of words, and where it lies
Links = Iterable[tuple[int, int]]


class Idle(list[Lent]):
    """The descriptors of a kept call that no call uses now: threads take one and put it back.

    packed: the bytes of the call; links: where words begin that point into the descriptor itself,
    and at which of its bytes.
    """

    def __init__(self, packed: bytes, links: Links) -> None:
        super().__init__()
        self._packed, self._links = packed, links

    def more(self) -> Lent:
        """One more descriptor."""
        words = array("Q", self._packed)
        address = words.buffer_info()[0]
        for place, byte in self._links:
            words[place // _WORD] = address + byte
        return words, address


class Repeat(NamedTuple):
    """What a call needs that is like one before."""

    kind: Kind
    prototypes: list[Any]  # of its outputs, None for those that are not made
    lend: Callable[..., Lent]  # lend(idle, tensors): a descriptor of these tensors
    idle: Idle


# ---- Functions written out -----------------------------------------------------------------------

# Loops over the tensors are written out, for they cost as much as what they do: 0.5 us a call.


def _made(name: str, lines: Iterable[str], names: dict[str, Any]) -> Callable[..., Any]:
    scope = dict(names)
    exec("\n".join(lines), scope)
    made: Callable[..., Any] = scope[name]
    return made


@cache
def _look(kind: Any, uses: str) -> Callable[..., Any]:
    """Tells of a tuple of tensors all that a descriptor depends on but addresses; None of those
    that a call may refuse.

    uses: a letter for each tensor, r if it is read, w if it is written, and - if it is not there.
    """
    there = [(f"x{i}", i, use) for i, use in enumerate(uses) if use != "-"]
    odd = [kind.odd.format(x=x) for x, _, _ in there if kind.odd]
    odd += [kind.odd_output.format(x=x) for x, _, use in there if use == "w" and kind.odd_output]
    told = ", ".join(kind.look.format(x=x) for x, _, _ in there)
    lines = [
        "def look(tensors):",
        *(f"    {x} = tensors[{i}]" for x, i, _ in there),
        f"    return None if {' or '.join(odd) or False} else ({told})",
    ]
    return _made("look", lines, kind.names)


@cache
def _lend(kind: Any, places: tuple[int | None, ...], stream: tuple[int, int] | None) -> Any:
    """Takes a descriptor and writes the addresses of a tuple of tensors into it.

    places: of each tensor the byte that its address begins at, None if it is not there; stream:
    the same of the stream, and the number of the tensor that tells it.
    """
    told = [
        (place, kind.address.format(x=f"tensors[{i}]"))
        for i, place in enumerate(places)
        if place is not None
    ]
    if stream is not None:
        told.append((stream[0], f"stream(tensors[{stream[1]}])"))
    lines = [
        "def lend(idle, tensors):",
        "    try: lent = idle.pop()",
        "    except IndexError: lent = idle.more()",
        "    words = lent[0]",
        *(f"    words[{place // _WORD}] = {value}" for place, value in told),
        "    return lent",
    ]
    return _made("lend", lines, {**kind.names, "stream": kind.stream})


# ---- Calls ---------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """Calls whose tensors have the same types."""

    look: Callable[..., Any]
    calls: Seen[Repeat]


class Kept:
    """The calls of one function that are kept.

    places: of its tensors, in the order of its descriptor, and of its stream, in bytes; written:
    the tensors that it writes; links: as for Idle.
    """

    def __init__(
        self, places: Mapping[str, int], written: Iterable[str], links: Links = ()
    ) -> None:
        self._names = [name for name in places if name != "stream"]
        self._places, self._written, self._links = places, frozenset(written), links
        self._tables: dict[tuple[type, ...], _Table] = {}

    def find(
        self, types: tuple[type, ...], tensors: tuple[Any, ...], scalars: tuple[Any, ...]
    ) -> Any:
        """The Repeat that was kept for a call like this one; None if there is none.

        tensors: in the order of `places`, None for those that the call was not given; those at the
        end may be left out. types: theirs.
        """
        table = self._tables.get(types)
        if table is None:
            return None
        look, calls = table
        try:
            return calls.get((look(tensors), scalars))
        except TypeError:  # a scalar has no hash
            return None

    def keep(
        self,
        types: tuple[type, ...],
        tensors: tuple[Any, ...],
        scalars: tuple[Any, ...],
        packed: bytes,
        made: Mapping[str, Any],
    ) -> None:
        """Keeps a call for the next one like it.

        packed: the bytes of the call; made: its outputs by name, None for those that the caller
        gave or does not want.
        """
        given = [i for i, x in enumerate(tensors) if x is not None]
        kind: Any = kinds.get(types[given[0]])
        if kind is None or any(kinds.get(types[i]) is not kind for i in given):
            return
        if not kind.look or not _PLAIN_TYPES.issuperset(map(type, scalars)):
            return
        names = self._names[: len(tensors)]
        uses = ["w" if name in self._written else "r" for name in names]
        look = _look(kind, "".join(u if i in given else "-" for i, u in enumerate(uses)))
        seen = look(tensors)
        if seen is None:
            return
        repeat = Repeat(
            kind,
            [None if x is None else kind.prototype(x) for x in made.values()],
            self._lend(kind, names, tensors, made),
            Idle(packed, self._links),
        )
        self._tables.setdefault(types, _Table(look, Seen())).calls.put((seen, scalars), repeat)

    def _lend(
        self, kind: Any, names: list[str], tensors: tuple[Any, ...], made: Mapping[str, Any]
    ) -> Callable[..., Lent]:
        words = zip(names, tensors)
        there = [name for name, x in words if x is not None or made.get(name) is not None]
        places = tuple(self._places[name] if name in there else None for name in names)
        q = names.index("q")
        stream = None if kind.stream(tensors[q]) is None else (self._places["stream"], q)
        found: Callable[..., Lent] = _lend(kind, places, stream)
        return found
