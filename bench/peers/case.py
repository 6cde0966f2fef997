"""One cell of the peer benchmark: what every peer is asked to compute."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """q is [1, heads, queries, dim]; k and v are [1, kv_heads, keys, dim]."""

    suite: str  # forward | backward | decode
    dtype: str  # fp32 | bf16 | fp16
    dim: int
    queries: int
    keys: int
    heads: int
    kv_heads: int
    causal: bool
    threads: int

    @property
    def element_bytes(self) -> int:
        return 4 if self.dtype == "fp32" else 2

    @property
    def work(self) -> float:
        """Of one call, in GFLOP; of decode, which reads K and V once, in GB."""
        if self.suite == "decode":
            return 2e-9 * self.kv_heads * self.keys * self.dim * self.element_bytes
        forward = 4e-9 * self.heads * self.queries * self.keys * self.dim / (1 + self.causal)
        return forward * (2.5 if self.suite == "backward" else 1)

    @property
    def unit(self) -> str:
        return "GB/s" if self.suite == "decode" else "GFLOP/s"

    @property
    def bursts(self) -> list[str]:
        """What a burst measures. Samples are accepted by the first kind, the multiply-adds of a
        dtype; percentages are of the last, which in decode is memory reads."""
        return ["bf16" if self.dtype == "bf16" else "fp32"] + ["read"] * (self.suite == "decode")

    @property
    def label(self) -> str:
        return f"d{self.dim} n{self.keys} {'causal' if self.causal else 'full'}"
