"""tf.raw_ops.LSTMBlockCell, BlockLSTM, BlockLSTMV2 and GRUBlockCell: steps of recurrent networks in one node."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.schemas.declaration import HALF_FLOATS

_FLOATS = ("float16", "float")


class _Cell:
    """The weights of an LSTM cell, and one step of it.

    Args:
        node: The node.
        order: The order of the gates in the weights: input, cell (c), forget and output.
        forget_bias: What is added to the forget gate.
        emit: Receives the nodes.
    """

    def __init__(self, node: Node, order: str, forget_bias: float, emit: InferringEmitter) -> None:
        self._order, self._bias = order, forget_bias
        self._w, self._b = (_wide(node[name], emit) for name in ("w", "b"))
        self._clip = float(node.attributes["cell_clip"])
        self._peepholes: dict[str, Tensor] = {}
        if node.attributes["use_peephole"]:
            self._peepholes = {gate: _wide(node[f"wc{gate}"], emit) for gate in "ifo"}
        node.disregard("wci", "wcf", "wco")

    def step(self, x: Tensor, cell: Tensor, hidden: Tensor, emit: InferringEmitter) -> dict[str, Tensor]:
        """The gates and states, by TensorFlow's names of them."""
        together = emit.op("Concat", x, hidden, axis=1)
        sums = emit.op("Add", emit.op("MatMul", together, self._w), self._b)
        parts = emit.node("Split", [sums], [sums.dtype] * 4, axis=1, num_outputs=4)
        gates = dict(zip(self._order, parts, strict=True))
        if self._bias:
            gates["f"] = emit.op("Add", gates["f"], emit.like(self._bias, sums))
        for gate in "if":
            if gate in self._peepholes:
                gates[gate] = emit.op("Add", gates[gate], emit.op("Mul", cell, self._peepholes[gate]))
        made = {gate: emit.op("Sigmoid", gates[gate]) for gate in "if"}
        made["ci"] = emit.op("Tanh", gates["c"])
        state = emit.op("Add", emit.op("Mul", made["ci"], made["i"]), emit.op("Mul", cell, made["f"]))
        if self._clip > 0:
            low, high = emit.like(-self._clip, state), emit.like(self._clip, state)
            state = emit.op("Max", emit.op("Min", state, high), low)
        if "o" in self._peepholes:
            gates["o"] = emit.op("Add", gates["o"], emit.op("Mul", state, self._peepholes["o"]))
        made["o"], made["cs"], made["co"] = emit.op("Sigmoid", gates["o"]), state, emit.op("Tanh", state)
        made["h"] = emit.op("Mul", made["co"], made["o"])
        return made


_RESULTS = ("i", "cs", "f", "o", "ci", "co", "h")


@handles("LSTMBlockCell", to="MatMul", dtypes=_FLOATS)
def lstm_block_cell(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """One step of an LSTM: its gates and states."""
    x, cell, hidden = (_wide(node[name], emit) for name in ("x", "cs_prev", "h_prev"))
    made = _Cell(node, "icfo", float(node.attributes["forget_bias"]), emit).step(x, cell, hidden, emit)
    return tuple(emit.cast(made[name], node["x"].dtype) for name in _RESULTS)


@handles("BlockLSTM", "BlockLSTMV2", to="Scan", dtypes=_FLOATS)
def block_lstm(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """The steps of an LSTM over time, the first dimension; zeros after `seq_len_max` of them."""
    x, cell, hidden = (_wide(node[name], emit) for name in ("x", "cs_prev", "h_prev"))
    is_first = node.op_type == "BlockLSTM"
    unit = _Cell(node, "icfo" if is_first else "ifco", float(node.attributes["forget_bias"]) if is_first else 0.0, emit)
    body = emit.body()
    shapes = {"cell": cell.shape, "hidden": hidden.shape, "x": None if x.shape is None else x.shape[1:]}
    given = [Tensor(emit.names.fresh(name), x.dtype, shape) for name, shape in shapes.items()]
    made = unit.step(given[2], given[0], given[1], body)
    shown = [body.node("Identity", [made[name]], [x.dtype], [made[name].shape])[0] for name in _RESULTS]
    graph = body.graph("step", list(map(value_info, given)), [value_info(t) for t in (made["cs"], made["h"], *shown)])
    shape = (None, None, None)
    results = emit.node(
        "Scan",
        [cell, hidden, x],
        [x.dtype] * 9,
        [cell.shape, hidden.shape, *[shape] * 7],
        body=graph,
        num_scan_inputs=1,
    )[2:]
    steps = emit.op("Range", emit.constant(0), emit.scalar(emit.size(x, 0)), emit.constant(1))
    is_run = emit.op("Less", steps, emit.scalar(emit.int64(node["seq_len_max"])))
    is_run = emit.op("Unsqueeze", is_run, emit.constant([1, 2]))
    kept = [emit.op("Where", is_run, each, emit.like(0, each)) for each in results]
    return tuple(emit.cast(result, node["x"].dtype) for result in kept)


@handles("GRUBlockCell", to="MatMul", dtypes=("float",))
def gru_block_cell(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """One step of a gated recurrent unit: its gates and state."""
    x, hidden = node["x"], node["h_prev"]
    sums = emit.op("MatMul", emit.op("Concat", x, hidden, axis=1), node["w_ru"])
    gates = emit.op("Sigmoid", emit.op("Add", sums, node["b_ru"]))
    reset, update = emit.node("Split", [gates], [TensorProto.FLOAT] * 2, axis=1, num_outputs=2)
    together = emit.op("Concat", x, emit.op("Mul", hidden, reset), axis=1)
    candidate = emit.op("Tanh", emit.op("Add", emit.op("MatMul", together, node["w_c"]), node["b_c"]))
    rest = emit.op("Mul", emit.op("Sub", emit.like(1, update), update), candidate)
    return reset, update, candidate, emit.op("Add", emit.op("Mul", update, hidden), rest)


def _wide(tensor: Tensor, emit: InferringEmitter) -> Tensor:
    return emit.cast(tensor, TensorProto.FLOAT) if tensor.dtype in HALF_FLOATS else tensor
