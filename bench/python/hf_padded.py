#!/usr/bin/env python3
"""A padded and a packed batch through a Llama of transformers: a mask with and without its matrix.

  bench/record.py python_hf_padded -- chrt -f 1 python3 bench/python/hf_padded.py --json

4 layers of width 512 with 8 heads, forward in float32 without gradients. Padded: 4 rows of N
tokens, of which 1, 3/4, 1/2 and 1/4 are real, on the right. Packed: one row of 4 sequences of N / 4
tokens, told by position_ids. Calls take turns in one process: torch's attention ("torch", its mask
bool [B, 1, N, N]), tessera ("tessera"), and tessera with that mask ("matrix"), as before it read
padding and packing from the mask function. ratio: torch's time by tessera's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from transformers import LlamaConfig, LlamaModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from turns import interleaved, row, tell

import tessera.huggingface

BATCH, VOCABULARY = 4, 64


def model(implementation: str) -> Any:
    """The model, the same for each implementation."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=8,
    )
    return LlamaModel._from_config(config, attn_implementation=implementation).eval()


def padded(rows: int) -> dict[str, Any]:
    """A batch that is padded on the right."""
    ends = torch.tensor([rows * (BATCH - i) // BATCH for i in range(BATCH)])
    mask = (torch.arange(rows) < ends[:, None]).long()
    return {"input_ids": torch.randint(VOCABULARY, (BATCH, rows)), "attention_mask": mask}


def packed(rows: int) -> dict[str, Any]:
    """A row of packed sequences."""
    places = torch.arange(rows // BATCH).repeat(BATCH)[None]
    return {"input_ids": torch.randint(VOCABULARY, (1, places.shape[1])), "position_ids": places}


def measure(kind: Callable[[int], dict[str, Any]], rows: int, samples: int) -> dict[str, Any]:
    """The row of one batch."""
    names = {"torch": "sdpa", "tessera": "tessera", "matrix": "matrix"}
    models, batch = {n: model(x) for n, x in names.items()}, kind(rows)
    calls = {n: lambda m=m: m(**batch, use_cache=False) for n, m in models.items()}
    real = batch.get("attention_mask", torch.ones_like(batch["input_ids"])).bool()
    outs = {n: call().last_hidden_state[real] for n, call in calls.items()}
    times = interleaved(calls, samples)
    best = {f"{n}_ms": round(min(t) * 1e3, 2) for n, t in times.items()}
    difference = max(float((x - outs["torch"]).abs().max()) for x in outs.values())
    name = f"{kind.__name__} n{rows}"
    return row(name, times, 1.0, samples, **best, largest_difference=difference)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    tessera.huggingface.register()
    tessera.huggingface.register("matrix")
    AttentionMaskInterface.register("matrix", sdpa_mask)
    for kind in (padded, packed):
        for rows in arguments.rows:
            with torch.no_grad():
                found = measure(kind, rows, arguments.samples)
            line = (
                f"{found['case']:<14} torch {found['torch_ms']:9.2f} ms, tessera with the matrix "
                f"{found['matrix_ms']:9.2f}, without {found['tessera_ms']:9.2f}: {found['ratio']}"
            )
            tell(found, line, arguments.json)


if __name__ == "__main__":
    main()
