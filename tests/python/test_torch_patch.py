"""patch_sdpa, and who else intercepts torch's functions."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as functional

import tessera.torch

sdpa = tessera.torch.scaled_dot_product_attention
# torch.fx and the profiler use parts of torch that warn that they will go.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

THEIRS = functional.scaled_dot_product_attention


def test_patch_nests_and_survives_exceptions():
    with tessera.torch.patch_sdpa():
        assert functional.scaled_dot_product_attention is sdpa
        with pytest.raises(KeyError), tessera.torch.patch_sdpa():
            raise KeyError
        assert functional.scaled_dot_product_attention is sdpa
    assert functional.scaled_dot_product_attention is THEIRS


def test_patch_of_two_threads_ends_with_the_last():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with tessera.torch.patch_sdpa():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with tessera.torch.patch_sdpa():
        thread.start()
        inside.wait()
    assert functional.scaled_dot_product_attention is sdpa
    leave.set()
    thread.join()
    assert functional.scaled_dot_product_attention is THEIRS


def test_patch_leaves_what_others_put_there():
    def other():
        """Someone else's function."""

    try:
        with tessera.torch.patch_sdpa():
            functional.scaled_dot_product_attention = other
        assert functional.scaled_dot_product_attention is other
    finally:
        functional.scaled_dot_product_attention = THEIRS


def test_multihead_attention_is_patched():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    x = torch.randn(2, 9, 32)
    hidden = torch.nn.Transformer.generate_square_subsequent_mask(9)
    expected, _ = layer(x, x, x, attn_mask=hidden, need_weights=False)
    calls = torch.profiler.profile()
    with tessera.torch.patch_sdpa(), calls:
        found, _ = layer(x, x, x, attn_mask=hidden, need_weights=False)
    torch.testing.assert_close(found, expected)
    assert not any("scaled_dot_product" in e.key for e in calls.key_averages())


def test_modes_and_subclasses():
    x = torch.randn(1, 2, 3, 4)
    with torch.device("cpu"):  # a mode that intercepts every function
        torch.testing.assert_close(sdpa(x, x, x), THEIRS(x, x, x))
    traced = torch.fx.symbolic_trace(lambda x: sdpa(x, x, x))
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [THEIRS]
