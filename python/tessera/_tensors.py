"""NumPy arrays, torch tensors and DLPack producers as addresses and packed layouts, without copies.

A Kind knows one family of tensors: how to read one, and how to make outputs like it. Outputs are
torch tensors for torch tensors and NumPy arrays for all else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tessera import _descriptors as d

Shape = tuple[int, ...]
T = TypeVar("T")
NAMES = {
    d.INT32: "int32",
    d.INT64: "int64",
    d.UINT8: "uint8",
    d.BOOL: "bool",
    d.FLOAT16: "float16",
    d.FLOAT32: "float32",
    d.FLOAT64: "float64",
    d.BFLOAT16: "bfloat16",
}
NUMBERS = {name: number for number, name in NAMES.items()}


class Kind(Protocol):
    """A family of tensors."""

    name: str
    torch: bool  # whether it computes with torch; the others mix freely
    # Expressions of a tensor {x}, with what they name: all that its layout depends on, and where
    # element 0 lies; whether a call may refuse it, and whether it may do so if it writes it. look
    # is empty if calls on such tensors are not kept (_repeat.py).
    look: str
    address: str
    odd: str
    odd_output: str
    names: dict[str, Any]

    def read(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        """The address and the packed layout of x, with `lead` dimensions of 1 before its own."""

    def write(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        """The same of an output that the caller gave."""

    def touch(self, written: Any) -> None:
        """Tells whoever counts it that a tensor, or some, are being written to."""

    def dtype(self, x: Any, name: str) -> int:
        """The number of the dtype of x."""

    def empty(self, like: Any, shape: Shape, dtype: int) -> Any:
        """New memory on the device of `like`."""

    def empty_like(self, q: Any, shape: Shape) -> Any:
        """New memory of the dtype and on the device of q."""

    def prototype(self, x: Any) -> Any:
        """What new() makes dense memory like x from; holds no memory to speak of."""

    @property
    def new(self) -> Callable[[Any], Any]:
        """Makes memory from a prototype."""

    def integers(self, values: Sequence[int], like: Any) -> Any:
        """A vector of int64, on the device of `like` (None: the CPU)."""

    def stream(self, q: Any) -> int | None:
        """The CUstream that a call on q is put into, 0 for the default one; None on the CPU."""

    @property
    def threads(self) -> Callable[[], int]:
        """Tells the threads of a call; 0: the library's default."""

    contexts: dict[int, int]  # by the number of threads

    @property
    def context(self) -> Callable[[int], int]:
        """Makes the context of so many threads."""


class Seen(dict[Any, T]):
    """What was packed before, by what it was packed from."""

    LIMIT = 4096  # entries; a decode loop makes a new shape each step

    def put(self, key: Any, value: T) -> T:
        if len(self) >= self.LIMIT:
            self.clear()
        self[key] = value
        return value


def pack_layout(
    name: str,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: int,
    lead: int = 0,
    device: tuple[int, int] = (d.CPU, 0),
) -> bytes:
    """The layout of a tensor of at most four dimensions, strides in elements.

    Raises:
      ValueError: there are more than four dimensions.
    """
    rank = lead + len(shape)
    if rank > 4:
        raise ValueError(
            f"{name} has shape {tuple(shape)}; at most {4 - lead} dimensions are accepted: "
            "reshape it"
        )
    ones = (1,) * lead
    end = (1,) * (4 - rank)
    return d.LAYOUT.pack(*ones, *shape, *end, *ones, *strides, *end, dtype, *device, 0)


def read_only(layout: bytes) -> bytes:
    """The layout marked as memory that may not be written, so that the library refuses it."""
    *before, _ = d.LAYOUT.unpack(layout)
    return d.LAYOUT.pack(*before, d.READ_ONLY)


# ---- Which kind? ---------------------------------------------------------------------------------

kinds: dict[type, Kind] = {}


def adopt(x: Any, name: str) -> Any:
    """x itself, or a view of the tensor of another library; its type is then in `kinds`.

    Raises:
      TypeError: x is no tensor.
    """
    if type(x) in kinds:
        return x
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        from tessera._torch_tensors import TorchKind

        made: Kind = kinds.get(torch.Tensor) or TorchKind(torch)
        kinds[torch.Tensor] = kinds[type(x)] = made
    elif numpy is not None and isinstance(x, numpy.ndarray):
        if isinstance(x, numpy.ma.MaskedArray):
            raise TypeError(
                f"{name} is a masked array, whose mask would be ignored; pass its data, and mask="
            )
        from tessera._numpy import NumpyKind

        made = kinds.get(numpy.ndarray) or NumpyKind()
        kinds[numpy.ndarray] = kinds[type(x)] = made
    elif hasattr(type(x), "__dlpack__"):
        from tessera import _dlpack

        kinds.setdefault(_dlpack.View, _dlpack.ViewKind())
        return _dlpack.view(x, name)
    else:
        raise TypeError(
            f"{name} is of type {type(x).__name__}; it must be a NumPy array, a torch tensor or an "
            "object with __dlpack__"
        )
    return x


def one_kind(tensors: dict[str, Any]) -> list[Any]:
    """The tensors, adopted; all are torch tensors, or none is.

    Raises:
      TypeError: one is no tensor.
      ValueError: torch tensors and others are mixed.
    """
    adopted = [adopt(x, name) for name, x in tensors.items()]
    first = kinds[type(adopted[0])]
    for name, x in zip(tensors, adopted):
        check_kind(first, kinds[type(x)], next(iter(tensors)), name)
    return adopted


def check_kind(first: Kind, other: Kind, first_name: str, name: str) -> None:
    """Raises ValueError where torch meets another library."""
    if first.torch != other.torch:
        raise ValueError(
            f"{first_name} is of {first.name} but {name} of {other.name}; all tensors of a call "
            "must be of one library: convert one of them (torch.from_numpy shares memory)"
        )
