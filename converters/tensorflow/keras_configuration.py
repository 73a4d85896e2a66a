"""What the configuration in a Keras file may name: parts of Keras, what the caller knows, and what only computes.

Keras 2 calls any function of TensorFlow that a file names, such as one that removes files, with constants of the file,
and reads the files that vocabularies name. What either Keras does with other packages depends on its version, so they
are refused here.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.lazy_imports import require

#: The packages whose classes a configuration may name.
_KERAS = ("keras", "tf_keras")

#: Where Keras finds its functions by name.
_FUNCTIONS = ("activations", "constraints", "initializers", "losses", "metrics", "regularizers")

#: The parts of TensorFlow's interface in which functions only compute.
_COMPUTING = frozenset(
    """
    __operators__ bitwise dtypes image linalg math nn quantization ragged random sets signal sparse strings
    """.split()  # noqa: SIM905
)

#: The functions of TensorFlow that are in none of its parts and only compute.
_COMPUTING_ALONE = frozenset(
    """
    abs acos acosh add add_n argmax argmin argsort as_string asin asinh atan atan2 atanh batch_to_space bitcast
    boolean_mask broadcast_dynamic_shape broadcast_to cast ceil clip_by_global_norm clip_by_norm clip_by_value complex
    concat constant convert_to_tensor cos cosh cross cumprod cumsum depth_to_space diag diag_part div divide
    dynamic_partition dynamic_stitch edit_distance einsum ensure_shape equal erf exp expand_dims expm1 eye fill floor
    floor_div floordiv floormod gather gather_nd greater greater_equal guarantee_const hessians histogram_fixed_width
    identity identity_n is_finite is_inf is_nan less less_equal linspace log log1p log_sigmoid logical_and logical_not
    logical_or logical_xor matmul matrix_transpose maximum meshgrid minimum mod multiply negative no_op norm not_equal
    one_hot ones ones_like pad parallel_stack pow random_uniform range rank realdiv reciprocal reduce_all reduce_any
    reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum repeat reshape reverse reverse_sequence
    roll round rsqrt saturate_cast scalar_mul scatter_nd searchsorted segment_max segment_mean segment_min segment_prod
    segment_sum sequence_mask shape shape_n sigmoid sign sin sinh size slice sort space_to_batch space_to_depth
    sparse_to_dense split sqrt square squeeze stack stop_gradient strided_slice string_split subtract tan tanh
    tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update
    tensordot tile to_float to_int32 to_int64 transpose truediv truncatediv truncatemod unique unique_with_counts
    unravel_index unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod
    unsorted_segment_sqrt_n unsorted_segment_sum unstack where where_v2 zeros zeros_like
    """.split()  # noqa: SIM905
)


def require_known_names(path: Path, keras: Any, custom_objects: Collection[str], operators: Collection[str]) -> None:
    """Refuse a file whose configuration names what is neither part of Keras nor a computation of TensorFlow.

    Args:
        path: A `.keras` or HDF5 file.
        keras: The Keras that will load it.
        custom_objects: The names that the caller has given a meaning.
        operators: The operators of TensorFlow that a layer may consist of.

    Raises:
        ConversionError: There is such a name, or there is no configuration.
    """
    known = {*custom_objects, *keras.utils.get_custom_objects()}
    for entry in _entries(_configuration(path)):
        name = _foreign_name(entry, keras, known, operators)
        if name:
            shown = name[:200] if name.isprintable() else ascii(name[:200])
            raise ConversionError(
                f"{path} cannot be read as a Keras model: {shown} is not part of Keras; name the module that defines "
                "it with --import, or load the model where it is defined and pass it to convert()"
            )


def _configuration(path: Path) -> Any:
    """The configuration of a file's model."""
    try:
        if path.suffix == ".keras":
            with zipfile.ZipFile(path) as archive:
                return json.loads(archive.read("config.json"))
        with require("h5py").File(path) as file:
            return json.loads(file.attrs["model_config"])
    except Exception as error:  # an archive, HDF5 and JSON raise much
        raise ConversionError(f"{path} cannot be read as a Keras model: it has no configuration") from error


def _entries(configuration: Any) -> Iterator[dict[str, Any]]:
    """All dictionaries of a configuration."""
    rest = [configuration]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield value
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)


def _foreign_name(entry: dict[str, Any], keras: Any, known: set[str], operators: Collection[str]) -> str:
    """What a dictionary names that is neither known nor part of Keras; nothing if it names no such thing."""
    kind, config = entry.get("class_name"), entry.get("config")
    inner = config if isinstance(config, dict) else {}
    if isinstance(entry.get("vocabulary"), str) and entry["vocabulary"]:  # a file, which Keras would read
        return str(entry["vocabulary"])
    if "function" in inner and kind != "Lambda" and not _computes(str(inner["function"])):  # Keras knows about Lambda
        return str(inner["function"])
    if "cls_symbol" in inner and inner["cls_symbol"] not in ("RaggedTensor", "SparseTensor"):
        return str(inner["cls_symbol"])
    if "node_def" in inner and _operator(inner["node_def"]) not in operators:
        return str(_operator(inner["node_def"]))
    module, names = entry.get("module"), {str(kind), str(entry.get("registered_name")), str(config)}
    if module is None or names & known or not entry.keys() & {"class_name", "spec_name"}:
        return ""
    if kind == "function":
        is_keras = any(hasattr(getattr(keras, part, None), str(config)) for part in _FUNCTIONS)
        return "" if is_keras and _package(module) in (*_KERAS, "builtins") else f"{module}.{config}"
    name = f"{module}.{entry.get('spec_name', kind)}"
    if "spec_name" in entry:
        return "" if _package(module) == "tensorflow" and name.endswith("TensorSpec") else name
    return "" if _package(module) in _KERAS or _is_of_keras(str(module), str(kind)) else name


def _computes(function: str) -> bool:
    """Whether a name in TensorFlow's interface is one of a function that only computes."""
    parts = re.sub(r"^compat\.v[12]\.", "", function).split(".")
    return parts[0] in _COMPUTING if len(parts) > 1 else parts[0] in _COMPUTING_ALONE


def _operator(node_def: Any) -> Any:
    """The operator of a NodeDef in JSON or text."""
    if isinstance(node_def, dict):
        return node_def.get("op")
    try:
        return json.loads(node_def)["op"]
    except (TypeError, ValueError, KeyError):
        return next(iter(re.findall(r'(?m)^\s*op:\s*"([^"]*)"', str(node_def))), None)


def _package(module: Any) -> str:
    return str(module).partition(".")[0]


def _is_of_keras(module: str, name: str) -> bool:
    """Whether it is a class that is derived from one of Keras, in a module that the caller has imported."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and any(_package(base.__module__) in _KERAS for base in found.__mro__)
