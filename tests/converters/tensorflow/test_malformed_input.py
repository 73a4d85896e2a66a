"""Malformed input that TensorFlow refuses is refused by the converted model, or is on the list of what is accepted.

What TensorFlow takes is refused, or has TensorFlow's answer. Every kind of malformed input is tried with every
function. The list is strict: what is on it and refused fails, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf
from support.tensorflow_imports import text

import onnx_sparse
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.accepted_input import ACCEPTED

LEAST, FAR = -(2**63), 2**62

TABLE = tf.constant(np.arange(10).reshape(5, 2), tf.float32)
MATRIX = tf.constant(np.arange(1, 13).reshape(4, 3), tf.float32)
OTHER = tf.SparseTensor(tf.constant([[0, 0], [1, 2]], tf.int64), tf.constant([1, 2], tf.int64), (4, 3))


def of_floats(x: Any) -> Any:
    return tf.cast(x, tf.float32)


#: Functions of a sparse tensor [4, 3] of int64.
SPARSE: dict[str, Callable[[Any], Any]] = {
    "tf.sparse.sparse_dense_matmul": lambda x: tf.sparse.sparse_dense_matmul(of_floats(x), tf.transpose(MATRIX)),
    "tf.sparse.sparse_dense_matmul adjoint": lambda x: tf.sparse.sparse_dense_matmul(of_floats(x), MATRIX, True),
    "tf.sparse.reduce_sum": lambda x: tf.sparse.reduce_sum(x),
    "tf.sparse.reduce_sum axis 0": lambda x: tf.sparse.reduce_sum(x, 0),
    "tf.sparse.reduce_sum axis 1": lambda x: tf.sparse.reduce_sum(x, 1),
    "tf.sparse.reduce_max axis 0": lambda x: tf.sparse.reduce_max(x, 0),
    "tf.sparse.reduce_max axis 1": lambda x: tf.sparse.reduce_max(x, 1),
    "tf.sparse.softmax": lambda x: tf.sparse.softmax(of_floats(x)),
    "tf.sparse.to_dense": lambda x: tf.sparse.to_dense(x),
    "tf.sparse.to_dense without validation": lambda x: tf.sparse.to_dense(x, validate_indices=False),
    "tf.sparse.to_indicator": lambda x: tf.sparse.to_indicator(x, 5),
    "tf.sparse.reorder": lambda x: tf.sparse.reorder(x),
    "tf.sparse.transpose": lambda x: tf.sparse.transpose(x),
    "tf.sparse.reshape": lambda x: tf.sparse.reshape(x, [2, -1]),
    "tf.sparse.slice": lambda x: tf.sparse.slice(x, [1, 0], [2, 2]),
    "tf.sparse.split": lambda x: tf.sparse.split(x, num_split=2, axis=0),
    "tf.sparse.concat": lambda x: tf.sparse.concat(0, [x, OTHER]),
    "tf.sparse.add": lambda x: tf.sparse.add(x, OTHER),
    "tf.sparse.add dense": lambda x: tf.sparse.add(of_floats(x), MATRIX),
    "tf.sparse.maximum": lambda x: tf.sparse.maximum(x, OTHER),
    "tf.sparse.minimum": lambda x: tf.sparse.minimum(x, OTHER),
    "sparse * dense": lambda x: of_floats(x) * MATRIX,
    "sparse * row": lambda x: of_floats(x) * MATRIX[:1],
    "sparse / dense": lambda x: of_floats(x) / MATRIX,
    "tf.sparse.fill_empty_rows": lambda x: tf.sparse.fill_empty_rows(x, 0),
    "tf.nn.embedding_lookup_sparse": lambda x: tf.nn.embedding_lookup_sparse(TABLE, x, None, combiner="mean"),
    "tf.nn.safe_embedding_lookup_sparse": lambda x: tf.nn.safe_embedding_lookup_sparse(TABLE, x),
    "tf.sparse.bincount": lambda x: tf.sparse.bincount(x, axis=-1),
    "tf.math.bincount": lambda x: tf.math.bincount(x, minlength=5, maxlength=5, axis=-1),
    "tf.sets.size": lambda x: tf.sets.size(x),
    "tf.sets.union": lambda x: tf.sets.union(x, OTHER),
    "tf.sets.difference": lambda x: tf.sets.difference(tf.sparse.to_dense(OTHER), x),
    "tf.sparse.cross_hashed": lambda x: tf.sparse.cross_hashed([x, OTHER], 10),
    "tf.gather_nd": lambda x: tf.gather_nd(MATRIX, x.indices),
    "tf.scatter_nd": lambda x: tf.scatter_nd(x.indices, x.values, [4, 3]),
    "tf.tensor_scatter_nd_add": lambda x: tf.tensor_scatter_nd_add(MATRIX, x.indices, of_floats(x.values)),
    "tf.tensor_scatter_nd_max": lambda x: tf.tensor_scatter_nd_max(MATRIX, x.indices, of_floats(x.values)),
    "tf.tensor_scatter_nd_update": lambda x: tf.tensor_scatter_nd_update(MATRIX, x.indices, of_floats(x.values)),
}

SOUND = [[0, 1], [1, 0], [3, 2]]

#: The coordinates, the values and the dense shape.
SPARSE_INPUTS: dict[str, tuple[Sequence[Any], Sequence[int], Sequence[int]]] = {
    "sound": (SOUND, [1, 2, 3], [4, 3]),
    **{
        name: (indices, [1, 2, 3], [4, 3])
        for name, indices in {
            "a negative row": [[-1, 1], [1, 0], [3, 2]],
            "a negative row last": [[0, 1], [1, 0], [-1, 2]],
            "a negative column": [[0, -1], [1, 0], [3, 2]],
            "a negative column last": [[0, 1], [1, 0], [3, -1]],
            "the least row": [[LEAST, 1], [1, 0], [3, 2]],
            "a row too large": [[0, 1], [1, 0], [4, 2]],
            "a row far too large": [[0, 1], [1, 0], [FAR, 2]],
            "a column too large": [[0, 1], [1, 3], [3, 2]],
            "a column far too large": [[0, 1], [1, 0], [3, FAR]],
            "rows in another order": [[1, 0], [0, 1], [3, 2]],
            "columns in another order": [[1, 1], [1, 0], [3, 2]],
            "an entry twice": [[1, 0], [1, 0], [3, 2]],
        }.items()
    },
    "too few values": (SOUND, [1, 2], [4, 3]),
    "too many values": (SOUND, [1, 2, 3, 4], [4, 3]),
    "fewer rows than entries have": (SOUND, [1, 2, 3], [2, 3]),
    "fewer columns than entries have": (SOUND, [1, 2, 3], [4, 2]),
    "more columns": (SOUND, [1, 2, 3], [4, 5]),
}


def rows(x: Any) -> Any:
    """The rows between splits of a TABLE's rows."""
    return tf.gather(TABLE, x)


#: Functions of a ragged tensor of three rows of int64.
RAGGED: dict[str, Callable[[Any], Any]] = {
    **{
        f"tf.reduce_{kind}": lambda x, kind=kind: getattr(tf, f"reduce_{kind}")(of_floats(x), 1)
        for kind in ("sum", "mean", "max", "min", "prod")
    },
    "tf.reduce_sum of all": lambda x: tf.reduce_sum(x),
    "tf.reduce_sum of gathered rows": lambda x: tf.reduce_sum(rows(x), 1),
    "tf.reduce_mean of gathered rows": lambda x: tf.reduce_mean(rows(x), 1),
    "to_tensor": lambda x: x.to_tensor(),
    "to_tensor with a shape": lambda x: x.to_tensor(shape=[None, 2]),
    "to_sparse": lambda x: x.to_sparse(),
    "value_rowids": lambda x: x.value_rowids(),
    "tf.gather of rows": lambda x: tf.gather(x, [1, 0]).to_tensor(),
    "one row": lambda x: x[1],
    "the first of each row": lambda x: x[:, :1].to_tensor(),
    "tf.concat": lambda x: tf.concat([x, x], 1).to_tensor(),
    "tf.reverse": lambda x: tf.reverse(x, [1]).to_tensor(),
    "tf.tile": lambda x: tf.tile(x, [1, 2]).to_tensor(),
    "tf.ragged.boolean_mask": lambda x: tf.ragged.boolean_mask(x, x > 1).to_tensor(),
    "plus a column": lambda x: x + tf.constant([[1], [2], [3]], tf.int64),
    "tf.nn.embedding_lookup_sparse ragged": lambda x: tf.nn.embedding_lookup_sparse(TABLE, x, None, combiner="sum"),
    "tf.math.bincount ragged": lambda x: tf.math.bincount(x, minlength=5, maxlength=5, axis=-1),
    "tf.sparse.bincount ragged": lambda x: tf.sparse.bincount(x, axis=-1),
    "tf.strings.ngrams": lambda x: tf.strings.ngrams(tf.strings.as_string(x), 2).to_tensor(),
    "tf.strings.reduce_join": lambda x: tf.strings.reduce_join(tf.strings.as_string(x), axis=1),
}

#: The row splits of five values.
RAGGED_INPUTS: dict[str, list[int]] = {
    "sound": [0, 2, 2, 5],
    "falling splits": [0, 3, 1, 5],
    "splits that fall to the end": [0, 2, 6, 5],
    "splits that begin late": [1, 2, 2, 5],
    "splits that begin below 0": [-3, 2, 2, 5],
    "splits that end early": [0, 2, 2, 4],
    "splits that end late": [0, 2, 2, 6],
    "splits that end far too late": [0, 2, 2, 10**6],
    "no splits": [],
}

#: TensorFlow's to_tensor reads behind the values, which may end the process, so it is not asked.
NOT_ASKED = ("splits that end late", "splits that end far too late")

ROWS = tf.constant(np.arange(6).reshape(3, 2), tf.float32)

#: Functions of the segment ids of three rows.
SEGMENTS: dict[str, Callable[[Any], Any]] = {
    **{
        f"tf.math.segment_{kind}": lambda ids, kind=kind: getattr(tf.math, f"segment_{kind}")(ROWS, ids)
        for kind in ("sum", "mean", "max", "min", "prod")
    },
    **{
        f"tf.math.unsorted_segment_{kind}": lambda ids, kind=kind: getattr(tf.math, f"unsorted_segment_{kind}")(
            ROWS, ids, 3
        )
        for kind in ("sum", "mean", "max", "min", "prod", "sqrt_n")
    },
    **{
        f"tf.sparse.segment_{kind}": lambda ids, kind=kind: getattr(tf.sparse, f"segment_{kind}")(TABLE, [0, 4, 2], ids)
        for kind in ("sum", "mean", "sqrt_n")
    },
    "tf.sparse.segment_sum with num_segments": lambda ids: tf.sparse.segment_sum(TABLE, [0, 4, 2], ids, num_segments=3),
}

SEGMENT_INPUTS: dict[str, list[int]] = {
    "sound": [0, 0, 2],
    "ids that fall": [0, 2, 1],
    "a negative id": [-1, 0, 1],
    "a negative id last": [0, 1, -1],
    "an id too large": [0, 1, 3],
    "an id far too large": [0, 1, 10**6],
}

#: Functions of three ids of a table of five rows.
IDS: dict[str, Callable[[Any], Any]] = {
    "tf.gather": lambda ids: tf.gather(TABLE, ids),
    "tf.gather axis 1": lambda ids: tf.gather(tf.transpose(TABLE), ids, axis=1),
    "tf.nn.embedding_lookup": lambda ids: tf.nn.embedding_lookup(TABLE, ids),
    "tf.gather_nd of ids": lambda ids: tf.gather_nd(TABLE, ids[:, None]),
    "tf.reduce_sum of a lookup": lambda ids: tf.reduce_sum(tf.gather(TABLE, ids), 0),
    **{
        f"tf.sparse.segment_{kind} of ids": lambda ids, kind=kind: getattr(tf.sparse, f"segment_{kind}")(
            TABLE, ids, [0, 0, 2]
        )
        for kind in ("sum", "mean", "sqrt_n")
    },
    "tf.gather of a ragged tensor": lambda ids: tf.gather(
        tf.ragged.constant([[1], [], [2, 3], [4], [5]]), ids
    ).to_tensor(),
}

ID_INPUTS: dict[str, list[int]] = {
    "sound": [0, 4, 2],
    "an id of -1": [0, -1, 2],
    "the least id": [LEAST, 1, 2],
    "an id too large": [0, 5, 2],
    "an id far too large": [0, FAR, 2],
}


def _spec(name: str, *shape: int | None) -> Any:
    return tf.TensorSpec(shape, tf.int64, name)


SPARSE_SPECS = [_spec("indices", None, 2), _spec("values", None), _spec("shape", 2)]
RAGGED_SPECS = [_spec("values", None), _spec("splits", None)]


def made_of(specs: Sequence[Any], body: Callable[..., Any]) -> Any:
    return tf.function(lambda *given: tf.nest.flatten(body(*given), expand_composites=True), input_signature=specs)


CASES: dict[str, tuple[Any, Callable[[], Any], Mapping[str, Mapping[str, Any]]]] = {
    **{
        name: (
            SPARSE_SPECS,
            lambda i, v, s, body=body: body(tf.SparseTensor(i, v, s)),
            {
                kind: dict(zip(("indices", "values", "shape"), given, strict=True))
                for kind, given in SPARSE_INPUTS.items()
            },
        )
        for name, body in SPARSE.items()
    },
    **{
        name: (
            RAGGED_SPECS,
            lambda v, s, body=body: body(tf.RaggedTensor.from_row_splits(v, s, validate=False)),
            {kind: {"values": [1, 2, 3, 4, 0], "splits": splits} for kind, splits in RAGGED_INPUTS.items()},
        )
        for name, body in RAGGED.items()
    },
    **{
        name: ([_spec("ids", None)], body, {kind: {"ids": ids} for kind, ids in inputs.items()})
        for functions, inputs in ((SEGMENTS, SEGMENT_INPUTS), (IDS, ID_INPUTS))
        for name, body in functions.items()
    },
}


def _answer(run: Callable[[], Any]) -> list[Any] | None:
    """The arrays, or None for a refusal."""
    try:
        return [np.asarray(array) for array in run()]
    except Exception:
        return None


@pytest.mark.parametrize("name", CASES)
def test_what_tensorflow_refuses_is_refused_or_listed(name: str) -> None:
    specs, body, inputs = CASES[name]
    function = made_of(specs, body)
    model = convert(function)
    sessions = [
        onnx_sparse.InferenceSession(model, backend=b) for b in onnx_sparse.sessions.runtime.available_backends()
    ]
    accepted = []
    for kind, given in inputs.items():
        feeds = {key: np.array(value, np.int64).reshape(np.shape(value)) for key, value in given.items()}
        theirs = (
            None
            if kind in NOT_ASKED
            else _answer(lambda feeds=feeds: function(*(tf.constant(feeds[spec.name], tf.int64) for spec in specs)))
        )
        used = {i.name: feeds[i.name.partition(":")[0]] for i in sessions[0].get_inputs()}
        ours = [_answer(lambda s=s, used=used: s.run(None, used)) for s in sessions]
        refusals = [answer is None for answer in ours]
        assert len({*refusals}) == 1, f"{kind}: one backend refuses, the other does not"
        assert kind != "sound" or (theirs is not None and not any(refusals))
        if any(refusals) or kind in NOT_ASKED:
            continue
        if theirs is None:
            accepted.append(kind)
        for answer in ours if theirs is not None else ():
            for got, wanted in zip(answer, theirs, strict=True):
                same = np.testing.assert_allclose if got.dtype.kind == "f" else np.testing.assert_array_equal
                same(got, text(wanted), **({"rtol": 1e-5} if got.dtype.kind == "f" else {}), err_msg=kind)
    assert accepted == [kind for kind in inputs if any(listed.covers(name, kind) for listed in ACCEPTED)]


@pytest.mark.parametrize("kind", NOT_ASKED)
@pytest.mark.parametrize(
    "name", ["to_tensor", "to_tensor with a shape", "to_sparse", "tf.reduce_sum", "tf.reduce_mean of gathered rows"]
)
def test_splits_that_end_late_are_refused(name: str, kind: str) -> None:
    specs, body, inputs = CASES[name]
    session = onnx_sparse.InferenceSession(convert(made_of(specs, body)))
    feeds = {key: np.array(value, np.int64) for key, value in inputs[kind].items()}
    with pytest.raises(onnx_sparse.KernelError, match=r"must be 5, the number of values$"):
        session.run(None, {i.name: feeds[i.name.partition(":")[0]] for i in session.get_inputs()})


def test_every_entry_of_the_list_is_of_a_function_and_an_input_here() -> None:
    tried = {(name, kind) for name, (_, _, inputs) in CASES.items() for kind in inputs}
    for listed in ACCEPTED:
        assert {(name, kind) for name in listed.functions for kind in listed.inputs} <= tried
