"""Plans and reads log files: one folder per interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.pipeline.inputs._log_files import check_folder, iter_log
from trainfeed.pipeline.inputs._log_head import with_log_heads
from trainfeed.pipeline.inputs._log_inputs import LogInputs
from trainfeed.pipeline.inputs._source_reader import SourceReader
from trainfeed.pipeline.plans import PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import DatasetSpec
from trainfeed.window import Interval

__all__ = ["LogReader"]

_COPIES: Final = "logs"


class LogReader(SourceReader):
    """Reads ranges of bytes of files, and compares every file and its folder with the plan."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[LogInputs]:
        """Look at the folder of the interval.

        Raises:
            FormatError: The folder has what cannot be read.
            StorageError: The file system does not answer.
        """
        yield LogInputs(spec, env, folder, interval)

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Compare the folder of the interval, and the files of ``sources``, with the plan.

        Raises:
            SourceReplacedError: Files changed, vanished, were replaced or added; names them.
        """
        check_folder(stage, sources)

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a range of bytes.

        Raises:
            SourceReplacedError: The file is not the one that was planned.
            FormatError: The file does not decompress, or has a line that is too long.
            StorageError: It cannot be read.
        """
        return iter_log(stage, piece)

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Environment:
        """Copy the first lines, and return an environment that finds the copies.

        Raises:
            WindowOpenError: The folder of the interval is not complete.
            FormatError: A file does not decompress, or has a line that is too long.
            StorageError: A file cannot be read.
        """
        return with_log_heads(spec, interval, env, place / _COPIES, limit)
