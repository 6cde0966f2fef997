"""NumPy arrays, torch tensors and DLPack producers as addresses and packed layouts, without copies.

A Kind knows one family of tensors: how to read one, and how to make outputs like it. Outputs are
torch tensors for torch tensors and NumPy arrays for all else.
"""

from __future__ import annotations

import ctypes
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

    def read(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        """The address and the packed layout of x, with `lead` dimensions of 1 before its own."""

    def write(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        """The same of an output that the caller gave."""

    @property
    def address(self) -> Callable[[Any], int]:
        """Tells where element 0 of a tensor lies."""

    def key(self, q: Any, k: Any, v: Any, scalars: Any) -> Any:
        """All that the bytes of a call depend on but addresses; None for tensors to be checked."""

    def dtype(self, x: Any, name: str) -> int:
        """The number of the dtype of x."""

    def empty(self, like: Any, shape: Shape, dtype: int) -> Any:
        """New memory on the device of `like`."""

    def empty_like(self, q: Any, shape: Shape) -> Any:
        """New memory of the dtype and on the device of q."""

    def twin(self, q: Any) -> Any:
        """New dense memory of the shape and dtype and on the device of q."""

    def integers(self, values: Sequence[int]) -> Any:
        """A vector of int64."""

    @property
    def threads(self) -> Callable[[], int]:
        """Tells the threads of a call; 0: the library's default."""


_FLAGS = 76  # of a packed layout: 8 sizes and strides, dtype, device type and id come before


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
    return layout[:_FLAGS] + d.READ_ONLY.to_bytes(4, "little") + layout[_FLAGS + 4 :]


# ---- NumPy ---------------------------------------------------------------------------------------

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_size_t
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_word_at = ctypes.c_size_t.from_address
_DATA_OF_ARRAY_STRUCT = 40  # PyArrayInterface: int, int, char, int, int, 2 pointers, data


def _data(x: Any) -> int:
    """Where element 0 of a NumPy array lies, by the array interface."""
    return _word_at(_capsule_pointer(x.__array_struct__, None) + _DATA_OF_ARRAY_STRUCT).value


def _header(numpy: Any) -> int:
    """Bytes before `data` in a NumPy array as an object of CPython, 0 if it is not laid out so.

    PyArrayObject_fields of NumPy's C interface is a PyObject, then data: read there, an address
    costs a tenth of x.ctypes.data, and a quarter of __array_struct__.
    """
    bytes_before = object.__basicsize__
    if sys.implementation.name != "cpython":
        return 0
    probes = [numpy.empty(4), numpy.empty((2, 3))[::-1, 1:]]
    fits = all(_word_at(id(x) + bytes_before).value == _data(x) for x in probes)
    return bytes_before if fits else 0


def _elements(x: Any, name: str) -> list[int]:
    """The strides of a NumPy array in elements."""
    item = x.itemsize
    counted = [0 if n < 2 else s for n, s in zip(x.shape, x.strides)]
    if any(s % item for s in counted):
        raise ValueError(
            f"{name} has strides of {x.strides} bytes, which are no multiples of its items of "
            f"{item} bytes; pass a copy (numpy.ascontiguousarray)"
        )
    return [s // item for s in counted]


class NumpyKind:
    """NumPy arrays, with ml_dtypes.bfloat16."""

    name = "NumPy"
    torch = False

    def __init__(self) -> None:
        self._layouts: Seen[bytes] = Seen()
        self._dtypes: dict[int, Any] = {}
        self._header = _header(self._numpy())
        self._empty = self._numpy().empty

    def read(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        key = (shape, x.strides, x.dtype, lead)
        layout = self._layouts.get(key)
        if layout is None:
            packed = pack_layout(name, shape, _elements(x, name), self.dtype(x, name), lead)
            layout = self._layouts.put(key, packed)
        return self.address(x), layout

    def address(self, x: Any) -> int:
        return _word_at(id(x) + self._header).value if self._header else _data(x)

    def key(self, q: Any, k: Any, v: Any, scalars: Any) -> Any:
        # fmt: off
        return (
            q.shape, q.strides, q.dtype, k.shape, k.strides, k.dtype, v.shape, v.strides, v.dtype,
            scalars,
        )
        # fmt: on

    def write(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        address, layout = self.read(x, name, shape, lead)
        return address, layout if x.flags.writeable else read_only(layout)

    def dtype(self, x: Any, name: str) -> int:
        if not x.dtype.isnative:
            raise ValueError(
                f"{name} has dtype {x.dtype.str}, in the byte order of other machines; convert it "
                "(x.astype(x.dtype.newbyteorder('=')))"
            )
        number = NUMBERS.get(x.dtype.name)
        if number is None:
            raise ValueError(
                f"{name} has dtype {x.dtype}; it must be float32, float16, float64, "
                "ml_dtypes.bfloat16, bool, uint8, int32 or int64: convert it"
            )
        return number

    def empty(self, like: Any, shape: Shape, dtype: int) -> Any:
        made = self._dtypes.get(dtype)
        if made is None:
            made = self._dtypes[dtype] = self._numpy_dtype(dtype)
        return self._empty(shape, made)

    def empty_like(self, q: Any, shape: Shape) -> Any:
        return self._empty(shape, q.dtype)

    def twin(self, q: Any) -> Any:
        return self._empty(q.shape, q.dtype)

    def integers(self, values: Sequence[int]) -> Any:
        return self._numpy().asarray(values, "int64")

    def threads(self) -> int:
        return 0

    def _numpy(self) -> Any:
        import numpy

        return numpy

    def _numpy_dtype(self, dtype: int) -> Any:
        if dtype != d.BFLOAT16:
            return self._numpy().dtype(NAMES[dtype])
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError(
                "NumPy has no bfloat16 of its own; install ml_dtypes, or pass out= and torch "
                "tensors"
            ) from None
        return self._numpy().dtype(ml_dtypes.bfloat16)


# ---- torch ---------------------------------------------------------------------------------------


class TorchKind:
    """torch tensors, by data_ptr and stride."""

    name = "torch"
    torch = True

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._layouts: Seen[bytes] = Seen()
        self._numbers = {getattr(torch, name): number for name, number in NUMBERS.items()}
        self._dtypes = {number: dtype for dtype, number in self._numbers.items()}
        self._empty_like, self._dense = torch.empty_like, torch.contiguous_format
        # As they are, without a method of ours around them.
        self.address = torch.Tensor.data_ptr
        self.threads = torch.get_num_threads

    def read(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        if not x.is_cpu or x.requires_grad or x.is_neg():
            self._check(x, name)
        key = (shape, x.stride(), x.dtype, lead, x.is_cpu)
        layout = self._layouts.get(key)
        if layout is None:
            device = (d.CPU, 0) if x.is_cpu else (d.CUDA, x.device.index or 0)
            packed = pack_layout(name, shape, x.stride(), self.dtype(x, name), lead, device)
            layout = self._layouts.put(key, packed)
        return self.address(x), layout

    def write(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        read = self.read(x, name, shape, lead)
        self._torch.autograd.graph.increment_version(x)  # what autograd saved of x is stale
        return read

    def key(self, q: Any, k: Any, v: Any, scalars: Any) -> Any:
        if q.requires_grad or k.requires_grad or v.requires_grad:
            return None
        if not (q.is_cpu and k.is_cpu and v.is_cpu) or q.is_neg() or k.is_neg() or v.is_neg():
            return None
        # fmt: off
        return (
            q.shape, q.stride(), q.dtype, k.shape, k.stride(), k.dtype, v.shape, v.stride(),
            v.dtype, scalars,
        )
        # fmt: on

    def _check(self, x: Any, name: str) -> None:
        """Refuses tensors whose memory is not what their elements are."""
        if x.requires_grad and self._torch.is_grad_enabled():
            raise ValueError(
                f"{name} requires gradients, which this function does not record; call the "
                "function of that name in tessera.torch, or detach the tensor"
            )
        if x.is_neg():
            raise ValueError(
                f"{name} is a negated view (torch.imag of a conjugate); pass {name}.resolve_neg()"
            )
        if x.device.type not in ("cpu", "cuda"):
            raise ValueError(
                f"{name} lies on the device '{x.device}'; this version computes on the CPU: copy "
                "it there (x.cpu())"
            )

    def dtype(self, x: Any, name: str) -> int:
        number: int | None = self._numbers.get(x.dtype)
        if number is None:
            raise ValueError(
                f"{name} has dtype {x.dtype}; it must be float32, float16, bfloat16, float64, "
                "bool, uint8, int32 or int64: convert it"
            )
        return number

    def empty(self, like: Any, shape: Shape, dtype: int) -> Any:
        return self._torch.empty(shape, dtype=self._dtypes[dtype], device=like.device)

    def empty_like(self, q: Any, shape: Shape) -> Any:
        return q.new_empty(shape)

    def twin(self, q: Any) -> Any:
        return self._empty_like(q, memory_format=self._dense)

    def integers(self, values: Sequence[int]) -> Any:
        return self._torch.tensor(values, dtype=self._torch.int64)


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
        made: Kind = kinds.get(torch.Tensor) or TorchKind(torch)
        kinds[torch.Tensor] = kinds[type(x)] = made
    elif numpy is not None and isinstance(x, numpy.ndarray):
        if isinstance(x, numpy.ma.MaskedArray):
            raise TypeError(
                f"{name} is a masked array, whose mask would be ignored; pass its data, and mask="
            )
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
