"""A handler of TensorFlow's operators, and what it works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.reading.operators import operators
from onnx_sparse.converters.writing import reads, registry
from onnx_sparse.converters.writing.reads import Attributes
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import DType, dtype_name


@dataclass(frozen=True)
class Node(reads.Node):
    """A TensorFlow node as its handler sees it: `node["indices"]` is the input that TensorFlow calls `indices`.

    `dtypes` are the element types of its results, by the order of its outputs.
    """

    name: str
    op_type: str
    inputs: Attributes[Tensor]
    attributes: Attributes[Any] = field(default_factory=lambda: Attributes({}))
    dtypes: tuple[DType, ...] = ()

    def __getitem__(self, input_name: str) -> Tensor:
        return self.inputs[input_name]

    def take(self, count: int) -> tuple[Tensor, ...]:
        """All inputs, which must be so many."""
        if len(self.inputs) != count:
            raise Unsupported(f"it has {len(self.inputs)} inputs, {count} expected")
        return tuple(self.inputs[name] for name in self.inputs)

    def all(self, input_name: str) -> list[Tensor]:
        """The tensors of an input that is a list, `"values*"` in the declaration of its handler."""
        return [self.inputs[name] for name in self.inputs if name.rpartition("_")[0] == input_name]


#: numpy's names of the element types that ONNX, and so the page of coverage, calls otherwise.
_OTHER_NAMES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, kw_only=True)
class Handler(registry.Handler):
    """How one TensorFlow operator is converted.

    Attributes:
        inputs: The names of its inputs, in order, where they are not those of the operator in `operators.txt`; one
            that ends in `*` is a list of N tensors.
        dtypes: The element types, where `to` is a standard operator; else those of the domain's operator.
    """

    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.dtypes:  # the domain's operators without a type variable are on int64
            types = tuple(dtype_name(t) for t in OPS[self.to].types.get("T", ()))
            object.__setattr__(self, "dtypes", types or ("int64",))
        object.__setattr__(self, "dtypes", tuple(_OTHER_NAMES.get(name, name) for name in self.dtypes))

    def names(self, count: int) -> list[str]:
        """The names of `count` inputs; tensors of a list are numbered: `values_0`, `values_1`."""
        names = self.inputs or operators()[self.op_type].inputs
        lists = [name for name in names if name.endswith("*")]
        if not lists:
            return list(names)
        each = (count - len(names) + len(lists)) // len(lists)
        numbered = {name: [f"{name.removesuffix('*')}_{k}" for k in range(each)] for name in lists}
        return [given for name in names for given in numbered.get(name, [name])]
