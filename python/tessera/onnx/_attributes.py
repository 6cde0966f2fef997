"""The attributes of a node, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict

# The newest opset whose Attention is that of opset 25, as far as onnx 1.23 knows.
NEWEST_OPSET = 28
_DEFINITIONS = (25, 24, 23)
_FLOAT, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 10, 11, 16  # onnx.TensorProto.DataType
_PRECISIONS = (_FLOAT, _FLOAT16, _DOUBLE, _BFLOAT16)
_WINDOW = ("left_window_size", "right_window_size")
_NAMES = (
    *("is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale"),
    *("softcap", "softmax_precision"),
)


class Attributes(TypedDict, total=False):
    """Attributes of the operator, for type checkers; their meaning stands at attention()."""

    is_causal: int
    kv_num_heads: int | None
    left_window_size: int
    q_num_heads: int | None
    qk_matmul_output_mode: int | None
    right_window_size: int
    scale: float | None
    softcap: float
    softmax_precision: int | None


class Settings(NamedTuple):
    """What the attributes say."""

    opset: int  # of the definition: 23, 24 or 25
    causal: bool
    q_heads: int | None
    kv_heads: int | None
    scale: float | None
    softcap: float
    mode: int
    window: tuple[int, int]  # -1: unbounded
    double: bool  # whether the softmax is asked for in float64

    @property
    def banded(self) -> bool:
        """Whether positions decide what is visible."""
        return self.causal or max(self.window) >= 0


def definition(opset: Any) -> int:
    """The opset, 23, 24 or 25, that defines the Attention of a model of `opset`.

    Raises:
      ValueError: the operator did not exist.
      NotImplementedError: the opset is newer than this module.
    """
    if not hasattr(opset, "__index__") or opset < _DEFINITIONS[-1]:
        raise ValueError(
            f"opset is {opset}; the operator Attention exists from opset 23 on: convert the model "
            "(onnx.version_converter)"
        )
    if opset > NEWEST_OPSET:
        raise NotImplementedError(
            f"opset is {opset}; this version knows Attention up to opset {NEWEST_OPSET}"
        )
    return next(version for version in _DEFINITIONS if version <= opset)


def _integer(
    name: str, value: Any, default: Any, accepted: str, fits: Callable[[int], bool]
) -> Any:
    if value is None:
        return default
    if not hasattr(value, "__index__") or not fits(value):
        raise ValueError(f"{name} is {value}; it must be {accepted}")
    return int(value)


def _number(name: str, value: Any, default: float | None) -> float | None:
    if value is None:
        return default
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}; it must be a number") from None


def _check_names(opset: int, attributes: Mapping[str, Any]) -> None:
    known = (*_NAMES, *_WINDOW) if opset >= 25 else _NAMES
    for name in attributes:
        if name in known:
            continue
        if name in _WINDOW:
            raise ValueError(
                f"{name} is an attribute of Attention from opset 25 on, but this is the operator "
                f"of opset {opset}: leave it out, or convert the model"
            )
        raise ValueError(
            f"{name} is no attribute of Attention of opset {opset}; its attributes are "
            f"{', '.join(sorted(known))}"
        )


def read(opset: Any, attributes: Mapping[str, Any]) -> Settings:
    """The attributes of a node; None stands for one that is left out.

    Raises:
      ValueError: an attribute is unknown, or has a value that the operator does not accept.
      NotImplementedError: the opset is newer than this module.
    """
    version = definition(opset)
    _check_names(version, attributes)

    def integer(name: str, default: Any, accepted: str, fits: Callable[[int], bool]) -> Any:
        return _integer(name, attributes.get(name), default, accepted, fits)

    def heads(name: str) -> Any:
        return integer(name, None, "a count of heads, 1 or more", lambda n: n >= 1)

    def side(name: str) -> Any:
        accepted = "a count of keys, 0 or more, or -1 for all of them"
        return integer(name, -1, accepted, lambda n: n >= -1)

    precision = integer(
        "softmax_precision",
        None,
        "1 (float32), 10 (float16), 11 (float64) or 16 (bfloat16)",
        lambda n: n in _PRECISIONS,
    )
    mode = integer("qk_matmul_output_mode", 0, "0, 1, 2 or 3", lambda n: 0 <= n <= 3)
    return Settings(
        opset=version,
        causal=bool(integer("is_causal", 0, "0 or 1", lambda n: 0 <= n <= 1)),
        q_heads=heads("q_num_heads"),
        kv_heads=heads("kv_num_heads"),
        scale=_number("scale", attributes.get("scale"), None),
        softcap=_number("softcap", attributes.get("softcap"), 0.0) or 0.0,
        mode=mode,
        window=(side(_WINDOW[0]), side(_WINDOW[1])),
        double=precision == _DOUBLE,
    )
