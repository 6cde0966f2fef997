"""A node or a model of one node, evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from tessera.onnx._inputs import Array, Inputs
from tessera.onnx._operator import compute

if TYPE_CHECKING:
    import onnx

    Arrays = Union[Mapping[str, Array], Sequence[Array]]

_INPUTS = len(Inputs._fields)
_OUTPUTS = 4


def require_onnx() -> None:
    """Imports the package onnx.

    Raises:
      ImportError: it is missing.
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"nodes and models need the package onnx, which does not import ({error}); install it "
            "(pip install onnx), or call tessera.onnx.attention"
        ) from None


def _check_node(node: Any) -> None:
    if node.op_type != "Attention" or node.domain not in ("", "ai.onnx"):
        raise ValueError(
            f"the node is {node.op_type} of domain '{node.domain}'; it must be Attention of the "
            "domain of ONNX itself"
        )
    if not 3 <= len(node.input) <= _INPUTS or not 1 <= len(node.output) <= _OUTPUTS:
        raise ValueError(
            f"the node has {len(node.input)} inputs and {len(node.output)} outputs; Attention has "
            "3 to 7 inputs and 1 to 4 outputs"
        )


def wants_scores(node: Any) -> bool:
    """Whether qk_matmul_output is named among the outputs."""
    return len(node.output) == _OUTPUTS and bool(node.output[3])


def _by_name(names: Sequence[str], inputs: Arrays) -> dict[str, Array]:
    """The inputs under their names, which are given in order."""
    if isinstance(inputs, Mapping):
        unknown = sorted(set(inputs) - set(names))
        if unknown:
            raise ValueError(
                f"inputs has '{unknown[0]}', which is no input; the inputs are {', '.join(names)}"
            )
        return dict(inputs)
    if len(inputs) != len(names):
        raise ValueError(
            f"inputs has {len(inputs)} arrays; there must be {len(names)}: {', '.join(names)}"
        )
    return dict(zip(names, inputs))


def _run(node: Any, values: Mapping[str, Array], opset: int) -> dict[str, Array]:
    """The outputs of a node under their names."""
    from onnx.helper import get_attribute_value

    missing = [name for name in node.input if name and name not in values]
    if missing:
        raise ValueError(f"inputs lacks '{missing[0]}', which the node reads: give it")
    inputs = Inputs(*(values[name] if name else None for name in node.input))
    attributes = {a.name: get_attribute_value(a) for a in node.attribute}
    outputs = compute(inputs, opset, attributes, wants_scores(node))
    return {name: x for name, x in zip(node.output, outputs) if name}


def _opset(model: Any) -> int:
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    if not versions:
        raise ValueError("the model imports no opset of ONNX itself; it must import 23 or newer")
    return int(versions[0])


def _evaluate_model(model: Any, inputs: Arrays) -> list[Array]:
    from onnx.numpy_helper import to_array

    graph = model.graph
    if len(graph.node) != 1:
        raise ValueError(
            f"the model has {len(graph.node)} nodes; evaluate runs models whose only node is "
            "Attention: run others with onnx.reference.ReferenceEvaluator(model, "
            "new_ops=[tessera.onnx.Attention])"
        )
    node = graph.node[0]
    _check_node(node)
    constants = {x.name: to_array(x) for x in graph.initializer}
    # An input that has an initializer too is one with a default: it may be left out of a mapping.
    names = [x.name for x in graph.input if x.name not in constants or isinstance(inputs, Mapping)]
    found = _run(node, {**constants, **_by_name(names, inputs)}, _opset(model))
    unknown = [x.name for x in graph.output if x.name not in found]
    if unknown:
        raise ValueError(
            f"the model has the output '{unknown[0]}', which its node does not compute; the node "
            f"computes {', '.join(found)}"
        )
    return [found[x.name] for x in graph.output]


def evaluate(
    node_or_model: onnx.NodeProto | onnx.ModelProto, inputs: Arrays, *, opset: int = 25
) -> list[Array]:
    """The outputs of an Attention node, or of a model whose only node it is, by attention().

    Args:
      node_or_model: onnx.NodeProto or onnx.ModelProto. Initializers of a model are inputs that it
        brings along.
      inputs: NumPy arrays by the names of inputs, or in their order, those that are left out ('')
        not counted.
      opset: of a node; a model names its own.

    Returns:
      The named outputs of the node, or the outputs of the model, in order.

    Raises:
      ValueError: it is no Attention node, an input is missing or unknown, or as attention().
      NotImplementedError: the opset is newer than this version.
      TypeError: node_or_model is neither, or an input is no NumPy array.
      ImportError: the package onnx is missing.
    """
    require_onnx()
    import onnx

    if isinstance(node_or_model, onnx.ModelProto):
        return _evaluate_model(node_or_model, inputs)
    if not isinstance(node_or_model, onnx.NodeProto):
        raise TypeError(
            f"node_or_model is of type {type(node_or_model).__name__}; it must be an "
            "onnx.NodeProto or an onnx.ModelProto"
        )
    _check_node(node_or_model)
    names = [name for name in node_or_model.input if name]
    return list(_run(node_or_model, _by_name(names, inputs), opset).values())
