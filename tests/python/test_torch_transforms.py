"""tessera.torch under torch.compile, torch.export, torch.func, autocast, checkpoint."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional
from torch.utils.checkpoint import checkpoint

import tessera.torch
from tessera.torch._operators import backward_operator, forward_operator, pack

sdpa = tessera.torch.scaled_dot_product_attention
# torch.compile and torch.func use parts of torch that warn that they will go.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def leaves(*shapes, dtype=torch.float32):
    """Tensors that require gradients."""
    return [torch.randn(s, dtype=dtype).requires_grad_() for s in shapes]


def gradients(f, tensors):
    """f's results and the gradients of a loss that reads them all."""
    results = f(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum(x.square().sum() for x in results)
    return [*results, *torch.autograd.grad(loss, tensors)]


def everything(q, k, v, bias, sink, mask=None):
    return tessera.torch.attention(
        q, k, v, bias=bias, sink=sink, causal=True, align="bottom_right", softcap=5.0, mask=mask,
        kv_starts=[0, 1], return_lse=True,
    )  # fmt: skip


@pytest.mark.parametrize("permuted", [False, True])
def test_operators_keep_torchs_rules(permuted):
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 6)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if not permuted:
        q, k, v = (x.contiguous() for x in (q, k, v))
    some = {"bias": torch.randn(5, 7), "sink": torch.randn(4), "causal": True, "align": 2}
    some.update(dropout_p=0.25, seed=5, heads_first=permuted)
    for options in ({}, some):
        packed = pack(options)
        torch.library.opcheck(forward_operator, (q, k, v, *packed))
        out, lse = forward_operator(q, k, v, *packed)
        wanted = [True, False, True, bool(options), bool(options)]
        given = (torch.randn_like(out), None, out, lse, wanted, q, k, v, *packed)
        torch.library.opcheck(backward_operator, given)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_is_eager(dynamic):
    compiled = torch.compile(everything, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (5, 6):
        tensors = leaves((2, rows, 4, 8), (2, 7, 2, 8), (2, 7, 2, 6), (rows, 7), (4,))
        for found, expected in zip(gradients(compiled, tensors), gradients(everything, tensors)):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_compiled_by_inductor(transposed):
    def f(q, k, v):
        return sdpa(q.sin(), k, v, is_causal=True) + 1

    tensors = leaves((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8))
    if transposed:
        tensors[0] = torch.randn(2, 5, 4, 8).transpose(1, 2).requires_grad_()
    compiled = torch.compile(f, fullgraph=True)
    expected = gradients(f, tensors)
    for found, wanted in zip(gradients(compiled, tensors), expected):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        assert compiled(*tensors).stride() == expected[0].stride()


def test_compiled_with_one_tensor_for_all():
    f = torch.compile(
        lambda x: tessera.torch.attention(x, x, x), backend="aot_eager", fullgraph=True
    )
    (x,) = leaves((1, 5, 2, 4))
    for found, expected in zip(
        gradients(f, [x]), gradients(lambda x: tessera.torch.attention(x, x, x), [x])
    ):
        torch.testing.assert_close(found, expected)


def test_compiled_dropout():
    def f(x, seed=None):
        return tessera.torch.attention(x, x, x, dropout_p=0.5, seed=seed)

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    x = torch.randn(1, 9, 2, 4)
    torch.manual_seed(1)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(compiled(x), first)
    for seed in (1, 2, 2**64 - 1, torch.tensor(-1)):
        assert torch.equal(compiled(x, seed), f(x, seed))
    assert torch.equal(f(x, 2**64 - 1), f(x, torch.tensor(-1)))


def test_a_refusal_inside_a_compiled_function():
    f = torch.compile(lambda x: tessera.torch.attention(x, x, x, scale=-1.0), backend="aot_eager")
    with pytest.raises(ValueError, match="scale"):
        f(torch.randn(1, 5, 2, 4))


class Model(torch.nn.Module):
    """Attention between linear layers."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, q, k):
        return sdpa(self.linear(q), self.linear(k), k, is_causal=True)


def test_export():
    rows, keys = torch.export.Dim("rows", min=2, max=64), torch.export.Dim("keys", min=2, max=64)
    given = (torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8))
    model = Model()
    exported = torch.export.export(model, given, dynamic_shapes=({2: rows}, {2: keys}))
    assert "tessera.attention_forward" in str(exported.graph)
    other = (torch.randn(2, 4, 9, 8), torch.randn(2, 4, 3, 8))
    module = exported.module()
    found, expected = module(*other), model(*other)
    torch.testing.assert_close(found, expected)
    weight = model.linear.weight
    (exported_weight,) = [x for n, x in module.named_parameters() if n == "linear.weight"]
    (found,) = torch.autograd.grad(found.sum(), exported_weight)  # the operator has gradients, too
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), weight)[0])


def test_meta_tensors_have_shapes():
    q, v = torch.empty(2, 5, 4, 8, device="meta"), torch.empty(2, 7, 2, 6, device="meta")
    out, lse = tessera.torch.attention(q, v.new_empty(2, 7, 2, 8), v, return_lse=True)
    assert (out.shape, lse.shape, out.device.type) == ((2, 5, 4, 6), (2, 4, 5), "meta")


def test_gradcheck_of_q_k_v():
    tensors = leaves((1, 3, 2, 4), (1, 5, 1, 4), (1, 5, 1, 3), dtype=torch.float64)
    for f in (
        lambda q, k, v: tessera.torch.attention(q, k, v, window=(2, 1), align=1, return_lse=True),
        lambda q, k, v: tessera.torch.attention(q, k, v, softcap=2.0, dropout_p=0.25, seed=3),
    ):
        assert torch.autograd.gradcheck(f, tensors)


def test_gradcheck_of_bias_and_sink():
    # Both are read in float32, so the values and steps are multiples of 1/256, exact there.
    q, k = torch.randn(1, 3, 2, 4, dtype=torch.float64), torch.randn(1, 5, 2, 4).double()
    tensors = [
        (torch.randn(s).double() * 256).round().div(256).requires_grad_() for s in ((2, 1, 5), (2,))
    ]
    assert torch.autograd.gradcheck(
        lambda bias, sink: tessera.torch.attention(q, k, k, bias=bias, sink=sink, return_lse=True),
        tensors, eps=1 / 256, atol=1e-4, rtol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize("create_graph", ["autograd", "func"])
def test_second_derivatives_are_refused(create_graph):
    (x,) = leaves((1, 3, 2, 4))
    sentence = "a second derivative of tessera's attention was asked for"

    def loss(x):
        return tessera.torch.attention(x, x, x).square().sum()

    if create_graph == "autograd":
        (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
        with pytest.raises(RuntimeError, match=sentence):
            gradient.sum().backward()
    else:
        with pytest.raises(RuntimeError, match=sentence):
            torch.func.grad(lambda x: torch.func.grad(loss)(x).sum())(x.detach())


def test_forward_derivatives_are_refused():
    x = torch.randn(1, 3, 2, 4)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        with pytest.raises(NotImplementedError, match="jvp"):
            tessera.torch.attention(dual, dual, dual)
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(lambda x: sdpa(x, x, x), (x,), (x,))


def stacked(f, mapped, dims=None):
    """What vmap should give: a call for each index."""
    dims = dims or (0,) * len(mapped)
    size = next(x.shape[d] for x, d in zip(mapped, dims) if d is not None)
    calls = [
        f(*(x if d is None else x.select(d, i) for x, d in zip(mapped, dims))) for i in range(size)
    ]
    return [torch.stack(same) for same in zip(*calls)]


def test_vmap():
    q, k, v = torch.randn(3, 2, 5, 4, 8), torch.randn(3, 2, 7, 2, 8), torch.randn(3, 2, 7, 2, 6)
    bias, sink = torch.randn(3, 5, 7), torch.randn(3, 4)

    def plain(q, k, v):
        return tessera.torch.attention(q, k, v, causal=True, align=1, return_lse=True)

    for dims, mapped in {(0, 0, 0): (q, k, v), (1, None, 0): (q.movedim(0, 1), k[0], v)}.items():
        found = torch.vmap(plain, in_dims=dims)(*mapped)
        for x, expected in zip(found, stacked(plain, mapped, dims)):
            assert torch.equal(x, expected)
    for f, mapped in {plain: (q, k, v), everything: (q, k, v, bias, sink)}.items():
        slopes = torch.func.grad(
            lambda *x, f=f: sum(y.square().sum() for y in f(*x)), tuple(range(len(mapped)))
        )
        for x, expected in zip(torch.vmap(slopes)(*mapped), stacked(slopes, mapped)):
            assert torch.equal(x, expected)


def test_func_inside_compile_falls_back_or_is_refused():
    def slope(x):
        return torch.func.grad(lambda x: sdpa(x, x, x).square().sum())(x)

    x = torch.randn(1, 2, 3, 4)
    assert torch.equal(torch.compile(slope, backend="aot_eager")(x), slope(x))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(slope, backend="aot_eager", fullgraph=True)(x)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_draws_the_same_dropout(reentrant):
    def f(x):
        return tessera.torch.attention(x, x, x, dropout_p=0.5)

    (x,) = leaves((1, 9, 2, 4))
    torch.manual_seed(3)
    expected = gradients(f, [x])
    y = x.detach().clone().requires_grad_()
    torch.manual_seed(3)
    out = checkpoint(f, y, use_reentrant=reentrant)
    out.square().sum().backward()
    assert torch.equal(out, expected[0])
    assert torch.equal(y.grad, expected[1])


def test_autocast():
    (x,) = leaves((1, 2, 9, 4))
    narrow = x.detach().bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = sdpa(x, x, x)
        assert functional.scaled_dot_product_attention(x, x, x).dtype == out.dtype
        assert sdpa(x.double(), x.double(), x.double()).dtype == torch.float64
    assert torch.equal(out, sdpa(narrow, narrow, narrow))
    out.float().sum().backward()
    assert x.grad.dtype == torch.float32


def test_saved_tensors_changed_in_place_are_found():
    (x,) = leaves((1, 3, 2, 4))
    mask = torch.ones(3, 3, dtype=torch.bool)
    out = tessera.torch.attention(x, x, x, mask=mask)
    mask[0] = False
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
