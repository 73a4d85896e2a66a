"""What `convert` is asked for; the options of the sources are in one place, at the top."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from onnx_sparse.settings import FilePath, names, only_python, option, settings_of

_TENSORFLOW: dict[str, Any] = {"sources": ("tensorflow",), "owner": "TensorFlow's models"}
_TORCH: dict[str, Any] = {"sources": ("torch",), "owner": "torch's programs"}
_OPENVINO: dict[str, Any] = {"sources": ("openvino",), "owner": "OpenVINO's IRs"}
_ONNX: dict[str, Any] = {"sources": ("onnx",), "owner": "ONNX files"}
_ASCEND: dict[str, Any] = {"sources": ("ascend",), "owner": "Ascend's graphs", "group": "options for Ascend's graphs"}


def _origins() -> tuple[str, ...]:
    from onnx_sparse.converters.roads.table import roads

    return tuple(roads())


@dataclass(frozen=True)
class AscendFill:
    """What `replay` has, too: values that a dump of Ascend's loses, and that float16 cannot hold."""

    _: KW_ONLY
    fill_value: float | None = field(
        default=None,
        metadata=option(
            "the fill value that the dump lost, an infinity or NaN: --fill-value=-inf", "NUMBER", **_ASCEND
        ),
    )
    fp16_overflow: Literal["saturate", "ieee"] | None = field(
        default=None,
        metadata=option(
            "values beyond float16: saturate to 65504 in every operation (310P, 910A), or become infinite with ieee "
            "(Ascend 950); default: fill values saturate, computed values become infinite (Atlas A2, A3)",
            **_ASCEND,
        ),
    )


@dataclass(frozen=True)
class SourceSettings(AscendFill):
    """The options of the sources that this package converts: each is one of its road."""

    _: KW_ONLY
    signature: str | None = field(
        default=None, metadata=option("the SavedModel's signature (default: serving_default)", **_TENSORFLOW)
    )
    tag: str | None = field(
        default=None, metadata=option("which graph of a SavedModel that has several (default: serve)", **_TENSORFLOW)
    )
    inputs: Sequence[str] | Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "the inputs, in this order; in a GraphDef any tensors. A shape that the model does not have may follow: "
            "A:0[-1,3]",
            "A:0,B:0",
            listed=True,
            parse=names,
            sources=("tensorflow", "ascend"),
            owner="TensorFlow's models",
        ),
    )
    outputs: Sequence[str] | None = field(
        default=None,
        metadata=option("the graph's outputs, for a GraphDef", "C:0", listed=True, parse=names, **_TENSORFLOW),
    )
    lookup_tables: Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "keys and values of a GraphDef's lookup table, by its node: an .npz file with the arrays keys and values, "
            "or text with a key and, after a tab, its value in each line; without a tab, the line's number from 0 on",
            "NAME=FILE",
            flag="--lookup-table",
            **_TENSORFLOW,
        ),
    )
    imports: Sequence[str] = field(
        default=(),
        metadata=option(
            "import a module first: one that defines layers of a Keras model, or registers operators",
            "MODULE",
            flag="--import",
            **_TENSORFLOW,
        ),
    )
    custom_objects: Mapping[str, Any] | None = field(
        default=None,
        metadata=only_python("layers and functions that a Keras file uses and Keras does not know, by name"),
    )
    fuse: bool = field(
        default=False,
        metadata=option(
            "replace patterns of standard nodes in an ONNX file of tf2onnx or torch by our operators", **_ONNX
        ),
    )
    repair_scatter: Sequence[str] = field(
        default=(),
        metadata=option(
            "with --fuse: repair scatters that keep only the last of rows with equal ids, although their source adds "
            "or averages the rows. The reduction is add, mean, mul, max or min. Without this option, a note names each",
            "REDUCTION|NODE=REDUCTION",
        ),
    )
    weights: FilePath | None = field(
        default=None,
        metadata=option(
            "the .bin of an OpenVINO IR (default: the file of the same name next to it)", "FILE.bin", **_OPENVINO
        ),
    )
    run: bool = field(
        default=True,
        metadata=option(
            "write a model of torch without running it. By default, it must load, and agree with torch on the "
            "program's example, with each of its sizes 0, 1 and doubled",
            flag="--no-run",
            **_TORCH,
        ),
    )
    masked_fill: bool = field(
        default=False, metadata=option("let masked_fill of torch become MaskedFill, too", **_TORCH)
    )
    opset_version: int | None = field(
        default=None, metadata=only_python("the opset that torch's programs are written in; see `opset`")
    )
    input_spec: Sequence[str] = field(
        default=(),
        metadata=option(
            "an input's element type and shape, if the file lacks them; write ? for an unknown dimension",
            "NAME:DTYPE:2,3",
            **_ASCEND,
        ),
    )
    tensors: FilePath | None = field(
        default=None,
        metadata=option(
            "the dump's tensors: a folder or a csv file (default: searched for next to the graph)", "PATH", **_ASCEND
        ),
    )
    keep_unknown: bool = field(
        default=False,
        metadata=option(
            "keep unsupported operations as nodes of the domain ascend.atb; a model with such nodes does not run",
            **_ASCEND,
        ),
    )

    def of_source(self, origin: str) -> dict[str, Any]:
        """What the source's own `load` or `convert` is given: what is not the default."""
        found = {
            setting.name: value
            for setting in settings_of(SourceSettings)
            if setting.option is not None and origin in setting.option.sources
            if (value := getattr(self, setting.name)) != setting.default and value is not None
        }
        if origin == "ascend" and self.input_spec:
            found["inputs"] = found.pop("input_spec")
        python = {"tensorflow": "custom_objects", "torch": "opset_version"}.get(origin)
        if python is not None and getattr(self, python) is not None:
            found[python] = getattr(self, python)
        return found


#: Why the forms of a model exclude each other.
_ONE_FORM = "one keeps the domain's operators, the other does not"


@dataclass(frozen=True)
class ConvertSettings(SourceSettings):
    """What `convert` is asked for: the arguments of `onnx_sparse.convert`, and the options of `onnx-sparse convert`."""

    source: Any = field(
        metadata=option(
            "a SavedModel folder, .pb, .pbtxt, .meta, .keras, .h5, .pt2 (torch), .json, .air, .txt (ge_proto), "
            ".xml (OpenVINO) or .onnx",
            "SRC",
            position=True,
            parse=Path,
        )
    )
    output: FilePath | None = field(
        default=None,
        metadata=option(
            "the file to write, or a folder for one named like SRC", "OUT.onnx", short="-o", required=True, parse=str
        ),
    )
    _: KW_ONLY
    origin: str | None = field(
        default=None, metadata=option("what SRC is (default: from its name)", flag="--from", known=_origins)
    )
    check_ids: bool = field(
        default=False,
        metadata=option(
            "let all lookups refuse negative ids, which ONNX counts from the end. By default, lookups refuse them if "
            "TensorFlow or torch does"
        ),
    )
    features: Literal["ragged"] | None = field(
        default=None,
        metadata=option(
            "turn sparse features into values and row splits. If the model uses the positions of values in their "
            "rows, a feature stays sparse, and a note names the node"
        ),
    )
    explain: bool = field(
        default=False,
        metadata=option("list the rules and guards that replaced nodes, and where and why one did not apply"),
    )
    portable: bool = field(
        default=False,
        metadata=option(
            "add a body of standard ONNX for each of our operators, for runtimes that read functions, such as ONNX "
            "Runtime; registered kernels replace the bodies",
            alone=_ONE_FORM,
        ),
    )
    lower: bool = field(
        default=False,
        metadata=option("standard ONNX only: replace our operators by their bodies", alone=_ONE_FORM),
    )
    opset: int | None = field(
        default=None,
        metadata=option(
            "the opset of ai.onnx, from 18 to the newest that ONNX Runtime takes (default: the lowest from 18 on that "
            "the model can have)",
            "N",
        ),
    )
    external_data: bool | None = field(
        default=None,
        metadata=option(
            "put tensors into OUT.onnx.data, which processes share in memory (default: from 16 MiB on)",
            off="--one-file",
            off_help="put tensors into OUT.onnx",
        ),
    )
    leave_tables: bool = field(
        default=False,
        metadata=option(
            "leave tensors of 64 KiB and more in the source's files, which OUT.onnx then needs: they are not copied. "
            "The files must be in the folder of OUT.onnx or below"
        ),
    )
    tables: Literal["float16", "bfloat16", "int8", "int4"] | None = field(
        default=None,
        metadata=option(
            "make the float32 tables of lookups smaller. --verify compares the model with float32 tables, then "
            "reports the difference that smaller tables make"
        ),
    )
    verify: bool = field(
        default=False, metadata=option("run both models on generated inputs; write only if they agree")
    )
    verify_with: Sequence[str] | Mapping[str, Any] = field(
        default=(),
        metadata=option(
            "verify on these inputs, in the forms that `run` takes", "FILE.npz|FILE.json|NAME=FILE|NAME=JSON"
        ),
    )
    feeds: Mapping[str, Any] | None = field(
        default=None, metadata=only_python("the same as a mapping of arrays in `verify_with`")
    )
    report: FilePath | None = field(
        default=None,
        metadata=option(
            "write a page about the conversion: graphs before and after, rules, verification, times", "FILE.html"
        ),
    )
    write_inputs: FilePath | None = field(
        default=None,
        metadata=option(
            "write generated inputs for this model, to edit and to pass to --verify-with or `run`",
            "FILE.json|FILE.npz",
        ),
    )
    progress: Callable[[str], None] | None = field(default=None, metadata=only_python("called with what is being done"))

    @property
    def path(self) -> Path | None:
        """The source's file or folder; None if it is in memory."""
        return Path(self.source) if isinstance(self.source, (str, os.PathLike)) else None

    @property
    def target(self) -> Path | None:
        """The file to write: in a folder, it has the name of the source."""
        if self.output is None:
            return None
        path, name = Path(self.output), os.fspath(self.output)
        if self.path is None or (not path.is_dir() and not name.endswith(("/", os.sep))):
            return path
        named = Path(os.path.realpath(self.path)).name
        return path / f"{named if self.path.is_dir() else Path(named).stem}.onnx"

    @property
    def given(self) -> Sequence[str] | Mapping[str, Any]:
        """The inputs to verify on; empty if they are generated."""
        return self.verify_with or self.feeds or ()

    @property
    def is_verified(self) -> bool:
        """Whether the model is compared with its source."""
        return self.verify or bool(self.given)

    def tell(self, stage: str) -> None:
        """Say what is being done."""
        if self.progress is not None:
            self.progress(stage)
