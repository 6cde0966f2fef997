#!/usr/bin/env python3
"""A training step of a small GPT-2, with torch's attention and with tessera's in its place.

  bench/record.py python_gpt2_step -- chrt -f 1 python3 bench/python/gpt2_step.py --json

4 layers of GPT-2's shape (width 768, 12 heads, GELU, 4x wide hidden layer), vocabulary 1024, batch
1, float32, AdamW; the loss of predicting the next token. Steps take turns in one process: as it is,
under tessera.torch.patch_sdpa(), and with q + k + v in the place of attention, which tells the
share of attention in the step. ratio: tokens per second under patch_sdpa by those without.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn
from turns import interleaved, row, tell

import tessera.torch

LAYERS, WIDTH, HEADS, VOCABULARY = 4, 768, 12, 1024
BARS = {2048: 1.04, 8192: 1.08}


class Block(nn.Module):
    """Attention and a hidden layer, each behind a norm and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.hidden = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Any) -> Any:
        """x [B, L, WIDTH]."""
        batch, rows, _ = x.shape
        heads = self.qkv(self.norms[0](x)).view(batch, rows, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(y.transpose(1, 2).reshape(batch, rows, WIDTH))
        return x + self.hidden(self.norms[1](x))


class Model(nn.Module):
    """Embeddings, blocks, logits."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(rows, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Any) -> Any:
        """tokens [B, L]; logits [B, L, VOCABULARY]."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


def step(rows: int) -> Callable[[], float]:
    """A training step, which tells its loss."""
    torch.manual_seed(0)
    model = Model(rows)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(VOCABULARY, (1, rows + 1))

    def once() -> float:
        optimiser.zero_grad()
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimiser.step()
        return loss.item()

    return once


def without_attention(once: Callable[[], float]) -> float:
    """The step with a sum in the place of attention."""
    theirs = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda q, k, v, is_causal: q + k + v
    try:
        return once()
    finally:
        functional.scaled_dot_product_attention = theirs


def patched(once: Callable[[], float]) -> float:
    """The step with tessera's attention."""
    with tessera.torch.patch_sdpa():
        return once()


def measure(rows: int, samples: int) -> dict[str, Any]:
    """The row of one length."""
    first, second, third = step(rows), step(rows), step(rows)
    losses = first(), patched(second)
    times = interleaved(
        {
            "torch": first,
            "tessera": lambda: patched(second),
            "none": lambda: without_attention(third),
        },
        samples,
    )
    more = {f"{n}_tokens_per_s": round(rows / min(times[n]), 1) for n in ("torch", "tessera")}
    more["attention_share"] = round(1 - min(times["none"]) / min(times["torch"]), 4)
    more["loss_difference"] = abs(losses[0] - losses[1])
    return row(f"gpt2 step n{rows}", times, BARS.get(rows, 1.0), samples, **more)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for rows in arguments.rows:
        found = measure(rows, arguments.samples)
        line = (
            f"{found['case']:<20} torch {found['torch_tokens_per_s']:9.1f} tokens/s, tessera "
            f"{found['tessera_tokens_per_s']:9.1f}: {found['ratio']:5.3f} (median "
            f"{found['ratio_median']:5.3f}, bar {found['bar']}); attention has "
            f"{found['attention_share']:.0%} of torch's step"
        )
        tell(found, line, arguments.json)


if __name__ == "__main__":
    main()
