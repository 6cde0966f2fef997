"""The numbers and names among the options, checked as far as packing them needs."""

from __future__ import annotations

import math
from typing import Any, Optional

from tessera import _descriptors as d

Window = tuple[Optional[int], Optional[int]]  # Python 3.9 has no int | None at run time
_UNBOUNDED = (None, -1)
_ALIGN = {None: d.UNSET, "top_left": d.TOP_LEFT, "bottom_right": d.BOTTOM_RIGHT}
_PLAIN_BAND = (d.UNSET, d.UNBOUNDED, d.UNBOUNDED, 0)
_CAUSAL_BAND = (d.UNSET, d.UNBOUNDED, 0, 0)
_LARGEST = 3.4028234e38  # float32


def _side(window: Any, side: Any) -> int:
    if side in _UNBOUNDED:
        return d.UNBOUNDED
    if isinstance(side, bool) or not hasattr(side, "__index__") or not 0 <= side <= d.UNBOUNDED:
        raise ValueError(
            f"window is {window}; each side must be a count of keys, from 0 to 2^63 - 1, or None "
            "(or -1) for all of them"
        )
    return int(side)


def _sides(window: Any) -> tuple[int, int]:
    """Keys before and after the diagonal."""
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise ValueError(
            f"window is {window}; it must be (left, right), the keys visible before and after the "
            "diagonal, both inclusive, None for all: a sliding window of w keys that counts the "
            "token itself is (w - 1, 0)"
        )
    return _side(window, window[0]), _side(window, window[1])


def is_offsets(align: Any) -> bool:
    """Whether align is a vector, one offset for each sequence."""
    if align is None or isinstance(align, (str, int, float)):
        return False
    return not hasattr(align, "__index__") or len(getattr(align, "shape", ())) > 0


def _refuse_align(align: Any) -> None:
    raise ValueError(
        f"align is {align!r}; it must be 'top_left', 'bottom_right', the key on the diagonal of "
        "query 0 (an integer), or a vector of them, one for each sequence"
    )


def _require_flag(name: str, value: Any) -> None:
    """Numbers and arrays of one element are as good as a bool; a text is always true."""
    if isinstance(value, (str, bytes)):
        raise ValueError(f"{name} is {value!r}; it must be True or False")


def band(causal: bool, window: Window | None, align: Any) -> tuple[int, int, int, int]:
    """align, left, right and offset of a descriptor."""
    _require_flag("causal", causal)
    if window is None and align is None:
        return _CAUSAL_BAND if causal else _PLAIN_BAND
    left, right = (d.UNBOUNDED, d.UNBOUNDED) if window is None else _sides(window)
    right = 0 if causal else right
    if align is None or isinstance(align, str):
        if align not in _ALIGN:
            _refuse_align(align)
        return _ALIGN[align], left, right, 0
    if not is_offsets(align):
        if isinstance(align, (bool, float)):
            _refuse_align(align)
        if not -d.UNBOUNDED <= align <= d.UNBOUNDED:
            raise ValueError(f"align is {align}; an offset must fit into 64 bits")
        return d.OFFSET, left, right, int(align)
    return d.OFFSETS, left, right, 0


def number(name: str, value: Any) -> float:
    """A float that float32 can hold or, beyond its range, an infinity; the library judges it."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is of type {type(value).__name__}; it must be a number") from None
    if math.isnan(found):
        raise ValueError(f"{name} is NaN; it must be a finite number, or left out")
    return found if abs(found) <= _LARGEST else math.copysign(math.inf, found)


def word(name: str, value: Any, bits: int) -> int:
    if not hasattr(value, "__index__") or not 0 <= value < 2**bits:
        raise ValueError(f"{name} is {value}; it must be an integer from 0 to 2^{bits} - 1")
    return int(value)


def backend_number(name: Any) -> int:
    number = d.BACKENDS.get(name) if name is None or isinstance(name, str) else None
    if number is None:
        raise ValueError(
            f"backend is {name!r}; it must be 'auto', 'cpu', 'reference' or 'standard', or None"
        )
    return number
