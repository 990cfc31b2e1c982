"""``paddle.reader.creator``: readers over arrays, text and record files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainfeed.decorators import buffered
from trainfeed.readers import Reader, np_array, text_file
from trainfeed.readers import recordio as _recordio

__all__ = ["RecordIO", "np_array", "recordio", "text_file"]


def recordio(
    paths: str | Sequence[str], buf_size: int = 100, *, decode: Callable[[bytes], Any] | None = None
) -> Reader:
    """Return a reader over the samples of record files, which reads ``buf_size`` samples ahead.

    Args:
        paths: A path, a text of several paths separated by commas, or a list of these; each may be
            a glob.
        buf_size: Samples to read ahead.
        decode: Function from the bytes of a record to a sample. None uses the schema in the
            manifest of converted shards; without a manifest, samples are bytes. ``pickle.loads``,
            which the original uses, runs any code that a file contains: pass it only for files
            that you wrote yourself.

    Raises:
        NotFoundError: No file matches.
    """
    return buffered(_recordio(paths, decode), buf_size)


def RecordIO(paths: str | Sequence[str], buf_size: int = 100) -> Reader:  # noqa: N802 (the document's name)
    """Return ``recordio(paths, buf_size)``."""
    return recordio(paths, buf_size)
