"""Keyed tables: the same positions and the same bytes on every backend, whatever the keys and the index hold."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from contract.backends import BACKENDS, REPORTING, Call, PlainSession, fed
from contract.keyed_tables import index_of, joined
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse import KernelError, keyed_tables
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import element_type

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]

each_backend = pytest.mark.parametrize("backend", REPORTING)
SIZES = (0, 1, 2, 11, 12, 13, 100, 1000, 4095, 4096, 10**4, 10**5)


def seeds(few: int, many: int) -> list[Any]:
    """Many seeds, most of them for the slow tests, and of these one of five by day."""
    rare = (pytest.mark.slow, pytest.mark.one_of(5))
    return [*range(few), *(pytest.param(seed, marks=rare) for seed in range(few, many))]


def run(backend: str, op: str, inputs: Inputs) -> Array:
    types = {"T": 0}
    if "keys" in inputs:
        types = {"T": {"int32": 6, "int64": 7, "uint64": 13}[inputs["keys"].dtype.name]}
    (output,) = BACKENDS[backend](Call.of(OPS[op], types if OPS[op].types else {}, {}, inputs), inputs)
    return output


def random_keys(random: np.random.Generator, dtype: str, count: int) -> Array:
    """Integers, none of them twice: neighbors, multiples, or of all bits; the ends of the type are among them."""
    info = np.iinfo(dtype)
    step = int(random.choice([1, 16, 4096, 2**20 if info.bits == 32 else 2**44]))
    near = (int(random.integers(info.min // 2, info.max // 2)) + np.arange(count) * step).astype(dtype)
    drawn = random.integers(info.min, info.max, count, dtype, endpoint=True)
    keys = np.unique([near, drawn][random.integers(2)])
    keys[:1], keys[-1:] = info.min, info.max
    return random.permutation(np.unique(keys))


def random_texts(random: np.random.Generator, count: int) -> list[bytes]:
    """Bytes of any value, none of them twice; the empty text and zero bytes are among them."""
    lengths = random.choice([0, 1, 2, 4, 9, 17, 40, 65, 100], count)
    texts = {random.bytes(int(length)) for length in lengths} | {b"", b"\0", b"\0\0", b"\xff"}
    ordered = sorted(texts)
    return [ordered[k] for k in random.permutation(len(ordered))[:count]]


def lookup(op: str, queries: Array, **constants: Array) -> ModelProto:
    """A model with one node whose keys are initializers."""
    declared = OPS[op]
    names = [i.name if i.name in constants or i.name == "queries" else "" for i in declared.inputs]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["positions"], domain=onnx_sparse.DOMAIN)],
        "lookup",
        [helper.make_tensor_value_info("queries", element_type(queries.dtype), [None])],
        [helper.make_tensor_value_info("positions", TensorProto.INT64, [None])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(onnx_sparse.DOMAIN, 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


@pytest.mark.parametrize("seed", seeds(24, 150))
def test_random_integers_are_found_on_every_backend(seed: int) -> None:
    random = np.random.default_rng(seed)
    dtype = ("int32", "int64", "uint64")[seed % 3]
    keys = random_keys(random, dtype, SIZES[seed % len(SIZES)])
    index = run("ORT native", "IndexKeys", {"keys": keys})
    assert index.tobytes() == run("reference", "IndexKeys", {"keys": keys}).tobytes()
    queries = np.concatenate([random.permutation(keys)[:3000], random_keys(random, dtype, 1000)]).astype(dtype)
    position_of = {key: position for position, key in enumerate(keys.tolist())}
    expected = [position_of.get(query, -1) for query in queries.tolist()]
    for backend in BACKENDS:
        for given in (index, index[:0]):
            inputs = {"keys": keys, "index": given, "queries": queries}
            assert run(backend, "FindKeys", inputs).tolist() == expected, (backend, len(given))
    plain = onnx_sparse.lower(lookup("FindKeys", queries, keys=keys, index=index))
    assert len(keys) == 0 or [n.op_type for n in plain.graph.node if n.op_type != "Cast"] == ["LabelEncoder"]
    assert not plain.graph.initializer
    assert PlainSession(plain).run(None, {"queries": queries})[0].tolist() == expected


@pytest.mark.parametrize("seed", seeds(12, 50))
def test_random_texts_are_found_on_every_backend(seed: int) -> None:
    random = np.random.default_rng(seed)
    texts = random_texts(random, SIZES[seed % len(SIZES)] // 4)
    keys = joined(texts)
    index = run("ORT native", "IndexStrings", keys)
    assert index.tobytes() == run("reference", "IndexStrings", keys).tobytes()
    keyed_tables.require_index(index, *keys.values())
    # Sessions in Python take only text, or bytes of one length.
    length = 9
    asked = [text for text in texts if len(text) == length][:500] + [random.bytes(length) for _ in range(100)]
    position_of = {text: position for position, text in enumerate(texts)}
    expected = [position_of.get(query, -1) for query in asked]
    for backend in ("reference", "ORT native"):
        for given in (index, index[:0]):
            inputs = {**keys, "index": given, "queries": np.array([*asked, b""], object)[:-1]}
            assert run(backend, "FindStrings", inputs).tolist() == expected, (backend, len(given))
    plain = PlainSession(onnx_sparse.lower(lookup("FindStrings", inputs["queries"], **keys, index=index)))
    assert plain.run(None, {"queries": fed(inputs["queries"])})[0].tolist() == expected


@each_backend
def test_the_first_of_equal_keys_is_found(backend: str) -> None:
    """By an index that somebody else has built: IndexKeys refuses such keys."""
    keys = np.array([5, 9, 5, 5, 9])
    inputs = {"keys": keys, "index": index_of(keys), "queries": np.array([9, 5, 1])}
    assert run(backend, "FindKeys", inputs).tolist() == [1, 0, -1]


@each_backend
@pytest.mark.parametrize("op", ["IndexKeys", "FindKeys"])
def test_keys_that_are_there_twice_are_refused(op: str, backend: str) -> None:
    keys = np.arange(5000) * 3
    keys[[4000, 30, 4999]] = keys[[7, 2500, 7]]
    inputs = {"keys": keys} | ({"queries": keys[:1]} if op == "FindKeys" else {})
    with pytest.raises(KernelError, match=rf"{op}: keys\[2500\] = 7500 is also keys\[30\]$"):
        run(backend, op, inputs)


@each_backend
@pytest.mark.parametrize("op", ["IndexStrings", "FindStrings"])
def test_texts_that_are_there_twice_are_refused(op: str, backend: str) -> None:
    inputs = joined([b"a", b"b", b"", b"a", b""])
    inputs |= {"queries": np.array(["a"], object)} if op == "FindStrings" else {}
    with pytest.raises(KernelError, match=f"{op}: key 3 = 'a' is also key 0$"):
        run(backend, op, inputs)


@each_backend
def test_a_slot_that_names_no_key_is_refused(backend: str) -> None:
    keys = np.arange(5)
    index = index_of(keys)
    (number,) = (k for k in range(16) if struct.unpack_from("<I", index, 64 + 4 * k)[0] & 7 == 4)
    index[64 + 4 * number] |= 7  # 3 bits of a position: the seventh key
    with pytest.raises(KernelError, match=f"FindKeys: index is damaged: slot {number} names key 6 of 5$"):
        run(backend, "FindKeys", {"keys": keys, "index": index, "queries": keys})


def damaged(random: np.random.Generator, index: Array, count: int) -> Array:
    """An index with other bytes, other slots, other positions in its slots, another header or another end."""
    changed = index.copy()
    slots = changed[64:].view("<u4")
    how = random.integers(6)
    if how == 0:
        changed[random.integers(0, len(changed), 4)] = random.integers(0, 256, 4)
    elif how == 1:
        slots[:] = random.integers(0, 2**32, len(slots))
    elif how == 2:
        slots[slots != 0] ^= random.integers(0, 2 ** count.bit_length(), np.count_nonzero(slots)).astype(np.uint32)
    elif how == 3:
        changed[16:40].view("<u8")[random.integers(3)] = [0, 1, count, 2**40, 2**64 - 1][random.integers(5)]
    elif how == 4:
        slots[random.random(len(slots)) < 0.5] = 2**32 - 1
        changed[32:40].view("<u8")[0] = len(slots) // 16  # searches read all buckets
    return changed[: random.integers(len(changed) + 1)] if how == 5 else changed


@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", range(100))
def test_a_damaged_index_gives_positions_or_an_error_and_the_same_everywhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.choice([0, 1, 5, 12, 13, 300]))
    if seed % 2:
        op, keys = "FindStrings", joined([f"key {number}".encode() for number in range(count)])
        index, asked = keyed_tables.text_index(*keys.values()), [f"key {n}" for n in random.integers(0, 400, 60)]
        queries: Array = np.array(asked, object)
    else:
        op, keys = "FindKeys", {"keys": np.arange(count) * 7}
        index, queries = keyed_tables.key_index(*keys.values()), random.integers(0, 400, 60) * 7
    inputs = {**keys, "index": damaged(random, index, count), "queries": queries}
    answers = []
    for backend in ("reference", "ORT native"):
        try:
            answers.append(run(backend, op, inputs).tolist())
        except KernelError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    assert isinstance(answers[0], str) or set(answers[0]) <= set(range(-1, count))


def resized(index: Array, slots: int, longest: int) -> Array:
    """An index whose header says that it has so many slots, as many as it has then, and so long searches."""
    changed = np.zeros(64 + 4 * slots, np.uint8)
    kept = min(len(index), len(changed))
    changed[:kept] = index[:kept]
    changed[24:40].view("<u8")[:] = slots, longest
    return changed


@each_backend
@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 300])
def test_an_index_has_the_buckets_that_its_keys_need(count: int, backend: str) -> None:
    """A search begins in any of the first count / 12 + 1 buckets, of 16 slots; fewer are outside of the index."""
    random, keys, homes = np.random.default_rng(count), np.arange(count) * 7, count // 12 + 1
    index, queries = keyed_tables.key_index(keys), np.arange(3000)
    sizes = [0, 1, 15, 17, 16 * homes - 1, 16 * homes, 16 * homes + 1, 16 * homes + 16]
    sizes += [16 * (homes - 1), 16 * (homes // 2), *random.integers(0, 20 * homes, 4).tolist()]
    for slots in dict.fromkeys(sizes):
        for longest in {0, 1, slots // 16, slots // 16 + 1, 2**63}:
            inputs = {"keys": keys, "index": resized(index, slots, longest), "queries": queries}
            if slots % 16 == 0 and slots >= 16 * homes and 1 <= longest <= slots // 16:
                assert set(run(backend, "FindKeys", inputs).tolist()) <= set(range(-1, count))
            else:
                said = f"damaged: {slots} slots, and searches of at most {longest} buckets$"
                with pytest.raises(KernelError, match=f"FindKeys: index is {said}"):
                    run(backend, "FindKeys", inputs)


@each_backend
def test_keys_are_compared_even_where_an_index_of_other_keys_names_them(backend: str) -> None:
    """Whole keys: the text that the index was built of begins like the key, and the integer differs in one bit."""
    texts = joined([b"abc"]) | {"index": keyed_tables.text_index(*joined([b"ab"]).values())}
    assert run(backend, "FindStrings", texts | {"queries": np.array(["ab", "abcd"], object)}).tolist() == [-1, -1]
    for key in (2**62, 2**31):
        index = keyed_tables.key_index(np.array([key]))
        inputs = {"keys": np.array([key + 1]), "index": index, "queries": np.array([key, 0])}
        assert run(backend, "FindKeys", inputs).tolist() == [-1, -1]


@each_backend
@pytest.mark.parametrize("offsets", [[0, 3, 2**62], [-9, 3, 5], [3, 0, 5]])
def test_offsets_of_compared_keys_are_checked(offsets: list[int], backend: str) -> None:
    inputs = joined([b"abc", b"de"])
    inputs["index"] = run("reference", "IndexStrings", inputs)
    illegal = inputs | {"key_offsets": np.array(offsets), "queries": np.array(["abc", "de"], object)}
    with pytest.raises(KernelError, match=r"FindStrings: key_offsets\[[01]\] = .* are no part of the 5 bytes$"):
        run(backend, "FindStrings", illegal)


@pytest.mark.parametrize("position", [20, 40, 48, 64, 70])
def test_an_index_of_other_keys_is_told_from_its_checksums(position: int) -> None:
    keys = np.arange(1000)
    index = keyed_tables.key_index(keys)
    keyed_tables.require_index(index, keys)
    index[position] ^= 1
    with pytest.raises(KernelError, match="index "):
        keyed_tables.require_index(index, keys)


def test_an_index_of_replaced_keys_is_told_from_its_checksum() -> None:
    keys = np.arange(1000)
    index = keyed_tables.key_index(keys)
    keys[7] = 5000
    with pytest.raises(KernelError, match=r"other keys: its checksum of the keys is 0x[0-9a-f]+, expected 0x"):
        keyed_tables.require_index(index, keys)


def test_a_lookup_without_keys_is_lowered() -> None:
    queries = np.array([3, 0])
    plain = PlainSession(onnx_sparse.lower(lookup("FindKeys", queries, keys=queries[:0])))
    assert plain.run(None, {"queries": queries})[0].tolist() == [-1, -1]


def test_the_first_of_equal_keys_is_found_after_lowering() -> None:
    queries = np.array([9, 5, 1])
    plain = PlainSession(onnx_sparse.lower(lookup("FindKeys", queries, keys=np.array([5, 9, 5, 9]))))
    assert plain.run(None, {"queries": queries})[0].tolist() == [1, 0, -1]


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"index": np.zeros(0, np.uint8)}, ""),
        ({"keys": np.arange(20000) // 2, "index": np.zeros(0, np.uint8)}, "keys[1] = 0 is also keys[0]"),
        ({"keys": np.arange(20000) * 3}, "index is damaged, or of other keys: its checksum of the keys is 0x"),
        ({"keys": np.arange(19999)}, "index is of 20000 keys; there are 19999"),
    ],
)
def test_check_compares_keys_and_indexes(changed: Inputs, said: str, external: bool, tmp_path: Path) -> None:
    keys = np.arange(20000)
    model = lookup("FindKeys", keys[:1], **{"keys": keys, "index": keyed_tables.key_index(keys), **changed})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=external, location="m.data")
    check = onnx_sparse.check(tmp_path / "m.onnx")
    assert [f.where for f in check.findings] == ["positions"] * bool(said)
    assert all(f.message.startswith(said) for f in check.findings)


def test_check_finds_texts_that_are_duplicates(tmp_path: Path) -> None:
    onnx.save(lookup("FindStrings", np.array(["a"]), **joined([b"b", b"a", b"a"])), tmp_path / "m.onnx")
    errors = [f.message for f in onnx_sparse.check(tmp_path / "m.onnx").findings if f.level == "error"]
    assert errors == ["key 2 = 'a' is also key 1"]


def tables(count: int) -> dict[str, Inputs]:
    """The constants of a lookup by operator and type, with an index of several buckets and searches of two."""
    made = {
        f"FindKeys {dtype}": {"keys": (np.arange(count) * 7919 % 1000003).astype(dtype)}
        for dtype in ("int32", "int64", "uint64")
    }
    made["FindStrings"] = joined([f"key {number}".encode() for number in range(count)])
    indexed = {}
    for name, keys in made.items():
        build = keyed_tables.key_index if len(keys) == 1 else keyed_tables.text_index
        indexed[name] = keys | {"index": build(*keys.values())}
    return indexed


def damages(constants: Inputs) -> dict[str, Inputs]:
    """The constants with one bit of another value in each of their bytes, and with indexes of other lengths."""
    found = {}
    for name, array in constants.items():
        for at in range(array.nbytes):
            changed = array.copy()
            changed.view(np.uint8)[at] ^= 1 << at % 8
            found[f"{name}, byte {at}"] = constants | {name: changed}
    index = constants["index"]
    found |= {f"length {n}": constants | {"index": index[:n]} for n in (1, 63, 64, len(index) - 64, len(index) - 1)}
    longer = np.concatenate([index, np.zeros(64, np.uint8)])
    found["longer"] = constants | {"index": longer.copy()}
    longer[24:32].view("<u8")[0] += 16
    found["longer, and its header says so"] = constants | {"index": longer}
    longest = index.copy()
    longest[32:40].view("<u8")[0] = len(index[64:]) // 64
    if (longest != index).any():
        found["all buckets searched"] = constants | {"index": longest}
    return found


@pytest.mark.parametrize("count", [1, 13, 30])
@pytest.mark.parametrize("table", tables(1))
def test_every_damage_is_found(table: str, count: int) -> None:
    """Of each byte of header, slots, keys and offsets, and of every length."""
    constants = tables(count)[table]
    for changed in damages(constants).values():
        index, *keys = (changed[name] for name in ("index", *(name for name in constants if name != "index")))
        with pytest.raises(KernelError, match=r"^(index|key_offsets)"):
            keyed_tables.require_index(index, *keys)


@pytest.mark.parametrize("table", tables(1))
def test_a_session_that_is_told_so_refuses_every_damage(table: str, monkeypatch: Any) -> None:
    """With the same message on both backends. Many damages are silent otherwise."""
    op = table.split()[0]
    random = np.random.default_rng(len(table))

    def said(constants: Inputs, check: str) -> list[str]:
        monkeypatch.setenv("ONNX_SPARSE_CHECK_INDEX", check)
        model = lookup(op, constants.get("keys", np.array([""], object))[:1], **constants)
        errors = []
        for backend in ("native", "python"):
            try:
                onnx_sparse.InferenceSession(model, backend=backend)
            except KernelError as error:
                errors.append(str(error))
        return errors

    silent = 0
    for count in (0, 1, 13, 300):
        constants = tables(count)[table]
        assert said(constants, "1") == []
        found = damages(constants)
        always = {"longer, and its header says so", "all buckets searched"} & found.keys()
        for name in [*always, *random.permutation(list(found))[:5]]:
            errors = said(found[name], "1")
            assert len(errors) == 2
            assert len(set(errors)) == 1
            assert re.match(
                rf"{op}: index: (index|key_offsets\[).*; copy its file again, or build the index ", errors[0]
            )
            silent += not said(found[name], "0")
    assert silent > 8


@pytest.mark.parametrize("backend", ["native", "python"])
def test_an_index_in_another_file_is_checked(backend: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Also the second of two tables, by its name."""
    constants = tables(20000)["FindKeys int64"]
    model = lookup("FindKeys", constants["keys"], **constants)
    second = lookup("FindKeys", constants["keys"], **constants)
    model = onnx.compose.merge_models(model, onnx.compose.add_prefix(second, "shop."), io_map=[])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data")
    monkeypatch.setenv("ONNX_SPARSE_CHECK_INDEX", "1")
    onnx_sparse.InferenceSession(tmp_path / "m.onnx", backend=backend)
    data = bytearray((tmp_path / "m.data").read_bytes())
    data[-4000] ^= 1
    (tmp_path / "m.data").write_bytes(data)
    with pytest.raises(KernelError, match=r"FindKeys: shop\.index: index is damaged, or of other keys: its checksum"):
        onnx_sparse.InferenceSession(tmp_path / "m.onnx", backend=backend)
    monkeypatch.delenv("ONNX_SPARSE_CHECK_INDEX")
    onnx_sparse.InferenceSession(tmp_path / "m.onnx", backend=backend)
