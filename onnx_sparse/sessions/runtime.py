"""ONNX Runtime sessions with the domain: registering a backend's kernels, and a session class that raises errors."""

from __future__ import annotations

import errno
import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto
from onnx.external_data_helper import uses_external_data

from onnx_sparse.installation import reinstall_command
from onnx_sparse.models.domain_nodes import refuse_illegal_attributes, refuse_later_opset
from onnx_sparse.models.graphs import all_tensors
from onnx_sparse.models.inlining import calls_domain_in_functions, has_renamed_bodies, without_calls_of_functions
from onnx_sparse.models.large_models import detach_large_tensors
from onnx_sparse.models.model_files import (
    imported_opsets,
    is_ort_format,
    is_read_by_libraries,
    local_functions,
    model_of,
    parsed_model,
    read_model,
)
from onnx_sparse.native.errors import kernel_error_message, raise_kernel_error
from onnx_sparse.native.location import library_path
from onnx_sparse.python.guard import Run
from onnx_sparse.python.passed_text import require_text
from onnx_sparse.sessions import bfloat16, display, pending_callbacks, string_values
from onnx_sparse.sessions.onnxruntime_packages import installation_problem
from onnx_sparse.sessions.random_access import data_files, expect_random_reads
from onnx_sparse.sessions.start_errors import FOLDER_ENTRY, NO_FOLDER, config_entry, errors_explained

if _problem := installation_problem():
    if not hasattr(ort, "InferenceSession"):
        raise ImportError(_problem)
    warnings.warn(_problem, stacklevel=2)

from onnxruntime.capi.onnxruntime_pybind11_state import NoSuchFile  # not of half an installation

if TYPE_CHECKING:
    import onnx_ir

Array = np.ndarray[Any, Any]
_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The backends that `backend=` takes besides "auto".
BACKENDS = ("native", "python")

#: What is said where no native library is there.
SLOW_KERNELS = (
    "this installation has no native kernels, and the Python kernels are many times slower. Install a C++17 compiler, "
    f"then run: {reinstall_command()}"
)

#: The entry of session options that says which backend they hold; ONNX Runtime ignores entries it does not know.
_BACKEND_ENTRY = "onnx_sparse.backend"
#: The entry that says that they hold the tensors of a large model, which ONNX Runtime then requires of every model.
_TENSORS_ENTRY = "onnx_sparse.tensors"
#: The entry that says that the folder of external data is of this class, not of the caller.
_OUR_FOLDER_ENTRY = "onnx_sparse.folder"


def get_library_path() -> str:
    """The path of the native kernels' shared library, for `register_custom_ops_library` in any language.

    Raises:
        FileNotFoundError: This installation has no native library.
    """
    path = library_path()
    if path is None:
        raise FileNotFoundError(
            "this installation of onnx_sparse has no native library; use the Python kernels: backend='python'"
        )
    return str(path)


def available_backends() -> tuple[str, ...]:
    """The backends that this installation has, best first."""
    try:
        get_library_path()
    except FileNotFoundError:
        return ("python",)
    return BACKENDS


def register(session_options: ort.SessionOptions, backend: str = "auto") -> None:
    """Make a backend's kernels known to sessions made with these options.

    For the Python backend this registers the library of onnxruntime-extensions, including its own operators; do not
    register that library a second time. In a plain `onnxruntime.InferenceSession`, an error of a Python kernel ends the
    process with its message; `onnx_sparse.InferenceSession` raises it.

    Args:
        session_options: The options; registering again does nothing.
        backend: "auto" (native where there is a native library, else Python), "native" or "python".

    Raises:
        ValueError: `backend` is none of these, or the options already hold another backend.
        FileNotFoundError: The native backend is asked for and not installed.
    """
    wanted = _resolve(backend)
    held = config_entry(session_options, _BACKEND_ENTRY)
    if held == wanted or (held and backend == "auto"):
        return
    if held:
        raise ValueError(f"these session options already hold the {held} backend; use new ones for {wanted}")
    if wanted == "native":
        session_options.register_custom_ops_library(get_library_path())
    else:
        from onnxruntime_extensions import get_library_path as extensions_library_path

        from onnx_sparse.python.kernels import declare

        declare()
        session_options.register_custom_ops_library(extensions_library_path())
    session_options.add_session_config_entry(_BACKEND_ENTRY, wanted)


def session_options(backend: str = "auto") -> ort.SessionOptions:
    """New session options with a backend registered; see `register`."""
    options = ort.SessionOptions()
    register(options, backend)
    return options


def _raises_kernel_errors(run: Callable[_P, _T]) -> Callable[_P, _T]:
    """A run that raises the error of a kernel instead of the one that ONNX Runtime makes of it.

    Not a context manager: entering one takes 1.6 us, of the 5 of a small run.
    """

    @wraps(run)
    def raising(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return run(*args, **kwargs)
        except Exception as error:
            raise_kernel_error(error)
            raise

    return raising


class NoModelFileError(FileNotFoundError, NoSuchFile):  # type: ignore[misc]  # ONNX Runtime has no types
    """There is no such model file. Also the error of ONNX Runtime, which is no FileNotFoundError."""


class InferenceSession(ort.InferenceSession):  # type: ignore[misc]  # ONNX Runtime has no types
    """An `onnxruntime.InferenceSession` that runs the domain's operators and raises their errors.

    With the Python backend the model is first rewritten in memory: it is brought to canonical form, functions that call
    the domain's operators are inlined, and its nodes are moved to a domain in which errors can be caught and half
    floats run. The file is not changed.

    A session that was made from a path or bytes, without `sess_options`, can be pickled and copied: it is opened again,
    from the same path or bytes.

    Args:
        model: A path, the bytes of a model, a ModelProto, or an onnx_ir.Model.
        sess_options: Session options; the backend is registered with them.
        providers: As ONNX Runtime's.
        provider_options: As ONNX Runtime's.
        path_or_bytes: The model, by ONNX Runtime's name of the argument.
        backend: "auto", "native" or "python"; see `onnx_sparse.register`.
        random_access: For a model file with external tables that are larger than memory: each row is read alone,
            without its neighborhood. Has an effect on Linux only.
        kwargs: As ONNX Runtime's.

    Raises:
        ValueError: There is no such backend, or the options hold another backend or another session's tensors; the
            model is of a later opset of the domain, or in memory without its external data; `random_access` is set
            for a model without external tables. With the Python backend also: it is not an ONNX model, its
            nodes cannot be brought to canonical form, or one of its operators has no Python kernels.
        FileNotFoundError: No such model file, or the native backend is not installed.
        onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph: ONNX Runtime refuses the model.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | ModelProto | onnx_ir.Model | None = None,
        sess_options: ort.SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        path_or_bytes: str | os.PathLike[str] | bytes | None = None,
        backend: str = "auto",
        random_access: bool = False,
        **kwargs: Any,
    ) -> None:
        if model is not None and path_or_bytes is not None:
            raise TypeError("InferenceSession takes one model; both model and path_or_bytes are given")
        model = path_or_bytes if model is None else model
        kwargs |= {} if provider_options is None else {"provider_options": provider_options}
        self._opened_with: tuple[Any, ...] | None = None
        given: Any = model if isinstance(model, (str, os.PathLike, bytes)) else model_of(cast(Any, model))
        if sess_options is None and not isinstance(given, ModelProto):
            origin = given if isinstance(given, bytes) else os.path.abspath(given)
            self._opened_with = (origin, providers, {"backend": backend, "random_access": random_access, **kwargs})
        files: set[Path] = set()
        if random_access:
            if not isinstance(given, (str, os.PathLike)):
                raise ValueError("random_access needs tables in a file next to the model: pass the model's path")
            files = data_files(given)
        options = ort.SessionOptions() if sess_options is None else sess_options
        if config_entry(options, _TENSORS_ENTRY):
            raise ValueError("these session options hold the tensors of a large model; another session needs new ones")
        register(options, backend)
        self._backend = config_entry(options, _BACKEND_ENTRY)
        is_native = self._backend == "native"
        source = _source(given, options, is_native=is_native)
        tensors: dict[str, Any] = {}
        if isinstance(source, ModelProto):
            source, tensors = detach_large_tensors(source)
            if is_native and has_renamed_bodies(source.functions):
                source = without_calls_of_functions(source)
        self._initializers = {name: bfloat16.to_ort_value(array) for name, array in tensors.items()}
        if tensors:
            # The first is what the optimizer reads and ONNX Runtime copies, the second saves the session from the copy.
            options.add_external_initializers(list(self._initializers), list(self._initializers.values()))
            for name, value in self._initializers.items():
                options.add_initializer(name, value)
            options.add_session_config_entry(_TENSORS_ENTRY, "held")
        self._run_input = ""
        serialized = source
        if isinstance(source, ModelProto):
            if is_native:
                refuse_illegal_attributes(source)
            else:
                from onnx_sparse.python.guarded_model import guarded_model

                source, self._run_input = guarded_model(source)
            serialized = source.SerializeToString()
        with errors_explained(options):
            try:
                super().__init__(serialized, options, providers, **kwargs)
            except Exception as error:
                raise_kernel_error(error)
                flat = _without_functions(source, options) if is_native else None
                if flat is None:
                    raise
                super().__init__(flat.SerializeToString(), options, providers, **kwargs)
        self._has_bfloat16 = bfloat16.needs_conversion(self)
        self._string_inputs = string_values.string_inputs(self)
        self._converts = self._has_bfloat16 or bool(self._string_inputs) or string_values.has_string_outputs(self)
        expect_random_reads(files)

    def __repr__(self) -> str:
        return display.session_text(self, self._backend)

    def _repr_html_(self) -> str:
        return display.session_html(self, self._backend)

    def __reduce__(self) -> Any:
        if self._opened_with is None:
            raise TypeError(
                "this session cannot be pickled or copied, because it keeps no ModelProto and cannot copy session "
                "options: make it from a path or bytes and without session options, or make it where it is needed"
            )
        return _opened_again, (type(self), *self._opened_with)

    def get_inputs(self) -> Sequence[Any]:
        """As ONNX Runtime's."""
        return [i for i in super().get_inputs() if i.name != self._run_input]

    def get_input_memory_infos(self) -> Sequence[Any]:
        """As ONNX Runtime's."""
        return list(super().get_input_memory_infos())[: len(self.get_inputs())]

    def get_input_epdevices(self) -> Sequence[Any]:
        """As ONNX Runtime's."""
        return list(super().get_input_epdevices())[: len(self.get_inputs())]

    @_raises_kernel_errors
    def run(self, output_names: Sequence[str] | None, input_feed: Any, run_options: Any = None) -> Any:
        """As ONNX Runtime's, with bfloat16 arrays of ml_dtypes, and strings of any bytes.

        Strings are text or bytes. An output with a string that is not UTF-8 is an array of bytes objects.

        Raises:
            KernelError: The input violates an operator's semantics.
        """
        if self._converts:
            return self._run_converted(output_names, self._with_text(input_feed), run_options)
        return self._run_arrays(output_names, input_feed, run_options)

    def _run_arrays(self, output_names: Sequence[str] | None, input_feed: Any, run_options: Any) -> Any:
        if self._run_input:
            with self._run(run_options) as (options, number):
                return super().run(output_names, {**input_feed, self._run_input: number}, options)
        return super().run(output_names, input_feed, run_options)

    def _with_text(self, input_feed: Any) -> dict[str, Any]:
        """The feed with bytes as text, where they are UTF-8."""
        feed = {name: string_values.as_text(v) if name in self._string_inputs else v for name, v in input_feed.items()}
        if self._run_input:
            for name in self._string_inputs & feed.keys():
                require_text(name, string_values.strings_of(feed[name]))
        return feed

    def _run_converted(self, output_names: Sequence[str] | None, feed: dict[str, Any], run_options: Any) -> Any:
        """A run with values that ONNX Runtime's Python binding does not take or give."""
        if not self._has_bfloat16 and all(map(string_values.is_text, feed.values())):
            try:
                return self._run_arrays(output_names, feed, run_options)
            except UnicodeError:  # text with a surrogate, or an output that is not UTF-8
                if self._run_input:
                    raise
        names = output_names or [output.name for output in self.get_outputs()]
        values = {name: bfloat16.to_ort_value(value) for name, value in feed.items()}
        return [array_of_value(value) for value in self.run_with_ort_values(names, values, run_options)]

    @_raises_kernel_errors
    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> Any:
        """As ONNX Runtime's; raises as `run`."""
        if self._run_input:
            with self._run(run_options) as (options, number):
                feed = {**input_dict_ort_values, self._run_input: bfloat16.to_ort_value(number)}
                return super().run_with_ort_values(output_names, feed, options)
        return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)

    @_raises_kernel_errors
    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """As ONNX Runtime's; raises as `run`."""
        if self._run_input:
            with self._run(run_options) as (options, number):
                value = bfloat16.to_ort_value(number)
                iobinding.bind_ortvalue_input(self._run_input, value)
                super().run_with_iobinding(iobinding, options)
        else:
            super().run_with_iobinding(iobinding, run_options)

    @_raises_kernel_errors
    def run_with_ortvaluevector(
        self, run_options: Any, feed_names: Any, feeds: Any, fetch_names: Any, fetches: Any, fetch_devices: Any
    ) -> None:
        """As ONNX Runtime's; raises as `run`."""
        if self._run_input:
            with self._run(run_options) as (options, number):
                value = bfloat16.to_ort_value(number)
                names, every_feed = [*feed_names, self._run_input], type(feeds)()
                for feed in (*feeds, value._get_c_value()):
                    every_feed.push_back(feed)
                super().run_with_ortvaluevector(options, names, every_feed, fetch_names, fetches, fetch_devices)
        else:
            super().run_with_ortvaluevector(run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Any,
        callback: Callable[[Any, Any, str], Any],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """As ONNX Runtime's; the callback gets a kernel's error as its third argument.

        Python ends only after the callbacks of all runs.
        """
        run = Run(run_options) if self._run_input else None
        number = {self._run_input: np.array(run.number)} if run else {}
        given = self._with_text(input_feed) if self._string_inputs else input_feed
        if self._string_inputs:
            string_values.require_takeable(given)
        feed = [{**given, **number}]  # ONNX Runtime 1.21 does not keep the arrays that it reads

        def finish(results: Any, data: Any, error: str) -> None:
            feed.clear()
            try:
                if run is None:
                    callback(results, data, kernel_error_message(error) or error)
                else:
                    run.end()
                    callback([] if run.error else results, data, run.error_message() or error)
            finally:
                pending_callbacks.remove()

        pending_callbacks.add()
        try:
            if run:
                run.begin()
            super().run_async(output_names, feed[0], finish, user_data, run.options if run else run_options)
        except BaseException:
            pending_callbacks.remove()
            if run:
                run.end()
            raise

    @contextmanager
    def _run(self, options: Any) -> Iterator[tuple[Any, Array]]:
        """A run of Python kernels, whose errors are raised: its options, and its number, which must be fed."""
        run = Run(options)
        with run.raising():
            yield run.options, np.array(run.number)


def array_of_value(value: ort.OrtValue) -> Any:
    """A value as an array: bfloat16 of ml_dtypes, and strings as bytes where one of them is not UTF-8."""
    if value.element_type() == TensorProto.BFLOAT16:
        return bfloat16.to_numpy(value)
    return string_values.to_numpy(value, partial(InferenceSession, backend="native"))


def _opened_again(
    kind: type[InferenceSession], origin: str | bytes, providers: Any, options: dict[str, Any]
) -> InferenceSession:
    return kind(origin, None, providers, **options)


def _resolve(backend: str) -> str:
    if backend == "auto":
        chosen = available_backends()[0]
        if chosen != "native":
            _warn_of_slow_kernels()
        return chosen
    if backend not in BACKENDS:
        raise ValueError(f"backend {backend!r} is not one of auto, {', '.join(BACKENDS)}")
    return backend


@cache
def _warn_of_slow_kernels() -> None:
    """Warn, once in a process; who asks for the Python kernels by name knows."""
    warnings.warn(SLOW_KERNELS, RuntimeWarning, stacklevel=4)


def _source(
    model: str | os.PathLike[str] | bytes | ModelProto, options: ort.SessionOptions, *, is_native: bool
) -> str | bytes | ModelProto:
    """The model in a form that ONNX Runtime loads, after rewriting for Python kernels.

    External data are taken from the folder of the model's file, or from one that the options name.

    Raises:
        ValueError: It is of a later opset of the domain, or in memory without its external data.
    """
    if isinstance(model, (str, os.PathLike)):
        if not os.path.exists(model):
            raise NoModelFileError(errno.ENOENT, os.strerror(errno.ENOENT), str(model))
        if is_native and is_read_by_libraries(model):
            if not os.path.isfile(model):  # a pipe can be read only once
                return os.fspath(model)
            with open(model, "rb") as file:
                refuse_later_opset(imported_opsets(file))
                file.seek(0)
                is_ready = not has_renamed_bodies(local_functions(file))
            if is_ready:
                return os.fspath(model)
        proto = read_model(model)
        refuse_later_opset(proto.opset_import)
        if any(map(uses_external_data, all_tensors(proto))):
            _take_external_data_from(Path(model).absolute().parent, options)
        return proto
    if is_native and isinstance(model, bytes):
        refuse_later_opset(imported_opsets(io.BytesIO(model)))
        is_ready = b"location" not in model and not has_renamed_bodies(local_functions(io.BytesIO(model)))
        if is_ready or is_ort_format(model):
            return model  # no need to parse it
    proto = parsed_model(model) if isinstance(model, bytes) else model
    refuse_later_opset(proto.opset_import)
    external = next(filter(uses_external_data, all_tensors(proto)), None)
    if external is not None and not _callers_folder(options):
        # The options may hold the data, which they do not tell. ONNX Runtime would take what lies in the current
        # directory.
        for entry in (FOLDER_ENTRY, _OUR_FOLDER_ENTRY):
            options.add_session_config_entry(entry, NO_FOLDER)
    return model if is_native and not has_renamed_bodies(proto.functions) else proto


def _callers_folder(options: ort.SessionOptions) -> str:
    """The folder of external data that the caller has named, "" when none."""
    folder = config_entry(options, FOLDER_ENTRY)
    return "" if folder == config_entry(options, _OUR_FOLDER_ENTRY) else folder


def _take_external_data_from(folder: Path, options: ort.SessionOptions) -> None:
    """Tell ONNX Runtime the folder, which it does not know from a model in memory, unless the caller has."""
    if _callers_folder(options) or config_entry(options, FOLDER_ENTRY) == str(folder):
        return  # it complains on stderr about an entry that is set again
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{folder}: ONNX Runtime finds external data only in folders whose names are UTF-8") from None
    for entry in (FOLDER_ENTRY, _OUR_FOLDER_ENTRY):
        options.add_session_config_entry(entry, str(folder))


def _without_functions(source: str | bytes | ModelProto, options: ort.SessionOptions) -> ModelProto | None:
    """The model with the functions inlined that call the domain's operators; None where it has none.

    ONNX Runtime infers no types through calls of such functions: it refuses a call whose outputs have no declared type.
    """
    try:
        model = source if isinstance(source, ModelProto) else _source(source, options, is_native=False)
    except (OSError, ValueError):
        return None
    if not isinstance(model, ModelProto) or not calls_domain_in_functions(model):
        return None
    return without_calls_of_functions(model)
