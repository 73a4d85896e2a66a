"""`report`: a page about a model."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_sparse.commands.errors import raised
from onnx_sparse.commands.inputs.model_settings import ComparedSettings
from onnx_sparse.settings import FilePath, function_of, option

if TYPE_CHECKING:
    from onnx_sparse.reports.report import Report


@dataclass(frozen=True)
class ReportSettings(ComparedSettings):
    """What `report` is asked for: the arguments of `onnx_sparse.report`, and the options of the command."""

    _: KW_ONLY
    output: FilePath | None = field(
        default=None, metadata=option("the page to write", "OUT.html", short="-o", required=True)
    )
    times: bool = field(default=True, metadata=option("do not run the model", flag="--no-times"))

    def check(self) -> None:
        """Refuse what can be refused before anything runs.

        Raises:
            CommandError: A file cannot be written, or is not there.
            UsageError: The source has no such options.
        """
        from onnx_sparse.files.new_file import PAGE_SUFFIXES, check_writable

        if self.output is not None:
            check_writable(Path(self.output), *PAGE_SUFFIXES, keep=self.files())
        self.check_source()


def reported(settings: ReportSettings) -> Report:
    """The page that settings ask for; it is also written if they name a file.

    Raises:
        CommandError: A file cannot be read or written.
    """
    from onnx_sparse.commands.reports.model_report import gather, write_page
    from onnx_sparse.commands.reports.origin import with_source
    from onnx_sparse.models.files.load_and_save import load_model
    from onnx_sparse.models.files.model_files import file_of

    with file_of(settings.model) as path:
        settings.tell(f"reading {settings.name}")
        rows = settings.feeds(load_model(path)) if settings.rows else None
        source = settings.source
        made = None if source is None else with_source(path, Path(source), settings.load_options(), settings.tell)
        found = gather(path, made, rows=rows, times=settings.times, progress=settings.tell)
    if settings.output is not None:
        write_page(found, Path(settings.output))
    return found


@function_of(ReportSettings)
def report(settings: ReportSettings) -> Report:
    """A page about a model, as `onnx-sparse report` writes it: `save` it, or let a notebook show it.

        onnx_sparse.report("model.onnx").save("report.html")

    With a source, the page also has its graph, compares the answers of both, and times both, as far as the package that
    runs it is installed.

    Raises:
        ConversionError: A file cannot be read or written.
        ValueError: Arguments make no sense together.
    """
    with raised(ReportSettings):
        settings.check()
        return reported(settings)
