"""tf.raw_ops.DecodeCSV."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.handlers.texts.example_parsing import defaults_of
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.csv_parsing import FIELD_TYPES
from onnx_sparse.schemas.declaration import dtype_name


@handles(
    "DecodeCSV",
    dtypes=tuple(map(dtype_name, FIELD_TYPES)),
    notes="errors number the columns of a record, not the outputs",
)
def decode_csv(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator, whose outputs of one type are taken apart."""
    defaults, attributes = node.all("record_defaults"), node.attributes
    delimiter = attributes["field_delim"]
    if len(delimiter) != 1:
        raise Unsupported(f"field_delim = {delimiter!r} has {len(delimiter)} bytes; 1 expected")
    for f, default in enumerate(defaults):
        if default.rank > 1 or default.shape not in ((), (0,), (1,)):
            raise Unsupported(
                f"record_defaults[{f}] is {default}; a scalar, or a vector of no or one element, expected"
            )
    required = [default.shape == (0,) for default in defaults]
    given = {
        f"{dtype_name(dtype)}_defaults": defaults_of(
            [default for default in defaults if default.dtype == dtype and default.shape != (0,)], dtype, emit
        )
        for dtype in FIELD_TYPES
    }
    values = emit.domain_op(
        "DecodeCSV",
        {
            "records": node["records"],
            "types": emit.constant(np.array([default.dtype for default in defaults], np.int64)),
            "required": emit.constant(np.array(required, bool)),
            **given,
            "delimiter": emit.constant(np.array(delimiter, object), TensorProto.STRING),
            "na_value": emit.constant(np.array(attributes["na_value"], object), TensorProto.STRING),
            "columns": emit.constant(np.array(attributes["select_cols"], np.int64)),
        },
        {"quoting": "MINIMAL" if attributes["use_quote_delim"] else "NONE"},
    )
    of_type = dict(zip(FIELD_TYPES, values, strict=True))
    places = dict.fromkeys(FIELD_TYPES, 0)
    fields = []
    for default in defaults:
        fields.append(emit.op("Gather", of_type[default.dtype], emit.constant(places[default.dtype]), axis=0))
        places[default.dtype] += 1
    return tuple(fields)
