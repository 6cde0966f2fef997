"""The inputs of a node: checked, and as tessera.attention takes them, without copies but of caches.

The operator has [batch, heads, sequence, size], or [batch, sequence, heads * size]; the library has
[batch, sequence, heads, size]. Each is a view of the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tessera.onnx._attributes import Settings

Array = Any  # numpy.ndarray of float32, float16, float64, ml_dtypes.bfloat16, bool or integers
FLOATS = ("float32", "float16", "bfloat16", "float64")


class Inputs(NamedTuple):
    """The inputs of the operator, in its order; None: left out."""

    q: Array
    k: Array
    v: Array
    attn_mask: Array | None = None
    past_key: Array | None = None
    past_value: Array | None = None
    nonpad_kv_seqlen: Array | None = None


class Operands(NamedTuple):
    """Queries, keys and values, old keys first. B, Lq, H, D, T and Hk as in tessera.attention."""

    q: Array  # [B, Lq, H, D]
    k: Array  # [B, T, Hk, D]
    v: Array  # [B, T, Hk, Dv]
    past: int  # keys that were in the cache

    @property
    def scores_shape(self) -> tuple[int, int, int, int]:
        """[B, H, Lq, T]."""
        batch, queries, heads, _ = self.q.shape
        return batch, heads, queries, self.k.shape[1]


class Mask(NamedTuple):
    """attn_mask as it is used."""

    values: Array | None  # [B|1, H|1, Lq|1, keys|1], bool or float; None: no mask
    keys: int  # those that it covers; later ones are hidden


# ---- Q, K, V and the cache -----------------------------------------------------------------------


def _check_array(name: str, x: Any) -> None:
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{name} is of type {type(x).__name__}; it must be a NumPy array")
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be ignored; pass its data, and attn_mask"
        )


def _check_dtype(name: str, x: Array, other_name: str, other: Array | None) -> None:
    if x.dtype.name not in FLOATS:
        raise ValueError(
            f"{name} has dtype {x.dtype}; it must be float32, float16, float64 or "
            "ml_dtypes.bfloat16: convert it"
        )
    if other is not None and x.dtype != other.dtype:
        raise ValueError(
            f"{name} has dtype {x.dtype} but {other_name} {other.dtype}; the operator has one type "
            f"for both: convert one of them"
        )


def _check_ranks(q: Array, k: Array, v: Array, settings: Settings) -> None:
    ranks = q.ndim, k.ndim, v.ndim
    if ranks not in ((3, 3, 3), (4, 4, 4)):
        raise ValueError(
            f"Q, K and V have {q.ndim}, {k.ndim} and {v.ndim} dimensions; all must have 4, [batch, "
            "heads, sequence, head size], or all 3, [batch, sequence, heads * head size]"
        )
    given = settings.q_heads is not None, settings.kv_heads is not None
    if q.ndim == 3 and not all(given):
        raise ValueError(
            "Q, K and V have 3 dimensions, so their heads must be told: give q_num_heads and "
            "kv_num_heads"
        )


def _split(name: str, x: Array, heads: int | None, attribute: str, opset: int) -> Array:
    """[batch, sequence, heads, head size], as a view."""
    if x.ndim == 4:
        # Opset 25 keeps the numbers of heads to 3 dimensions; before, they may only agree.
        if heads is not None and (opset >= 25 or heads != x.shape[1]):
            raise ValueError(
                f"{attribute} is {heads} but {name} has 4 dimensions, {x.shape}, which tell the "
                "heads themselves: leave it out"
            )
        return x.swapaxes(1, 2)
    assert heads is not None
    if x.shape[2] % heads:
        raise ValueError(
            f"{name} has shape {x.shape} and {attribute} is {heads}; the last dimension must be a "
            "multiple of the number of heads"
        )
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads)


def _check_sizes(q: Array, k: Array, v: Array) -> None:
    """q, k, v as tessera.attention has them, of this call alone."""
    (batch, _, heads, dim), (_, length, kv_heads, k_dim) = q.shape, k.shape
    if k.shape[0] != batch or v.shape[0] != batch:
        raise ValueError(
            f"the batch size of Q is {batch}, of K {k.shape[0]} and of V {v.shape[0]}; they must "
            "be equal"
        )
    if v.shape[1:3] != (length, kv_heads):
        raise ValueError(
            f"K has {kv_heads} heads of {length} keys but V {v.shape[2]} of {v.shape[1]}; they "
            "must agree"
        )
    if k_dim != dim or dim == 0:
        raise ValueError(
            f"heads of Q have size {dim} and those of K {k_dim}; they must have the same, 1 or more"
        )
    if heads % kv_heads if kv_heads else heads:
        raise ValueError(
            f"Q has {heads} heads and K and V have {kv_heads}; the heads of Q must be a multiple "
            "of theirs"
        )


def _check_past(past: Array, name: str, new: Array, new_name: str) -> None:
    """new: [batch, heads, sequence, size] of this call."""
    _check_array(name, past)
    _check_dtype(name, past, new_name, new)
    batch, heads, _, dim = new.shape
    if past.ndim != 4 or (*past.shape[:2], past.shape[3]) != (batch, heads, dim):
        raise ValueError(
            f"{name} has shape {past.shape}; it must be [batch, heads, past length, head size], "
            f"here [{batch}, {heads}, any, {dim}]"
        )


def _present(past: tuple[Any, Any], key: Array, value: Array) -> tuple[Array, Array]:
    """Keys and values of the cache and of this call, [batch, heads, sequence, size]."""
    _check_past(past[0], "past_key", key, "K")
    _check_past(past[1], "past_value", value, "V")
    if past[0].shape[2] != past[1].shape[2]:
        raise ValueError(
            f"past_key has {past[0].shape[2]} keys but past_value {past[1].shape[2]}; they must be "
            "equal"
        )
    return np.concatenate((past[0], key), axis=2), np.concatenate((past[1], value), axis=2)


def operands(inputs: Inputs, settings: Settings) -> Operands:
    """Q, K, V, past_key and past_value, checked and joined.

    Raises:
      TypeError: one is no NumPy array.
      ValueError: types, ranks or sizes do not fit; the sentence says what does.
    """
    q, k, v = inputs[:3]
    for name, x in zip("QKV", inputs):
        _check_array(name, x)
        _check_dtype(name, x, "Q", q if name == "K" else None)
    _check_ranks(q, k, v, settings)
    q = _split("Q", q, settings.q_heads, "q_num_heads", settings.opset)
    k = _split("K", k, settings.kv_heads, "kv_num_heads", settings.opset)
    v = _split("V", v, settings.kv_heads, "kv_num_heads", settings.opset)
    _check_sizes(q, k, v)
    past = inputs.past_key, inputs.past_value
    given = [name for name, x in zip(("past_key", "past_value"), past) if x is not None]
    if len(given) == 1:
        raise ValueError(
            f"{given[0]} is given alone; past_key and past_value must be given together, or neither"
        )
    if not given:
        return Operands(q, k, v, 0)
    key, value = _present(past, k.swapaxes(1, 2), v.swapaxes(1, 2))
    cached = key.shape[2] - k.shape[1]
    return Operands(q, key.swapaxes(1, 2), value.swapaxes(1, 2), cached)


# ---- attn_mask and nonpad_kv_seqlen --------------------------------------------------------------


def _as_float32(bias: Array) -> Array:
    """float64 as float32. What is finite stays so: only -inf hides a key."""
    largest = np.finfo(np.float32).max
    clipped = np.clip(bias, -largest, largest)
    return np.where(np.isfinite(bias), clipped, bias).astype(np.float32)


def _mask_values(x: Array) -> Array:
    """bool, or a float type that the library takes as a bias."""
    if x.dtype.kind in "iu":
        return _as_float32(x.astype(np.float64))
    if x.dtype.kind != "b" and x.dtype.name not in FLOATS:
        raise ValueError(
            f"attn_mask has dtype {x.dtype}; it must be bool, an integer type, float32, float16, "
            "float64 or ml_dtypes.bfloat16: convert it"
        )
    return _as_float32(x) if x.dtype.name == "float64" else x


def mask(x: Any, scores_shape: tuple[int, int, int, int], opset: int) -> Mask:
    """attn_mask, checked.

    From opset 24 on, a last dimension that is too short is padded with what hides a key, also one
    of 1; in opset 23 it only broadcasts.

    Raises:
      TypeError: it is no NumPy array.
      ValueError: its type or shape does not fit.
    """
    total = scores_shape[3]
    if x is None:
        return Mask(None, total)
    _check_array("attn_mask", x)
    values = _mask_values(x)
    keys = min(x.shape[-1], total) if opset >= 24 and x.ndim else total
    accepted = (*scores_shape[:3], keys)
    shape = (1,) * (4 - x.ndim) + x.shape
    if x.ndim > 4 or any(n not in (1, size) for n, size in zip(shape, accepted)):
        short = ", the last may be shorter" if opset >= 24 else ""
        raise ValueError(
            f"attn_mask has shape {x.shape}; it must broadcast to [batch, heads of Q, queries, "
            f"keys], here {list(scores_shape)}{short}"
        )
    return Mask(values.reshape(shape), keys)


def lengths(inputs: Inputs, batch: int, keys: int, opset: int) -> Array | None:
    """nonpad_kv_seqlen, checked. keys: those that there are and that attn_mask covers.

    Raises:
      TypeError: it is no NumPy array.
      ValueError: it does not fit, or the opset or the cache does not allow it.
    """
    x = inputs.nonpad_kv_seqlen
    if x is None:
        return None
    if opset < 24:
        raise ValueError(
            "nonpad_kv_seqlen is an input of Attention from opset 24 on, but this is the operator "
            f"of opset {opset}: leave it out, or convert the model"
        )
    if inputs.past_key is not None:
        raise ValueError(
            "nonpad_kv_seqlen is given together with past_key and past_value; it counts the keys "
            "of a cache that K and V hold wholly: give one or the other"
        )
    _check_array("nonpad_kv_seqlen", x)
    if x.shape != (batch,) or x.dtype.name not in ("int64", "int32"):
        raise ValueError(
            f"nonpad_kv_seqlen has shape {x.shape} and dtype {x.dtype}; it must be [batch], here "
            f"[{batch}], of int64"
        )
    if batch and not 0 <= x.min() <= x.max() <= keys:
        raise ValueError(
            f"nonpad_kv_seqlen has entries from {x.min()} to {x.max()}; they must be from 0 to "
            f"{keys}, the keys that K and V have and attn_mask covers"
        )
    return x.astype(np.int64)
