"""The mask function and the attention function of tessera.huggingface, called by themselves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers import masking_utils as masks
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from definition import attention as define
from tessera import _hf_masks, huggingface

DECODER, ENCODER = SimpleNamespace(is_causal=True), SimpleNamespace(is_causal=False)


@pytest.fixture
def qkv(some):
    """q [2, 4, 5, 8], k and v [2, 2, 9, 8], as models pass them."""
    return some(2, 5, 4, 8).transpose(1, 2), some(2, 2, 9, 8), some(2, 2, 9, 8)


def defined(q, k, v, **options):
    q, k, v = (x.transpose(1, 2).double() for x in (q, k, v))
    return define(q, k, v, offset=k.shape[1] - q.shape[1], **options)[0]


def close(x, expected):
    assert x.shape == expected.shape
    assert (x.double() - expected).abs().max() <= 3e-6 * max(1.0, expected.abs().max())


# ---- Masks ---------------------------------------------------------------------------------------


def whole(mask, batch, lq, lk, causal, q_offset, kv_offset):
    """What is visible, with the band that None stands for when keys end with queries."""
    if mask is not None:
        return torch.ones(batch, 1, lq, lk, dtype=torch.bool) & mask
    i = torch.arange(lq)[:, None] + lk - lq
    seen = torch.arange(lk) <= i if causal else torch.ones(lq, lk, dtype=torch.bool)
    return seen.expand(batch, 1, lq, lk)


@pytest.mark.parametrize("padding", ["absent", "none", "left", "short"])
@pytest.mark.parametrize(
    ("lq", "lk", "q_offset", "kv_offset"),
    [(6, 6, 0, 0), (1, 6, 5, 0), (3, 6, 3, 0), (3, 9, 0, 0), (1, 9, 4, 0), (2, 5, 7, 4)],
)
@pytest.mark.parametrize("local", [None, 4, 20])
@pytest.mark.parametrize("tensor", [False, True])
def test_masks_say_what_transformers_masks_say(padding, lq, lk, q_offset, kv_offset, local, tensor):
    keys = q_offset + lq if padding == "short" else kv_offset + lk
    mask = torch.ones(2, keys, dtype=torch.bool)
    mask[0, : 2 if padding == "left" else 0] = False
    function = masks.sliding_window_causal_mask_function(local) if local else None
    given = {
        "batch_size": 2,
        "q_length": lq,
        "kv_length": lk,
        "q_offset": torch.tensor(q_offset) if tensor else q_offset,
        "kv_offset": kv_offset,
        "mask_function": function or masks.causal_mask_function,
        "attention_mask": None if padding == "absent" else mask,
        "local_size": local,
    }
    expected = masks.sdpa_mask(**given, allow_is_causal_skip=False)
    found = huggingface.make_mask(**given)
    assert torch.equal(whole(found, 2, lq, lk, True, q_offset, kv_offset), expected)
    always = huggingface.make_mask(**given, allow_is_causal_skip=False)
    assert torch.equal(always.expand_as(expected), expected)


@pytest.mark.parametrize("padding", ["absent", "none", "left", "short"])
def test_masks_of_encoders_are_one_row(padding):
    mask = torch.ones(2, 5 if padding == "short" else 7, dtype=torch.bool)
    mask[0, : 2 if padding == "left" else 0] = False
    given = {
        "batch_size": 2,
        "q_length": 6,
        "kv_length": 7,
        "mask_function": masks.bidirectional_mask_function,
        "attention_mask": None if padding == "absent" else mask,
        "allow_is_causal_skip": False,
    }
    expected = masks.sdpa_mask(**given)
    found = huggingface.make_mask(**given, allow_is_bidirectional_skip=True)
    assert torch.equal(whole(found, 2, 6, 7, False, 0, 0), expected)
    assert (found is None) == (padding in ("absent", "none"))
    assert found is None or isinstance(found, huggingface.Mask)
    always = huggingface.make_mask(**given)
    assert torch.equal(always.expand_as(expected), expected)


def padded(kind, batch=2, keys=9):
    """A padding mask [batch, keys]."""
    mask = torch.ones(batch, keys, dtype=torch.bool)
    mask[0, {"left": slice(0, 3), "right": slice(6, 9), "both": [0, 8], "inside": [4]}[kind]] = (
        False
    )
    return mask


@pytest.fixture
def no_matrix(monkeypatch):
    """Fails a test that has the matrix of a mask made."""

    def refuse(**_):
        raise AssertionError("the matrix of the mask is made")

    monkeypatch.setattr(_hf_masks, "sdpa_mask", refuse)


@pytest.mark.parametrize("kind", ["left", "right", "both", "inside"])
@pytest.mark.parametrize("local", [None, 4])
@pytest.mark.parametrize(("lq", "q_offset"), [(9, 0), (4, 5), (1, 8), (4, 3)])
def test_padding_takes_no_matrix(kind, local, lq, q_offset, some, no_matrix):
    padding = padded(kind)
    function = masks.sliding_window_causal_mask_function(local) if local else None
    given = {
        "batch_size": 2,
        "q_length": lq,
        "kv_length": 9,
        "q_offset": q_offset,
        "mask_function": function or masks.causal_mask_function,
        "attention_mask": padding,
        "local_size": local,
    }
    mask = huggingface.make_mask(**given)
    expected = masks.sdpa_mask(**given, allow_is_causal_skip=False)
    q, k, v = some(2, 4, lq, 8), some(2, 2, 9, 8), some(2, 2, 9, 8)
    out, _ = huggingface.attention_forward(DECODER, q, k, v, mask, sliding_window=local)
    close(out, defined(q, k, v, mask=expected))
    # Lengths, rather than a row of the mask, let tiles of keys be left out.
    assert ("kv_lengths" in mask.options) == (kind != "inside")


@pytest.mark.parametrize("kind", ["left", "right", "inside"])
def test_padding_of_an_encoder_takes_no_matrix(kind, some, no_matrix):
    padding = padded(kind)
    mask = huggingface.make_mask(
        2, 5, 9, mask_function=masks.bidirectional_mask_function, attention_mask=padding,
        allow_is_causal_skip=False, allow_is_bidirectional_skip=True,
    )  # fmt: skip
    q, k, v, bias = some(2, 4, 5, 8), some(2, 2, 9, 8), some(2, 2, 9, 8), some(1, 4, 5, 9)
    out, _ = huggingface.attention_forward(ENCODER, q, k, v, mask, position_bias=bias)
    close(out, defined(q, k, v, mask=padding[:, None, None], bias=bias.double()))


def positions(*lengths):
    """The position ids of a row of packed sequences."""
    return torch.cat([torch.arange(n) for n in lengths])


def packed_mask(places, local=None, made=huggingface.make_mask, **options):
    """The mask of packed sequences, as transformers asks for it."""
    ids = masks.find_packed_sequence_indices(places)
    base = masks.sliding_window_causal_mask_function(local) if local else masks.causal_mask_function
    function = masks.and_masks(
        masks.remap_positions_for_packed_sequence(base, places),
        masks.packed_sequence_mask_function(ids),
    )
    batch, rows = places.shape
    return made(
        batch_size=batch, q_length=rows, kv_length=rows, mask_function=function,
        allow_is_causal_skip=False, local_size=local, **options,
    )  # fmt: skip


@pytest.mark.parametrize("local", [None, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_packed_sequences_take_no_matrix(some, local, batch, no_matrix):
    places = torch.stack([positions(4, 5), positions(2, 3, 4)])[:batch]
    mask = packed_mask(places, local)
    expected = packed_mask(places, local, masks.sdpa_mask)
    q, k, v = some(batch, 4, 9, 8), some(batch, 2, 9, 8), some(batch, 2, 9, 8)
    out, _ = huggingface.attention_forward(DECODER, q, k, v, mask)
    close(out, defined(q, k, v, mask=expected))
    if batch == 1:  # the lengths say the same
        cu = mask.options["cu_seqlens_q"]
        again, _ = huggingface.attention_forward(
            DECODER, q, k, v, mask, cu_seq_lens_q=cu, cu_seq_lens_k=cu
        )
        assert torch.equal(again, out)


def test_packed_sequences_with_a_bias_or_other_lengths_are_right(some):
    places = positions(4, 5)[None]
    mask, expected = packed_mask(places), packed_mask(places, made=masks.sdpa_mask)
    q, k, v, bias = some(1, 4, 9, 8), some(1, 2, 9, 8), some(1, 2, 9, 8), some(1, 4, 9, 9)
    out, _ = huggingface.attention_forward(DECODER, q, k, v, mask, position_bias=bias)
    close(out, defined(q, k, v, mask=expected, bias=bias.double()))
    cu = torch.tensor([0, 2, 9], dtype=torch.int32)
    out, _ = huggingface.attention_forward(
        DECODER, q, k, v, mask, cu_seq_lens_q=cu, cu_seq_lens_k=cu
    )
    apart = expected.clone()
    apart[..., 2:, :2] = False
    close(out, defined(q, k, v, mask=apart))


def test_other_mask_functions_have_their_matrix():
    given = {"batch_size": 2, "q_length": 9, "kv_length": 9, "attention_mask": padded("left")}
    chunks = masks.chunked_causal_mask_function(4, torch.tensor([3, 0]))
    either = masks.or_masks(masks.causal_mask_function, lambda b, h, q, k: k < 2)
    for function in (chunks, either):
        given["mask_function"] = function
        found = huggingface.make_mask(**given, allow_is_causal_skip=False)
        assert type(found) is torch.Tensor
        assert torch.equal(found, masks.sdpa_mask(**given, allow_is_causal_skip=False))


def test_a_mask_that_is_read_is_the_matrix(some):
    given = {"batch_size": 2, "q_length": 9, "kv_length": 9, "attention_mask": padded("right")}
    mask = huggingface.make_mask(**given)
    expected = masks.sdpa_mask(**given, allow_is_causal_skip=False)
    assert (mask.shape, mask.dtype, mask.dim()) == (expected.shape, torch.bool, 4)
    assert torch.equal(mask & True, expected)
    assert torch.equal(mask[..., :7], expected[..., :7])
    assert torch.equal(torch.zeros(2, 1, 9, 9).masked_fill(mask, 1.0).bool(), expected)
    q, k, v = some(2, 4, 9, 8), some(2, 2, 7, 8), some(2, 2, 7, 8)
    out, _ = huggingface.attention_forward(DECODER, q, k, v, mask)  # of a longer cache
    close(out, defined(q, k, v, mask=expected[..., :7]))


def test_padding_under_a_trace_is_one_row(some, monkeypatch):
    monkeypatch.setattr(_hf_masks, "is_tracing", lambda *_: True)
    padding = padded("left")
    mask = huggingface.make_mask(2, 9, 9, attention_mask=padding)
    assert (mask.dtype, mask.shape) == (torch.uint8, (2, 1, 1, 9))
    q, k, v = some(2, 4, 9, 8), some(2, 2, 9, 8), some(2, 2, 9, 8)
    out, _ = huggingface.attention_forward(DECODER, q, k, v, mask)
    lower = torch.ones(9, 9, dtype=torch.bool).tril()
    close(out, defined(q, k, v, mask=lower & padding[:, None, None]))


# ---- Attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sliding", [None, 3])
@pytest.mark.parametrize("module", [DECODER, ENCODER])
@pytest.mark.parametrize("is_causal", [None, True, False])
def test_without_a_mask_the_call_says_what_is_visible(qkv, sliding, module, is_causal):
    out, weights = huggingface.attention_forward(
        module, *qkv, None, is_causal=is_causal, sliding_window=sliding
    )
    causal = module.is_causal if is_causal is None else is_causal
    window = None if sliding is None else (sliding - 1, sliding - 1)
    close(out, defined(*qkv, causal=causal, window=window))
    assert out.is_contiguous()
    assert weights is None


def test_with_a_mask_the_mask_says_everything(qkv, some):
    mask = some(2, 1, 5, 9) > 0
    given = {"scaling": 0.5, "softcap": 2.0, "s_aux": some(4), "sliding_window": 2}
    options = {"scale": 0.5, "softcap": 2.0, "sink": given["s_aux"].double()}
    out, _ = huggingface.attention_forward(DECODER, *qkv, mask, **given)
    close(out, defined(*qkv, mask=mask, **options))
    longer = torch.cat([mask, torch.zeros(2, 1, 5, 3, dtype=torch.bool)], -1)
    assert torch.equal(huggingface.attention_forward(DECODER, *qkv, longer, **given)[0], out)
    added = torch.where(mask, some(2, 1, 5, 9), -torch.inf)
    out, _ = huggingface.attention_forward(DECODER, *qkv, added, **given)
    close(out, defined(*qkv, bias=added.double(), **options))


@pytest.mark.parametrize("kind", ["absent", "bool", "added"])
def test_a_position_bias_and_its_gradient(qkv, some, kind):
    bias = some(1, 4, 5, 9).requires_grad_()
    twin = bias.detach().double().requires_grad_()
    mask = {"absent": None, "bool": some(2, 1, 5, 9) > 0, "added": some(2, 1, 5, 9)}[kind]
    out, _ = huggingface.attention_forward(DECODER, *qkv, mask, position_bias=bias)
    if kind == "added":
        expected = defined(*qkv, bias=twin + mask.double())
    else:
        expected = defined(
            *qkv, bias=twin, **({"mask": mask} if kind == "bool" else {"causal": True})
        )
    close(out, expected)
    weights = some(*out.shape)
    (found,) = torch.autograd.grad((out * weights).sum(), bias)
    close(found, torch.autograd.grad((expected * weights).sum(), twin)[0])


def test_learned_queries_serve_the_whole_batch(qkv):
    q, k, v = qkv
    out, _ = huggingface.attention_forward(ENCODER, q[:1], k, v, None)
    close(out, defined(q[:1].expand_as(q), k, v))


def test_dropout_follows_torchs_seed(qkv):
    q, k, v = qkv
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(huggingface.attention_forward(ENCODER, q, k, v, None, dropout=0.5)[0])
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    torch.manual_seed(1)
    ones, _ = huggingface.attention_forward(
        ENCODER, q.repeat(50, 1, 1, 1), k.repeat(50, 1, 1, 1), torch.ones(100, 2, 9, 8), None, 0.5
    )
    assert abs(ones.mean() - 1) < 0.05


def test_packed_sequences_under_a_mask(some):
    q, k, v = some(1, 4, 9, 8), some(1, 2, 9, 8), some(1, 2, 9, 8)
    cu = torch.tensor([0, 4, 9], dtype=torch.int32)
    parts = [slice(0, 4), slice(4, 9)]
    expected = torch.cat([defined(*(x[:, :, p] for x in (q, k, v)), causal=True) for p in parts], 1)
    lower = torch.ones(9, 9, dtype=torch.bool).tril()[None, None]
    added = torch.zeros(1, 1, 9, 9).masked_fill(~lower, torch.finfo(torch.float32).min)
    for mask in (None, lower, added):
        out, _ = huggingface.attention_forward(
            DECODER, q, k, v, mask, cu_seq_lens_q=cu, cu_seq_lens_k=cu, max_length_q=5
        )
        close(out, expected)


# ---- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("indices", torch.zeros(1)),
        ("block_table", torch.zeros(1)),
        ("chunk_size", 4),
        ("sinks", 1.0),
    ],
)
def test_unknown_keywords_are_refused(qkv, keyword, value):
    sentence = f"the model passes {keyword} to its attention, which tessera does not know"
    with pytest.raises(NotImplementedError, match=sentence):
        huggingface.attention_forward(DECODER, *qkv, None, **{keyword: value})
    plain, _ = huggingface.attention_forward(DECODER, *qkv, None, position_ids=torch.arange(9))
    off, _ = huggingface.attention_forward(DECODER, *qkv, None, **{keyword: None}, use_cache=True)
    assert torch.equal(plain, off)


def test_keywords_can_be_named_harmless(qkv):
    huggingface.register("tessera_test", ignore=["chunk_size"])
    forward = AttentionInterface()["tessera_test"]
    assert AttentionMaskInterface()["tessera_test"] is huggingface.make_mask
    out, _ = forward(DECODER, *qkv, None, chunk_size=4)
    assert torch.equal(out, huggingface.attention_forward(DECODER, *qkv, None)[0])
    with pytest.raises(NotImplementedError, match="the model passes indices"):
        forward(DECODER, *qkv, None, chunk_size=4, indices=1)


def test_other_refusals(qkv, some):
    cu = torch.tensor([0, 5], dtype=torch.int32)
    packed = {"cu_seq_lens_q": cu, "cu_seq_lens_k": cu}
    q, k, v = qkv
    with pytest.raises(ValueError, match="packed sequences lie in one row"):
        huggingface.attention_forward(DECODER, *qkv, None, **packed)
    bias = some(1, 4, 5, 9)
    with pytest.raises(NotImplementedError, match="position_bias is given with cu_seq_lens_q"):
        huggingface.attention_forward(
            DECODER, q[:1], k[:1], v[:1], None, position_bias=bias, **packed
        )
    with pytest.raises(ValueError, match=r"attention_mask has shape \(2, 9\) when it reaches"):
        huggingface.attention_forward(DECODER, *qkv, torch.ones(2, 9, dtype=torch.bool))
    for name in ("my_flash", "sdpa2", "me/tessera"):
        with pytest.raises(ValueError, match="transformers takes names with"):
            huggingface.register(name)
