"""How the time and the memory of a conversion grow: with the nodes of a graph, and with large tables.

    python benchmarks/conversion_scaling.py [--only fuse] [--nodes 1000 5000 10000 50000] [--json FILE] [--save]

Each graph is converted in a process of its own, which has imported the converter before. A deep graph is one chain, a
wide one has many branches that read one input. `tables` are ten lookups in tables of 100 MB each. The figures are CPU
seconds, and how far the memory of the process has grown beyond the source.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from machine import this_machine
from onnx import TensorProto, helper, numpy_helper
from records import Line
from runner import finish, parse, parser

NODES = (1_000, 5_000, 10_000, 50_000)
_WIDTH = 8
#: Rows of 64 floats: 100 MB.
_ROWS = 400_000
_TABLES = 10

Convert = Callable[[], object]


class Source:
    """A model of one framework, under construction: every value is known by its name."""

    def constant(self, array: Any) -> str:
        """A constant."""
        raise NotImplementedError

    def op(self, kind: str, *inputs: str) -> str:
        """An Add, Mul, Relu, Transpose or Gather; all but the last keep the shape."""
        raise NotImplementedError

    def finish(self, results: list[str], folder: Path) -> Convert:
        """What converts the model with these results."""
        raise NotImplementedError


class OfOnnx(Source):
    """A standard model, for `onnx_sparse.fuse`; with nodes of torch_npu, for the converter of Ascend."""

    def __init__(self, relu: str = "Relu") -> None:
        self.relu, self.domain = relu, "npu" if relu.startswith("NPU") else ""
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, array: Any) -> str:
        """A constant."""
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind: str, *inputs: str) -> str:
        """An operator."""
        name = f"n{len(self.nodes)}"
        given: dict[str, Any] = {"perm": [1, 0]} if kind == "Transpose" else {}
        operator, domain = (self.relu, self.domain) if kind == "Relu" else (kind, "")
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, domain=domain, **given))
        return name

    def finish(self, results: list[str], folder: Path) -> Convert:
        """The conversion."""
        value = helper.make_tensor_value_info
        inputs = [value("x", TensorProto.FLOAT, [_WIDTH, _WIDTH]), value("ids", TensorProto.INT64, [_WIDTH])]
        outputs = [value(name, TensorProto.FLOAT, None) for name in results]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.initializers)
        imports = [helper.make_opsetid("", 18), *([helper.make_opsetid(self.domain, 1)] if self.domain else [])]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        if self.domain:
            from onnx_sparse.converters.ascend import convert

            onnx.save(model, folder / "model.onnx")
            return lambda: convert(folder / "model.onnx")
        from onnx_sparse import fuse

        return lambda: fuse(model)


class OfTensorFlow(Source):
    """A frozen graph."""

    def __init__(self) -> None:
        from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

        self.graph = GraphDef()
        self._node("x", "Placeholder", dtype=1, shape=[_WIDTH, _WIDTH])
        self._node("ids", "Placeholder", dtype=9, shape=[_WIDTH])
        self.order, self.axis = self.constant(np.array([1, 0], np.int32)), self.constant(np.int32(0))

    def _node(self, name: str, op: str, *inputs: str, **attributes: Any) -> str:
        node = self.graph.node.add(name=name, op=op, input=inputs)
        for key, given in attributes.items():
            if isinstance(given, list):
                for size in given:
                    node.attr[key].shape.dim.add(size=size)
            elif isinstance(given, int):
                node.attr[key].type = given
            else:
                tensor = node.attr[key].tensor
                tensor.dtype, tensor.tensor_content = {"f": 1, "i": 3}[given.dtype.kind], given.tobytes()
                for size in given.shape:
                    tensor.tensor_shape.dim.add(size=size)
        return name

    def constant(self, array: Any) -> str:
        """A constant."""
        value = np.asarray(array)
        dtype = 1 if value.dtype.kind == "f" else 3
        return self._node(f"c{len(self.graph.node)}", "Const", dtype=dtype, value=value)

    def op(self, kind: str, *inputs: str) -> str:
        """An operator."""
        name = f"n{len(self.graph.node)}"
        if kind == "Gather":
            return self._node(name, "GatherV2", *inputs, self.axis, Tparams=1, Tindices=9, Taxis=3)
        if kind == "Transpose":
            return self._node(name, "Transpose", *inputs, self.order, T=1, Tperm=3)
        return self._node(name, {"Add": "AddV2"}.get(kind, kind), *inputs, T=1)

    def finish(self, results: list[str], folder: Path) -> Convert:
        """The conversion."""
        from onnx_sparse.converters.tensorflow import convert

        path = folder / "model.pb"
        path.write_bytes(self.graph.SerializeToString())
        return lambda: convert(path, outputs=[f"{name}:0" for name in results], tables={})


class OfOpenVINO(Source):
    """An IR."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.weights: list[bytes] = []
        self.size = 0
        square = f"{_WIDTH},{_WIDTH}"
        self._layer("Parameter", "FP32", (_WIDTH, _WIDTH), name="x", shape=square, element_type="f32")
        self._layer("Parameter", "I64", (_WIDTH,), name="ids", shape=_WIDTH, element_type="i64")
        self.numbers = {"x": 0, "ids": 1}
        self.order, self.axis = self.constant(np.array([1, 0])), self.constant(np.array(0))

    def _layer(
        self, kind: str, precision: str, sizes: tuple[int, ...], *inputs: str, name: str = "", **data: Any
    ) -> str:
        number, version = len(self.layers), "opset8" if kind == "Gather" else "opset1"
        read = "".join(f'<port id="{k}"/>' for k in range(len(inputs)))
        dims = "".join(f"<dim>{size}</dim>" for size in sizes)
        made = f'<output><port id="{len(inputs)}" precision="{precision}">{dims}</port></output>' if precision else ""
        written = " ".join(f'{key}="{value}"' for key, value in data.items())
        self.layers.append(
            f'<layer id="{number}" name="{name or f"n{number}"}" type="{kind}" version="{version}"><data {written}/>'
            f"<input>{read}</input>{made}</layer>"
        )
        for k, source in enumerate(inputs):
            of = self.numbers[source]
            port = self.layers[of].count("<port") - 1
            self.edges.append(f'<edge from-layer="{of}" from-port="{port}" to-layer="{number}" to-port="{k}"/>')
        return name or f"n{number}"

    def _add(self, *given: Any, **data: Any) -> str:
        name = self._layer(*given, **data)
        self.numbers[name] = len(self.layers) - 1
        return name

    def constant(self, array: Any) -> str:
        """A constant."""
        value = np.asarray(array)
        precision, element = ("FP32", "f32") if value.dtype.kind == "f" else ("I64", "i64")
        place = {"offset": self.size, "size": value.nbytes}
        self.weights.append(value.tobytes())
        self.size += value.nbytes
        shape = ", ".join(map(str, value.shape))
        return self._add("Const", precision, value.shape, element_type=element, shape=shape, **place)

    def op(self, kind: str, *inputs: str) -> str:
        """An operator."""
        if kind == "Gather":
            columns = 64 if "64" in self.layers[self.numbers[inputs[0]]] else _WIDTH
            return self._add("Gather", "FP32", (_WIDTH, columns), *inputs, self.axis, batch_dims=0)
        read = (*inputs, self.order) if kind == "Transpose" else inputs
        return self._add({"Mul": "Multiply", "Relu": "ReLU"}.get(kind, kind), "FP32", (_WIDTH, _WIDTH), *read)

    def finish(self, results: list[str], folder: Path) -> Convert:
        """The conversion."""
        from onnx_sparse.converters.openvino import convert

        for name in results:
            self._layer("Result", "", (), name)
        path = folder / "model.xml"
        layers, edges = "".join(self.layers), "".join(self.edges)
        path.write_text(f'<net name="g" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>', "utf-8")
        with path.with_suffix(".bin").open("wb") as file:
            file.writelines(self.weights)
        return lambda: convert(path)


SOURCES: dict[str, Callable[[], Source]] = {
    "fuse": OfOnnx,
    "tensorflow": OfTensorFlow,
    "openvino": OfOpenVINO,
    "npu": lambda: OfOnnx("NPUFormatCast"),
}


def deep(source: Source, nodes: int) -> list[str]:
    """One chain: a product, a sum, two transpositions in a row and a Relu, over and over."""
    x = "x"
    for k in range(nodes // 5):
        x = source.op("Mul", x, source.constant(np.float32(k)))
        x = source.op("Add", x, source.constant(np.full(_WIDTH, k, np.float32)))
        x = source.op("Relu", source.op("Transpose", source.op("Transpose", x)))
    return [x]


def wide(source: Source, nodes: int) -> list[str]:
    """Branches of five nodes that read the same inputs: a lookup in a table of its own, a tenth of them an output."""
    total, results = "x", []
    for k in range(nodes // 5):
        rows = source.op("Gather", source.constant(np.full((_WIDTH, _WIDTH), k, np.float32)), "ids")
        rows = source.op("Relu", source.op("Mul", "x", source.op("Transpose", rows)))
        total = source.op("Add", total, rows)
        if k % 10 == 0:
            results.append(rows)
    return [*results, total]


def tables(source: Source, count: int) -> list[str]:
    """Lookups in tables of their own."""
    rng = np.random.default_rng(0)
    return [
        source.op("Gather", source.constant(rng.standard_normal((_ROWS, 64), np.float32)), "ids") for _ in range(count)
    ]


GRAPHS = {"deep": deep, "wide": wide, "tables": tables}


def convert_here(framework: str, graph: str, size: int) -> None:
    """Convert a graph in this process; prints CPU seconds and bytes."""
    with tempfile.TemporaryDirectory() as name:
        for count in (1 if graph == "tables" else 20, size):  # the first imports what the second needs
            source = SOURCES[framework]()
            convert = source.finish(GRAPHS[graph](source, count), Path(name))
            del source
            before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
            convert()
            took = time.process_time() - began
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": took, "bytes": (after - before) * 1024}))


def main() -> None:
    """Measure and print."""
    made = parser(__doc__)
    made.add_argument("--only", default="", choices=["", *SOURCES], help="convert from this source only")
    made.add_argument("--nodes", type=int, nargs="+", default=list(NODES), help="the sizes of graphs")
    made.add_argument("--convert", nargs=3, help=argparse.SUPPRESS)
    arguments = parse(made)
    if arguments.convert:
        framework, graph, size = arguments.convert
        return convert_here(framework, graph, int(size))
    here = this_machine()
    print(f"{here}\n{'':32} seconds   per node        MB", flush=True)
    lines = []
    for framework in [arguments.only] if arguments.only else SOURCES:
        for graph in GRAPHS:
            for size in [_TABLES] if graph == "tables" else arguments.nodes:
                command = [sys.executable, __file__, "--convert", framework, graph, str(size)]
                said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                case, seconds = f"{framework} {graph} {size:,}", said["seconds"]
                facts = {"nodes": size, "bytes": said["bytes"]}
                lines.append(Line(case, 0, {"onnx_sparse": [seconds]}, facts=facts))
                print(f"{case:30} {seconds:9.3f} {1e6 * seconds / size:7.1f} us {said['bytes'] / 1e6:9.1f}", flush=True)
    finish("conversion_scaling", here, lines, arguments)


if __name__ == "__main__":
    main()
