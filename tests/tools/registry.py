"""What each tool of the ecosystem does with a model: one function for each row of the table in `docs/forms.md`.

A function gets a `Case` and gives the tool the model in the file `case.source`. It returns the file that the tool
wrote, which must then run and give the model's results; or the results in the order of the outputs, where the tool runs
models. Whatever it raises counts as a failure of the tool. Neither onnx_sparse nor a tool is imported before that.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]
Results = Sequence[Array]

FOLDER = Path(__file__).resolve().parent
#: The names of the models.
MODELS = ("demo", "recommender", "by hand")
#: The forms, in the order of the columns.
FORMS = ("domain", "functions", "plain")
#: The environment variable that names the folder with `node_modules` (after `npm install` there).
NODE_FOLDER = "ONNX_SPARSE_NODE_FOLDER"

AFTER_IMPORT = "after `import onnx_sparse`"
WITH_LIBRARY = "with the library registered"


@dataclass(frozen=True)
class Case:
    """A model in one form, for one tool.

    Attributes:
        source: The model's file.
        folder: An empty folder for what the tool writes.
        feeds: Inputs of the model.
        helped: Whether the tool gets the help that its row names.
    """

    source: Path
    folder: Path
    feeds: Feeds
    helped: bool

    @property
    def target(self) -> Path:
        """Where the tool may write its model."""
        return self.folder / "result.onnx"

    def session_options(self) -> Any:
        """ONNX Runtime's session options, with the kernels registered where the tool is helped."""
        import onnxruntime

        if not self.helped:
            return onnxruntime.SessionOptions()
        import onnx_sparse

        return onnx_sparse.session_options()


Run = Callable[[Case], Path | Results]


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: The tool.
        packages: The distributions that it needs; their versions are in the table.
        run: What it does with a model.
        help: What it may need for models with the domain's operators: after these words, cases are tried again.
        tolerance: How far results may be from the model's, as a part of the largest.
    """

    name: str
    packages: Sequence[str]
    run: Run
    help: str
    tolerance: float


ROWS: dict[str, Row] = {}


def tool(name: str, *packages: str, help: str = AFTER_IMPORT, tolerance: float = 1e-5) -> Callable[[Run], Run]:
    """Make a function a row of the table."""

    def register(run: Run) -> Run:
        ROWS[name] = Row(name, packages, run, help, tolerance)
        return run

    return register


@tool("onnx: checker, shape inference, compose, extract_model, inliner, text form", "onnx")
def _onnx(case: Case) -> Path:
    import onnx
    from onnx import compose, inliner, parser, printer, shape_inference, utils

    model = onnx.load(case.source)
    onnx.checker.check_model(model, full_check=True)
    model = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    model = parser.parse_model(printer.to_text(model))
    types = {o.name: (o.type.tensor_type.elem_type, [None] * len(_shape(o))) for o in model.graph.output}
    value = onnx.helper.make_tensor_value_info
    end = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", [f"begin/{name}"], [f"end/{name}"]) for name in types],
        "end",
        [value(f"begin/{name}", *dtype) for name, dtype in types.items()],
        [value(f"end/{name}", *dtype) for name, dtype in types.items()],
    )
    tail = onnx.helper.make_model(end, ir_version=model.ir_version, opset_imports=model.opset_import)
    merged = compose.merge_models(model, tail, [(name, f"begin/{name}") for name in types])
    onnx.save(inliner.inline_local_functions(merged), case.target)
    part = case.folder / "part.onnx"
    utils.extract_model(case.target, part, [i.name for i in merged.graph.input], [f"end/{name}" for name in types])
    return part


def _shape(value: Any) -> Sequence[Any]:
    return value.type.tensor_type.shape.dim  # type: ignore[no-any-return]


@tool("onnx.compose with a prefix", "onnx", help=WITH_LIBRARY)
def _prefix(case: Case) -> Results:
    import onnx
    from onnx import compose

    onnx.save(compose.add_prefix(onnx.load(case.source), "p_"), case.target)
    import onnxruntime

    feeds = {f"p_{name}": value for name, value in case.feeds.items()}
    return onnxruntime.InferenceSession(str(case.target), case.session_options()).run(None, feeds)


@tool("onnx.checker with `check_custom_domain`", "onnx")
def _check_custom_domain(case: Case) -> Path:
    import onnx

    onnx.checker.check_model(onnx.load(case.source), full_check=True, check_custom_domain=True)
    return case.source


@tool("onnx.version_converter, to opset 23", "onnx")
def _version_converter(case: Case) -> Path:
    import onnx
    from onnx import version_converter

    onnx.save(version_converter.convert_version(onnx.load(case.source), 23), case.target)
    return case.target


@tool("onnx.reference.ReferenceEvaluator", "onnx", help="with `new_ops`")
def _reference_evaluator(case: Case) -> Results:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(case.source)
    operators = None
    if case.helped:
        import onnx_sparse

        operators = onnx_sparse.reference_ops()
    return ReferenceEvaluator(model, new_ops=operators).run(None, dict(case.feeds))


@tool("ONNX Runtime's session", "onnxruntime", help=WITH_LIBRARY)
def _session(case: Case) -> Results:
    return _results(case, case.source)


def _results(case: Case, path: Path) -> Results:
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), case.session_options()).run(None, dict(case.feeds))


@tool("ONNX Runtime's optimized model file", "onnxruntime", help=WITH_LIBRARY)
def _optimized_model(case: Case) -> Path:
    import onnxruntime

    options = case.session_options()
    options.optimized_model_filepath = str(case.target)
    onnxruntime.InferenceSession(str(case.source), options)
    return case.target


@tool("ONNX Runtime's ORT format", "onnxruntime", help=WITH_LIBRARY)
def _ort_format(case: Case) -> Results:
    import onnxruntime

    options = case.session_options()
    path = case.folder / "result.ort"
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(case.source), options)
    return _results(case, path)


@tool("symbolic_shape_infer", "onnxruntime", "sympy")
def _symbolic_shape_infer(case: Case) -> Path:
    import onnx
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    onnx.save(SymbolicShapeInference.infer_shapes(onnx.load(case.source), auto_merge=True), case.target)
    return case.target


@tool("quant_pre_process", "onnxruntime", "sympy")
def _quant_pre_process(case: Case) -> Path:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(str(case.source), str(case.target), auto_merge=True)
    return case.target


@tool("quantize_dynamic", "onnxruntime", tolerance=0.1)
def _quantize_dynamic(case: Case) -> Path:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(case.source), str(case.target))
    return case.target


@tool("quantize_static", "onnxruntime", tolerance=0.1)
def _quantize_static(case: Case) -> Path:
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # ONNX Runtime has no types
        def __init__(self) -> None:
            self.batches = [dict(case.feeds)]

        def get_next(self) -> Any:
            return self.batches.pop() if self.batches else None

    quantize_static(str(case.source), str(case.target), Reader())
    return case.target


@tool("float16 conversion (ONNX Runtime's)", "onnxruntime", tolerance=1e-2)
def _float16(case: Case) -> Path:
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(case.source), keep_io_types=True), case.target)
    return case.target


@tool("float16 conversion (onnxconverter-common)", "onnxconverter-common", tolerance=1e-2)
def _float16_of_common(case: Case) -> Path:
    import onnx
    from onnxconverter_common.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(case.source), keep_io_types=True), case.target)
    return case.target


@tool("transformers' optimizer, level 0", "onnxruntime")
def _transformers_optimizer_0(case: Case) -> Path:
    return _transformers_optimizer(case, 0)


@tool("transformers' optimizer, level 1", "onnxruntime", "torch")
def _transformers_optimizer_1(case: Case) -> Path:
    return _transformers_optimizer(case, 1)


def _transformers_optimizer(case: Case, level: int) -> Path:
    from onnxruntime.transformers.optimizer import optimize_model

    optimize_model(str(case.source), opt_level=level).save_model_to_file(str(case.target))
    return case.target


def _rewritten(case: Case, rewrite: Callable[[Any], Any]) -> Path:
    import onnx

    onnx.save(rewrite(onnx.load(case.source)), case.target)
    return case.target


@tool("onnxsim", "onnxsim")
def _onnxsim(case: Case) -> Path:
    import onnx
    from onnxsim import simplify

    simplified, is_checked = simplify(onnx.load(case.source))
    assert is_checked
    onnx.save(simplified, case.target)
    return case.target


@tool("onnxoptimizer", "onnxoptimizer")
def _onnxoptimizer(case: Case) -> Path:
    import onnxoptimizer

    return _rewritten(case, onnxoptimizer.optimize)


@tool("onnxslim", "onnxslim")
def _onnxslim(case: Case) -> Path:
    import onnxslim

    return _rewritten(case, onnxslim.slim)


@tool("onnxscript's optimizer", "onnxscript")
def _onnxscript_optimizer(case: Case) -> Path:
    from onnxscript import optimizer

    return _rewritten(case, optimizer.optimize)


@tool("onnx-ir's passes", "onnx-ir")
def _onnx_ir_passes(case: Case) -> Path:
    import onnx_ir
    from onnx_ir.passes import Sequential, common

    passes = Sequential(
        common.LiftConstantsToInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.DeduplicateInitializersPass(),
        common.RemoveUnusedNodesPass(),
        common.RemoveUnusedFunctionsPass(),
        common.RemoveUnusedOpsetsPass(),
        common.TopologicalSortPass(),
        common.ShapeInferencePass(),
        common.NameFixPass(),
    )
    onnx_ir.save(passes(onnx_ir.load(case.source)).model, case.target)
    return case.target


@tool("ONNX GraphSurgeon", "onnx-graphsurgeon")
def _graph_surgeon(case: Case) -> Path:
    import onnx
    import onnx_graphsurgeon

    graph = onnx_graphsurgeon.import_onnx(onnx.load(case.source))
    onnx.save(onnx_graphsurgeon.export_onnx(graph.cleanup().toposort()), case.target)
    return case.target


@tool("onnxruntime-node", "onnxruntime-node")
def _node(case: Case) -> Results:
    return _in_node(case, "onnxruntime-node")


@tool("onnxruntime-web", "onnxruntime-web")
def _web(case: Case) -> Results:
    return _in_node(case, "onnxruntime-web")


def _in_node(case: Case, package: str) -> Results:
    feeds = {
        name: {"dtype": str(value.dtype), "dims": value.shape, "data": value.reshape(-1).tolist()}
        for name, value in case.feeds.items()
    }
    command = ["node", str(FOLDER / "run_model.mjs"), os.environ[NODE_FOLDER], package, str(case.source)]
    done = subprocess.run(command, input=json.dumps(feeds), capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [np.array(r["data"], r["dtype"]).reshape(r["dims"]) for r in json.loads(done.stdout.splitlines()[-1])]


@tool("OpenVINO", "openvino", help="with [`extensions`](guides/openvino.md#to-openvino)")
def _openvino(case: Case) -> Results:
    import openvino

    core = openvino.Core()
    if case.helped:
        from onnx_sparse.converters.openvino import extensions

        for extension in extensions(case.source):
            core.add_extension(extension)
    compiled = core.compile_model(core.read_model(str(case.source)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(dict(case.feeds))
    return [results[port] for port in compiled.outputs]


@tool("OpenVINO execution provider", "onnxruntime-openvino", help=WITH_LIBRARY)
def _openvino_provider(case: Case) -> Results:
    import onnxruntime

    provider = "OpenVINOExecutionProvider"
    session = onnxruntime.InferenceSession(str(case.source), case.session_options(), [provider])
    assert provider in session.get_providers(), "the execution provider is not there"
    return session.run(None, dict(case.feeds))


@tool("mlflow's pyfunc", "mlflow-skinny")
def _mlflow(case: Case) -> Results:
    import mlflow
    import onnx

    mlflow.onnx.save_model(onnx.load(case.source), str(case.folder / "saved"))
    results = mlflow.pyfunc.load_model(str(case.folder / "saved")).predict(dict(case.feeds))
    return [np.asarray(result) for result in results.values()]
