"""The public CPU attention peers, as adapters of peers.py (its docstring has the interface).

  torch      scaled_dot_product_attention, and standard attention (matmul, softmax, matmul)
  ort        ONNX Runtime's Attention (opset 23), and com.microsoft MultiHeadAttention and
             GroupQueryAttention (causal; decode over a cache that it appends to in place)
  openvino   opset 13 scaled_dot_product_attention
  zentorch   torch.ops.zentorch.zentorch_sdpa

In decode the query heads of a group see the same keys, so a reshape makes them rows of one head:
"G-as-rows". "gqa" and "broadcast" are the library's own ways.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import numpy as np

from case import Case

Array = np.ndarray
Pair = tuple[Callable, Callable]
SCORES_LIMIT = 512 << 20  # bytes of the N x N matrix above which peers that store it are left out


def prepare(case: Case, q: Array, k: Array, v: Array, grad: Array) -> dict:
    return PEERS[os.environ["PEER_NAME"]](case, q, k, v, grad)


def stores_too_much(case: Case) -> bool:
    return case.heads * case.queries * case.keys * case.element_bytes > SCORES_LIMIT


def as_rows(case: Case, q: Array) -> Array:
    return q.reshape(1, case.kv_heads, -1, case.dim)


# ---- PyTorch and ZenDNN --------------------------------------------------------------------------


def tensors(*arrays: Array) -> list:
    """Torch tensors in the memory of the arrays."""
    import torch

    views = [torch.from_numpy(x) for x in arrays]
    return [t.view(torch.bfloat16) if t.dtype == torch.uint16 else t for t in views]


def floats(out) -> list[Array]:
    return [t.float().numpy() for t in (out if isinstance(out, tuple) else (out,))]


def fused(case: Case, q, k, v):
    from torch.nn.functional import scaled_dot_product_attention as attend

    return attend(q, k, v, is_causal=case.causal, enable_gqa=q.shape[1] != k.shape[1])


def standard(case: Case, hidden, q, k, v):
    import torch

    scores = q @ k.transpose(-1, -2) * case.dim**-0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1) @ v


def torch_pair(case: Case, attend: Callable, q, k, v, grad) -> Pair:
    import torch

    if case.suite != "backward":
        return partial(attend, q, k, v), floats
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = attend(*leaves)
    return partial(torch.autograd.grad, out, leaves, grad, retain_graph=True), floats


def torch_peer(case: Case, q: Array, k: Array, v: Array, grad: Array) -> dict:
    import torch

    torch.set_num_threads(case.threads)
    torch.set_grad_enabled(case.suite == "backward")
    rows, q, k, v, grad = tensors(as_rows(case, q), q, k, v, grad)
    hidden = torch.ones(case.queries, case.keys, dtype=torch.bool).triu(1) if case.causal else None
    attend = partial(fused, case)
    suffix = " G-as-rows" if case.suite == "decode" else ""
    pairs = {"SDPA" + suffix: torch_pair(case, attend, rows, k, v, grad)}
    if case.suite == "decode":
        pairs["SDPA gqa"] = torch_pair(case, attend, q, k, v, grad)
    if case.dtype != "fp16" and not stores_too_much(case):  # torch has no fast fp16 matmul
        attend = partial(standard, case, hidden)
        pairs["standard" + suffix] = torch_pair(case, attend, rows, k, v, grad)
    return pairs


def zentorch_call(case: Case, q, k, v):
    import torch

    return torch.ops.zentorch.zentorch_sdpa(q, k, v, 0.0, case.causal)[0]


def zentorch_peer(case: Case, q: Array, k: Array, v: Array, grad: Array) -> dict:
    import torch
    import zentorch  # registers the operator

    if case.suite == "backward":
        return {}
    torch.set_num_threads(case.threads)
    torch.set_grad_enabled(False)
    variant = "G-as-rows" if case.suite == "decode" else ""
    return {variant: (partial(zentorch_call, case, *tensors(as_rows(case, q), k, v)), floats)}


# ---- ONNX Runtime --------------------------------------------------------------------------------


def onnx_model(op: str, domain: str, inputs: dict, outputs: dict, attributes: dict) -> bytes:
    """A model of one node, whose inputs and outputs have the shapes of these OrtValues."""
    from onnx import helper

    def infos(values: dict) -> list:
        describe = helper.make_tensor_value_info
        return [describe(name, x.element_type(), x.shape()) for name, x in values.items()]

    node = helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)
    graph = helper.make_graph([node], op, infos(inputs), infos(outputs))
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def onnx_call(model: bytes, inputs: dict, outputs: dict, threads: int) -> Callable:
    """Its OrtValues are bound once, so that no allocation is timed."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options)
    binding = session.io_binding()
    for name, x in inputs.items():
        binding.bind_ortvalue_input(name, x)
    for name, x in outputs.items():
        binding.bind_ortvalue_output(name, x)

    def call() -> dict:
        session.run_with_iobinding(binding)
        return {**inputs, **outputs}  # also keeps their memory alive

    return call


def ort_value(x: Array):
    import onnxruntime as ort
    from onnx import TensorProto

    kinds = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16,
             "uint16": TensorProto.BFLOAT16, "int32": TensorProto.INT32}
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x, kinds[x.dtype.name])


def merged(x: Array):
    """[1, heads, n, dim] as an OrtValue [1, n, heads * dim]."""
    return ort_value(np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(1, x.shape[2], -1))


class Ort:
    """The operators of ONNX Runtime on one case."""

    def __init__(self, case: Case, q: Array, k: Array, v: Array):
        self.case, self.q, self.k, self.v = case, q, k, v

    def pair(self, op: str, domain: str, inputs: dict, outputs: dict, read: Callable,
             **attributes: int) -> Pair | Exception:
        try:
            model = onnx_model(op, domain, inputs, outputs, attributes)
            return onnx_call(model, inputs, outputs, self.case.threads), read
        except Exception as error:  # another operator may still serve this dtype
            return error

    def whole(self, values: dict) -> Array:
        return values["y"].numpy()

    def split(self, values: dict) -> Array:
        """The way back from merged, for y."""
        case = self.case
        heads_last = values["y"].numpy().reshape(1, case.queries, case.heads, case.dim)
        return heads_last.transpose(0, 2, 1, 3)

    def newest(self) -> dict:
        n = self.case.queries
        k, v = self.k[:, :, -n:], self.v[:, :, -n:]
        return {"q": merged(self.q), "k": merged(k), "v": merged(v)}

    def attention(self) -> Pair | Exception:
        inputs = {"q": ort_value(self.q), "k": ort_value(self.k), "v": ort_value(self.v)}
        outputs = {"y": ort_value(np.empty_like(self.q))}
        causal = int(self.case.causal)
        return self.pair("Attention", "", inputs, outputs, self.whole, is_causal=causal)

    def multi_head(self) -> Pair | Exception:
        outputs = {"y": merged(np.empty_like(self.q))}
        return self.pair("MultiHeadAttention", "com.microsoft", self.newest(), outputs, self.split,
                         num_heads=self.case.heads, unidirectional=int(self.case.causal))

    def grouped_query(self) -> Pair | Exception:
        case = self.case
        past_k, past_v = (ort_value(x.copy()) for x in (self.k, self.v))  # the newest go there too
        inputs = self.newest() | {"past_k": past_k, "past_v": past_v}
        inputs["last"] = ort_value(np.array([case.keys - 1], np.int32))
        inputs["total"] = ort_value(np.array([case.keys], np.int32))
        outputs = {"y": merged(np.empty_like(self.q)), "present_k": past_k, "present_v": past_v}
        return self.pair("GroupQueryAttention", "com.microsoft", inputs, outputs, self.split,
                         num_heads=case.heads, kv_num_heads=case.kv_heads)


def ort_peer(case: Case, q: Array, k: Array, v: Array, grad: Array) -> dict:
    pairs, ort = {}, Ort(case, q, k, v)
    if case.suite != "backward" and not stores_too_much(case):
        pairs["Attention"] = ort.attention()
    if case.suite == "forward" and not (case.causal and stores_too_much(case)):
        pairs["MHA"] = ort.multi_head()
    if case.suite == "decode" or case.suite == "forward" and case.causal:
        pairs["GQA"] = ort.grouped_query()
    return pairs


# ---- OpenVINO ------------------------------------------------------------------------------------


def openvino_precision(core, dtype: str) -> tuple:
    """The type of the tensors, and the precision to compute in."""
    import openvino as ov

    has_fp16 = "FP16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return {"fp32": (ov.Type.f32, "f32"), "bf16": (ov.Type.bf16, "bf16"),
            "fp16": (ov.Type.f16, "f16" if has_fp16 else "f32")}[dtype]


def repeated(case: Case, x):
    """[1, kv_heads, n, dim] as [1, heads, n, dim]."""
    from openvino import opset13 as op

    shape = (1, case.kv_heads, case.heads // case.kv_heads, case.keys, case.dim)
    wide = op.broadcast(op.unsqueeze(x, np.int64(2)), np.array(shape))
    return op.reshape(wide, np.array((1, case.heads, case.keys, case.dim)), False)


def openvino_model(case: Case, shapes: list[tuple], kind, spread: Callable):
    import openvino as ov
    from openvino import opset13 as op

    parameters = [op.parameter(shape, kind) for shape in shapes]
    keys, values = map(spread, parameters[1:])
    out = op.scaled_dot_product_attention(parameters[0], keys, values, causal=case.causal)
    return ov.Model([out], parameters, "attention")


def openvino_pair(case: Case, arrays: tuple[Array, ...], spread: Callable) -> Pair:
    import openvino as ov

    core = ov.Core()
    kind, precision = openvino_precision(core, case.dtype)
    config = {"INFERENCE_NUM_THREADS": case.threads, "INFERENCE_PRECISION_HINT": precision,
              "NUM_STREAMS": "1", "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
    model = openvino_model(case, [x.shape for x in arrays], kind, spread)
    request = core.compile_model(model, "CPU", config).create_infer_request()
    for i, x in enumerate(arrays):  # in the memory of x, which the caller keeps alive
        request.set_input_tensor(i, ov.Tensor(x, ov.Shape(x.shape), kind))

    def read(results) -> Array:  # bfloat16 comes disguised as float16
        return results[0].view(np.uint16) if case.dtype == "bf16" else results[0]

    return partial(request.infer, share_outputs=True), read


def openvino_peer(case: Case, q: Array, k: Array, v: Array, grad: Array) -> dict:
    def same(x):
        return x

    if case.suite == "backward":
        return {}
    if case.suite == "forward":
        return {"": openvino_pair(case, (q, k, v), same)}
    return {"G-as-rows": openvino_pair(case, (as_rows(case, q), k, v), same),
            "broadcast": openvino_pair(case, (q, k, v), partial(repeated, case))}


PEERS = {"torch": torch_peer, "ort": ort_peer, "openvino": openvino_peer, "zentorch": zentorch_peer}
