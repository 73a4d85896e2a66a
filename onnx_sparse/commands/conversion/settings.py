"""What `convert` is asked for: what every road has, and the options of each road."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onnx_sparse.converters.roads.road import AnyRoad
from onnx_sparse.converters.roads.table import roads
from onnx_sparse.settings import FilePath, local_path, only_python, option, output_name

if TYPE_CHECKING:  # what type checkers know of `convert`; when it runs, the roads that are there are asked
    from onnx_sparse.converters.ascend import options as ascend
    from onnx_sparse.converters.onnx import road as onnx
    from onnx_sparse.converters.openvino import road as openvino
    from onnx_sparse.converters.tensorflow import road as tensorflow
    from onnx_sparse.converters.torch import road as torch

    class _OptionsOfRoads(tensorflow.Options, torch.Options, onnx.Options, openvino.Options, ascend.Options):
        pass
else:
    _OptionsOfRoads = object


def _origins() -> tuple[str, ...]:
    return tuple(roads())


#: The titles above some options in the help.
VERIFICATION, WRITTEN = "more options for verification", "more options for the written model"

#: Why the forms of a model exclude each other.
_ONE_FORM = "one keeps the domain's operators, the other does not"


@dataclass(frozen=True)
class ConvertSettings(_OptionsOfRoads):
    """What `convert` is asked for: the arguments of `onnx_sparse.convert`, and the options of `onnx-sparse convert`.

    Options that several roads have by one name are one. They are in `extended`.
    """

    source: Any = field(
        metadata=option(
            "a SavedModel folder, .pb, .pbtxt, .meta, .keras, .h5, .pt2 (torch), .json, .air, .txt (ge_proto), "
            ".xml (OpenVINO) or .onnx",
            "SRC",
            position=True,
            parse=local_path,
        )
    )
    output: FilePath | None = field(
        default=None,
        metadata=option(
            "the file to write, or a folder for one named like SRC",
            "OUT.onnx",
            short="-o",
            required=True,
            parse=output_name,
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
            "TensorFlow or torch does",
            group=WRITTEN,
        ),
    )
    features: Literal["ragged"] | None = field(
        default=None,
        metadata=option(
            "turn sparse features into values and row splits. If the model uses the positions of values in their "
            "rows, a feature stays sparse, and a note names the node",
            group=WRITTEN,
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
            group=WRITTEN,
        ),
    )
    external_data: bool | None = field(
        default=None,
        metadata=option(
            "put tensors into OUT.onnx.data, which processes share in memory (default: from 16 MiB on)",
            off="--one-file",
            off_help="put tensors into OUT.onnx",
            group=WRITTEN,
        ),
    )
    leave_tables: bool = field(
        default=False,
        metadata=option(
            "leave tensors of 64 KiB and more in the source's files, which OUT.onnx then needs: they are not copied. "
            "The files must be in the folder of OUT.onnx or below",
            group=WRITTEN,
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
            "verify on these inputs, in the forms that `run` takes",
            "FILE.npz|FILE.json|NAME=FILE|NAME=JSON",
            group=VERIFICATION,
        ),
    )
    atol: float | None = field(
        default=None,
        metadata=option(
            "with --rtol: let floats differ by ATOL + RTOL * abs(expected) in a verification, instead of the rule and "
            "of measured rounding noise",
            group=VERIFICATION,
        ),
    )
    rtol: float | None = field(default=None, metadata=option("see --atol", group=VERIFICATION))
    max_different: int = field(
        default=0,
        metadata=option(
            "let so many elements of an output differ by more in each batch, or differ at all if they are not floats",
            "N",
            group=VERIFICATION,
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
            group=VERIFICATION,
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
    def bounds(self) -> dict[str, Any]:
        """What a verification allows instead of the rule."""
        return {"atol": self.atol, "rtol": self.rtol, "max_different": self.max_different}

    @property
    def is_verified(self) -> bool:
        """Whether the model is compared with its source."""
        return self.verify or bool(self.given)

    def tell(self, stage: str) -> None:
        """Say what is being done."""
        if self.progress is not None:
            self.progress(stage)

    def of_road(self, road: AnyRoad) -> dict[str, Any]:
        """The options of a road that are given: those with another value than the default."""
        return {
            each.name: value for each in fields(road.options) if (value := getattr(self, each.name)) != each.default
        }


@functools.cache
def extended() -> type[ConvertSettings]:
    """The settings with the options of all roads that are there, those of other packages, too."""
    kinds = [road.options for road in roads().values() if fields(road.options)]
    return make_dataclass("ConvertSettings", [], bases=(ConvertSettings, *kinds), frozen=True)
