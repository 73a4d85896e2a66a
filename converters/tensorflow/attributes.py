"""The attributes of TensorFlow's operators that conversion takes into account; a node with another one is refused.

TensorFlow gives operators new attributes from version to version, and a converter that does not know one would drop it.
Attributes without a default, and types, are those without which no handler could do its work; they are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx_sparse.converters.errors import UnsupportedNode
from onnx_sparse.converters.tensorflow.lazy_imports import require

#: Attributes that say how TensorFlow computes, stores or reports, but not what. `x == y` in Python has
#: incompatible_shape_error = False; here shapes that do not fit are an error all the same.
_NO_MATTER = frozenset(
    {"capacity", "container", "grad_a", "grad_b", "grad_x", "grad_y", "incompatible_shape_error", "max_attempts"}
    | {"message", "num_elements"}
    | {"output_shapes", "parallel_iterations", "resize_if_index_out_of_bounds", "seed", "seed2", "shape", "shapes"}
    | {"shared_name", "sparse_gradient", "summarize", "timeout_ms", "use_cudnn_on_gpu", "use_inter_op_parallelism"}
    | {"use_node_name_sharing", "validate_indices", "validate_shape"}
)

#: Attributes that are converted by every handler of an operator that has them.
_CONVERTED = frozenset(
    {"adj_x", "adj_y", "adjoint", "adjoint_a", "adjoint_b", "align", "align_corners", "alpha", "area_range"}
    | {"aspect_ratio_range", "axis", "bad_indices_policy", "batch_dim", "batch_dims", "begin_mask", "beta", "bias"}
    | {"binary_output", "cell_clip", "clip_boxes", "data_format", "depth_radius", "dilations", "direction", "dropout"}
    | {"ellipsis_mask", "encoding", "end_mask", "epsilon", "exclusive", "explicit_paddings"}
    | {"exponential_avg_factor", "extrapolation_value", "fill", "forget_bias", "half_pixel_centers"}
    | {"include_batch_in_index", "input_mode", "is_training", "keep_dims", "max", "maxlength", "merge_repeated"}
    | {"method", "min", "minlength", "mode", "narrow_range", "new_axis_mask", "num_bits", "pad_per_class"}
    | {"pad_to_max_output_size", "range_given", "reverse", "rnn_mode", "shrink_axis_mask", "signed_input", "sorted"}
    | {"errors", "maxsplit", "replace_control_characters", "replace_global", "replacement_char", "separator"}
    | {"precision", "scientific", "shortest", "skip_empty", "unit"}
    | {"Ncontext_dense", "Ncontext_sparse", "Nfeature_list_dense", "Nfeature_list_sparse"}
    | {"context_dense_shapes", "feature_list_dense_shapes"}
    | {"squeeze_dims", "transpose_a", "transpose_b", "use_peephole", "width"}
)


def every_node(graph_def: Any) -> Iterator[Any]:
    """The nodes of a graph and of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def unknown_attributes(graph_def: Any) -> Iterator[UnsupportedNode]:
    """The nodes of a graph and of its functions with an attribute that would be dropped."""
    registry = require("tensorflow.python.framework.op_def_registry")
    attr_value = require("tensorflow.core.framework.attr_value_pb2").AttrValue
    for node in every_node(graph_def):
        declared = registry.get(node.op)
        for attribute in declared.attr if declared is not None else ():
            name = attribute.name
            if not attribute.HasField("default_value") or name not in node.attr or is_known(attribute):
                continue
            value: Any = node.attr[name]
            default = attr_value.FromString(attribute.default_value.SerializeToString())
            if value != default:
                yield UnsupportedNode(node.name, node.op, f"the attribute {name} = {_text(value)} is not converted")


def is_known(attribute: Any) -> bool:
    """Whether an attribute of an operator's definition is converted with any value, or does not matter."""
    is_type = attribute.type in ("type", "list(type)")
    return is_type or attribute.name in _NO_MATTER or attribute.name in _CONVERTED


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    if kind == "s":
        return repr(value.s.decode("utf-8", "replace"))
    return str(getattr(value, kind)).strip() if kind else "nothing"
