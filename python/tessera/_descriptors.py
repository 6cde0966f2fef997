"""The structs of include/tessera/tessera.h as formats of the module struct.

A descriptor is packed as bytes, in one go, and handed to the library as it is: that costs a tenth
of a ctypes.Structure. tests/python/test_layout.py compiles the header and compares every offset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from struct import Struct

# DLPack's numbers: code | bits << 8.
INT32, INT64, UINT8, BOOL = 0x2000, 0x4000, 0x0801, 0x0806
FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = 0x1002, 0x2002, 0x4002, 0x1004
CPU, CUDA = 1, 2
READ_ONLY = 1
ACCUMULATE = 1
BATCH_INVARIANT = 2
UNBOUNDED = 2**63 - 1
BACKENDS = {None: 0, "auto": 0, "cpu": 1, "reference": 2, "standard": 3}
UNSET, TOP_LEFT, BOTTOM_RIGHT, OFFSET, OFFSETS = range(5)

ERROR_SIZE = 512
ERROR_HEAD = Struct("<Ii")  # size, status; the message follows

# A tensor is its address and LAYOUT: shape, strides in elements, dtype, device type and id, flags,
# reserved words. The layout of a tensor that was seen before is not packed again (_tensors.py).
LAYOUT = Struct("<4q4qIiiI16x")
TENSOR = Struct("<Q96s")

# An attention call as most are: q, k, v, out, lse, and the rest in one piece.
#   size, flags, backend, align; 5 tensors; scale, softcap, left, right, offset; REST
CALL = Struct("<IIII Q96s Q96s Q96s Q96s Q96s ffqqq 1640s")
# REST: 13 tensors; dropout_p, dropout_offset, dropout_seed; 2 tensors of the state; mask_expr,
# score_expr, bindings, binding_count, workspace, workspace_bytes, stream, score_max
REST = Struct("<1352s fIQ 208s 64x")
CALL_SIZE = CALL.size

# size, flags, forward; d_out, d_lse; the five gradients; workspace, its bytes, term_norms
BACKWARD = Struct("<IIQ 208s 520s 24x")
MERGE = Struct("<IIQQ 208s")
ROTATE = Struct("<IIII 624s")
APPEND = Struct("<IIII 936s")
CONTEXT_CONFIG = Struct("<IIiI 48x")

ABSENT_LAYOUT = LAYOUT.pack(1, 1, 1, 1, 1, 1, 1, 1, FLOAT32, CPU, 0, 0)
ABSENT = TENSOR.pack(0, ABSENT_LAYOUT)

# The tensors of REST, in their order, and those of the state.
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


def rest(
    tensors: Iterable[bytes],
    dropout: tuple[float, int, int] = (0.0, 0, 0),
    state: bytes = ABSENT + ABSENT,
) -> bytes:
    """The end of a call: the tensors of OPTIONAL, (p, offset, seed), and the state."""
    return REST.pack(b"".join(tensors), *dropout, state)


NO_REST = rest([ABSENT] * len(OPTIONAL))


def context_config(threads: int) -> bytes:
    """A tessera_context_config."""
    return CONTEXT_CONFIG.pack(CONTEXT_CONFIG.size, 0, threads, 0)


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
