"""Models of Hugging Face transformers: logits and gradients are those of their own attention."""

from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache, StaticCache

import hf_models
import tessera.huggingface
from hf_models import DECODERS, IMAGE, VISION_START, both, padding, tokens

PADDINGS = {"none": {}, "left": {"left": 4}, "right": {"right": 4}}


@pytest.fixture(autouse=True, scope="module")
def _registered():
    tessera.huggingface.register()


def close(x, expected, tolerance=1e-5):
    assert x.shape == expected.shape
    error = (x - expected).abs().max() / expected.abs().max()
    assert error <= tolerance, f"relative error {error:.1e}"


@pytest.mark.parametrize("name", [*DECODERS, "bert", "llama4", "deepseek_v3", "modernbert"])
@pytest.mark.parametrize("pad", PADDINGS)
@torch.no_grad()
def test_logits(name, pad):
    ids, mask = tokens(2, 12), padding(2, 12, **PADDINGS[pad])
    given = mask if pad != "none" else None
    expected, found = both(name, lambda m: m(ids, attention_mask=given)[0])
    close(found[mask.bool()], expected[mask.bool()])


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_these_models_notice_a_lost_mask(name):
    ids, mask = tokens(2, 12), padding(2, 12, left=4)
    model = hf_models.model(name)
    model.set_attn_implementation("tessera")
    right, wrong = model(ids, attention_mask=mask).logits, model(ids).logits
    assert (right - wrong)[0, 4:].abs().max() > 0.1 * right.abs().max()
    changed = ids.clone()
    changed[:, -1] += 1 - 2 * (changed[:, -1] > 50).long()
    close(model(changed).logits[:, :-1], wrong[:, :-1])


@pytest.mark.parametrize("name", [*DECODERS, "bert"])
def test_gradients(name):
    ids, mask = tokens(2, 10), padding(2, 10, left=3)
    weights = torch.randn(2, 10, 1, generator=torch.Generator().manual_seed(5)) * mask[:, :, None]

    def gradients(model):
        model.zero_grad()
        out = model(ids, attention_mask=mask)[0]
        (out.log_softmax(-1) * weights).sum().backward()
        return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    expected, found = both(name, gradients)
    assert expected.keys() == found.keys()
    size = max(float(x.abs().max()) for x in expected.values())
    for parameter, x in expected.items():
        error = float((found[parameter] - x).abs().max())
        assert error <= 3e-5 * size, f"{parameter}: {error:.1e} of {size:.1e}"
    if name == "gpt_oss":
        assert any("sinks" in parameter for parameter in found)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
@torch.no_grad()
def test_packed_sequences(name):
    ids, lengths = tokens(1, 14), (5, 9)
    places = torch.cat([torch.arange(n) for n in lengths])[None]
    packed = {"position_ids": places, "use_cache": False}
    expected, found = both(name, lambda m: m(ids, **packed).logits)
    close(found, expected)
    alone = [hf_models.model(name)(x, use_cache=False).logits for x in ids.split(lengths, 1)]
    close(found, torch.cat(alone, 1))
    cu = torch.tensor([0, 5, 14], dtype=torch.int32)
    flash = {"cu_seq_lens_q": cu, "cu_seq_lens_k": cu, "max_length_q": 9, "max_length_k": 9}
    close(hf_models.model(name)(ids, **packed, **flash).logits, expected)
    if name == "llama":  # positions alone do not tell; the lengths do
        flat = {"position_ids": torch.arange(14)[None], "use_cache": False, **flash}
        whole = hf_models.model(name)(ids, **flat).logits
        close(whole[:, :5], alone[0])
        assert (whole[:, 5:] - expected[:, 5:]).abs().max() < 0.02 * expected.abs().max()


def in_pieces(model, cache, ids, mask, lengths):
    """The logits of a prompt that comes in pieces of these lengths."""
    logits, at = [], 0
    for n in lengths:
        piece = {"attention_mask": mask[:, : at + n], "cache": cache}
        places = torch.arange(at, at + n)[None].expand(2, -1)
        logits.append(model(ids[:, at : at + n], position_ids=places, **piece).logits)
        at += n
    return torch.cat(logits, 1)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("static", [False, True])
@torch.no_grad()
def test_a_prompt_in_pieces(name, static):
    ids, mask = tokens(2, 13), padding(2, 13, left=3)

    def run(model):
        cache = (
            StaticCache(model.config, max_cache_len=20)
            if static
            else DynamicCache(config=model.config)
        )
        return in_pieces(model, cache, ids, mask, (6, 4, 1, 1, 1))

    expected, found = both(name, run)
    close(found[mask.bool()], expected[mask.bool()])


GENERATED = [*((name, kind) for name in DECODERS for kind in ("dynamic", "static")), ("t5", None)]


@pytest.mark.parametrize(("name", "kind"), GENERATED)
def test_generated_tokens(name, kind):
    ids, mask = tokens(2, 7), padding(2, 7, left=3)
    settings = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    if kind is not None:
        settings["cache_implementation"] = kind if kind == "static" else None
    expected, found = both(name, lambda m: m.generate(ids, attention_mask=mask, **settings))
    assert found.shape[1] > 8
    assert torch.equal(found, expected)


@torch.no_grad()
def test_whisper_attends_to_its_encoder():
    features = torch.randn(2, 8, 24, generator=torch.Generator().manual_seed(2))
    ids = tokens(2, 6)
    expected, found = both(
        "whisper", lambda m: m(input_features=features, decoder_input_ids=ids).logits
    )
    close(found, expected)
    settings = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    expected, found = both("whisper", lambda m: m.generate(features, **settings))
    assert torch.equal(found, expected)


@torch.no_grad()
def test_qwen2_vl_sees_two_images():
    grid = torch.tensor([[1, 4, 4], [1, 4, 6]])
    pixels = torch.randn(40, 3 * 2 * 4 * 4, generator=torch.Generator().manual_seed(2))
    row = [9, VISION_START, *[IMAGE] * 4, 4, 20, VISION_START, *[IMAGE] * 6, 4, 30, 31]
    ids = torch.tensor([row])
    images = {"pixel_values": pixels, "image_grid_thw": grid}
    images["mm_token_type_ids"] = (ids == IMAGE).int()
    expected, found = both("qwen2_vl", lambda m: m(ids, **images).logits)
    close(found, expected)
    other = {**images, "pixel_values": pixels.flip(0)}
    changed, _ = both("qwen2_vl", lambda m: m(ids, **other).logits)
    assert (changed - expected).abs().max() > 0.01 * expected.abs().max()
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    expected, found = both("qwen2_vl", lambda m: m.generate(ids, **images, **settings))
    assert torch.equal(found, expected)


# torch's compiler instantiates autograd functions while it traces them, and warns of it.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["mistral", "gpt_oss", "bert"])
@pytest.mark.parametrize("pad", ["none", "left"])
@torch.no_grad()
def test_compiled_models(name, pad):
    ids, mask = tokens(2, 12), padding(2, 12, **PADDINGS[pad])
    given = {"attention_mask": mask} if pad != "none" else {}
    if name != "bert":
        given["use_cache"] = False
    expected, _ = both(name, lambda m: m(ids, **given)[0])
    compiled = torch.compile(hf_models.model(name), backend="aot_eager", fullgraph=True)
    close(compiled(ids, **given)[0][mask.bool()], expected[mask.bool()])
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_gradients():
    ids, mask = tokens(2, 10), padding(2, 10, left=3)

    def gradients(run, model):
        model.zero_grad()
        out = run(ids, attention_mask=mask, use_cache=False).logits
        out.log_softmax(-1)[mask.bool()].square().sum().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    expected, found = both("llama", lambda m: gradients(m, m))
    compiled = torch.compile(hf_models.model("llama"), backend="aot_eager", fullgraph=True)
    close(gradients(compiled, hf_models.model("llama")), expected, 3e-5)
    close(found, expected, 3e-5)
    torch.compiler.reset()


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_decoding_with_a_static_cache():
    ids, mask = tokens(2, 9), padding(2, 9, left=3)

    def run(model):
        cache = StaticCache(hf_models.model("mistral").config, max_cache_len=12)
        return in_pieces(model, cache, ids, mask, (6, 1, 1, 1))

    expected, _ = both("mistral", run)
    found = run(torch.compile(hf_models.model("mistral"), backend="aot_eager"))
    close(found[mask.bool()], expected[mask.bool()])
    torch.compiler.reset()
