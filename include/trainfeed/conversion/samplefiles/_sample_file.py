"""The samples of one file, whatever its format, and what files do not say themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
    """What files do not say themselves.

    Attributes:
        file_format: Format of all files; None to look at each.
        schema: Of typed samples; None for the one of the set's manifest, of the file's own
            metadata, or else for records as they are, and for values of JSON lines and CSV.
        labels: IDX file of the labels, for one file of images.
        sparse: How to read lines of libSVM.
        csv: How to read the text of CSV.
        columns: What to do about the structs and lists of text of Parquet and Arrow.
    """

    file_format: Format | None = None
    schema: Schema | None = None
    labels: FilePath | None = None
    sparse: SparseOptions | None = None
    csv: CsvOptions = _CSV_DEFAULTS
    columns: ColumnOptions = _COLUMN_DEFAULTS

    def require_used(self, path: FilePath, file_format: Format) -> None:
        """Check that what was asked for means something for the format of a file.

        Raises:
            ConfigError: It does not.
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
    """The samples of one file; everything can be iterated again.

    Attributes:
        path: The file.
        file_format: Its format.
        schema: Of typed samples, else None.
        encoding: What the samples are.
        samples: Yields them: mappings, values, or records as bytes.
        blocks: Yields arrays of many samples, None where the format or the schema has none.
        num_samples: Counts them, by reading the file where it has no index.
        records: Yields the records of a RecordIO or TFRecord file as they are; None for another
            format, and where only decoding shows that they are of the schema.
        container: Of ``records``.
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
