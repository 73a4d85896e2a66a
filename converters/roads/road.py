"""A road: all that the package knows about one kind of source, in one object.

The converters' `convert` and `verify`, the command line, `onnx_sparse.convert`, reports and benchmarks ask a road, and
know none by name. A road imports what it needs in its methods: the command line asks every road for its options.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onnx_sparse.converters.errors import ConversionError

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.pipeline import Draft, Pass, Rewriting
    from onnx_sparse.converters.tensor import Array
    from onnx_sparse.converters.verification.comparison import Record
    from onnx_sparse.converters.verification.reference import Reference
    from onnx_sparse.pictures import Picture

Progress = Callable[[str], None]
Run = Callable[[Mapping[str, "Array"]], object]


Options = TypeVar("Options")
Loaded = TypeVar("Loaded")


class Road(ABC, Generic[Options, Loaded]):
    """One kind of source, and how it is converted, run and described.

    A road must say what it is, make a draft and list its passes. Without the other methods, its sources are found by
    their suffix and class, and cannot be verified, timed or drawn.

    Attributes:
        name: Its name, as `--from` takes it: `tensorflow`.
        title: The name of the framework: `TensorFlow`.
        models: What its sources are called, in the plural: `TensorFlow's models`.
        program: What runs its sources, as benchmarks call it; the title if it has no other name.
        suffixes: The suffixes of its files, in lower case.
        packages: The packages that classes of its objects belong to.
        options: The dataclass of its options: the command line and `convert` take its fields. With a title `GROUP`,
            they have a help of their own, `convert --help NAME`, which shows the class's `EXAMPLES`.
        usual: Options that `convert` has by default and the command line has not.
        needs: The package that runs its sources, by which it is imported; nothing if none does.
        extra: The extra of this package that installs it.
        loggers: The loggers of its packages, which the command line silences.
        converts_in_place: Whether a model may be written in the place of its source.
    """

    name: str
    title: str
    models: str
    program: str = ""
    suffixes: Sequence[str] = ()
    packages: Sequence[str] = ()
    options: type[Options]
    usual: Mapping[str, Any] = MappingProxyType({})
    needs: str = ""
    extra: str = ""
    loggers: Sequence[str] = ()
    converts_in_place: bool = False

    # What a source is.

    def claims(self, path: Path) -> bool:
        """Whether the content of a file or folder shows that it is a source, whatever its name is."""
        return False

    def takes(self, kind: type) -> bool:
        """Whether objects of a class are sources."""
        return kind.__module__.partition(".")[0] in self.packages

    def refuse(self, path: Path) -> None:
        """Refuse a file or folder that the framework writes and that cannot be converted.

        Raises:
            ConversionError: It is one; the message says what to give instead.
        """

    def parts(self, path: Path) -> Sequence[Path]:
        """The files and folders that a source consists of."""
        return [path]

    def check(self, options: Options, *, explain: bool, verify: bool) -> None:
        """Refuse options that make no sense together, before a source is read.

        Args:
            options: The options; messages name them as the command line does, `--input-spec`.
            explain: Whether rules are to be explained.
            verify: Whether the model is to be verified.

        Raises:
            UsageError: They make no sense.
        """

    def as_onnx(self, loaded: Loaded) -> ModelProto | None:
        """A source that is an ONNX model itself."""
        return None

    # How it is converted.

    def load(self, source: Any, options: Options, tell: Progress = lambda stage: None) -> Loaded:
        """Read a source, once for its conversion and verification. What has been loaded is returned.

        Raises:
            ConversionError: It cannot be read.
        """
        loaded: Loaded = source
        return loaded

    @abstractmethod
    def draft(self, loaded: Loaded, options: Options, tell: Progress) -> Draft:
        """Convert the nodes of a source.

        Raises:
            ConversionError: Nodes cannot be converted; all of them are listed.
        """

    @abstractmethod
    def passes(self, *, check_ids: bool = False) -> Sequence[Pass]:
        """What is done with a model once its nodes are converted.

        Args:
            check_ids: Whether all lookups refuse negative ids.
        """

    def finish(
        self,
        draft: Draft,
        loaded: Loaded,
        options: Options,
        tell: Progress,
        tables: MutableMapping[str, Array] | None,
    ) -> None:
        """Complete the draft's model after the passes.

        Args:
            draft: The draft.
            loaded: The source.
            options: Its options.
            tell: Called with what begins.
            tables: Receives the data of initializers that one message cannot hold.

        Raises:
            ConversionError: The model does not do what the source does.
        """

    def keeps_files(self, loaded: Loaded, model: ModelProto) -> bool:
        """Whether the result of `convert` refers to tables in files, and does not hold them."""
        return False

    def notes(self, model: ModelProto) -> Sequence[str]:
        """What users should know about a converted model."""
        return ()

    # What runs it.

    def reference(
        self, loaded: Loaded, model: ModelProto, *, described: ModelProto, generated: bool
    ) -> AbstractContextManager[Reference]:
        """The source in the program that runs it.

        Args:
            loaded: The source.
            model: What it was converted to.
            described: That model before it was lowered.
            generated: Whether it runs on generated inputs, and not on given ones.

        Raises:
            ConversionError: No program runs it, or that is not installed.
        """
        raise ConversionError(f"there is no program to run a model of {self.name} with")

    def timed(self, path: str, options: Options, threads: int, names: Sequence[str]) -> tuple[list[str], Run]:
        """The names of a source's inputs, and what runs it as fast as it can be run.

        Args:
            path: Its file or folder.
            options: Its options.
            threads: How many threads it may use.
            names: The inputs of the converted model but for its states.

        Raises:
            ConversionError: No program runs it, or that is not installed.
        """
        raise ConversionError(f"{path}: no program here runs models of the source {self.name}")

    def draw(self, loaded: Loaded, picture: Picture) -> None:
        """Add the nodes of a source to a picture, each after those that it reads."""

    # What follows from these.

    def choose(self, named: Mapping[str, Any]) -> Options:
        """Its options from named values.

        Raises:
            TypeError: It has no such option.
        """
        known = [field.name for field in fields(self.options)]  # type: ignore[arg-type]
        for name in named:
            if name not in known:
                has = f"its options are {', '.join(known)}" if known else "it has none"
                raise TypeError(f"a conversion from {self.title} has no option {name!r}; {has}")
        return self.options(**named)

    def convert(
        self,
        source: Any,
        *,
        check_ids: bool = False,
        progress: Progress | None = None,
        explain: Callable[[Any], None] | None = None,
        tables: MutableMapping[str, Array] | None = None,
        **options: Any,
    ) -> ModelProto:
        """Convert a source to ONNX with operators of the domain `onnx_sparse`.

        Args:
            source: A file or folder, or a model in memory.
            check_ids: Whether all lookups refuse negative ids, which ONNX counts from the end. By default, those of
                TensorFlow and torch refuse what these refuse.
            progress: Called with what begins: `"loading"`, `"converting"`, `"checking"`, ...
            explain: Called once, with the numbers of nodes and the outcome of every rule and guard.
            tables: A dictionary that receives the embedding tables of a model larger than 1 GiB, by initializer. Their
                data is then not in the model, and no copy of it is made. Give it to `verify` as well.
            options: The road's options.

        Returns:
            A new model of IR version 10 in canonical form. Inputs and outputs have the names that they have in the
            source.

        Raises:
            ConversionError: The source cannot be read, or nodes cannot be converted: the error lists all of them.
            MissingPackageError: A package that it needs is not installed; a kind of ConversionError.
            TypeError: The road has no such option.
        """
        from onnx_sparse.models.data.references import holding_arrays
        from onnx_sparse.models.files.large_models import finish

        tell = progress or (lambda stage: None)
        chosen = self.choose({**self.usual, **options})
        with holding_arrays() as is_inner:
            loaded = self.load(source, chosen, tell)
            model = self.convert_loaded(loaded, chosen, check_ids=check_ids, tell=tell, explain=explain, tables=tables)
            return model if is_inner else finish(model, keeps_files=self.keeps_files(loaded, model))

    def convert_loaded(
        self,
        loaded: Loaded,
        options: Options,
        *,
        check_ids: bool = False,
        tell: Progress = lambda stage: None,
        explain: Callable[[Rewriting], None] | None = None,
        tables: MutableMapping[str, Array] | None = None,
    ) -> ModelProto:
        """Convert what `load` returned; see `convert`. In a block of `holding_arrays`, no table is copied."""
        from onnx_sparse.converters import pipeline

        draft = self.draft(loaded, options, tell)
        pipeline.run(draft, self.passes(check_ids=check_ids), tell)
        self.finish(draft, loaded, options, tell, tables)
        if explain is not None:
            explain(draft.rewriting())
        return draft.model

    def verify(
        self,
        source: Any,
        model: ModelProto,
        *,
        feeds: Mapping[str, Array] | None = None,
        seed: int = 0,
        batch_count: int | None = None,
        tables: Mapping[str, Array] | None = None,
        described_by: ModelProto | None = None,
        progress: Progress | None = None,
        input_lines: dict[str, str] | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        max_different: int = 0,
        **options: Any,
    ) -> list[Record]:
        """Run a source and its model in ONNX Runtime on the same inputs and compare the outputs.

        `onnx_sparse.converters.verification.verify` says what is compared how, and how inputs are generated.

        Args:
            source: As given to `convert`, or loaded.
            model: The model that `convert` returned.
            feeds: The inputs of a single batch: the source's inputs or, for ragged features, the model's. Generated
                when omitted.
            seed: The same seed gives the same inputs.
            batch_count: How many batches to run on generated inputs; one of each kind when omitted.
            tables: The tables that `convert` wrote next to the model.
            described_by: The model before it was lowered: its operators show the inputs' purpose.
            progress: Called with what is being run.
            input_lines: Filled with what each input was taken for when inputs were generated.
            atol: With `rtol`, lets floats differ by `atol + rtol * abs(expected)`, instead of the rule and of measured
                rounding noise.
            rtol: See `atol`.
            max_different: How many elements of an output may differ by more in each batch, or differ at all where they
                are not floats.
            options: As given to `convert`.

        Returns:
            One record per output.

        Raises:
            ConversionError: The source cannot be read or run, or `feeds` lacks an input.
            ValueError: A bound is negative.
        """
        from onnx_sparse.converters.verification.verify import verify

        loaded = self.load(source, self.choose(options))
        described = model if described_by is None else described_by
        with self.reference(loaded, model, described=described, generated=feeds is None) as reference:
            return verify(
                reference,
                model,
                feeds=feeds,
                seed=seed,
                batch_count=batch_count,
                tables=tables,
                described_by=described_by,
                progress=progress,
                input_lines=input_lines,
                atol=atol,
                rtol=rtol,
                max_different=max_different,
            )


AnyRoad = Road[Any, Any]
