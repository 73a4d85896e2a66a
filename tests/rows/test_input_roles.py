"""What the inputs of a model are for, also of models that people write by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_sparse.rows import input_roles
from onnx_sparse.rows.input_roles import find_roles
from onnx_sparse.schemas import DOMAIN, OPS


def model_of(nodes, inputs):
    values = [helper.make_tensor_value_info(name, TensorProto.INT64, [None]) for name in inputs]
    return helper.make_model(helper.make_graph(nodes, "roles", values, []))


@pytest.mark.parametrize("name", OPS)
def test_omitted_inputs(name):
    """Every operator of the domain, with as few inputs as it takes and with more."""
    op = OPS[name]
    needed = sum(not declared.optional for declared in op.inputs)
    for count in range(needed, len(op.inputs) + 1):
        given = [f"x{k}" for k in range(count)]
        node = helper.make_node(name, given, [f"y{k}" for k in range(len(op.outputs))], domain=DOMAIN)
        find_roles(model_of([node], given))


def test_operators_of_others():
    """One of the same name may have other inputs."""
    find_roles(model_of([helper.make_node("Gather", ["x"], ["y"], domain="other")], ["x"]))


@pytest.mark.parametrize(
    "name", [op.name for op in OPS.values() if any(i.values.kind == "coordinates" for i in op.inputs)]
)
def test_positions_in_one_dimension_are_no_coordinates(name):
    """A graph that adds their second axis; TensorFlow's RaggedGather ends its process on those of two axes."""
    op = OPS[name]
    given = [declared.name for declared in op.inputs]
    (place,) = (k for k, declared in enumerate(op.inputs) if declared.values.kind == "coordinates")
    nodes = [
        helper.make_node("Unsqueeze", [given[place], "axes"], ["places"]),
        helper.make_node(op.name, [*given[:place], "places", *given[place + 1 :]], ["y"], domain=DOMAIN),
    ]
    model = model_of(nodes, given)
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "axes"))
    assert given[place] not in find_roles(model).coordinates
    model.graph.input[place].type.tensor_type.shape.dim.add()
    assert given[place] in find_roles(model).coordinates


@pytest.mark.parametrize("perm", [[1, 0], [0, 1]])
def test_transposed_ids_are_ids_and_no_coordinates(perm):
    """The edges [2, E] of a graph, as entries of the sparse matrix that is multiplied by the features of its nodes."""
    nodes = [
        helper.make_node("Transpose", ["edges"], ["turned"], perm=perm),
        helper.make_node("ValidateSparseIndices", ["turned", "shape"], ["entries"], domain=DOMAIN, order="any"),
        helper.make_node("Gather", ["entries", "one"], ["ids"], axis=1),
        helper.make_node("Gather", ["x", "ids"], ["rows"]),
    ]
    model = model_of(nodes, ["edges", "x"])
    model.graph.initializer.append(numpy_helper.from_array(np.array(1), "one"))
    model.graph.input[0].type.tensor_type.shape.dim.add()
    roles = find_roles(model)
    assert roles.indexed == {"edges": ("x", 0)}
    assert not roles.coordinates


def test_cycles_end():
    nodes = [helper.make_node("Identity", ["a"], ["b"]), helper.make_node("Identity", ["b"], ["a"])]
    nodes += [helper.make_node("Mul", ["c", "d"], ["e"]), helper.make_node("Mul", ["e", "a"], ["c"])]
    nodes.append(helper.make_node("Gather", ["x", "a"], ["y"]))
    nodes.append(helper.make_node("SegmentSum", ["c", "a"], ["z"], domain=DOMAIN))
    find_roles(model_of(nodes, ["x"]))


@pytest.mark.parametrize("count", [1000, 10000])
def test_each_node_is_looked_at_once(count, monkeypatch):
    """However long a chain is, and however many nodes read a constant."""
    looked_at = []
    carried, array_of = input_roles._Trace._carried, input_roles.array_of
    monkeypatch.setattr(input_roles._Trace, "_carried", lambda *given: looked_at.append(1) or carried(*given))
    monkeypatch.setattr(input_roles, "array_of", lambda tensor: looked_at.append(1) or array_of(tensor))
    names = ["x", *(f"t{k}" for k in range(2 * count))]
    nodes = [helper.make_node("Gather", ["places", a], [b]) for a, b in pairwise(names[: count + 1])]
    nodes += [helper.make_node("Identity", [a], [b]) for a, b in pairwise(names[count:])]
    nodes.append(helper.make_node("Gather", ["table", names[-1]], ["y"]))
    model = model_of(nodes, ["x"])
    model.graph.initializer.append(numpy_helper.from_array(np.arange(100), "places"))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((5, 2), np.float32), "table"))
    assert find_roles(model).bounds == {"x": 5}
    assert len(looked_at) < 3 * count


def test_sums_of_one_tensor_are_followed_once():
    """Each adds a tensor to itself: there are more ways through them than could be followed."""
    names = ["x", *(f"t{k}" for k in range(2000))]
    nodes = [helper.make_node("Add", [a, a], [b]) for a, b in pairwise(names)]
    nodes.append(helper.make_node("SegmentSum", [names[-1], "ids", ""], ["y"], domain=DOMAIN))
    roles = find_roles(model_of(nodes, ["x", "ids"]))
    assert (roles.entries, roles.segments) == ({"x", "ids"}, {"ids"})
