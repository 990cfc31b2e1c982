"""The samples of one file of any format, and the options that files do not state themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trainfeed.conversion.formats import ColumnOptions, CsvOptions, SparseOptions
from trainfeed.conversion.samplefiles._sniff import Format
from trainfeed.dataset.shards import Encoding, FileFormat
from trainfeed.errors import ConfigError
from trainfeed.paths import FilePath
from trainfeed.samples import Schema

__all__ = ["SampleFile", "SourceOptions"]

_CSV_DEFAULTS: Final = CsvOptions()
_COLUMN_DEFAULTS: Final = ColumnOptions()


@dataclass(frozen=True)
class SourceOptions:
    """Properties of input files that the files themselves do not state.

    Attributes:
        file_format: Format of all files; None recognises the format of each file.
        schema: Schema of typed samples; None takes the schema in the manifest of the set, or in
            the metadata of the file. Without any of these, record files give bytes, and JSON lines
            and CSV give values.
        labels: IDX file of the labels, for a single file of images.
        sparse: How lines of libSVM are read.
        csv: How the text of CSV is read.
        columns: How columns of Parquet and Arrow without a matching field are converted.
    """

    file_format: Format | None = None
    schema: Schema | None = None
    labels: FilePath | None = None
    sparse: SparseOptions | None = None
    csv: CsvOptions = _CSV_DEFAULTS
    columns: ColumnOptions = _COLUMN_DEFAULTS

    def require_used(self, path: FilePath, file_format: Format) -> None:
        """Check that every option that is set applies to the format of a file.

        Raises:
            ConfigError: An option does not apply.
        """
        tables = {Format.PARQUET, Format.ARROW}
        if self.columns != _COLUMN_DEFAULTS and file_format not in tables:
            raise ConfigError(
                f"{path}: only columns of Parquet and Arrow are flattened or made JSON, this is"
                f" {file_format}"
            )
        if self.csv != _CSV_DEFAULTS and file_format is not Format.CSV:
            raise ConfigError(
                f"{path}: only CSV has a delimiter, a quote and an encoding, this is {file_format}"
            )
        if self.labels is not None and file_format is not Format.IDX:
            raise ConfigError(f"{path}: only IDX has a file of labels, this is {file_format}")


@dataclass(frozen=True)
class SampleFile:
    """The samples of one file; they can be iterated again.

    Attributes:
        path: The file.
        file_format: Format of the file.
        schema: Schema of typed samples; otherwise None.
        encoding: Encoding of the samples.
        samples: Yields the samples: mappings, values, or records as bytes.
        blocks: Yields arrays of many samples; None if the format or the schema does not allow it.
        num_samples: Returns the number of samples; reads the file if it has no index.
        records: Yields the unchanged records of a RecordIO or TFRecord file; None for another
            format, and where only decoding can show that records match the schema.
        container: File format of ``records``; None without ``records``.
        times: Field → type of its column, for dates and times, whose numbers have its unit.
    """

    path: Path
    file_format: Format
    schema: Schema | None
    encoding: Encoding
    samples: Callable[[], Iterator[Any]]
    blocks: Callable[[], Iterator[Mapping[str, Any]]] | None
    num_samples: Callable[[], int]
    records: Callable[[], Iterator[bytes]] | None = None
    container: FileFormat | None = None
    times: Mapping[str, str] = field(default_factory=dict)
