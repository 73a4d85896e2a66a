"""What a model is verified against: its source in the program that runs it, and what that says about its inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from onnx_sparse.converters.errors import first_line
from onnx_sparse.converters.tensor import Array, Shape
from onnx_sparse.converters.verification.batches import Refused, Repaired
from onnx_sparse.converters.verification.comparison import Record
from onnx_sparse.converters.verification.layout import GUESSED, Layout
from onnx_sparse.converters.verification.sample_inputs import NOTHING_SAID, CompositeSpecs


class Reference(ABC):
    """A source that runs. Each road derives a class that states where it differs from the defaults.

    Attributes:
        program: The program that runs it, `"TensorFlow"`.
        inputs: The names of its inputs, in order, without those of states.
        outputs: The names of its outputs, in order, with their element types as far as they are known.
        presents: The model's outputs with states whose last values `run_steps` returns after the outputs.
        specs: Its sparse and ragged tensors and bags.
        layout: Its sizes.
        checks_sizes: Whether it refuses sizes that are too small, and ids without a row.
        shapes: The shapes that it declares for outputs, None where it leaves a size open, or the rank. Its own program
            may contradict them where a result has no elements.
        convolves_no_rows: Whether its convolutions of no rows have the shape of their result; those of TensorFlow's
            oneDNN have that of their input.
        config: Entries of the configuration of ONNX Runtime's session, by which the model is run.
    """

    program: str
    inputs: Sequence[str]
    outputs: Mapping[str, str]
    presents: Sequence[str] = ()
    specs: CompositeSpecs = NOTHING_SAID
    layout: Layout = GUESSED
    checks_sizes: bool = True
    shapes: Mapping[str, Shape | None] = MappingProxyType({})
    convolves_no_rows: bool = True
    config: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def run(self, feeds: Mapping[str, Array]) -> Sequence[Array]:
        """Its outputs for the inputs by name. Raises whatever its program raises."""

    def run_steps(self, steps: Sequence[Mapping[str, Array]]) -> Sequence[Array]:
        """The outputs of several runs from its first states on, then the last values of `presents`."""
        raise NotImplementedError(f"{self.program} has no states")

    def refusal(self, error: Exception) -> Refused:
        """What an error of a run says. Raises the error if it is no refusal."""
        return Refused(self.program, first_line(error))

    def repaired(self, feeds: Mapping[str, Array]) -> Repaired | None:
        """Its outputs without what its program computes wrongly; None if nothing is known of that.

        Where these differ from the program's, they are what the model is compared with.
        """
        return None

    def guard(self, feeds: Mapping[str, Array]) -> str:
        """Why a trace of the source refuses a batch that the source takes; empty text if it does not.

        Such a batch is noted if ONNX Runtime refuses it, too.
        """
        return ""

    def explained(self, record: Record) -> Record:
        """A record with what is known about the program noted."""
        return record
