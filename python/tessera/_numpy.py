"""NumPy arrays as addresses and packed layouts, and new ones for outputs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from tessera import _descriptors as d
from tessera import _native
from tessera._tensors import NAMES, NUMBERS, Seen, Shape, pack_layout, read_only

capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = ctypes.c_size_t
capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_word_at = ctypes.c_size_t.from_address
_memory = (ctypes.c_size_t * 2**58).from_address(0)  # the memory of this process
_DATA_OF_ARRAY_STRUCT = 40  # PyArrayInterface: int, int, char, int, int, 2 pointers, data


def _data(x: Any) -> int:
    """Where element 0 of a NumPy array lies, by the array interface."""
    return _word_at(capsule_pointer(x.__array_struct__, None) + _DATA_OF_ARRAY_STRUCT).value


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
    """The strides of a NumPy array in elements; 0 where they do not count, as in empty arrays."""
    item = x.itemsize
    counted = [0 if n < 2 or not x.size else s for n, s in zip(x.shape, x.strides)]
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
    look = "{x}.shape, {x}.flags.c_contiguous or {x}.strides, {x}.dtype"
    odd = ""
    odd_output = "not {x}.flags.writeable"

    def __init__(self) -> None:
        self._layouts: Seen[bytes] = Seen()
        self._dtypes: dict[int, Any] = {}
        header = _header(self._numpy())
        self.address = f"memory[id({{x}}) + {header} >> 3]" if header else "data({x})"
        self.names = {"memory": _memory, "data": _data}
        self._address = eval(f"lambda x: {self.address.format(x='x')}", self.names)
        self._empty = self._numpy().empty

    def read(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        key = (shape, x.strides, x.dtype, lead)
        layout = self._layouts.get(key)
        if layout is None:
            packed = pack_layout(name, shape, _elements(x, name), self.dtype(x, name), lead)
            layout = self._layouts.put(key, packed)
        return self._address(x), layout

    def touch(self, written: Any) -> None:
        """NumPy keeps no count."""

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

    def prototype(self, x: Any) -> Any:
        return x.shape, x.dtype

    def new(self, prototype: Any) -> Any:
        return self._empty(*prototype)

    def integers(self, values: Sequence[int], like: Any) -> Any:
        return self._numpy().asarray(values, "int64")

    def stream(self, q: Any) -> int | None:
        return None

    def threads(self) -> int:
        return 0

    contexts = _native.contexts
    context = staticmethod(_native.context)

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
