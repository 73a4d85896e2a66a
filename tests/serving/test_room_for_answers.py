"""Results that wait for room are bounded, too: nobody's memory is what strangers do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.http_app import HttpApp
from onnx_sparse.serving.request_log import Requests

MOST = 1 << 20


async def outcomes(sizes: Sequence[int], *, is_room_made: bool) -> list[str]:
    """What becomes of results of some bytes that come while all is held: answered, refused at once or in the end."""
    app = HttpApp({}, MOST, Requests(logs=False))
    app._held = 5 * MOST
    clock = asyncio.get_running_loop().time

    async def answer(size: int) -> str:
        begun = clock()
        try:
            async with app.holding_answer({"y": np.zeros(size, np.uint8)}, is_text=False):
                return "answered"
        except RequestError as error:
            when = "refused" if clock() - begun < 1 else "refused late"
            return when if error.status == 503 else str(error)

    tasks = [asyncio.create_task(answer(size)) for size in sizes]
    await asyncio.sleep(0.05)
    assert sum(app._waiting.values()) <= MOST or len(app._waiting) == 1
    await asyncio.sleep(0.3)  # those that were given up have seen it
    if is_room_made:
        app._held = 0
    found = list(await asyncio.gather(*tasks))
    assert not app._waiting
    assert app._held == (0 if is_room_made else 5 * MOST)
    return found


@pytest.mark.parametrize(
    ("sizes", "answered"),
    [
        ([MOST // 4] * 6, 4 * ["answered"] + 2 * ["refused"]),
        ([MOST // 4] * 4 + [MOST // 8] * 2, 3 * ["answered"] + ["refused"] + 2 * ["answered"]),
        ([MOST // 2, MOST, MOST // 2], ["answered", "refused", "answered"]),
        ([4 * MOST], ["answered"]),
    ],
    ids=["the last of equal ones", "larger ones first", "the largest", "one alone"],
)
def test_those_that_wait_are_few(sizes, answered):
    assert asyncio.run(outcomes(sizes, is_room_made=True)) == answered


def test_those_that_get_no_room_are_refused_in_time():
    assert asyncio.run(outcomes([MOST // 4] * 2, is_room_made=False)) == 2 * ["refused late"]
