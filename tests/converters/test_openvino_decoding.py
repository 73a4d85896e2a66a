"""Greedy decoders of CTC: random scores with many repetitions and blanks, against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino_models import Case, c, check, compiling_core, ops

pytest.importorskip("openvino")

RNG = np.random.default_rng(0)
BATCH, TIME, CLASSES = 6, 9, 3
SCORES = RNG.normal(size=(BATCH, TIME, CLASSES)).astype(np.float32)


@pytest.fixture(scope="module")
def core() -> Any:
    return compiling_core()


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
