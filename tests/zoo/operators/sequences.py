"""Matrices, recurrent networks, attention, Fourier transforms, decoders, and control flow."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from zoo.operators import F, Opset, declare, normal, spelled, variants, whole

for one, other, left, right in (
    ((3, 4), (4, 5), False, False), ((4, 3), (5, 4), True, True), ((4,), (4,), False, False),
    ((4,), (4, 5), True, False), ((2, 3, 4), (4,), False, True), ((2, 1, 3, 4), (5, 4, 2), False, False),
    ((2, 4, 3), (1, 4, 2), True, False),
):  # fmt: skip
    declare("matmul-1", f"{one} {other} {left} {right}", lambda a, b, p=left, q=right: Opset(1).matmul(a, b, p, q),
            normal(*one), normal(*other, seed=1))  # fmt: skip
for equation, *shapes in (
    ("ij,jk->ik", (2, 3), (3, 4)), ("i...,i...->...", (3, 2), (3, 1)), ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)),
    ("ii->i", (3, 3)), ("bij->b", (2, 3, 4)), ("ij->", (2, 3)), ("ijj,k->ik", (2, 3, 3), (4,)),
):  # fmt: skip
    declare("einsum-7", equation, lambda *x, e=equation: Opset(7).einsum(list(x), e),
            *(normal(*s, seed=k) for k, s in enumerate(shapes)))  # fmt: skip
for size in (1, 2, 3, 5):
    for adjoint in (False, True):
        declare("inverse-14", f"{size} {adjoint}", lambda x, a=adjoint: Opset(14).inverse(x, a),
                normal(2, size, size) + 2 * np.eye(size, dtype=F))  # fmt: skip
TEXT = np.frombuffer("ab\u65e5\u00e9\U0001f600".encode(), np.uint8)
for dtype in (np.int32, np.int64):
    declare("string_tensor_pack-15", dtype.__name__, Opset(15).string_tensor_pack,
            np.array([[0, 2], [2, 7]], dtype), np.array([[2, 2], [7, 11]], dtype), TEXT)  # fmt: skip
    declare("string_tensor_pack-15", f"whole {dtype.__name__}", lambda s, d=dtype: Opset(15).string_tensor_pack(
        np.array([0, 2, 5], d), np.array([2, 5, 5], d), s), TEXT)  # fmt: skip
declare("string_tensor_unpack-15", "", lambda s: Opset(15).string_tensor_unpack(Opset(15).string_tensor_pack(
    np.array([0, 2, 2]), np.array([2, 2, 11]), s)), TEXT)  # fmt: skip
declare("grouped_matmul-17", "", lambda a, b: Opset(17).grouped_matmul(a, b), normal(2, 3, 4), normal(2, 5, 4, seed=1))

BATCH, INPUT, HIDDEN, TIME = 2, 3, 4, 5
CELLS: dict[str, dict[str, Any]] = {
    "lstm": {"gates": 4, "states": 2, "version": 4, "activations": ["sigmoid", "tanh", "tanh"]},
    "gru": {"gates": 3, "states": 1, "version": 3, "activations": ["sigmoid", "tanh"]},
    "rnn": {"gates": 1, "states": 1, "version": 3, "activations": ["tanh"]},
}
for kind, cell in CELLS.items():
    gates, states, version = cell["gates"], cell["states"], cell["version"]
    options: list[dict[str, Any]] = [{}, {"clip": 0.3}, {"activations": ["relu", *cell["activations"][1:]]}]
    if kind == "gru":
        options += [{"linear_before_reset": True}, {"linear_before_reset": True, "clip": 0.4}]
    for number, option in enumerate(options):
        before = bool(option.get("linear_before_reset"))
        settings = {"activations": cell["activations"], "activations_alpha": [], "activations_beta": [], **option}
        weights = [normal(gates * HIDDEN, INPUT), normal(gates * HIDDEN, HIDDEN, seed=1),
                   normal((gates + before) * HIDDEN, seed=2)]  # fmt: skip
        begin = [normal(BATCH, HIDDEN, seed=3 + k) for k in range(states)]
        declare(f"{kind}_cell-{version}", f"{number}", lambda x, *h, v=version, k=kind, w=weights, s=settings: getattr(
            Opset(v), f"{k}_cell")(x, *h, *w, HIDDEN, **s), normal(BATCH, INPUT, seed=9), *begin)  # fmt: skip
        for direction in ("forward", "reverse", "bidirectional"):
            ways = 2 if direction == "bidirectional" else 1
            stacked = [np.stack([w * (1 - 0.3 * k) for k in range(ways)]).astype(F) for w in weights]
            first = [np.stack([b] * ways, 1) for b in begin]
            for lengths in ([TIME, TIME], [TIME, 2]):
                declare(f"{kind}_sequence-5", f"{number} {direction} {lengths}", lambda x, *h, k=kind, w=stacked,
                        s=settings, d=direction, n=lengths: getattr(Opset(5), f"{k}_sequence")(
                            x, *h, np.array(n, np.int32), *w, HIDDEN, d, **s),
                        normal(BATCH, TIME, INPUT, seed=9), *first)  # fmt: skip
for causal, masked, scaled in itertools.product((False, True), (None, bool, F), (False, True)):
    q, k, v = (normal(2, 2, n, 4, seed=n) for n in (3, 5, 5))
    mask = () if masked is None else ((normal(3, 5, seed=8) > -1) if masked is bool else normal(3, 5, seed=8),)
    declare("scaled_dot_product_attention-13", f"causal={causal} mask={masked and masked.__name__} scale={scaled}",
            lambda q, k, v, *m, c=causal, s=scaled: Opset(13).scaled_dot_product_attention(
                q, k, v, *(m or ((np.zeros((3, 5), F),) if s else ())), *((np.array(0.7, F),) if s else ()), causal=c),
            q, k, v, *mask)  # fmt: skip
for axes, size in (([0], None), ([1], [6]), ([0, 1], [3, 8]), ([-1], None), ([1], [2])):
    given = None if size is None else np.array(size)
    for name in ("dft", "idft"):
        declare(f"{name}-7", f"{axes} {size}", lambda x, n=name, a=axes, s=given: getattr(Opset(7), n)(
            x, np.array(a), s), normal(4, 5, 2))  # fmt: skip
    declare("rdft-9", f"{axes} {size}", lambda x, a=axes, s=given: Opset(9).rdft(x, np.array(a), s), normal(4, 5))
    if -1 not in axes:
        declare("irdft-9", f"{axes} {size}", lambda x, a=axes, s=given: Opset(9).irdft(x, np.array(a), s),
                normal(4, 5, 2))  # fmt: skip
for transposed in (True, False):
    for shape in ((40,), (2, 40)):
        declare("stft-15", f"{transposed} {shape}", lambda x, w, t=transposed: Opset(15).stft(
            x, w, np.array(16), np.array(6), t), normal(*shape), np.hanning(16).astype(F))  # fmt: skip
for v in variants(center=(True, False), normalized=(True, False)):
    for size, window, shape, length in itertools.product((16, 15), (15, 9), ((), (4,)), (None, 10, 30, 60)):
        declare("istft-16", f"{size} {window} {shape} {length} {spelled(v)}", lambda x, w, v=v, n=size, k=length: Opset(
            16).istft(x, w, np.array(n), np.array(4), **v, signal_length=None if k is None else np.array(k)),
            normal(*shape, size // 2 + 1, 8, 2), np.hanning(window).astype(F))  # fmt: skip
for merge in (True, False):
    declare("ctc_greedy_decoder-1", merge, lambda x, m, r=merge: Opset(1).ctc_greedy_decoder(x, m, r),
            normal(6, 2, 4), np.array([[1, 1], [1, 1], [1, 1], [1, 1], [1, 0], [1, 0]], F))  # fmt: skip
    declare("ctc_greedy_decoder_seq_len-6", merge, lambda x, n, r=merge: Opset(6).ctc_greedy_decoder_seq_len(
        x, n, merge_repeated=r), normal(2, 6, 4), np.array([6, 4], np.int32))  # fmt: skip
    declare(
        "ctc_greedy_decoder_seq_len-6",
        f"{merge} blank",
        lambda x, n, r=merge: Opset(6).ctc_greedy_decoder_seq_len(x, n, np.array(1, np.int32), r),
        normal(2, 6, 4),
        np.array([6, 4], np.int32),
    )
for v in variants(preprocess_collapse_repeated=(True, False), ctc_merge_repeated=(True, False), unique=(True, False)):
    labels = whole(0, 3, 2, 8, dtype=np.int32)
    for counts in ([3, 5], [1, 2], [8, 4]):
        declare("ctc_loss-4", f"{counts} {spelled(v)}", lambda x, n, y, m, v=v: Opset(4).ctc_loss(
            x, n, y, m, np.array(3, np.int32), **v), normal(2, 8, 4), np.array([8, 7], np.int32), labels,
            np.array(counts, np.int32))  # fmt: skip
    for dtype in (np.float16, np.float64):
        declare("ctc_loss-4", f"{dtype.__name__} last is blank {spelled(v)}", lambda x, n, y, m, v=v: Opset(4).ctc_loss(
            x, n, y, m, **v), normal(2, 8, 4).astype(dtype), np.array([8, 5]), labels.astype(np.int64),
            np.array([4, 1]))  # fmt: skip


def branching(condition: Any, x: Any) -> Any:
    """If the condition holds, x * 2, else x - 1."""
    import openvino as ov

    made = Opset(8).if_op(condition)
    bodies, parameters = [], []
    for k in range(2):
        given = Opset(8).parameter([-1, 3], F)
        value = Opset(1).multiply(given, F(2)) if k == 0 else Opset(1).subtract(given, F(1))
        bodies.append(ov.op.Result(value.output(0)))
        parameters.append(given)
    made.set_then_body(ov.Model([bodies[0]], [parameters[0]], "then"))
    made.set_else_body(ov.Model([bodies[1]], [parameters[1]], "else"))
    made.set_input(x.output(0), *parameters)
    made.set_output(*bodies)
    return made


for truth in (True, False):
    declare("if_op-8", truth, branching, np.array(truth), normal(2, 3))


def sum_of_rows(x: Any, start: Any, *, kind: str, reverse: bool) -> Any:
    """The sums of the first rows of x, together, and the last sum."""
    import openvino as ov

    made = (
        Opset(5).loop(*(Opset(1).constant(np.array(v)) for v in (4, True)))
        if kind == "loop"
        else Opset(1).tensor_iterator()
    )
    row, state = Opset(8).parameter([1, 3], F), Opset(8).parameter([1, 3], F)
    total = ov.op.Result(Opset(1).add(row, state).output(0))
    results = [total]
    if kind == "loop":
        results.insert(0, ov.op.Result(Opset(1).constant(np.array(True)).output(0)))
    body = ov.Model(results, [row, state], "body")
    if kind == "loop":
        made.set_function(body)
        made.set_special_body_ports([-1, 0])
    else:
        made.set_body(body)
    made.set_sliced_input(row, x.output(0), *((-1, -1, 1, 0, 0) if reverse else (0, 1, 1, -1, 0)))
    made.set_merged_input(state, start.output(0), total.output(0))
    last = made.get_iter_value(total.output(0), -1)
    every = made.get_concatenated_slices(total.output(0), *((-1, -1, 1, 0, 0) if reverse else (0, 1, 1, -1, 0)))
    return Opset(1).concat([last, every], 0)


for kind, reverse in (("loop", False), ("tensor_iterator", False), ("tensor_iterator", True)):
    declare(f"{kind}-5" if kind == "loop" else f"{kind}-1", f"reverse={reverse}",
            lambda x, s, k=kind, r=reverse: sum_of_rows(x, s, kind=k, reverse=r),
            normal(4, 3), normal(1, 3))  # fmt: skip
