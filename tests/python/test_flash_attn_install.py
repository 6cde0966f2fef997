"""tessera.flash_attn in the place of flash_attn, and its bert_padding."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import pytest
import torch

from tessera import flash_attn, flash_attn3
from tessera.flash_attn import bert_padding

MODULES = ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn.bert_padding")


def test_code_that_imports_flash_attn_finds_it():
    assert importlib.util.find_spec("flash_attn") is None
    with flash_attn.installed():
        from flash_attn import flash_attn_func
        from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input
        from flash_attn.flash_attn_interface import flash_attn_varlen_func

        package = importlib.import_module("flash_attn")
        assert flash_attn_func is flash_attn.flash_attn_func
        assert flash_attn_varlen_func is flash_attn.flash_attn_varlen_func
        assert (index_first_axis, pad_input, unpad_input) == (
            bert_padding.index_first_axis,
            bert_padding.pad_input,
            bert_padding.unpad_input,
        )
        assert package.__version__ == "2.8.3"
        assert package.bert_padding.unpad_input is unpad_input
        for name in MODULES:
            assert importlib.util.find_spec(name).name == name
        with pytest.raises(ModuleNotFoundError, match=r"flash_attn\.layers"):
            importlib.import_module("flash_attn.layers")
    assert not set(MODULES) & set(sys.modules)


def test_a_package_that_was_imported_before_comes_back(monkeypatch):
    real, part = ModuleType("flash_attn"), ModuleType("flash_attn.layers")
    monkeypatch.setitem(sys.modules, "flash_attn", real)
    monkeypatch.setitem(sys.modules, "flash_attn.layers", part)
    flash_attn.install()
    flash_attn.install()
    assert sys.modules["flash_attn"] is not real
    assert "flash_attn.layers" not in sys.modules
    with flash_attn.installed():
        pass
    assert sys.modules["flash_attn"] is not real
    flash_attn.uninstall()
    flash_attn.uninstall()
    assert sys.modules["flash_attn"] is real
    assert sys.modules["flash_attn.layers"] is part
    assert "flash_attn.bert_padding" not in sys.modules


def test_flash_attn_3_has_a_name_of_its_own():
    with flash_attn3.installed():
        found = importlib.import_module("flash_attn_interface")
        assert found.flash_attn_func is flash_attn3.flash_attn_func
        assert importlib.util.find_spec("flash_attn_interface") is not None
    flash_attn3.install()
    flash_attn3.uninstall()
    assert "flash_attn_interface" not in sys.modules


def test_padding_and_back():
    x = torch.randn(3, 4, 2, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]])
    rows, indices, cu, longest, used = bert_padding.unpad_input(x, mask)
    assert indices.tolist() == [0, 1, 5, 6, 7]
    assert (cu.tolist(), cu.dtype, longest) == ([0, 2, 5, 5], torch.int32, 3)
    assert used.tolist() == [2, 3, 0]
    assert torch.equal(rows, x.flatten(0, 1)[indices])
    back = bert_padding.pad_input(rows, indices, 3, 4)
    assert torch.equal(back, x * mask[:, :, None, None])
    (gradient,) = torch.autograd.grad(back.sum(), x)
    assert torch.equal(gradient, mask[:, :, None, None].expand_as(x).float())
    kept = bert_padding.unpad_input(
        x, mask.bool(), torch.tensor([[0, 0, 1, 0]] + [[0] * 4] * 2) > 0
    )
    assert kept[1].tolist() == [0, 1, 2, 5, 6, 7]
    assert (kept[2].tolist(), kept[4].tolist()) == ([0, 3, 6, 6], [2, 3, 0])


def test_a_padded_batch_by_way_of_packing():
    """What BERT-like code does: unpad, varlen, pad."""
    qkv = torch.randn(2, 5, 3, 2, 8, generator=torch.Generator().manual_seed(2))
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    rows, indices, cu, longest, _ = bert_padding.unpad_input(qkv, mask)
    out = flash_attn.flash_attn_varlen_qkvpacked_func(rows, cu, longest)
    padded = bert_padding.pad_input(out, indices, 2, 5)
    for b, n in enumerate((3, 5)):
        alone = flash_attn.flash_attn_qkvpacked_func(qkv[b : b + 1, :n])
        torch.testing.assert_close(padded[b, :n], alone[0], rtol=0, atol=2e-6)
    assert (padded[0, 3:] == 0).all()
