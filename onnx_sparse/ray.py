"""Models whose tables are split over machines, on a Ray cluster: `pip install 'onnx_sparse[ray]'`.

Ray places an actor for each shard, and starts a lost one again. Ids, rows and sums go to the actors over connections of
their own, without Ray's store.

Ray starts an actor again with its first arguments, whatever has happened since. So the tables are no argument: each
request names its version and folder, and what an update has switched to is kept where everything that starts finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import hmac
import json
import os
import re
import secrets
import select
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.experimental import internal_kv

from onnx_sparse.errors import CommandError, one_line
from onnx_sparse.files.new_file import new_file
from onnx_sparse.files.ranges import BLOCK, Part, damage
from onnx_sparse.scoring.places import errors_of, place_of
from onnx_sparse.settings import Backend, FilePath
from onnx_sparse.sharding.manifest import MANIFEST, Manifest, read_manifest, require_files
from onnx_sparse.sharding.messages import receive, send
from onnx_sparse.sharding.session import Request, Shard, Shards, SplitModel

_NAMESPACE = "onnx_sparse"
#: How many of the last answers tell how long one takes, and how many there must be.
_KNOWN, _FEW = 1000, 50
#: How long an actor is waited for that has other replicas, and until the next try, in seconds.
_OTHERS, _PAUSE = 0.05, 0.01
_INT32 = np.iinfo(np.int32).max
#: How many of the folders are remembered that updates have replaced.
_REPLACED = 1000


@dataclass(frozen=True)
class _Current:
    """What the actors of a model were last updated to, in the store that Ray keeps for the whole cluster.

    Attributes:
        folder: The folder.
        version: Its version.
        replaced: The folders that updates have replaced. Who starts with one of these starts with the current one.
    """

    folder: str
    version: str
    replaced: tuple[str, ...] = ()

    @staticmethod
    def of(secret: str) -> _Current | None:
        """That of the actors with a secret."""
        content = internal_kv._internal_kv_get(secret, namespace=_NAMESPACE)
        return None if content is None else _Current(**json.loads(content))

    def put(self, secret: str, *, replace: bool) -> bool:
        """Make it that of the actors with a secret; returns whether there was one."""
        content = json.dumps(asdict(self))
        return bool(internal_kv._internal_kv_put(secret, content, replace, namespace=_NAMESPACE))

    def after(self, folder: str, version: str) -> _Current:
        """It after an update."""
        replaced = {**dict.fromkeys(self.replaced), self.folder: None}
        return _Current(folder, version, tuple([f for f in replaced if f != folder][-_REPLACED:]))


class _ShardActor:
    """An actor: answers from the rows of a shard, of each version that is asked for."""

    def __init__(self, number: int, *, cache: str, threads: int, backend: Backend, secret: str) -> None:
        self._number, self._threads, self._backend, self._secret = number, threads, backend, secret
        self._cache, self._part = cache, f"shard-{number}"
        self._open: dict[str, Shard] = {}  # the version that was asked for last, and another
        self._last = ""
        self._lock = threading.Lock()
        with contextlib.suppress(Exception):  # which would be final; a call that asks for the version gets it
            if (current := _Current.of(secret)) is not None:
                self._shard(current.folder, current.version)
        self._listener = socket.create_server(("", 0), backlog=128)
        self._address = (ray.util.get_node_ip_address(), self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._address

    def process(self) -> int:
        """The number of its process."""
        return os.getpid()

    def load(self, folder: str, version: str, *, whole: bool = False) -> None:
        """Open the shard of a version, beside the last one.

        Args:
            folder: The folder.
            version: Its version.
            whole: Whether its files are read to their ends and compared with their checksums, also those of a version
                that is open.

        Raises:
            CommandError: The folder has another version, or none, or files that are missing or damaged.
        """
        if whole:
            local = self._found(folder, version, whole=True)
            require_files(local, read_manifest(local), self._part, whole=True)
        self._shard(folder, version)

    def forget(self, version: str) -> None:
        """Close a version to which an update has failed."""
        with self._lock:
            self._open.pop(version, None)

    def _found(self, folder: str, version: str, *, whole: bool = False) -> Path:
        local = fetched(folder, self._cache, self._part, whole=whole)
        if (found := read_manifest(local).version) != version:
            raise CommandError(f"{folder} has version {found[:8]}, not {version[:8]}")
        return local

    def _shard(self, folder: str, version: str) -> Shard:
        if (there := self._open.get(version)) is not None:
            return there
        with self._lock:
            if version not in self._open:
                shard = Shard(self._found(folder, version), self._number, self._threads, self._backend)
                self._last = self._last or version
                self._open = {v: s for v, s in self._open.items() if v == self._last} | {version: shard}
            return self._open[version]

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            said, _ = receive(connection, most_bytes=0)  # before it is known who asks
            if not hmac.compare_digest(str(said.get("secret")), self._secret) or said.get("shard") != self._number:
                return  # it is none of ours, or the address is one that another actor has had
            while True:
                said, arrays = receive(connection)
                try:
                    answered = self._answer(said, arrays)
                except Exception as error:  # of ONNX Runtime, which have no common base class
                    send(connection, {"error": one_line(error)}, {})
                else:
                    send(connection, {"version": said["version"]}, answered)

    def _answer(self, said: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        if said["shard"] != self._number:  # an address that another actor has had
            raise CommandError(f"this is shard {self._number}, not {said['shard']}")
        shard, self._last = self._shard(said["folder"], said["version"]), said["version"]
        wide = {n: a.astype(np.int64) if a.dtype == np.int32 else a for n, a in arrays.items()}
        return shard.answer(wide, said["outputs"])


class _Link:
    """Connections to one actor: each is used by one call at a time."""

    def __init__(self, actor: Any, hello: Mapping[str, Any]) -> None:
        self.actor, self._hello = actor, hello
        self._idle: deque[socket.socket] = deque()
        self._address: tuple[str, int] | None = None
        self._asked: Any = None

    def taken(self, seconds: float) -> socket.socket:
        """A connection; Ray is asked where the actor is, and answers when it has been started again.

        Raises:
            OSError, RayError: There is none.
        """
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        address = self._address
        if address is None:
            self._asked = asked = self._asked or self.actor.address.remote()
            try:
                address = ray.get(asked, timeout=seconds)
            except GetTimeoutError:  # it is being started; the next try waits for the same answer
                raise
            except RayError:
                self._asked = None
                raise
            self._address, self._asked = address, None
        try:
            made = socket.create_connection(address, timeout=seconds)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send(made, self._hello, {})
        except OSError:
            self._address = None
            raise
        return made

    def put_back(self, connection: socket.socket) -> None:
        """Leave a connection to the next call."""
        self._idle.append(connection)

    def drop(self, connection: socket.socket) -> None:
        """A connection is broken: the others may be, too, and the actor may be elsewhere."""
        connection.close()
        self._address = None
        while self._idle:
            self._idle.pop().close()


class ShardedModel(SplitModel):
    """A model that `onnx_sparse.shard` has split, on a Ray cluster; it is called as an `InferenceSession` is.

        with onnx_sparse.ray.ShardedModel("split") as model:
            scores = model.run(None, feeds)

    A lost actor is started again with the current tables, and its calls are made again. A shard that does not answer in
    time is an error that names it. It can be called by several threads, and be pickled for other processes of the
    cluster, which then use the same actors. Ray is started, or joined as RAY_ADDRESS says, unless it runs already.

    Args:
        folder: The folder, under the same path on each machine; or its URI in a store that pyarrow knows, such as
            `s3://bucket/split`.
        replicas: The actors of each shard. Calls are divided among them.
        name: What the actors are named by; who gives the same name uses the same actors. If an update has replaced
            `folder`, the model starts with the folder that is current.
        detached: Whether the actors go on when this process ends; they need a name.
        timeout: The seconds in which shards must answer.
        ask_again_after: With several replicas: asks another one, too, where a shard takes longer than this percentage
            of the last answers, such as 99.
        cpus: The CPUs that an actor takes in Ray's accounts; their number is also that of its threads, at least one.
        placement: How Ray places the actors: `SPREAD` over the machines, or `DEFAULT`.
        threads: The threads of the sessions that compute ids and merge.
        cache: Where each machine keeps what it has fetched from a store, once for each version.
        backend: As in `onnx_sparse.InferenceSession`.

    Raises:
        CommandError: There is no such folder, Ray does not start, or a shard does not.
    """

    def __init__(
        self,
        folder: FilePath,
        *,
        replicas: int = 1,
        name: str | None = None,
        detached: bool = False,
        timeout: float = 60,
        ask_again_after: float | None = None,
        cpus: float = 1,
        placement: str = "SPREAD",
        threads: int = 0,
        cache: FilePath | None = None,
        backend: Backend = "auto",
    ) -> None:
        if detached and name is None:
            raise ValueError("detached actors need a name")
        if replicas < 1:
            raise ValueError(f"replicas = {replicas} is not positive")
        named, name = name is not None, name or secrets.token_hex(8)
        self._cache = os.fspath(cache or Path(tempfile.gettempdir()) / "onnx-sparse-shards")
        self._options: dict[str, Any] = {
            "replicas": replicas,
            "name": name,
            "timeout": timeout,
            "ask_again_after": ask_again_after,
            "cpus": cpus,
            "placement": placement,
            "threads": threads,
            "cache": self._cache,
            "backend": backend,
        }
        self._timeout, self._again = timeout, ask_again_after
        self._turn = 0
        self._seconds: deque[float] = deque(maxlen=_KNOWN)
        self._updating = threading.Lock()
        path = _named(folder)
        if not named:  # else it may have been replaced
            read_manifest(fetched(path, self._cache, ""))
        if not ray.is_initialized():
            from onnx_sparse.scoring.ray_start import start  # here: what scores files keeps no actor waiting

            start()
        kept: dict[str, Any] = {
            "namespace": _NAMESPACE,
            "lifetime": "detached" if detached else None,
            "get_if_exists": True,
        }
        again = {"max_restarts": -1, "max_task_retries": -1}
        value = ray.remote(_Value).options(name=f"{name}/secret", num_cpus=0, **again, **kept)
        self._held = value.remote(secrets.token_hex(16))
        self._links: list[list[_Link]] = []
        try:
            self._secret = ray.get(self._held.value.remote(), timeout=timeout)
        except RayError as error:  # also that it has not started in time
            raise CommandError(f"Ray does not start the actors of {path}: {ray_reason(error)}") from error
        current = _Current.of(self._secret)
        try:
            if current is not None and path in current.replaced:
                path = current.folder
            super().__init__(*self._opened(path))
            _Current(path, self.manifest.version).put(self._secret, replace=False)
            self._join(path, again | kept)
        except BaseException:
            if current is None:  # the actors are new, and nobody else's
                self.close()
            raise
        self._current: SplitModel = self
        self._source = path

    def _opened(self, folder: str) -> tuple[Path, Shards, int, Backend]:
        """With what a `SplitModel` of a folder is made that asks the actors."""
        local = fetched(folder, self._cache, "")
        ask = functools.partial(self._asked, folder, read_manifest(local))
        return local, ask, self._options["threads"], self._options["backend"]

    def _join(self, folder: str, kept: dict[str, Any]) -> None:
        """Start the actors, or find those of the name; each opens the shard of the version."""
        options, manifest = self._options, self.manifest
        made = ray.remote(_ShardActor)
        sizes = {f"shard-{n}": 0 for n in range(manifest.shards)}
        for file in manifest.files:
            if (part := file.name.partition("/")[0]) in sizes:
                sizes[part] += file.bytes
        for number in range(manifest.shards):
            actors = [
                made.options(
                    name=f"{options['name']}/{number}/{replica}",
                    num_cpus=options["cpus"],
                    memory=sizes[f"shard-{number}"],
                    max_concurrency=2,
                    scheduling_strategy=options["placement"],
                    **kept,
                ).remote(
                    number,
                    cache=self._cache,
                    threads=max(1, int(options["cpus"])),
                    backend=options["backend"],
                    secret=self._secret,
                )
                for replica in range(options["replicas"])
            ]
            self._links.append([_Link(actor, {"secret": self._secret, "shard": number}) for actor in actors])
        asked = [
            (number, link.actor.load.remote(folder, manifest.version))
            for number, links in enumerate(self._links)
            for link in links
        ]
        for number, load in asked:
            self._ray(number, manifest, folder, load)

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """As ONNX Runtime's; one call is of one version of the tables.

        Raises:
            KernelError: The inputs violate an operator's semantics.
            CommandError: A shard does not answer; the message names it.
        """
        while True:
            current = self._current
            try:
                return SplitModel.run(current, output_names, input_feed, run_options)
            except CommandError:
                if self._current is current and not self._followed(current):
                    raise

    def _followed(self, failed: SplitModel) -> bool:
        """Go over to what another process has updated the actors to, if it is other than what a call has failed with.

        The folder of a version that was replaced may be gone, and an actor that was started since cannot open it.
        """
        with self._updating, contextlib.suppress(RayError, CommandError, OSError):
            if self._current is not failed:
                return True
            current = _Current.of(self._secret)
            if current is not None and (current.version, current.folder) != (failed.manifest.version, self._source):
                self._current, self._source = SplitModel(*self._opened(current.folder)), current.folder
                return True
        return False

    async def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> Any:
        """As `run`, for `await`: the shards are waited for in another thread."""
        return await asyncio.to_thread(self.run, output_names, input_feed)

    def update(self, folder: FilePath) -> None:
        """Go over to other tables: another folder of the same model, split into as many shards.

        The shards read it one after the other, compare its files with their checksums, and open it beside the tables
        that they have. From then on calls are of the new version; calls that have begun are of the old one. Actors that
        are lost start again with the new version, and so does who joins them by a name or a pickle of the old folder.

        Raises:
            CommandError: There is no such folder, it has another number of shards or other inputs, or a shard cannot
                open it. Then calls stay with the old version.
        """
        path = _named(folder)
        with self._updating:
            made = SplitModel(*self._opened(path))
            manifest = made.manifest
            require_files(made.folder, manifest, "", whole=True)
            if manifest.shards != self.manifest.shards:
                raise CommandError(f"{path} has {manifest.shards} shards; {self.folder} has {self.manifest.shards}")
            if (made.get_inputs(), made.get_outputs()) != (self.get_inputs(), self.get_outputs()):
                raise CommandError(f"{path} has other inputs or outputs than {self.folder}")
            try:
                for number, links in enumerate(self._links):
                    for link in links:
                        load = link.actor.load.remote(path, manifest.version, whole=True)
                        self._ray(number, manifest, path, load)
            except BaseException:
                if manifest.version != self.version:
                    for link in (link for links in self._links for link in links):
                        link.actor.forget.remote(manifest.version)
                raise
            current = _Current.of(self._secret) or _Current(self._source, self.version)
            current.after(path, manifest.version).put(self._secret, replace=True)
            self._current, self._source = made, path

    @property
    def version(self) -> str:
        """What tells the tables that new calls are answered from."""
        return self._current.manifest.version

    def close(self) -> None:
        """End the actors; those of a name that other processes use, too."""
        for actor in [*(link.actor for links in self._links for link in links), self._held]:
            with contextlib.suppress(RayError, ValueError):
                ray.kill(actor)
        with contextlib.suppress(RayError, OSError):
            internal_kv._internal_kv_del(self._secret, namespace=_NAMESPACE)

    def __enter__(self) -> ShardedModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _joined, (self._source, self._options)

    def _asked(
        self, folder: str, manifest: Manifest, requests: Mapping[int, Request]
    ) -> Mapping[int, Mapping[str, Any]]:
        """Ask shards at once, each until it has answered."""
        call = _Call(self, folder, manifest, requests)
        try:
            return call.answers()
        finally:
            call.end()

    def _ray(self, number: int, manifest: Manifest, folder: str, asked: Any) -> Any:
        """What an actor answers to a call of Ray.

        Raises:
            CommandError: It does not.
        """
        try:
            return ray.get(asked, timeout=self._timeout)
        except GetTimeoutError:
            reason = f"it has not started within {self._timeout:g} s (has a machine room for it?)"
        except RayError as error:
            reason = ray_reason(error)
        raise CommandError(shard_error(number, manifest, folder, reason))


def _named(folder: FilePath) -> str:
    """A folder as all processes name it."""
    text = os.fspath(folder)
    return text if "://" in text else str(Path(text).absolute())


def fetched(folder: str, cache: str, part: str, *, whole: bool = False) -> Path:
    """A folder on this machine with a part of a model: what is in a store is fetched once, and compared with its SHA-1.

    Args:
        folder: The folder, or its URI.
        cache: Where fetched files are kept, by their version.
        part: The folder in it that is needed; empty for the files in the folder itself.
        whole: Whether files that were fetched before are compared, too, and fetched again if they are damaged.

    Raises:
        CommandError: The store does not answer, or a file is damaged.
    """
    if "://" not in folder:
        return Path(folder)
    place = place_of(folder)
    with errors_of(place / MANIFEST), (place / MANIFEST).open_stream() as stream:
        content = stream.read()
    with tempfile.TemporaryDirectory() as name:
        Path(name, MANIFEST).write_bytes(content)
        manifest = read_manifest(Path(name))
    local = Path(cache) / manifest.version
    (local / part).mkdir(parents=True, exist_ok=True)
    for file in manifest.files:
        target = local / file.name
        there = target.exists() and target.stat().st_size == file.bytes
        if file.name.rpartition("/")[0] != part or (there and not (whole and damage(target, Part(file.sha1)))):
            continue
        source, sha1 = place / file.name, hashlib.sha1(usedforsecurity=False)
        with new_file(target, clean=False) as made, errors_of(source), source.open_stream() as stream:
            while block := stream.read(BLOCK):
                sha1.update(block)
                made.write(block)
            if (found := sha1.hexdigest()) != file.sha1:
                raise CommandError(f"{source} is damaged: its SHA-1 is {found}, not {file.sha1}")
    with new_file(local / MANIFEST, clean=False) as made:
        made.write(content)
    return local


class _Value:
    """An actor that keeps what all who use a model's actors must know."""

    def __init__(self, value: str) -> None:
        self._value = value

    def value(self) -> str:
        return self._value


def _joined(folder: str, options: dict[str, Any]) -> ShardedModel:
    return ShardedModel(folder, **options)


def shard_error(number: int, manifest: Manifest, folder: str, reason: str) -> str:
    """The error about a shard that is missing."""
    tables = [table for table in manifest.tables if number in table.shards]
    rows = ", ".join(
        f"{t.name} (rows i mod {len(t.shards)} = {t.shards.index(number)})" if len(t.shards) > 1 else t.name
        for t in tables[:3]
    )
    more = f" and {len(tables) - 3} more tables" if len(tables) > 3 else ""
    return f"shard {number} of {folder}, with {rows}{more}, does not answer: {reason}"


class _Call:
    """One call of shards: what is asked, of whom, and what has come."""

    def __init__(self, model: ShardedModel, folder: str, manifest: Manifest, requests: Mapping[int, Request]) -> None:
        self._model, self._folder, self._manifest, self._requests = model, folder, manifest, requests
        self._begun = time.monotonic()
        self._deadline = self._begun + model._timeout
        self._late = f"nothing has come within {model._timeout:g} s"
        self._waiting: dict[int, tuple[int, _Link, socket.socket]] = {}
        self._poll = select.poll()
        self._found: dict[int, Mapping[str, Any]] = {}
        model._turn += 1

    def answers(self) -> Mapping[int, Mapping[str, Any]]:
        """The answers of all."""
        for number in self._requests:
            self._ask(number, 0)
        again = self._percentile()
        while len(self._found) < len(self._requests):
            now = time.monotonic()
            until = self._deadline if again is None else min(self._deadline, self._begun + again)
            events = self._poll.poll(max(0, until - now) * 1000)
            for descriptor, _ in events:
                if descriptor in self._waiting:  # else another replica was faster
                    self._take(descriptor)
            if not events and again is not None and time.monotonic() < self._deadline:
                again = None
                for number in self._requests.keys() - self._found.keys():
                    with contextlib.suppress(CommandError):
                        self._ask(number, 1)
            elif not events and time.monotonic() >= self._deadline:
                late = min(self._requests.keys() - self._found.keys())
                raise self._error(late, self._late)
        self._model._seconds.append(time.monotonic() - self._begun)
        return self._found

    def end(self) -> None:
        """Close the connections on which an answer may still come."""
        for _, _, connection in self._waiting.values():
            connection.close()

    def _percentile(self) -> float | None:
        """After how many seconds shards are asked again."""
        seconds, wanted = self._model._seconds, self._model._again
        if wanted is None or len(self._model._links[0]) < 2 or len(seconds) < _FEW:
            return None
        return float(np.percentile(list(seconds), wanted))

    def _ask(self, number: int, place: int) -> None:
        """Send a shard its request, until that has succeeded with one of its replicas."""
        inputs, outputs = self._requests[number]
        said = {"folder": self._folder, "version": self._manifest.version, "shard": number, "outputs": outputs}
        narrow = {n: _narrow(array) for n, array in inputs.items()}
        links, died = self._model._links[number], 0
        while True:
            link = links[(self._model._turn + place) % len(links)]
            place += 1
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise self._error(number, self._late)
            connection: socket.socket | None = None
            try:
                connection = link.taken(left if len(links) == 1 else min(left, _OTHERS))
                connection.settimeout(left)
                send(connection, said, narrow)
            except OSError:  # also that Ray has not started it again in time
                if connection is not None:
                    link.drop(connection)
                time.sleep(_PAUSE)
            except RayError as error:
                died += 1
                if died == len(links):
                    raise self._error(number, ray_reason(error)) from error
            else:
                self._waiting[connection.fileno()] = (number, link, connection)
                self._poll.register(connection, select.POLLIN)
                return

    def _take(self, descriptor: int) -> None:
        number, link, connection = self._waiting.pop(descriptor)
        self._poll.unregister(descriptor)
        try:
            connection.settimeout(max(0.01, self._deadline - time.monotonic()))
            said, arrays = receive(connection)
        except OSError:  # the actor has ended; Ray starts it again
            link.drop(connection)
            if number not in self._found and all(number != other for other, _, _ in self._waiting.values()):
                self._ask(number, 1)
            return
        link.put_back(connection)
        if "error" in said:
            raise self._error(number, str(said["error"]))
        if said.get("version") != self._manifest.version:
            raise self._error(number, f"it has answered of version {said.get('version')}")
        self._found.setdefault(number, arrays)

    def _error(self, number: int, reason: str) -> CommandError:
        return CommandError(shard_error(number, self._manifest, self._folder, reason))


def ray_reason(error: RayError) -> str:
    """Why an actor does not answer: what it has raised, or the line of Ray's that says what happened."""
    from onnx_sparse.scoring.remote_engine import gist

    raised = re.findall(r"errors\.\w*Error: (.*)", str(error))
    return str(raised[-1]) if raised else gist(error)


def _narrow(array: Any) -> Any:
    """Ids and numbers of bags in 4 bytes, where they fit: shards have no negative ones."""
    return array.astype(np.int32) if array.dtype == np.int64 and array.max(initial=0) <= _INT32 else array
