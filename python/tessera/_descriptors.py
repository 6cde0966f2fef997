"""The structs of include/tessera/tessera.h as formats of the module struct.

A descriptor is packed as bytes, in one go, and handed to the library as it is: that costs a tenth
of a ctypes.Structure. tests/python/test_layout.py compiles the header and compares every offset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from struct import Struct, calcsize

# DLPack's numbers: code | bits << 8.
INT32, INT64, UINT8, BOOL = 0x2000, 0x4000, 0x0801, 0x0806
FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = 0x1002, 0x2002, 0x4002, 0x1004
CPU, CUDA = 1, 2
READ_ONLY = 1
ACCUMULATE = 1
BATCH_INVARIANT = 2
UNBOUNDED = 2**63 - 1
BACKENDS = {None: 0, "auto": 0, "cpu": 1, "reference": 2, "standard": 3, "cuda": 4, "emulator": 5}
UNSET, TOP_LEFT, BOTTOM_RIGHT, OFFSET, OFFSETS = range(5)

ERROR_SIZE = 512
ERROR_HEAD = Struct("<Ii")  # size, status; the message follows

# The tensors of a call that most calls leave out, in their order.
OPTIONAL = (
    "offsets",
    "mask",
    "bias",
    "alibi",
    "sink",
    "kv_lengths",
    "kv_starts",
    "cache_batch_idx",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_q",
    "seqused_k",
    "block_table",
)

# A tensor is its address and LAYOUT: shape, strides in elements, dtype, device type and id, flags,
# reserved words. The layout of a tensor that was seen before is not packed again (_tensors.py).
LAYOUT = Struct("<4q4qIiiI16x")
_PLACE = f"Q{LAYOUT.size}s"
TENSOR = Struct("<" + _PLACE)
_WORD = 8  # bytes of a pointer, and of a 64-bit number


def _packed(tensors: int) -> str:
    """The format of tensors that were packed before, in one piece."""
    return f"{tensors * TENSOR.size}s"


def _unset(words: int) -> str:
    """The format of words that stay 0."""
    return f"{words * _WORD}x"


# OPTIONAL; dropout_p, dropout_offset, dropout_seed; the two tensors of the state; mask_expr,
# score_expr, bindings, binding_count, workspace, workspace_bytes, stream, score_max
REST = Struct(f"<{_packed(len(OPTIONAL))} fIQ {_packed(2)} {_unset(6)} Q {_unset(1)}")

# An attention call: size, flags, backend, align; q, k, v, out, lse; scale, softcap, left, right,
# offset; REST
CALL = Struct(f"<IIII {5 * _PLACE} ffqqq {REST.size}s")
CALL_SIZE = CALL.size

# size, flags, forward; d_out, d_lse; the five gradients; workspace, its bytes, term_norms
GRADIENTS = ("dq", "dk", "dv", "d_bias", "d_sink")
BACKWARD = Struct(f"<IIQ {_packed(2)} {_packed(len(GRADIENTS))} {_unset(3)}")
# size, flags, states, count; out, lse
MERGE = Struct(f"<IIQQ {_packed(2)}")
# size, flags, layout, reserved; x, out, cos, sin, offsets, positions
ROTATE = Struct(f"<IIII {_packed(6)}")
# The same; k, v, k_cache, v_cache, kv_lengths, cache_batch_idx, block_table, cos, sin
APPEND = Struct(f"<IIII {_packed(9)}")
# size, flags, threads, reserved; cpu_target, executor (2), allocator (3)
CONTEXT_CONFIG = Struct(f"<IIiI {_unset(1)} QQ {_unset(3)}")
# size, threads; parallel, thread_num, num_threads
OPENMP = Struct("<Ii QQQ")


def _places(first: int, names: Iterable[str]) -> dict[str, int]:
    """Where the addresses of tensors stand that follow each other, in bytes from the start."""
    return {name: first + i * TENSOR.size for i, name in enumerate(names)}


# Where the words of a call stand that differ from one call to the next one like it: the addresses
# of its tensors, and its stream.
CALL_PLACES = {
    **_places(calcsize("<IIII"), ("q", "k", "v", "out", "lse")),
    **_places(CALL_SIZE - REST.size, OPTIONAL),
    "stream": CALL_SIZE - calcsize("<QQ"),
}
# The same of a backward call with its forward call behind it, in one block.
BLOCK_SIZE = BACKWARD.size + CALL_SIZE
FORWARD_PLACE = calcsize("<II")  # of the address of the forward call
BLOCK_PLACES = {
    **_places(calcsize("<IIQ"), ("d_out", "d_lse", *GRADIENTS)),
    **{name: BACKWARD.size + place for name, place in CALL_PLACES.items()},
}

ABSENT_LAYOUT = LAYOUT.pack(1, 1, 1, 1, 1, 1, 1, 1, FLOAT32, CPU, 0, 0)
ABSENT = TENSOR.pack(0, ABSENT_LAYOUT)


def rest(
    tensors: Iterable[bytes],
    dropout: tuple[float, int, int] = (0.0, 0, 0),
    state: bytes = ABSENT + ABSENT,
    stream: int = 0,
) -> bytes:
    """The end of a call: the tensors of OPTIONAL, (p, offset, seed), the state and the stream."""
    return REST.pack(b"".join(tensors), *dropout, state, stream)


NO_REST = rest([ABSENT] * len(OPTIONAL))


def context_config(threads: int, executor: tuple[int, int] = (0, 0)) -> bytes:
    """A tessera_context_config; executor: the addresses of parallel_for and of its user."""
    return CONTEXT_CONFIG.pack(CONTEXT_CONFIG.size, 0, threads, 0, *executor)


# ---- The call that tells whether a library has this layout ---------------------------------------

LAYOUT_PROBE = {
    "batch": 2,
    "queries": 3,
    "keys": 5,
    "heads": 4,
    "kv_heads": 2,
    "dim": 8,
    "value_dim": 16,
    "dtype": "bfloat16",
    "left": 4,
    "right": 0,
    "offset": 1,
    "dropout_p": 0.25,
    "batch_invariant": True,
}


def _probe_tensor(*shape: int) -> bytes:
    strides = [math.prod(shape[i + 1 :]) for i in range(4)]
    return LAYOUT.pack(*shape, *strides, BFLOAT16, CPU, 0, 0)


def layout_probe() -> bytes:
    """A call without data, with a field set in every part."""
    q, k = _probe_tensor(2, 3, 4, 8), _probe_tensor(2, 5, 2, 8)
    v, out = _probe_tensor(2, 5, 2, 16), _probe_tensor(2, 3, 4, 16)
    tensors = (0, q, 0, k, 0, v, 0, out, 0, ABSENT_LAYOUT)
    scalars = (math.nan, 0.0, 4, 0, 1)
    end = rest([ABSENT] * len(OPTIONAL), (0.25, 7, 2**40))
    return CALL.pack(CALL_SIZE, BATCH_INVARIANT, 0, OFFSET, *tensors, *scalars, end)
