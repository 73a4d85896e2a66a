"""A model that is split, as a session: whoever runs the shards, one class routes, asks and merges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.errors import CommandError
from onnx_sparse.models.files.model_files import read_model
from onnx_sparse.sessions.quiet import quiet_session
from onnx_sparse.sessions.runtime import InferenceSession
from onnx_sparse.settings import Backend, FilePath
from onnx_sparse.sharding.manifest import FRONT, MERGE, SHARD, WHOLE, Manifest, is_split, read_manifest, require_files
from onnx_sparse.sharding.routing import Router

Array = np.ndarray[Any, Any]
#: What a shard is asked: its inputs, and the names of the outputs.
Request = tuple[dict[str, Array], list[str]]
#: Asks shards by their numbers, at once; their outputs by name.
Shards = Callable[[Mapping[int, Request]], Mapping[int, Mapping[str, Array]]]


class Shard:
    """One shard: the session of its model.

    Args:
        folder: The folder of the model that is split.
        number: Which shard.
        threads: The threads of the session; as many as cores when 0.
        backend: As in `onnx_sparse.InferenceSession`.
    """

    def __init__(self, folder: Path, number: int, threads: int = 0, backend: Backend = "auto") -> None:
        require_files(folder, read_manifest(folder), f"shard-{number}")
        path = folder / f"shard-{number}" / SHARD
        self._session = opened(path, threads, backend)
        self._idle = {i.name: np.zeros([0] * len(i.shape), _dtype(i.type)) for i in self._session.get_inputs()}

    def answer(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """The outputs of some inputs; ONNX Runtime wants the others, too."""
        return dict(zip(outputs, self._session.run(outputs, {**self._idle, **feeds}), strict=True))


class SplitModel:
    """A model that is split over shards, which is called as an `onnx_sparse.InferenceSession` is.

    Args:
        folder: The folder that `onnx_sparse.shard` has written.
        ask: Asks the shards.
        threads: The threads of the sessions that compute ids and merge; as many as cores when 0.
        backend: As in `onnx_sparse.InferenceSession`.

    Raises:
        CommandError: There is no such folder, or a model in it does not load.
    """

    def __init__(self, folder: FilePath, ask: Shards, threads: int = 0, backend: Backend = "auto") -> None:
        self.folder = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        require_files(self.folder, self.manifest, "")
        self._ask = ask
        tables = {table.name: table for table in self.manifest.tables}
        self._routers = [Router(lookup, tables[lookup.table]) for lookup in self.manifest.lookups]
        self._front = opened(self.folder / FRONT, threads, backend) if self.manifest.front else None
        self._merge = opened(self.folder / MERGE, threads, backend)
        self._fed = [{i.name for i in s.get_inputs()} if s is not None else set() for s in (self._front, self._merge)]
        self._constants = self.manifest.constant_arrays()
        self._model_path = str(self.folder / WHOLE)  # where `onnx_sparse.features` asks about inputs
        self._graph = read_model(self._model_path).graph
        self._known = {value.name: _numpy_type(value.type) for value in self.get_inputs()}
        self._outputs = [value.name for value in self._graph.output]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """As ONNX Runtime's.

        Raises:
            KernelError: The inputs violate an operator's semantics.
            CommandError: A shard does not answer.
        """
        names = list(output_names or self._outputs)
        feeds = {name: np.asarray(v) if isinstance(v, (list, int, float)) else v for name, v in input_feed.items()}
        self._check(feeds, names)
        values = {**self._constants, **feeds}
        if self._front is not None:
            made = self._front.run(None, {n: v for n, v in feeds.items() if n in self._fed[0]}, run_options)
            values |= dict(zip((o.name for o in self._front.get_outputs()), made, strict=True))
        routes = [router.route(values) for router in self._routers]
        requests: dict[int, Request] = {}
        for router, route in zip(self._routers, routes, strict=True):
            for shard, asked in route.requests.items():
                inputs, outputs = requests.setdefault(shard, ({}, []))
                inputs.update(asked)
                outputs += router.outputs(route)
        answers = self._ask(requests)
        fed = {name: value for name, value in values.items() if name in self._fed[1]}
        for router, route in zip(self._routers, routes, strict=True):
            fed |= router.merged(route, answers)
        merged = [name for name in names if name not in self.manifest.outputs]
        values |= dict(zip(merged, self._merge.run(merged, fed, run_options), strict=True)) if merged else {}
        return [values[name] for name in names]

    def get_inputs(self) -> list[Any]:
        """The inputs of the whole model, with `name`, `type` and `shape`."""
        initialized = {tensor.name for tensor in self._graph.initializer}
        return [_described(value) for value in self._graph.input if value.name not in initialized]

    def get_outputs(self) -> list[Any]:
        """Its outputs likewise."""
        return [_described(value) for value in self._graph.output]

    def get_modelmeta(self) -> Any:
        """Its metadata."""
        return self._merge.get_modelmeta()

    def __reduce__(self) -> Any:
        raise TypeError("a model that is split cannot be pickled: open its folder where it is needed")

    def _check(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> None:
        if missing := self._known.keys() - feeds.keys():
            raise ValueError(f"Required inputs ({sorted(missing)}) are missing from input feed ({list(feeds)}).")
        if unknown := [name for name in outputs if name not in self._outputs]:
            raise ValueError(f"the model has no output {unknown[0]!r}; it has {', '.join(self._outputs)}")
        for name, wanted in self._known.items():
            found = getattr(feeds[name], "dtype", wanted)
            if wanted is not None and found != wanted and found.kind not in "OUSV":
                raise ValueError(f"input {name!r} is {found.name}; the model takes {wanted.name}")


def local_session(folder: FilePath, threads: int = 0, backend: Backend = "auto") -> SplitModel:
    """A model that is split, with all shards in this process, one after the other.

    Raises:
        CommandError: There is no such folder, or a model in it does not load.
    """
    shards = [Shard(Path(folder), n, threads, backend) for n in range(read_manifest(Path(folder)).shards)]
    return SplitModel(
        folder,
        lambda asked: {number: shards[number].answer(*request) for number, request in asked.items()},
        threads,
        backend,
    )


def session_of(path: Path, threads: int = 0, backend: Backend = "auto") -> InferenceSession | SplitModel:
    """A session of a model's file, or of the folder of a model that is split.

    Raises:
        CommandError: It does not load.
    """
    return (local_session if is_split(path) else opened)(path, threads, backend)


def opened(path: Path, threads: int, backend: Backend) -> InferenceSession:
    """A session of a part.

    Raises:
        CommandError: It does not load.
    """
    from onnx_sparse.sessions.ort_errors import ort_message

    try:
        return quiet_session(path, threads, backend)
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        raise CommandError(f"{path} does not load: {ort_message(error)}") from error


def _numpy_type(kind: str) -> Any:
    """The type of the arrays of an input; None for what is no tensor of numbers."""
    return None if kind == "tensor(string)" or not kind.startswith("tensor(") else _dtype(kind)


def _dtype(kind: str) -> Any:
    from onnx_sparse.schemas.declaration import numpy_dtype

    return numpy_dtype(TensorProto.DataType.Value(kind.removeprefix("tensor(").removesuffix(")").upper()))


def _described(value: Any) -> Any:
    tensor = value.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type).lower()
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
    return SimpleNamespace(name=value.name, type=f"tensor({kind})", shape=dims)
