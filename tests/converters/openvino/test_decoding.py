"""Decoders and the loss of CTC, with many repetitions and blanks, and the beams of a search, against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

RNG = np.random.default_rng(0)
BATCH, TIME, CLASSES = 6, 9, 3
SCORES = RNG.normal(size=(BATCH, TIME, CLASSES)).astype(np.float32)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("blank", [None, 0, 1])
def test_sequences_of_given_lengths(core: Any, tmp_path: Path, blank: int | None, merge: bool, dynamic: bool) -> None:
    def decoded(scores: Any, lengths: Any) -> Any:
        chosen = None if blank is None else c(blank, np.int32)
        return ops(6).ctc_greedy_decoder_seq_len(scores, lengths, chosen, merge, "i64", "i32")

    tested = Case("CTCGreedyDecoderSeqLen", decoded, SCORES, np.int32([0, 1, 4, 9, 9, 8]), dynamic=dynamic)
    check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize("merge", [False, True])
def test_sequences_that_a_mask_ends(core: Any, tmp_path: Path, merge: bool) -> None:
    """A mask may be 0 at its first step, and 1 again behind the end."""
    mask = (RNG.random((TIME, BATCH)) < 0.8).astype(np.float32)
    mask[:, 0], mask[0, 1:3] = 1, 0
    tested = Case(
        "CTCGreedyDecoder", lambda x, m: ops(1).ctc_greedy_decoder(x, m, merge), SCORES.transpose(1, 0, 2).copy(), mask
    )
    check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("end", [3, 99])
def test_beams(core: Any, tmp_path: Path, dtype: Any, end: int, dynamic: bool) -> None:
    """Lengths beyond the steps, and ends within a beam."""
    rng = np.random.default_rng(end)
    steps, parents = (rng.integers(0, high, (7, 4, 3)).astype(dtype) for high in (6, 3))
    tested = Case("GatherTree", ops(1).gather_tree, steps, parents, dtype([1, 7, 4, 20]), dtype(end), dynamic=dynamic)
    check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize("length", [0, -1])
def test_a_beam_without_steps_is_ends(tmp_path: Path, length: int) -> None:
    inputs = [np.ones((3, 1, 2), np.int32), np.zeros((3, 1, 2), np.int32), np.int32([length]), np.int32(9)]
    tested = Case("GatherTree", ops(1).gather_tree, *inputs)
    session = InferenceSession(convert(tested.save(tmp_path)))
    (made,) = session.run(None, {f"p{k}": value for k, value in enumerate(tested.inputs)})
    assert made.tolist() == [[[9, 9]]] * 3


@pytest.mark.parametrize("parent", [-1, 2])
def test_a_parent_that_does_not_exist(tmp_path: Path, parent: int) -> None:
    inputs = [np.ones((3, 1, 2), np.int32), np.full((3, 1, 2), parent, np.int32), np.int32([3]), np.int32(9)]
    tested = Case("GatherTree", ops(1).gather_tree, *inputs)
    session = InferenceSession(convert(tested.save(tmp_path)))
    with pytest.raises(Exception, match="GatherElements"):
        session.run(None, {f"p{k}": value for k, value in enumerate(tested.inputs)})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("option", ["plain", "preprocess_collapse_repeated", "unique", "ctc_merge_repeated"])
@pytest.mark.parametrize("blank", [None, 0])
def test_loss(core: Any, tmp_path: Path, blank: int | None, option: str, dynamic: bool) -> None:
    options = {"plain": {}, "ctc_merge_repeated": {"ctc_merge_repeated": False}}.get(option, {option: True})
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, (BATCH, TIME)).astype(np.int32)
    lengths, counts = np.int32([9, 9, 9, 7, 5, 1]), np.int32([4, 1, 6, 7, 2, 1])

    def loss(*given: Any) -> Any:
        chosen = () if blank is None else (c(blank, np.int32),)
        return ops(4).ctc_loss(*given, *chosen, **options)

    tested = Case("CTCLoss", loss, SCORES, lengths, labels, counts, dynamic=dynamic)
    check(tested, core, tested.save(tmp_path))


def test_loss_of_no_labels_and_of_no_path(tmp_path: Path) -> None:
    """No labels are the blanks alone; labels that have no room, with the blanks between equal ones, have no path."""
    labels = np.int32([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    tested = Case("CTCLoss", ops(4).ctc_loss, np.zeros((3, 4, 3), np.float32), np.int32([4, 2, 3]), labels,
                  np.int32([0, 2, 0]))  # fmt: skip
    session = InferenceSession(convert(tested.save(tmp_path)))
    (made,) = session.run(None, {f"p{k}": value for k, value in enumerate(tested.inputs)})
    np.testing.assert_allclose(made, [4 * np.log(3), np.inf, 3 * np.log(3)], rtol=1e-6)
