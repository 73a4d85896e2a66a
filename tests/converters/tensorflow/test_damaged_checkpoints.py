"""A checkpoint with a flipped bit is refused or read as before; one that is made to be expensive is refused at once.

TensorFlow's checksums cover the blocks of the index and every tensor.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.sorted_tables import block, table, varint

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.tensorflow.reading import checkpoint as checkpoint_reader
from onnx_sparse.converters.tensorflow.reading.checkpoint import Checkpoint
from onnx_sparse.converters.tensorflow.reading.messages import BundleEntryProto, BundleHeaderProto
from onnx_sparse.files.checksum import masked_crc32c

FLOAT, STRING = 1, 7
_SECONDS, _MOST_MEMORY = 10, 3 << 30


def entry(dtype: int, shape: Sequence[int], offset: int, content: bytes, crc: int | None = None) -> bytes:
    made = BundleEntryProto(dtype=dtype, offset=offset, size=len(content))
    made.crc32c = masked_crc32c(content) if crc is None else crc
    for size in shape:
        made.shape.dim.add(size=size)
    return bytes(made.SerializeToString())


def write(folder: Path, index: bytes, data: bytes = b"") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "values.index").write_bytes(index)
    (folder / "values.data-00000-of-00001").write_bytes(data)
    return folder / "values"


HEADER = (0, b"", bytes(BundleHeaderProto(num_shards=1).SerializeToString()))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables of floats, of which one is mapped, and three strings, in two blocks."""
    arrays = [np.arange(12, dtype=np.float32), np.arange(400, dtype=np.float32)]
    contents = [array.tobytes() for array in arrays]
    texts = [b"red", b"", b"green"]
    sizes = b"".join(struct.pack("<I", len(text)) for text in texts)
    rest = struct.pack("<I", masked_crc32c(sizes)) + b"".join(texts)
    data = b"".join([*contents, *(varint(len(text)) for text in texts), rest])
    strings = data[sum(map(len, contents)) :]
    blocks = [
        block([HEADER, (0, b"small", entry(FLOAT, [3, 4], 0, contents[0]))]),
        block(
            [
                (0, b"table", entry(FLOAT, [100, 4], len(contents[0]), contents[1])),
                (0, b"words", entry(STRING, [3], len(data) - len(strings), strings, masked_crc32c(sizes + rest))),
            ]
        ),
    ]
    return write(tmp_path_factory.mktemp("sound") / "model", table(blocks), data)


def values(prefix: Path) -> list[list[object]]:
    found = Checkpoint(str(prefix))
    return [found.read(key).tolist() for key in ("small", "table", "words")]


def test_every_flipped_bit_is_refused_or_without_effect(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_reader, "MAPPED", 1000)  # the larger table is mapped
    expected = values(sound)
    assert expected[2] == [b"red", b"", b"green"]
    index, data = (sound.with_name(f"values.{end}").read_bytes() for end in ("index", "data-00000-of-00001"))
    harmless = unnamed = 0
    bits = [*range(0, 8 * len(index), 3), *range(8 * len(index), 8 * (len(index) + len(data)), 23)]
    for position in bits:
        changed = bytearray(index + data)
        changed[position // 8] ^= 1 << position % 8
        prefix = write(tmp_path / "model", bytes(changed[: len(index)]), bytes(changed[len(index) :]))
        try:
            assert values(prefix) == expected, f"bit {position} changes a value"
            harmless += 1
        except (ConversionError, Unsupported) as error:
            unnamed += "values.index" not in str(error) and "values.data-00000-of-00001" not in str(error)
    assert not unnamed
    assert harmless < 8 * 48  # the footer has bytes that nothing reads


def test_the_tensor_is_named(sound: Path, tmp_path: Path) -> None:
    data = bytearray(sound.with_name("values.data-00000-of-00001").read_bytes())
    data[100] ^= 4
    prefix = write(tmp_path / "model", sound.with_name("values.index").read_bytes(), bytes(data))
    with pytest.raises(Unsupported, match=r"values.data-00000-of-00001 is damaged: table does not have its checksum"):
        Checkpoint(str(prefix)).read("table")


def sliced(dims: Sequence[int], places: Sequence[Sequence[tuple[int, int]]]) -> bytes:
    made = BundleEntryProto(dtype=FLOAT)
    for size in dims:
        made.shape.dim.add(size=size)
    for place in places:
        extents = made.slices.add().extent
        for start, length in place:
            extents.add(start=start, length=length)
    return bytes(made.SerializeToString())


def _many_blocks(content: bytes) -> bytes:
    return table([content], [(0, len(content) - 5)] * 50_000)


def _block_of_restarts(count: int) -> bytes:
    content = bytes(4 * count) + struct.pack("<I", count) + b"\0"
    return content + struct.pack("<I", masked_crc32c(content))


#: Indexes that are small, and what reading them could cost.
BOMBS: dict[str, Callable[[], bytes]] = {
    "keys that grow": lambda: table([block([HEADER, *((k, b"a", b"") for k in range(200_000))])]),
    "keys that grow many times": lambda: table(
        [block([HEADER, *((k % 60_000, b"%c" % (97 + k // 60_000), b"") for k in range(600_000))])]
    ),
    "a block named again and again": lambda: _many_blocks(block([HEADER, (0, b"a", b"x" * 5000)])),
    "a block without keys named again and again": lambda: _many_blocks(_block_of_restarts(100_000)),
    "many entries": lambda: table([block([HEADER, *((0, b"%07d" % k, b"") for k in range(1_100_000))])]),
    "a shape beyond memory": lambda: table([block([HEADER, (0, b"table", sliced([2**62, 2], [[(0, 1), (0, 1)]]))])]),
    "a shape beyond 64 bits": lambda: table([block([HEADER, (0, b"table", entry(FLOAT, [2**62, 2**62], 0, b""))])]),
    "a part named again and again": lambda: table(
        [block([HEADER, (0, b"table", sliced([2**40], [[(0, 2**20)]] * 2**15))])]
    ),
    "parts that overlap": lambda: table([block([HEADER, (0, b"table", sliced([4], [[(0, 3)], [(2, 1)]]))])]),
    "parts of other ranks": lambda: table([block([HEADER, (0, b"table", sliced([4], [[(0, 4), (0, 1)]]))])]),
    "an endless number": lambda: table([block([HEADER, (0, b"table", b"")])])[:-48] + b"\xff" * 40 + bytes(8),
}

_PROGRAM = """
import json, resource, signal, sys
from onnx_sparse.converters.tensorflow.reading.checkpoint import Checkpoint
from onnx_sparse.converters.errors import ConversionError, Unsupported
resource.setrlimit(resource.RLIMIT_AS, (%d, %d))
outcomes = {}
for name, prefix in json.load(sys.stdin).items():
    signal.setitimer(signal.ITIMER_PROF, %d)  # of the processor's time: the machine may be busy
    try:
        Checkpoint(prefix).read("table")
        outcomes[name] = "read"
    except (ConversionError, Unsupported) as error:
        outcomes[name] = f"refused: {error}"
    except BaseException as error:
        outcomes[name] = f"{type(error).__name__}: {error}"
print(json.dumps(outcomes))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_bombs(tmp_path: Path) -> None:
    prefixes = {name: str(write(tmp_path / name, make())) for name, make in BOMBS.items()}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM % (_MOST_MEMORY, _MOST_MEMORY, _SECONDS)],
        input=json.dumps(prefixes), capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert {name: text for name, text in outcomes.items() if not text.startswith("refused: ")} == {}
    assert max(map(len, outcomes.values())) < 500


def _partitions(random: np.random.Generator) -> Iterator[list[list[tuple[int, int]]]]:
    for _ in range(20):
        cuts = [np.sort(random.choice(np.arange(1, 6), random.integers(0, 4), replace=False)) for _ in range(2)]
        bounds = [[0, *map(int, each), 6] for each in cuts]
        yield [
            [(a, b - a), (c, d - c)]
            for a, b in zip(bounds[0], bounds[0][1:], strict=False)
            for c, d in zip(bounds[1], bounds[1][1:], strict=False)
        ]


def test_drawn_partitions_are_parts_of_a_tensor() -> None:
    random = np.random.default_rng(0)
    for places in _partitions(random):
        parts = [[(bound, False) for bound in place] for place in places]
        checkpoint_reader._require_partition(parts, (6, 6), "table")
        broken = [list(part) for part in parts]
        (start, length), _ = broken[-1][1]
        broken[-1][1] = ((start, length + int(random.choice([-1, 1]))), False)
        for wrong in (broken, parts[1:], [*parts, parts[0]]):
            with pytest.raises(Unsupported, match="the parts of table"):
                checkpoint_reader._require_partition(wrong, (6, 6), "table")
