"""An operator of the domain is whole: what its declaration cannot give it is there, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from contract.backends import EXPECTED_GAPS
from contract.illegal import changes, illegal_attributes
from contract.oracle import ORACLES

from onnx_sparse.converters.openvino.extensions import NOT_EXPRESSIBLE, WRITERS
from onnx_sparse.reference import FUNCTIONS
from onnx_sparse.schemas import FAMILIES, OPS
from onnx_sparse.schemas.cpp_table import kernel_name

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "onnx_sparse" / "native"


def native_sources() -> str:
    return "".join(path.read_text() for path in sorted(NATIVE.rglob("*.cc")))


PLACES: dict[str, Callable[[str], bool]] = {
    "a reference function (onnx_sparse/reference)": lambda name: name in FUNCTIONS,
    "a native kernel (onnx_sparse/native)": lambda name: (
        f"void {kernel_name(OPS[name])}(const Call&" in native_sources()
    ),
    "an oracle (ORACLES of tests/contract/oracle.py)": lambda name: name in ORACLES,
    "a function body, or a reason for having none": lambda name: (
        OPS[name].body is not None
        or (("ORT function body", name, None) in EXPECTED_GAPS and bool(OPS[name].body_notes))
    ),
    "an OpenVINO writer (converters/openvino/extensions), or a reason for having none": lambda name: (
        (name in WRITERS) != (name in NOT_EXPRESSIBLE)
    ),
    "illegal inputs (`Values` in its declaration)": lambda name: bool(
        [*changes(OPS[name]), *illegal_attributes(OPS[name])]
    ),
    "a worked example": lambda name: bool(OPS[name].examples),
    "its page, its row in the list and its entry in the C++ table (python docs/generate.py)": lambda name: (
        (ROOT / "docs" / "operators" / f"{name}.md").exists()
        and f"[{name}]({name}.md)" in (ROOT / "docs" / "operators" / "README.md").read_text("utf-8")
        and f"X({name}, " in (NATIVE / "abi" / "declarations.inc").read_text("utf-8")
    ),
}


@pytest.mark.skipif(not (NATIVE / "abi" / "declarations.inc").exists(), reason="the sources are not here")
def test_every_operator_has_all_its_places() -> None:
    missing = [f"{name} lacks {place}" for name in OPS for place, has in PLACES.items() if not has(name)]
    assert not missing, "\n" + "\n".join(missing)


@pytest.mark.skipif(not (NATIVE / "abi" / "declarations.inc").exists(), reason="the sources are not here")
def test_nothing_is_left_of_an_operator_that_is_gone() -> None:
    def strangers(where: str, names: Iterable[str]) -> list[str]:
        return [f"{where} has {name}, which is not declared" for name in names if name not in OPS]

    left = [
        *strangers("onnx_sparse/reference", FUNCTIONS),
        *strangers("the oracle", ORACLES),
        *strangers("OpenVINO's extensions", [*WRITERS, *NOT_EXPRESSIBLE]),
    ]
    assert not left, "\n" + "\n".join(left)


def test_every_family_has_a_module_of_its_own_in_the_reference() -> None:
    for family in FAMILIES:
        assert (ROOT / "onnx_sparse" / "reference" / f"{family.name}.py").exists() or not NATIVE.exists()
