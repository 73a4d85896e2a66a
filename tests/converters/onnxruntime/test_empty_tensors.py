"""Small graphs on tensors of every combination of small sizes, in sessions of ONNX Runtime with default options."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_sparse.converters.onnxruntime.guards import guard
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.schemas.declaration import element_type

SIZES = (0, 1, 2)


def session_of(nodes, ranks, result="y", dtype=TensorProto.FLOAT, guarded=True, **constants):
    """A session with inputs of the given ranks and unknown sizes, or of the given sizes, and one output."""
    sizes = {name: [None] * rank if isinstance(rank, int) else rank for name, rank in ranks.items()}
    inputs = [helper.make_tensor_value_info(name, dtype, dims) for name, dims in sizes.items()]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    output = helper.make_tensor_value_info(result, dtype, None)
    graph = helper.make_graph(nodes, "graph", inputs, [output], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    if guarded:
        guard(model)
    return onnxruntime.InferenceSession(model.SerializeToString())


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def assert_equal(session, want, **feeds):
    (got,) = session.run(["y"], feeds)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("known", [True, False], ids=["rank known", "rank unknown"])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"])
def test_reductions_along_negative_axes(op_type, keep, known):
    function = getattr(np, op_type.removeprefix("Reduce").lower())
    start = (
        {}
        if op_type == "ReduceMean"
        else {"initial": {"Sum": 0, "Prod": 1, "Max": -np.inf, "Min": np.inf}[op_type[6:]]}
    )
    for axis in (-1, -2, -3):
        nodes = [helper.make_node(op_type, ["x" if known else "z", "axes"], ["y"], keepdims=keep)]
        if not known:
            nodes.insert(0, helper.make_node("Reshape", ["x", "shape"], ["z"], allowzero=1))
            nodes.insert(0, helper.make_node("Compress", ["sizes", "mask"], ["shape"]))
            nodes.insert(0, helper.make_node("Cast", ["all"], ["mask"], to=9))
            nodes.insert(0, helper.make_node("Shape", ["x"], ["sizes"]))
        session = session_of(nodes, {"x": 3}, axes=[axis], all=[1, 1, 1])
        for shape in itertools.product(SIZES, repeat=3):
            if shape[axis] or op_type != "ReduceMean":
                x = numbers(*shape)
                assert_equal(session, function(x, axis=axis, keepdims=bool(keep), **start), x=x)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_reshapes_to_a_size_of_0_and_one_that_is_inferred(is_guarded):
    """As in TensorFlow, where the sizes that are not 0 are divided, without what is left."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "zero", "one"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"], allowzero=1),
    ]
    session = session_of(nodes, {"x": 2}, guarded=is_guarded, zero=[0], one=[1], rest=[-1, 2])
    for rows, columns in itertools.product((0, 1, 3), (0, 2, 3, 4)):
        if rows and columns == 3:
            continue
        if not is_guarded:  # some versions of ONNX Runtime refuse more
            if rows == 0 and columns in (0, 3):
                with pytest.raises(Exception, match="cannot be reshaped"):
                    session.run(["y"], {"x": numbers(rows, columns)})
        else:
            x = numbers(rows, columns)
            assert_equal(
                session, x.reshape(rows, columns // 2, 2) if rows else x.reshape(0, max(columns, 1) // 2, 2), x=x
            )


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_equal_parts(axis):
    session = session_of([helper.make_node("Split", ["x"], ["y", "z"], axis=axis, num_outputs=2)], {"x": 2})
    for shape in itertools.product((0, 2, 4), repeat=2):
        x = numbers(*shape)
        assert_equal(session, np.split(x, 2, axis)[0], x=x)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_products_of_transposed_matrices(rank, scaled):
    """Every order of the dimensions of either operand."""
    for order in itertools.permutations(range(rank)):
        for side in (0, 1):
            names = ["t", "b"] if side == 0 else ["b", "t"]
            nodes = [helper.make_node("Transpose", ["a"], ["t"], perm=order), helper.make_node("MatMul", names, ["p"])]
            nodes.append(
                helper.make_node("Mul", ["p", "by"], ["y"]) if scaled else helper.make_node("Neg", ["p"], ["y"])
            )
            session = session_of(nodes, {"a": rank, "b": rank}, by=np.float32(0.5))
            for *batch, rows, inner, columns in itertools.product((0, 2), repeat=rank + 1):
                left, right = numbers(*batch, rows, inner), numbers(*batch, inner, columns)
                moved, other = (left, right) if side == 0 else (right, left)
                fed = np.ascontiguousarray(moved.transpose(np.argsort(order)))
                assert_equal(session, left @ right * (0.5 if scaled else -1), a=fed, b=other)


def used_memory_first(session, fill, **feeds):
    """Run a session twice on larger matrices, so that there is something in the memory of its outputs."""
    for _ in range(2):
        session.run(["y"], {name: np.ones([size or fill for size in x.shape], x.dtype) for name, x in feeds.items()})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ranks", list(itertools.product((2, 3, 4), repeat=2)), ids=str)
def test_products_of_nothing(ranks, dtype):
    """Of every two ranks; some sizes are known."""
    rank, other = ranks
    left, right = np.ones((3, 4, 5, 0)[4 - rank :], dtype), np.ones((3, 4, 0, 6)[4 - other :], dtype)
    nodes = [helper.make_node("Neg", ["a"], ["n"]), helper.make_node("MatMul", ["n", "b"], ["p"])]
    nodes.append(helper.make_node("Neg", ["p"], ["y"]))
    for known in ((), (0,), (-1,), (-2,)):
        sizes = {
            name: [size if k - x.ndim in known or k in known else None for k, size in enumerate(x.shape)]
            for name, x in {"a": left, "b": right}.items()
        }
        session = session_of(nodes, sizes, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        if 0 not in itertools.chain(*sizes.values()):
            used_memory_first(session, 1, a=left, b=right)
        assert_equal(session, left @ right, a=left, b=right)


@pytest.mark.parametrize("rank", [2, 3])
def test_products_of_transposed_matrices_of_known_sizes(rank):
    for order in itertools.permutations(range(rank)):
        left, right = np.ones((3, 4, 0)[3 - rank :], np.float32), np.ones((3, 0, 5)[3 - rank :], np.float32)
        fed = np.ascontiguousarray(left.transpose(np.argsort(order)))
        for known in range(2 ** (2 * rank)):
            sizes = [size if known >> k & 1 else None for k, size in enumerate((*fed.shape, *right.shape))]
            transposed = helper.make_node("Transpose", ["f"], ["t"], perm=order)
            nodes = [helper.make_node("Neg", ["a"], ["f"]), transposed, helper.make_node("MatMul", ["t", "b"], ["p"])]
            nodes += [helper.make_node("Exp", ["c"], ["e"]), helper.make_node("ReduceSum", ["e"], ["s"], keepdims=0)]
            nodes += [helper.make_node("Add", ["p", "s"], ["q"]), helper.make_node("Sub", ["q", "s"], ["y"])]
            session = session_of(nodes, {"a": sizes[:rank], "b": sizes[rank:], "c": 1})
            used = np.ones(3 * 4 * 5, np.float32)
            for _ in range(3):
                assert_equal(session, left @ right, a=fed, b=right, c=used)


@pytest.mark.parametrize(
    "between",
    [
        [helper.make_node("Mul", ["t", "by"], ["m"])],
        [helper.make_node("Relu", ["t"], ["r"]), helper.make_node("Neg", ["r"], ["m"])],
        [helper.make_node("Cast", ["t"], ["r"], to=10), helper.make_node("Cast", ["r"], ["m"], to=1)],
        [helper.make_node("Concat", ["t", "t"], ["m"], axis=0)],
    ],
    ids=["scale", "elementwise", "casts", "concatenation"],
)
def test_products_of_what_is_computed_from_transposed_matrices(between):
    """ONNX Runtime moves the transposition past other operators, or takes a factor into the product."""
    for order in itertools.permutations(range(3)):
        for names in (["m", "b"], ["b", "m"], ["m", "s"]):
            nodes = [helper.make_node("Transpose", ["a"], ["t"], perm=order), *between]
            nodes += [
                helper.make_node("Transpose", ["m"], ["s"], perm=[0, 2, 1]),
                helper.make_node("MatMul", names, ["y"]),
            ]
            session = session_of(nodes, {"a": 3, "b": 3}, by=np.float32(0.5))
            plain = session_of([*nodes[:-2]], {"a": 3}, "m", by=np.float32(0.5))
            for sizes in itertools.product((0, 2), repeat=4):
                a = numbers(*(sizes[k] for k in np.argsort(order)))
                (m,) = plain.run(None, {"a": a})
                first, rows, inner = m.shape
                b = numbers(first, inner, sizes[3]) if names[0] == "m" else numbers(first, sizes[3], rows)
                want = m @ m.swapaxes(1, 2) if names[1] == "s" else m @ b if names[0] == "m" else b @ m
                assert_equal(session, want, a=a, b=b)


@pytest.mark.parametrize("side", [0, 1])
def test_one_matrix_times_a_batch(side):
    one, names = numbers(1, 2, 3) if side == 0 else numbers(1, 3, 2), ["one", "b"] if side == 0 else ["b", "one"]
    session = session_of([helper.make_node("MatMul", names, ["y"])], {"b": 3}, one=one)
    for batch, size in itertools.product(SIZES, repeat=2):
        other = numbers(batch, 3, size) if side == 0 else numbers(batch, size, 3)
        assert_equal(session, one @ other if side == 0 else other @ one, b=other)


@pytest.mark.parametrize(("start", "limit", "step"), [(2, -1, -1), (0, 3, 1), (2, 0, -1), (0, 3, 2)])
def test_elements_at_a_range(start, limit, step):
    nodes = [
        helper.make_node("Add", ["start", "zero"], ["first"]),
        helper.make_node("Range", ["first", "limit", "step"], ["places"]),
        helper.make_node("Gather", ["x", "places"], ["y"]),
    ]
    given = {"start": np.int64(start), "limit": np.int64(limit), "step": np.int64(step)}
    nodes.insert(0, helper.make_node("ReduceSum", ["none"], ["zero"], keepdims=0))
    session = session_of(nodes, {"x": 1}, none=np.zeros(0, np.int64), **given)
    x = numbers(3)
    assert_equal(session, x[np.arange(start, limit, step)], x=x)


@pytest.mark.parametrize("ids", [[1, -1], [[0], [1]], 1, []], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_slices_of_strings(axis, ids):
    session = session_of(
        [helper.make_node("Gather", ["x", "ids"], ["y"], axis=axis)],
        {"x": 3},
        dtype=TensorProto.STRING,
        ids=np.array(ids, np.int64),
    )
    x = np.array([f"word {k}" for k in range(24)], object).reshape(2, 3, 4)
    for given in (x, np.take(x, [], (axis + 1) % 3)):
        (got,) = session.run(["y"], {"x": given})
        np.testing.assert_array_equal(got, np.take(given, np.array(ids, np.int64), axis))


@pytest.mark.parametrize("given", ["nothing", "states", "states and lengths"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
def test_recurrent_layers_without_rows_or_steps(op_type, direction, given):
    """As without the guard where there are rows and steps; without steps, the states are the initial ones."""
    directions, units, gates = 1 + (direction == "bidirectional"), 3, 4 if op_type == "LSTM" else 3
    outputs = ["y", "h", "c"][: 3 if op_type == "LSTM" else 2]
    ranks = {"x": 3}
    optional = [""] * (1 + len(outputs))  # bias, lengths, h, c
    if given != "nothing":
        optional[2:] = ["h0", "c0"][: len(outputs) - 1]
        ranks |= dict.fromkeys(optional[2:], 3)
    if given == "states and lengths":
        ranks["n"] = 1
        optional[1] = "lengths"
    nodes = [helper.make_node(op_type, ["x", "w", "r", *optional], outputs, hidden_size=units, direction=direction)]
    if "n" in ranks:
        nodes.insert(0, helper.make_node("Cast", ["n"], ["lengths"], to=6))
    constants = {"w": numbers(directions, gates * units, 2), "r": numbers(directions, gates * units, units)}
    for output in outputs:
        guarded = session_of(nodes, ranks, output, **constants)
        plain = session_of(nodes, ranks, output, guarded=False, **constants)
        for steps, rows in itertools.product(SIZES, repeat=2):
            feeds = {"x": numbers(steps, rows, 2), "h0": numbers(directions, rows, units), "n": np.full(rows, steps)}
            feeds = {"c0": feeds["h0"] * 2, **feeds, "n": feeds["n"].astype(np.float32)}
            feeds = {name: value for name, value in feeds.items() if name in ranks}
            (got,) = guarded.run([output], feeds)
            if steps and rows:
                np.testing.assert_array_equal(got, plain.run([output], feeds)[0])
            elif output == "y":
                assert got.shape == (steps, directions, rows, units)
            elif rows:
                np.testing.assert_array_equal(got, feeds.get(f"{output}0", np.zeros((directions, rows, units))))
            else:
                assert got.shape == (directions, 0, units)


@pytest.mark.parametrize("before", [[], ["Identity"], ["Cast", "Cast"], ["Cast", "Identity", "Cast"]])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("none", "order"), [((1, 3, 0), (1, 0, 2)), ((2, 0), (1, 2, 0)), ((0,), (1, 0, 2))])
def test_products_by_a_constant_of_nothing(none, order, dtype, before):
    """Of what is transposed, of unknown rank: ONNX Runtime 1.23 to 1.32 end when they load it past a Cast."""
    name, nodes, kind = "t", [helper.make_node("Transpose", ["x"], ["t"], perm=order)], element_type(np.dtype(dtype))
    for k, op_type in enumerate(before):
        to = {"to": kind if k else int(TensorProto.DOUBLE)} if op_type == "Cast" else {}
        nodes.append(helper.make_node(op_type, [name], [name := f"t{k}"], **to))
    nodes.append(helper.make_node("MatMul", [name, "c"], ["y"]))
    x = np.ones([none[-2] if len(none) > 1 else none[-1]] * 3, dtype)
    graph = helper.make_graph(
        nodes,
        "nothing",
        [helper.make_tensor_value_info("x", kind, None)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.zeros(none, dtype), "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    guard(model)
    want = x.transpose(order) @ np.zeros(none, dtype)

    def run(feeds):
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]

    with Isolated(lambda: run) as call:
        got = call({"x": x})
    assert got.shape == want.shape
    assert not got.any()
