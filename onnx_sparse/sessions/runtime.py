"""ONNX Runtime sessions with the domain: registering a backend's kernels, and a session class that raises errors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto

from onnx_sparse.installation import reinstall_command
from onnx_sparse.models.domain_nodes import refuse_illegal_attributes
from onnx_sparse.models.files.large_models import detach_large_tensors
from onnx_sparse.models.files.model_files import model_of
from onnx_sparse.models.tables.constant_keys import require_indexes
from onnx_sparse.models.tools.inlining import has_renamed_bodies, without_calls_of_functions
from onnx_sparse.native.errors import kernel_error_message, raise_kernel_error
from onnx_sparse.native.location import library_path
from onnx_sparse.python.guard import Run
from onnx_sparse.python.installed import python_kernels_problem
from onnx_sparse.python.passed_text import require_text
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.features import Extra
from onnx_sparse.schemas.validation import KernelError
from onnx_sparse.sessions import bfloat16, pending_callbacks, string_values
from onnx_sparse.sessions.binding import Binding
from onnx_sparse.sessions.model_sources import data_folder, session_source, without_functions
from onnx_sparse.sessions.random_access import data_files, expect_random_reads
from onnx_sparse.sessions.start_errors import NO_FOLDER, config_entry, errors_explained
from onnx_sparse.settings import Backend
from onnx_sparse.shown import Shown, Table

if TYPE_CHECKING:
    from onnx_sparse.models.files.model_files import ModelSource
    from onnx_sparse.rows.frame_types import Answer, Frame, LazyFrame

Array = np.ndarray[Any, Any]
_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The backends that `backend=` takes besides "auto".
BACKENDS = ("native", "python")

#: How the native library is had.
_COMPILE = f"Install a C++17 compiler, then run: {reinstall_command()}"
#: What is said where the Python kernels run in its place.
SLOW_KERNELS = f"this installation has no native kernels, and the Python kernels are many times slower. {_COMPILE}"

#: The entry of session options that says which backend they hold; ONNX Runtime ignores entries it does not know.
_BACKEND_ENTRY = "onnx_sparse.backend"
#: The entry that says that they hold the tensors of a large model, which ONNX Runtime then requires of every model.
_TENSORS_ENTRY = "onnx_sparse.tensors"


def get_library_path() -> str:
    """The path of the native kernels' shared library, for `register_custom_ops_library` in any language.

        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(onnx_sparse.get_library_path())

    Raises:
        FileNotFoundError: This installation has no native library.
    """
    path = library_path()
    if path is None:
        way_out = _COMPILE if python_kernels_problem() else "Use the Python kernels: backend='python'"
        raise FileNotFoundError(f"this installation of onnx_sparse has no native library. {way_out}")
    return str(path)


def available_backends() -> tuple[str, ...]:
    """The backends that this installation has, best first."""
    python = () if python_kernels_problem() else ("python",)
    return ("native", *python) if _has_library() else python


def _has_library() -> bool:
    try:
        return library_path() is not None
    except FileNotFoundError:
        return False


def register(session_options: ort.SessionOptions, backend: Backend = "auto") -> None:
    """Make a backend's kernels known to sessions made with these options.

        options = onnxruntime.SessionOptions()
        onnx_sparse.register(options)
        session = onnxruntime.InferenceSession("model.onnx", options)

    For the Python backend this registers the library of onnxruntime-extensions, including its own operators; do not
    register that library a second time. In a plain `onnxruntime.InferenceSession`, an error of a Python kernel ends the
    process with its message; `onnx_sparse.InferenceSession` raises it.

    Args:
        session_options: The options; registering again does nothing.
        backend: "auto" (native where there is a native library, else Python), "native" or "python".

    Raises:
        ValueError: `backend` is none of these, or the options already hold another backend.
        FileNotFoundError: The native backend is asked for and not installed, or neither is.
        ImportError: The Python backend is asked for, and onnxruntime-extensions is not installed.
    """
    if _resolve(backend) == "python" and not config_entry(session_options, _BACKEND_ENTRY):
        from onnx_sparse.python.kernels import declare

        declare(DOMAIN)
    _register(session_options, backend)


def _register(options: ort.SessionOptions, backend: Backend) -> None:
    """As `register`; Python kernels then serve sessions of this class alone, unless others were declared before.

    Kernels that are declared for the domain itself come with onnxruntime-extensions, wherever else in the process its
    library is registered. ONNX Runtime refuses them next to the native ones.
    """
    wanted = _resolve(backend)
    held = config_entry(options, _BACKEND_ENTRY)
    if held == wanted or (held and backend == "auto"):
        return
    if held:
        raise ValueError(f"these session options already hold the {held} backend; use new ones for {wanted}")
    if wanted == "native":
        options.register_custom_ops_library(get_library_path())
    else:
        from onnxruntime_extensions import get_library_path as extensions_library_path

        from onnx_sparse.python.kernels import GUARDED_DOMAIN, declare

        declare(GUARDED_DOMAIN)
        options.register_custom_ops_library(extensions_library_path())
    if not config_entry(options, _BACKEND_ENTRY):  # which the native library sets
        options.add_session_config_entry(_BACKEND_ENTRY, wanted)


def session_options(backend: Backend = "auto") -> ort.SessionOptions:
    """New session options with a backend registered.

        session = onnxruntime.InferenceSession("model.onnx", onnx_sparse.session_options())

    See `register` for the backends and the errors.
    """
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


class InferenceSession(Shown, ort.InferenceSession):  # type: ignore[misc]  # ONNX Runtime has no types
    """An `onnxruntime.InferenceSession` that runs the domain's operators and raises their errors.

        session = onnx_sparse.InferenceSession("model.onnx")
        answers = session.predict({"items": [[0, 1], [], [2]]})

    With the Python backend the model is first rewritten in memory: it is brought to canonical form, functions that call
    the domain's operators are inlined, and its nodes are moved to a domain in which errors can be caught and half
    floats run. The file is not changed.

    A session that was made from a path or bytes, without `sess_options`, can be pickled and copied: it is opened again,
    from the same path or bytes.

    Args:
        path_or_bytes: The path of a model, its bytes, a ModelProto, an onnx_ir.Model, or what a converter returned.
        sess_options: Session options; the backend is registered with them.
        providers: As ONNX Runtime's.
        provider_options: As ONNX Runtime's.
        model: Another name of the first argument.
        backend: "auto", "native" or "python"; see `onnx_sparse.register`.
        random_access: For a model file with external tables that are larger than memory: each row is read alone,
            without its neighborhood. Has an effect on Linux only.
        kwargs: As ONNX Runtime's.

    Results and errors are ONNX Runtime's, with these exceptions:

    - An error of a kernel is a `KernelError`.
    - The error about a missing file is also a FileNotFoundError.
    - Data of a model in memory are not taken from the current directory. The error is also a ValueError.
    - bfloat16 arrays of ml_dtypes, and strings of any bytes, are taken and returned in every version.
    - A file of onnx's text forms, such as `.onnxtxt`, is read, too.
    - With the Python backend, a model with the domain's operators cannot be saved by the session option
      `optimized_model_filepath`, and its inputs are bound with `io_binding()`: a missing input of an
      `onnxruntime.IOBinding` of your own ends the process.

    Raises:
        ValueError: There is no such backend, or the options hold another backend or another session's tensors; the
            model is of a later opset of the domain, or in memory without its external data; `random_access` is set
            for a model without external tables. With the Python backend also: nodes of the domain cannot be brought to
            canonical form, or an operator has no Python kernels.
        TypeError: The model or the session options have another type.
        FileNotFoundError: No such model file, or the native backend is not installed.
        onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph: ONNX Runtime refuses the model.
    """

    def __init__(
        self,
        path_or_bytes: ModelSource | None = None,
        sess_options: ort.SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        model: ModelSource | None = None,
        backend: Backend = "auto",
        random_access: bool = False,
        **kwargs: Any,
    ) -> None:
        if model is not None and path_or_bytes is not None:
            raise TypeError("InferenceSession takes one model; both model and path_or_bytes are given")
        kwargs |= {} if provider_options is None else {"provider_options": provider_options}
        self._opened_with: tuple[Any, ...] | None = None
        given = _given_model(path_or_bytes if model is None else model)
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
        _register(options, backend)
        self._backend = config_entry(options, _BACKEND_ENTRY)
        is_native = self._backend == "native"
        source = session_source(given, is_native=is_native)
        self._folder, self._shares_options = source.folder, sess_options is not None
        ready = self._prepared(source.model, options)
        with errors_explained(options):
            try:
                with data_folder(options, self._folder, is_shared=self._shares_options):
                    super().__init__(ready, options, providers, **kwargs)
            except Exception as error:
                raise_kernel_error(error)
                flat = without_functions(source) if is_native else None
                if flat is None:
                    raise
                self._folder = flat.folder
                with data_folder(options, self._folder, is_shared=self._shares_options):
                    super().__init__(cast(ModelProto, flat.model).SerializeToString(), options, providers, **kwargs)
        self._has_bfloat16 = bfloat16.needs_conversion(self)
        self._string_inputs = string_values.string_inputs(self)
        #: The inputs that a run with Python kernels needs; onnxruntime-extensions ends the process without a value.
        self._needed = [i.name for i in self.get_inputs() if not i.type.startswith("optional")]
        self._converts = self._has_bfloat16 or bool(self._string_inputs) or string_values.has_string_outputs(self)
        expect_random_reads(files)

    def _prepared(self, model: str | bytes | ModelProto, options: ort.SessionOptions) -> str | bytes:
        """The model as ONNX Runtime loads it, whose large tensors are put into the options."""
        self._run_input = ""
        self._initializers: dict[str, ort.OrtValue] = {}
        if not isinstance(model, ModelProto):
            return model
        is_native = self._backend == "native"
        if not is_native:
            require_indexes(model, "" if self._folder == NO_FOLDER else self._folder)
        model, tensors = detach_large_tensors(model)
        if is_native and has_renamed_bodies(model.functions):
            model = without_calls_of_functions(model)
        self._initializers = {name: bfloat16.to_ort_value(array) for name, array in tensors.items()}
        if tensors:
            # The first is what the optimizer reads and ONNX Runtime copies, the second saves the session from the copy.
            options.add_external_initializers(list(self._initializers), list(self._initializers.values()))
            for name, value in self._initializers.items():
                options.add_initializer(name, value)
            options.add_session_config_entry(_TENSORS_ENTRY, "held")
        if is_native:
            refuse_illegal_attributes(model)
        else:
            from onnx_sparse.python.guarded_model import guarded_model

            model, self._run_input = guarded_model(model)
            if self._run_input and options.optimized_model_filepath:
                raise ValueError(
                    f"{options.optimized_model_filepath} would hold the model as it is rewritten for Python kernels, "
                    "which no other session runs: use the native backend to save an optimized model"
                )
        return bytes(model.SerializeToString())

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """As ONNX Runtime's."""
        with data_folder(self._sess_options_initial, self._folder, is_shared=self._shares_options):
            super().set_providers(providers, provider_options)

    @property
    def _title(self) -> str:
        names = (", ".join(value.name for value in values) for values in (self.get_inputs(), self.get_outputs()))
        return f"{' -> '.join(names)}, {self._backend} kernels"

    def _tables(self) -> list[Table]:
        values = {"input": self.get_inputs(), "output": self.get_outputs()}
        rows = [[kind, v.name, v.type, list(v.shape)] for kind, held in values.items() for v in held]
        return [(["", "name", "type", "shape"], rows)]

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

    @overload
    def predict(
        self, rows: Mapping[str, Any], outputs: Sequence[str] | None = None, *, extra: Extra = "ignore"
    ) -> dict[str, np.ndarray[Any, Any]]: ...

    @overload
    def predict(
        self, rows: Sequence[Mapping[str, Any]], outputs: Sequence[str] | None = None, *, extra: Extra = "ignore"
    ) -> list[dict[str, Any]]: ...

    @overload
    def predict(self, rows: Frame, outputs: Sequence[str] | None = None, *, extra: Extra = "ignore") -> Frame: ...

    @overload
    def predict(
        self, rows: LazyFrame[Answer], outputs: Sequence[str] | None = None, *, extra: Extra = "ignore"
    ) -> Answer: ...

    @overload
    def predict(self, rows: Any, outputs: Sequence[str] | None = None, *, extra: Extra = "ignore") -> Any: ...

    def predict(self, rows: Any, outputs: Sequence[str] | None = None, *, extra: Extra = "ignore") -> Any:
        """The answers for rows, in the form in which the rows came.

        Args:
            rows: What `Features.feeds` takes: a mapping of columns by feature, a data frame of pandas or polars, an
                Arrow table, or a list of records.
            outputs: The outputs by name; all when omitted.
            extra: What to do with columns that the model does not know: `"ignore"` them, or raise an `"error"`.

        Returns:
            For a data frame the same kind of frame (a `polars.DataFrame` for a lazy one), for an Arrow table and a
            `datasets.Dataset` a `pyarrow.Table`, for records a list of dicts, else a dict of arrays.

        Raises:
            ValueError: Rows do not fit, as `Features.feeds`; there is no such output; or an output has not one element
                for each row.
            TypeError: The rows are neither columns, a table nor records, or `outputs` is a text.
            KernelError: The rows violate an operator's semantics.
        """
        from onnx_sparse.rows.answers import answers_of, chosen_outputs, require_rows
        from onnx_sparse.rows.model_features import features

        shapes = {output.name: output.shape for output in self.get_outputs()}
        names = chosen_outputs(outputs, list(shapes))
        known = features(self)
        rows = known.rows_in_memory(rows)
        feeds = known.feeds(rows, extra=extra)
        count = max(known.counts(feeds).values(), default=1)
        results = dict(zip(names, self.run(names, feeds), strict=True))
        for name, result in results.items():
            require_rows(name, result, count)
        return answers_of(rows, results, shapes)

    def _run_arrays(self, output_names: Sequence[str] | None, input_feed: Any, run_options: Any) -> Any:
        if self._run_input:
            with self._run(run_options) as (options, number):
                return super().run(output_names, self._fed(input_feed, number), options)
        return super().run(output_names, input_feed, run_options)

    def _fed(self, feed: Any, number: Any) -> dict[str, Any]:
        """The feed of a run with Python kernels."""
        values = dict(zip(feed.keys(), feed.values(), strict=True))
        self._require_inputs(list(values))
        for name, value in values.items():
            _require_value(name, value)
        return values | {self._run_input: number}

    def _require_inputs(self, names: Sequence[str]) -> None:
        missing = [name for name in self._needed if name not in names]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(names)}).")

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
                feed = self._fed(input_dict_ort_values, bfloat16.to_ort_value(number))
                return super().run_with_ort_values(output_names, feed, options)
        return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)

    def io_binding(self) -> ort.IOBinding:
        """As ONNX Runtime's."""
        return Binding(self) if self._run_input else super().io_binding()

    @_raises_kernel_errors
    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """As ONNX Runtime's; raises as `run`."""
        if self._run_input:
            if isinstance(iobinding, Binding):
                self._require_inputs(iobinding.bound_inputs())
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
            self._require_inputs(list(feed_names))
            for name, feed in zip(feed_names, feeds, strict=False):
                _require_value(name, feed)
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
        given = self._with_text(input_feed) if self._string_inputs else input_feed
        if self._string_inputs:
            string_values.require_takeable(given)
        feed = [self._fed(given, np.array(run.number)) if run else given]  # ONNX Runtime 1.21 does not keep the arrays

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
            called = finish if callback is None or callable(callback) else callback  # which ONNX Runtime refuses
            super().run_async(output_names, feed[0], called, user_data, run.options if run else run_options)
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


def _given_model(source: Any) -> str | os.PathLike[str] | bytes | ModelProto:
    """The model that a session is given, parsed unless it is a path or bytes."""
    if isinstance(source, (str, os.PathLike, bytes)):
        return source
    try:
        return model_of(source)
    except TypeError as error:
        raise TypeError(f"Unable to load from type '{type(source)}': {error}") from None


def _require_value(name: str, value: Any) -> None:
    """Refuse what is no value before a Python kernel reads it.

    Raises:
        KernelError: It is None, or an OrtValue that holds nothing.
    """
    if value is None or (hasattr(value, "has_value") and not value.has_value()):
        raise KernelError(f"input {name} has no value")


def _opened_again(
    kind: type[InferenceSession], origin: str | bytes, providers: Any, options: dict[str, Any]
) -> InferenceSession:
    return kind(origin, None, providers, **options)


def _resolve(backend: Backend) -> str:
    if backend not in ("auto", *BACKENDS):
        raise ValueError(f"backend {backend!r} is not one of auto, {', '.join(BACKENDS)}")
    if backend == "native" or (backend == "auto" and _has_library()):
        return "native"
    if problem := python_kernels_problem():
        if _has_library():
            raise ImportError(f"{problem}. Use the native kernels: backend='native'")
        raise FileNotFoundError(f"{problem}, and it has no native kernels. {_COMPILE}")
    if backend == "auto":
        _warn_of_slow_kernels()
    return "python"


@cache
def _warn_of_slow_kernels() -> None:
    """Warn, once in a process; who asks for the Python kernels by name knows."""
    warnings.warn(SLOW_KERNELS, RuntimeWarning, stacklevel=4)
