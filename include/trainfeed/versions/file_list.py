"""Lists of many source files: an Arrow file of its own, which a plan or manifest names by digest.

JSON takes 372 bytes for each file of a plan, and every process that reads them holds objects of
some 7 KiB a file. A list has a row per file, in the order of the source strings; a process holds
the bytes and the source strings, and makes the other facts of a file when they are asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from trainfeed.errors import FormatError

T = TypeVar("T")

# Up to so many files stand in the plan and in the manifest themselves: 1.5 and 2.7 MB of JSON.
LISTED_ABOVE: Final = 4096
# The longest list that is read: some 10 million files.
MAX_LIST_BYTES: Final = 1 << 30

_SOURCE: Final = "source"
_WORD: Final = pa.dictionary(pa.int32(), pa.utf8())
# The facts of a file; it starts at byte 0.
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
# Rows of a batch in the file, and of a block that is made into objects at once.
_BATCH_ROWS: Final = 1 << 16
_BLOCK_ROWS: Final = 1024


class ListedFiles(BaseModel):
    """The place of a list, as the plan or manifest has it: its digest and its number of files."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    files: Annotated[int, Field(ge=1)]


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

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return columns by their names, in this order."""
        return self._table.select(list(names))


class _Items(ItemsView[str, T]):
    _mapping: Listed[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return zip(self._mapping, self._mapping.each(), strict=True)


class _Values(ValuesView[T]):
    _mapping: Listed[T]

    def __iter__(self) -> Iterator[T]:
        return self._mapping.each()


class Listed(Mapping[str, T], Generic[T]):
    """Source string → a value that is made from the row of its file when it is asked for.

    Args:
        files: The list.
        names: The columns from which a value is made.
        make: Makes a value from name → value of these columns.
    """

    def __init__(
        self, files: FileList, names: Sequence[str], make: Callable[[dict[str, Any]], T]
    ) -> None:
        self.files = files
        self._columns = files.columns(names)
        self._make = make

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.files)

    def __iter__(self) -> Iterator[str]:
        """Yield the source strings, in order of their UTF-8 bytes."""
        return iter(self.files.sources)

    def __contains__(self, source: object) -> bool:
        """Return whether the list has a source."""
        if not isinstance(source, str):
            return False
        try:
            self.files.index(source)
        except KeyError:
            return False
        return True

    def __getitem__(self, source: str) -> T:
        """Return the value of a source."""
        (row,) = self._columns.slice(self.files.index(source), 1).to_pylist()
        return self._make(row)

    def each(self) -> Iterator[T]:
        """Yield the values of all files, in order."""
        for first in range(0, len(self), _BLOCK_ROWS):
            yield from map(self._make, self._columns.slice(first, _BLOCK_ROWS).to_pylist())

    def items(self) -> ItemsView[str, T]:
        """Return source strings with their values."""
        return _Items(self)

    def values(self) -> ValuesView[T]:
        """Return the values."""
        return _Values(self)
