"""Runs one operation of a dump by itself, on the tensors that the NPU gave it."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.ascend.atb.graph import AtbNode
from onnx_sparse.converters.ascend.atb.handlers import HANDLERS, Choices, Node
from onnx_sparse.converters.ascend.atb.operations import why_not
from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.atb.records import OperationRecord
from onnx_sparse.converters.ascend.conversion import passes
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported, first_line
from onnx_sparse.converters.pipeline import Draft
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.reads import Inputs
from onnx_sparse.schemas.declaration import element_type
from onnx_sparse.settings import Backend

Array = np.ndarray[Any, Any]

#: The layers of a model repeat the same operations, whose sessions are kept; few differ.
_MOST_SESSIONS = 128


class DoesNotRunError(Exception):
    """An operation that is converted but does not run on the dump's tensors."""


class OperationRunner:
    """Runs single operations; equal ones share a session.

    Args:
        choices: The user's choices.
        backend: The backend that runs them.

    Attributes:
        notes: What the handlers had to assume, by operation type.
    """

    def __init__(self, choices: Choices, backend: Backend) -> None:
        self._choices = choices
        self._backend = backend
        self._sessions: OrderedDict[str, Any] = OrderedDict()
        self._others: dict[bool, OperationRunner] = {}
        self.notes: dict[str, None] = {}

    def run(self, node: AtbNode, param: object, record: OperationRecord, inputs: Sequence[Array]) -> list[Array]:
        """The results of an operation.

        Args:
            node: The operation.
            param: Its parameters.
            record: The dump's record of its tensors.
            inputs: The tensors that it reads.

        Raises:
            Unsupported: It is not converted.
            DoesNotRunError: ONNX Runtime or a kernel refuses the tensors.
        """
        session = self._session(node, param, record, inputs)
        feeds = {value.name: inputs[int(value.name.removeprefix("input_"))] for value in session.get_inputs()}
        try:
            return list(session.run(None, feeds))
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise DoesNotRunError(f"does not run on the dump's inputs: {first_line(error)}") from error

    def with_overflow(self, *, saturates: bool) -> OperationRunner:
        """A runner in which values beyond float16 saturate, or become infinite."""
        if saturates not in self._others:
            choices = replace(self._choices, fp16_overflow="saturate" if saturates else "ieee")
            self._others[saturates] = OperationRunner(choices, self._backend)
        return self._others[saturates]

    def _session(self, node: AtbNode, param: object, record: OperationRecord, inputs: Sequence[Array]) -> Any:
        declared = [
            None if r is None else (r.dtype, r.format, r.shape) for r in (*record.inputs, None, *record.outputs)
        ]
        given = [(str(array.dtype), array.shape) for array in inputs]
        text = json.dumps([node.op_type, param, given, declared, record.soc, len(node.outputs)], sort_keys=True)
        if text in self._sessions:
            self._sessions.move_to_end(text)
            return self._sessions[text]
        model = self._model(node, param, record, inputs)
        self._sessions[text] = self._loaded(model)
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return self._sessions[text]

    def _model(self, node: AtbNode, param: object, record: OperationRecord, inputs: Sequence[Array]) -> ModelProto:
        handler = HANDLERS.get(node.kind)
        if handler is None:
            raise Unsupported(why_not(node.kind))
        names = [f"input_{i}" for i in range(len(inputs))]
        results = [f"output_{i}" for i in range(len(node.outputs))]
        emit = AscendEmitter([*names, *results], saturate=self._choices.saturates)
        given = tuple(Tensor(name, element_type(a.dtype), a.shape) for name, a in zip(names, inputs, strict=True))
        emit.begin(node.kind)
        made = handler.convert(
            Node(node.name, node.op_type, Parameters(param), Inputs(given), record, self._choices, len(results)), emit
        )
        if len(made) != len(results):
            raise Unsupported(f"it has {len(results)} outputs, {len(made)} expected")
        named = emit.name_outputs(made, results)
        self.notes |= dict.fromkeys(f"{node.op_type}: {note}" for note in emit.notes)
        draft = Draft(emit.model(node.kind, list(map(value_info, given)), list(map(value_info, named))))
        return pipeline.run(draft, passes())

    def _loaded(self, model: ModelProto) -> Any:
        from onnx_sparse.sessions.quiet import quiet_options
        from onnx_sparse.sessions.runtime import InferenceSession

        options = quiet_options()
        options.enable_cpu_mem_arena = False  # it would keep the largest tensors of every session
        try:
            return InferenceSession(model, options, backend=self._backend)
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise DoesNotRunError(f"does not load: {first_line(error)}") from error
