"""Errors at the start of a session, in the words of their causes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import onnxruntime as ort

from onnx_sparse.native.errors import raise_kernel_error
from onnx_sparse.sessions.model_errors import NoModelFolderError

#: The entry with the folder of a model's external data.
FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"
#: A folder that is nowhere, for external data of a model in memory: a file cannot hold a folder.
NO_FOLDER = os.path.join(os.path.abspath(__file__), "no_folder")


def config_entry(options: ort.SessionOptions, key: str) -> str:
    """The entry of session options; "" where there is none."""
    if not isinstance(options, ort.SessionOptions):
        raise TypeError(f"session options are an onnxruntime.SessionOptions, not {type(options).__name__}")
    try:
        return str(options.get_session_config_entry(key))
    except RuntimeError:  # there is no such entry
        return ""


@contextmanager
def errors_explained(options: ort.SessionOptions) -> Iterator[None]:
    """Raise errors at the start of a session in the words of their causes."""
    try:
        yield
    except Exception as error:
        raise_kernel_error(error)
        if config_entry(options, FOLDER_ENTRY) == NO_FOLDER and NO_FOLDER in str(error):
            raise NoModelFolderError(
                "tensors of this model have their data in another file, and a model in memory has no folder: give the "
                "model's path, load the data into it (onnx.load_external_data_for_model), add them to the session "
                f"options (add_external_initializers), or name their folder in the session option {FOLDER_ENTRY}"
            ) from error
        for symptom, library in (
            ("Conflicting with a registered kernel", "the library of onnxruntime-extensions"),
            ("Domain already set in registry", "a library with the domain's kernels"),
        ):
            if symptom in str(error):
                if "onnx_sparse.python.kernels" in sys.modules and "Domain" in symptom:
                    raise ValueError(
                        "these session options had a library with the domain's kernels registered already. Python "
                        "kernels were registered in this process for plain sessions, so the library of "
                        'onnxruntime-extensions is one, too: use backend="python", or register onnxruntime-extensions '
                        "in another process"
                    ) from error
                raise ValueError(
                    f"these session options had {library} registered already; onnx_sparse registers it itself"
                ) from error
        raise
