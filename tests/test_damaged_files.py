"""A file with a flipped bit is refused, with its name, or converted to the same tables.

`ONNX_SPARSE_FLIPS=2000 pytest tests/test_damaged_files.py` flips more bits. Checkpoints have a test of their own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.errors import CommandError
from onnx_sparse.models.files.model_files import parsed_model, read_model

_FLIPS = int(os.environ.get("ONNX_SPARSE_FLIPS", "0")) or 24


def tables(model: ModelProto) -> list[bytes]:
    return sorted(numpy_helper.to_array(tensor).tobytes() for tensor in model.graph.initializer)


def flips(path: Path, read: Callable[[], list[bytes]], names: tuple[str, ...]) -> int:
    """How many of the flipped bits are refused."""
    content, expected, refused = path.read_bytes(), read(), 0
    for seed in range(_FLIPS):
        place = random.Random(seed).randrange(len(content) * 8)
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        said = _refusal(lambda: read() == expected)
        assert said is None or all(name in said for name in names), f"bit {place} of {path.name}: {said}"
        refused += said is not None
    path.write_bytes(content)
    return refused


def _refusal(equals: Callable[[], bool]) -> str | None:
    """What a refusal says; None if the tables are equal."""
    try:
        return None if equals() else "a table has changed"
    except ConversionError as error:
        return str(error)


@pytest.mark.parametrize("options", [{}, {"external_data": False}, {"fuse": True}], ids=str)
def test_external_data(tmp_path: Path, options: dict[str, bool]) -> None:
    """Data that this package has written have a checksum: that of the file."""
    graph = onnx.parser.parse_graph(
        "g (int64[k] i, int64[k] s, int64 n) => (float[n, 8] y, float[k, 8] z)"
        "{ y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) z = Gather (u, i) }"
    )
    for name in "tu":
        table = np.random.default_rng(0).standard_normal((4000, 8)).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(table, name))
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    made = onnx_sparse.convert(helper.make_model(graph, opset_imports=imports, ir_version=10))
    made.save(tmp_path / "model.onnx", external_data=True)

    def read() -> list[bytes]:
        onnx_sparse.convert(tmp_path / "model.onnx", tmp_path / "out.onnx", **options)  # type: ignore[arg-type]
        return tables(onnx.load(tmp_path / "out.onnx"))

    assert flips(tmp_path / "model.onnx.data", read, ("model.onnx.data", "tensor ")) == _FLIPS


def test_archives_of_torch(tmp_path: Path) -> None:
    """A member has a checksum, and torch does not compare it."""
    torch = pytest.importorskip("torch")
    from onnx_sparse.converters.torch.source import load

    module = torch.nn.Embedding(500, 8)
    program = torch.export.export(module, (torch.arange(4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "model.pt2")

    def read() -> list[bytes]:
        return [value.detach().numpy().tobytes() for value in load(tmp_path / "model.pt2").program.state_dict.values()]

    assert flips(tmp_path / "model.pt2", read, ("model.pt2",)) > _FLIPS / 2


#: Names of every kind of part of a model, each of which is in its file as often as it is used.
NAMES = (
    *("input_name", "symbolic_size", "node_name", "node_output", "some_domain", "tensor_name", "rows.data"),
    *(
        "function_name",
        "function_input",
        "attribute_name",
        "metadata_key",
        "metadata_value",
        "inner_input",
        "inner_tensor",
    ),
)


def model_of_names() -> ModelProto:
    inner = helper.make_graph(
        [helper.make_node("Add", ["inner_input", "inner_tensor"], ["inner_output"])],
        "inner",
        [],
        [helper.make_tensor_value_info("inner_output", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(1, np.float32), "inner_tensor")],
    )
    nodes = [
        helper.make_node(
            "function_name", ["input_name"], ["node_output"], "node_name", domain="some_domain", attribute_name=1
        ),
        helper.make_node("If", ["condition"], ["z"], then_branch=inner, else_branch=inner),
    ]
    table = numpy_helper.from_array(np.zeros((4, 2), np.float32), "tensor_name")
    onnx.external_data_helper.set_external_data(table, "rows.data")
    table.ClearField("raw_data")
    function = helper.make_function(
        "some_domain",
        "function_name",
        ["function_input"],
        ["made"],
        [helper.make_node("Identity", ["function_input"], ["made"])],
        [helper.make_opsetid("", 18)],
        ["attribute_name"],
    )
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("input_name", onnx.TensorProto.FLOAT, ["symbolic_size"])],
        [helper.make_tensor_value_info("node_output", onnx.TensorProto.FLOAT, None)],
        [table],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("some_domain", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=10)
    model.metadata_props.add(key="metadata_key", value="metadata_value")
    return model


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_text(tmp_path: Path, name: str) -> None:
    """protobuf reads them as bytes, which no command expects."""
    content = model_of_names().SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert name.encode() in content
    read_model(path)
    damaged = name.encode()[:-1] + b"\xfd"
    path.write_bytes(content.replace(name.encode(), damaged))
    for read in (lambda: read_model(path), lambda: parsed_model(path.read_bytes())):
        with pytest.raises(ValueError, match=r"is damaged: a name in .* is not UTF-8") as raised:
            read()
        assert repr(damaged) in str(raised.value)
    for command in (onnx_sparse.check, onnx_sparse.inspect):
        with pytest.raises((ValueError, CommandError), match="is not UTF-8"):
            command(path)
