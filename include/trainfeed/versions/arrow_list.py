"""The Arrow file of a list of files: columns, bytes, and what it says of all files at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.versions.listed_files import ListedFiles

_SOURCE: Final = "source"
_WORD: Final = pa.dictionary(pa.int32(), pa.utf8())
# Source string and ``FACTS``.
FILE_FIELDS: Final = (
    pa.field(_SOURCE, pa.utf8(), nullable=False),
    pa.field("end", pa.int64(), nullable=False),
    pa.field("kind", _WORD),
    pa.field("connection", _WORD, nullable=False),
    pa.field("path", pa.utf8(), nullable=False),
    pa.field("compression", _WORD, nullable=False),
    pa.field("timestamp_ms", pa.int64(), nullable=False),
    pa.field("modified_ms", pa.int64(), nullable=False),
    pa.field("file_id", pa.int64()),
    pa.field("checksum", pa.utf8()),
    pa.field("layouts", _WORD),
)
# The longest list that is read: some 10 million files.
MAX_LIST_BYTES: Final = 1 << 30
# Rows of a batch in the file.
_BATCH_ROWS: Final = 1 << 16


class FileList:
    """A list in memory.

    Args:
        data: The content of the file.
        schema: The columns that it must have.
        path: Path of the file, for messages.

    Raises:
        FormatError: ``data`` is no such list, or its files are not in order.
    """

    def __init__(self, data: bytes, schema: pa.Schema, path: str | None = None) -> None:
        self.data = data
        try:
            with pa.ipc.open_file(pa.py_buffer(data)) as file:
                if not file.schema.equals(schema):
                    raise FormatError(f"expected columns {schema}, got {file.schema}", path=path)
                table = file.read_all()
            table.validate(full=True)
        except pa.ArrowException as error:
            raise FormatError(f"expected a list of files: {error}", path=path) from error
        lacking = [
            each.name for each in schema if not each.nullable and table[each.name].null_count
        ]
        if lacking:
            raise FormatError(f"expected values of {', '.join(lacking)} in every row", path=path)
        self._table = table
        names = self.sources
        if not names or any(before >= name for before, name in pairwise(names)):
            raise FormatError("expected files in order of their sources, each once", path=path)

    @classmethod
    def of(cls, schema: pa.Schema, columns: Mapping[str, Sequence[Any]]) -> FileList:
        """Return a list of the values of every column; equal values give equal bytes."""
        arrays = []
        for each in schema:
            kind = each.type
            is_word = pa.types.is_dictionary(kind)
            array = pa.array(columns[each.name], kind.value_type if is_word else kind)
            arrays.append(array.dictionary_encode().cast(kind) if is_word else array)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), _BATCH_ROWS)
        return cls(sink.getvalue().to_pybytes(), schema)

    @cached_property
    def sources(self) -> list[str]:
        """The source strings, sorted by their UTF-8 bytes."""
        names: list[str] = self._table[_SOURCE].to_pylist()
        return names

    @cached_property
    def place(self) -> ListedFiles:
        """What a plan or manifest says about the list."""
        return ListedFiles(sha256=sha256(self.data).hexdigest(), files=len(self))

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.sources)

    def index(self, source: str) -> int:
        """Return the number of the row of a source.

        Raises:
            KeyError: The list has no such source.
        """
        # Code points sort as their UTF-8 bytes do.
        found = bisect_left(self.sources, source)
        if found == len(self.sources) or self.sources[found] != source:
            raise KeyError(source)
        return found

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column of numbers, shape (files,)."""
        found: NDArray[Any] = self._table[name].to_numpy()
        return found

    def lists(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a column of lists: the length of each, shape (files,), and all values."""
        column = self._table[name].combine_chunks()
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths, pc.list_flatten(column).to_numpy()

    def texts(self, name: str) -> list[str | None]:
        """Return a column of texts."""
        found: list[str | None] = self._table[name].to_pylist()
        return found

    def sums(self, name: str, field: str) -> NDArray[Any]:
        """Return, for each file, the sum of one field over a column of lists, shape (files,).

        The sum of unsigned numbers wraps.
        """
        column = self._table[name].combine_chunks()
        values = pc.struct_field(pc.list_flatten(column), field).to_numpy()
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
        sums = np.zeros(len(self), values.dtype)
        np.add.at(sums, np.repeat(np.arange(len(self)), lengths), values)
        return sums

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return columns by their names, in this order."""
        return self._table.select(list(names))
