"""torch tensors as addresses and packed layouts, and new ones for outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera import _descriptors as d
from tessera._openmp import Threads
from tessera._tensors import NUMBERS, Seen, Shape, pack_layout


class TorchKind:
    """torch tensors, by data_ptr and stride."""

    name = "torch"
    torch = True
    look = "{x}.shape, {x}.is_contiguous() or {x}.stride(), {x}.dtype, {x}.is_cpu or {x}.device"
    # Inside an autograd.Function tensors still say that they require gradients.
    odd = "{x}.requires_grad and is_grad_enabled() or {x}.is_neg()"
    odd_output = ""
    address = "{x}.data_ptr()"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._layouts: Seen[bytes] = Seen()
        self._is_grad_enabled = torch.is_grad_enabled
        self._numbers = {getattr(torch, name): number for name, number in NUMBERS.items()}
        self._dtypes = {number: dtype for dtype, number in self._numbers.items()}
        self.threads = torch.get_num_threads
        shared = Threads(torch)
        self.contexts, self.context = shared.contexts, shared.context
        self.names = {"is_grad_enabled": torch.is_grad_enabled}
        self.new = torch.empty_like  # faster than from a shape
        self._increment_version = torch.autograd.graph.increment_version

    def read(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        if not x.is_cpu or x.requires_grad or x.is_neg():
            self._check(x, name)
        device = (d.CPU, 0) if x.is_cpu else (d.CUDA, x.device.index or 0)
        key = (shape, x.stride(), x.dtype, lead, device)
        layout = self._layouts.get(key)
        if layout is None:
            packed = pack_layout(name, shape, x.stride(), self.dtype(x, name), lead, device)
            layout = self._layouts.put(key, packed)
        return x.data_ptr(), layout

    def write(self, x: Any, name: str, shape: Shape, lead: int = 0) -> tuple[int, bytes]:
        read = self.read(x, name, shape, lead)
        self.touch(x)
        return read

    def touch(self, written: Any) -> None:
        self._increment_version(written)  # what autograd saved of them is stale

    def _check(self, x: Any, name: str) -> None:
        """Refuses tensors whose memory is not what their elements are."""
        if x.requires_grad and self._is_grad_enabled():
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
                f"{name} lies on the device '{x.device}'; this version computes on the CPU and on "
                "NVIDIA GPUs: copy it there (x.cpu())"
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

    def prototype(self, x: Any) -> Any:
        made = self._torch.empty_like(x)
        made.untyped_storage().resize_(0)
        return made

    def integers(self, values: Sequence[int], like: Any) -> Any:
        device = None if like is None else like.device
        return self._torch.tensor(values, dtype=self._torch.int64, device=device)

    def stream(self, q: Any) -> int | None:
        return None if q.is_cpu else int(self._torch.cuda.current_stream(q.device).cuda_stream)
