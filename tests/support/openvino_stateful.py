"""Models with states, built with OpenVINO: streaming networks, decoders with caches, and single states of any kind.

Each function builds one and returns it with a function from the number of a step to that step's inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.openvino_models import c, ops
from support.openvino_weights import CompressedWeight

F, B = np.float32, np.bool_
#: The inputs of a step, by its number.
Feeds = Callable[[int], list[Any]]
Built = tuple[Any, Feeds]
STATEFUL: dict[str, Callable[[], Built]] = {}


def stateful(build: Callable[[], Built]) -> Callable[[], Built]:
    STATEFUL[build.__name__] = build
    return build


def _floats(*shape: int) -> Feeds:
    return lambda step: [np.random.default_rng(step).standard_normal(shape).astype(F)]


def _weights(*shape: int, seed: int = 0) -> Any:
    return c(np.random.default_rng(seed).standard_normal(shape) * 0.3, F)


def _read(initial: Any, name: str, dtype: Any, shape: list[int]) -> Any:
    import openvino as ov

    given = (name, ov.Type(dtype), ov.PartialShape(shape))
    return ops(13).read_value(*given) if initial is None else ops(13).read_value(initial, *given)


def _input(shape: list[int], dtype: Any = F, name: str = "x") -> Any:
    return ops(13).parameter(shape, dtype, name=name)


def _model(results: list[Any], states: dict[str, Any], *inputs: Any) -> Any:
    import openvino as ov

    # assign takes nodes only, not one of several outputs.
    nodes = {n: v if hasattr(v, "get_type_name") else ops(16).identity(v) for n, v in states.items()}
    assigned = [ops(13).assign(node, name) for name, node in nodes.items()]
    return ov.Model([ops(13).result(node) for node in results], assigned, [*inputs], "stateful")


@stateful
def running_sum() -> Built:
    x = _input([1, 4])
    total = ops(13).add(x, _read(c(np.zeros((1, 4)), F), "sum", F, [1, 4]))
    return _model([total], {"sum": total}, x), _floats(1, 4)


@stateful
def without_an_initial_value() -> Built:
    x = _input([2, 3])
    total = ops(13).add(ops(13).multiply(_read(None, "s", F, [2, 3]), c(0.5, F)), x)
    return _model([total], {"s": total}, x), _floats(2, 3)


@stateful
def different_initial_numbers() -> Built:
    x = _input([1, 4])
    total = ops(13).add(x, _read(c([[1, 2, 3, 4]], F), "s", F, [1, 4]))
    return _model([total], {"s": total}, x), _floats(1, 4)


@stateful
def initial_value_from_an_input() -> Built:
    """The largest frame so far, from the first one on; the norm of the first one is computed once."""
    x = _input([-1, 4])
    first = ops(13).exp(ops(13).reduce_sum(x, c([0]), True))
    seen = _read(first, "first", F, [-1, 4])
    return _model([ops(13).subtract(x, seen)], {"first": seen}, x), _floats(3, 4)


@stateful
def counter() -> Built:
    x = _input([2])
    count = _read(c(0, np.int32), "n", np.int32, [])
    following = ops(13).add(count, c(1, np.int32))
    return _model([ops(13).multiply(x, ops(13).convert(count, "f32"))], {"n": following}, x), _floats(2)


@stateful
def scalar_from_an_input() -> Built:
    x = _input([3])
    lowest = _read(ops(13).reduce_min(x, c([0]), False), "lowest", F, [])
    following = ops(13).minimum(lowest, ops(13).reduce_min(x, c([0]), False))
    return _model([ops(13).subtract(x, following)], {"lowest": following}, x), _floats(3)


@stateful
def flag() -> Built:
    """Whether a number above 1.5 was ever there."""
    x = _input([4])
    seen = _read(c(np.zeros(4), B), "seen", B, [4])
    following = ops(13).logical_or(seen, ops(13).greater(x, c(1.5, F)))
    return _model([ops(13).select(following, x, c(0, F))], {"seen": following}, x), _floats(4)


@stateful
def exchange() -> Built:
    """Two states that take each other's place."""
    x = _input([1, 2])
    one, other = _read(c(np.ones((1, 2)), F), "a", F, [1, 2]), _read(c(np.zeros((1, 2)), F), "b", F, [1, 2])
    return _model([ops(13).add(one, x)], {"a": other, "b": ops(13).add(one, x)}, x), _floats(1, 2)


@stateful
def never_assigned_but_to_itself() -> Built:
    x = _input([2])
    state = _read(c([3, 4], F), "kept", F, [2])
    return _model([ops(13).multiply(x, state)], {"kept": state}, x), _floats(2)


@stateful
def delay_line() -> Built:
    """The last four samples, of which the oldest is returned."""
    x = _input([1, 1])
    line = _read(c(np.zeros((1, 4)), F), "line", F, [1, 4])
    longer = ops(13).concat([line, x], 1)
    kept = ops(13).slice(longer, c([1]), c([5]), c([1]), c([1]))
    return _model([ops(13).slice(longer, c([0]), c([1]), c([1]), c([1]))], {"line": kept}, x), _floats(1, 1)


@stateful
def leftover_samples() -> Built:
    """Samples are taken in groups of four; what is left waits for the next chunk, and may be none."""
    x = _input([1, -1])
    held = _read(c(np.zeros((1, 2)), F), "left", F, [1, -1])
    both = ops(13).concat([held, x], 1)
    size = ops(13).gather(ops(13).shape_of(both), c([1]), c(0))
    whole = ops(13).multiply(ops(13).divide(size, c([4])), c([4]))
    taken = ops(13).slice(both, c([0]), whole, c([1]), c([1]))
    left = ops(13).slice(both, whole, size, c([1]), c([1]))
    sums = ops(13).reduce_sum(ops(13).reshape(taken, c([1, -1, 4]), False), c([2]), False)
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 16)
    return _model([sums], {"left": left}, x), lambda step: [rng.standard_normal((1, sizes[step])).astype(F)]


@stateful
def streaming_convolution() -> Built:
    """A causal convolution whose left context is the end of the chunk before."""
    x = _input([1, 2, 8])
    context = _read(c(np.zeros((1, 2, 4)), F), "context", F, [1, 2, 4])
    padded = ops(13).concat([context, x], 2)
    made = ops(13).convolution(padded, _weights(3, 2, 3), [1], [0], [0], [2])
    kept = ops(13).slice(padded, c([8]), c([12]), c([1]), c([2]))
    return _model([ops(13).relu(made)], {"context": kept}, x), _floats(1, 2, 8)


@stateful
def lstm_cell() -> Built:
    x = _input([1, 5])
    h, m = (_read(c(np.zeros((1, 3)), F), name, F, [1, 3]) for name in ("h", "c"))
    cell = ops(13).lstm_cell(x, h, m, _weights(12, 5), _weights(12, 3, seed=1), _weights(12, seed=2), 3)
    return _model([cell.output(0)], {"h": cell.output(0), "c": cell.output(1)}, x), _floats(1, 5)


@stateful
def gru_cell_of_any_batch() -> Built:
    """The state begins with zeros for each row of the first batch."""
    x = _input([-1, 5])
    rows = ops(13).gather(ops(13).shape_of(x), c([0]), c(0))
    h = _read(ops(13).broadcast(c(0, F), ops(13).concat([rows, c([3])], 0)), "h", F, [-1, 3])
    cell = ops(13).gru_cell(x, h, _weights(9, 5), _weights(9, 3, seed=1), _weights(9, seed=2), 3)
    return _model([cell.output(0)], {"h": cell.output(0)}, x), _floats(2, 5)


@stateful
def lstm_over_chunks() -> Built:
    x = _input([1, 4, 5])
    h, m = (_read(c(np.zeros((1, 1, 3)), F), name, F, [1, 1, 3]) for name in ("h", "c"))
    made = ops(13).lstm_sequence(
        x, h, m, c([4]), _weights(1, 12, 5), _weights(1, 12, 3, seed=1), _weights(1, 12, seed=2), 3, "forward"
    )
    return _model([made.output(0)], {"h": made.output(1), "c": made.output(2)}, x), _floats(1, 4, 5)


@stateful
def unrolled_loop() -> Built:
    """A TensorIterator that LowLatency2 has made states of."""
    import openvino as ov
    from openvino.passes import LowLatency2, Manager

    x = _input([1, 1, 5])
    h = c(np.zeros((1, 3)), F)
    inner, state = _input([1, 1, 5], name="i"), _input([1, 3], name="s")
    step = ops(13).squeeze(inner, c([1]))
    cell = ops(13).gru_cell(step, state, _weights(9, 5), _weights(9, 3, seed=1), _weights(9, seed=2), 3)
    out = ops(13).unsqueeze(cell, c([1]))
    body = ov.Model([out, cell], [inner, state], "body")
    iterator = ops(13).tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(inner, x.output(0), 0, 1, 1, -1, 1)
    iterator.set_merged_input(state, h.output(0), body.outputs[1])
    made = iterator.get_concatenated_slices(body.outputs[0], 0, 1, 1, -1, 1)
    model = ov.Model([ops(13).result(made)], [x], "stateful")
    manager = Manager()
    manager.register_pass(LowLatency2())
    manager.run_passes(model)
    return model, _floats(1, 1, 5)


@stateful
def half_float_state() -> Built:
    x = _input([1, 4], np.float16)
    total = ops(13).multiply(
        ops(13).add(x, _read(c(np.zeros((1, 4)), np.float16), "s", np.float16, [1, 4])), c(0.5, np.float16)
    )
    return _model([ops(13).convert(total, "f32")], {"s": total}, x), lambda k: [_floats(1, 4)(k)[0].astype(np.float16)]


@stateful
def vocoder() -> Built:
    """Frames overlap and add: the tail of each is added to the next one, and the phase goes on."""
    x = _input([1, 3])
    tail = _read(c(np.zeros((1, 4)), F), "tail", F, [1, 4])
    phase = _read(c(np.zeros((1, 1)), F), "phase", F, [1, 1])
    angle = ops(13).add(phase, ops(13).reduce_sum(x, c([1]), True))
    frame = ops(13).multiply(ops(13).tanh(ops(13).matmul(x, _weights(3, 8), False, False)), ops(13).sin(angle))
    head = ops(13).add(ops(13).slice(frame, c([0]), c([4]), c([1]), c([1])), tail)
    kept = ops(13).slice(frame, c([4]), c([8]), c([1]), c([1]))
    return _model([head], {"tail": kept, "phase": angle}, x), _floats(1, 3)


def _decoder(weight: Callable[[int, int], Any], layers: int = 2, *, cross: bool = False) -> Built:
    """A decoder in the form of optimum-intel: caches reordered by beam_idx, a mask over all tokens."""
    heads, size, vocabulary, width, beams = 2, 4, 11, 8, 3
    ids, mask = _input([-1, -1], np.int64, "input_ids"), _input([-1, -1], np.int64, "attention_mask")
    places, beam = _input([-1, -1], np.int64, "position_ids"), _input([-1], np.int32, "beam_idx")
    inputs = [ids, mask, places, beam]
    rows = ops(13).gather(ops(13).shape_of(ids), c([0]), c(0))
    empty = ops(13).broadcast(c(0, F), ops(13).concat([rows, c([heads, 0, size])], 0))
    hidden = ops(13).add(ops(13).gather(_weights(vocabulary, width), ids, c(0)),
                         ops(13).gather(_weights(64, width, seed=1), places, c(0)))  # fmt: skip
    # What may not be seen: later tokens, and those that the mask drops.
    total = ops(13).gather(ops(13).shape_of(mask), c(1), c(0))
    columns = ops(13).range(c(0), total, c(1), "i64")
    later = ops(13).greater(columns, ops(13).unsqueeze(places, c([2])))
    dropped = ops(13).equal(ops(13).unsqueeze(mask, c([1])), c(0))
    bias = ops(13).select(ops(13).logical_or(later, dropped), c(-10000, F), c(0, F))
    bias = ops(13).unsqueeze(bias, c([1]))
    states: dict[str, Any] = {}

    def split(x: Any) -> Any:
        return ops(13).transpose(ops(13).reshape(x, c([0, -1, heads, size]), True), c([0, 2, 1, 3]))

    def merged(x: Any) -> Any:
        return ops(13).reshape(ops(13).transpose(x, c([0, 2, 1, 3])), c([0, -1, width]), True)

    def times(x: Any) -> Any:
        return ops(13).matmul(x, weight(width, width), False, True)

    if cross:
        encoded = _input([-1, -1, width], F, "encoder_hidden_states")
        inputs.append(encoded)
    for number in range(layers):
        kept = []
        for part in ("key", "value"):
            name = f"past_key_values.{number}.{part}present.{number}.{part}"
            past = ops(13).gather(_read(empty, name, F, [-1, heads, -1, size]), beam, c(0))
            kept.append(ops(13).concat([past, split(times(hidden))], 2))
            states[name] = kept[-1]
        attended = ops(13).scaled_dot_product_attention(split(times(hidden)), *kept, bias)
        hidden = ops(13).add(hidden, times(merged(attended)))
        if cross:  # keys and values of the encoder's output are computed in the first step
            held = []
            for part in ("key", "value"):
                name = f"cross.{number}.{part}"
                found = _read(split(times(encoded)), name, F, [-1, heads, -1, size])
                states[name] = held_now = ops(13).gather(found, beam, c(0))
                held.append(held_now)
            attended = ops(13).scaled_dot_product_attention(split(times(hidden)), *held)
            hidden = ops(13).add(hidden, merged(attended))
        hidden = ops(13).mvn(hidden, c([2]), True, 1e-5, "inside_sqrt")
    logits = ops(13).matmul(hidden, weight(vocabulary, width), False, True)

    def feeds(step: int) -> list[Any]:
        rng = np.random.default_rng(step)
        count = 4 if step == 0 else 1 + step % 2
        before = 0 if step == 0 else 4 + sum(1 + k % 2 for k in range(1, step))
        seen = np.ones((beams, before + count), np.int64)
        seen[0, :2] = 0  # one row is shorter than the others
        order = rng.integers(0, beams, beams) if step else np.arange(beams)
        order = np.where(np.arange(beams) == 0, 0, np.maximum(order, 1)) if step else order
        positions = np.tile(np.arange(before, before + count), (beams, 1))
        given = [rng.integers(0, vocabulary, (beams, count)), seen, positions, order.astype(np.int32)]
        return [*given, rng.standard_normal((beams, 5, width)).astype(F)] if cross else given

    return _model([logits], states, *inputs), feeds


@stateful
def decoder() -> Built:
    seeds = iter(range(100))
    return _decoder(lambda rows, columns: _weights(rows, columns, seed=next(seeds)))


@stateful
def decoder_of_8_bits() -> Built:
    return _decoder(lambda rows, columns: CompressedWeight("u8", (rows, columns), (rows, 1), "u8").node())


@stateful
def decoder_of_4_bits() -> Built:
    def weight(rows: int, columns: int) -> Any:
        made = CompressedWeight("i4", (rows, columns // 4, 4), (rows, columns // 4, 1))
        return ops(13).convert(ops(13).reshape(made.node(), c([rows, columns]), False), "f32")

    return _decoder(weight)


@stateful
def decoder_with_an_encoder() -> Built:
    seeds = iter(range(100))
    return _decoder(lambda rows, columns: _weights(rows, columns, seed=next(seeds)), cross=True)
