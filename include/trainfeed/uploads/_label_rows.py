"""Reads an upload strictly, as rows of the key and label fields of a data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.samples import Schema, TypedCodec
from trainfeed.specification import DatasetSpec

__all__ = ["KINDS", "LabelFields", "iter_rows"]

# Suffix of a name → kind of the file.
KINDS: Final[Mapping[str, str]] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class LabelFields:
    """The fields of an upload.

    Attributes:
        key: Fields that identify a sample; none is optional.
        labels: Fields that the upload gives.
    """

    key: Schema
    labels: Schema

    @classmethod
    def of(cls, spec: DatasetSpec) -> LabelFields:
        """Return the fields that a specification names.

        Raises:
            ConfigError: The data set has no part ``uploads``.
        """
        if spec.uploads is None:
            raise ConfigError(
                f"data set {spec.name!r} takes no uploads; add the part uploads to dataset.yaml"
            )
        known = {field["name"]: field for field in spec.schema_fields()}
        key, labels = (
            Schema.from_json([known[name] for name in names])
            for names in (spec.uploads.key, spec.uploads.labels)
        )
        return cls(key, labels)

    def digest(self) -> str:
        """Return the digest of all fields: files of equal bytes are read alike under equal ones."""
        return canonical_json.sha256_of([self.key.to_json(), self.labels.to_json()])


def iter_rows(
    path: Path, kind: str, fields: LabelFields, rules: ReadingRules = NEWEST
) -> Iterator[dict[str, Any]]:
    """Yield the rows of an upload in the form of ``TypedCodec.decode``.

    Args:
        path: The file; its name tells nothing.
        kind: csv (commas, a header), jsonl or parquet.
        fields: The fields; a file has all of them but absent optional ones, and no others.
        rules: The rules by which values are read.

    Raises:
        FormatError: A row does not match; the message has the row or line, and the field.
        StorageError: The file cannot be read.
    """
    # Every planner imports this module, and few data sets have uploads.
    from trainfeed.conversion.csv_files import CsvOptions, read_csv
    from trainfeed.conversion.json_lines import read_json_lines

    schema = Schema((*fields.key, *fields.labels))
    rows: Iterator[dict[str, Any]]
    match kind:
        case "csv":
            rows = read_csv(path, schema, options=CsvOptions(delimiter=",", rules=rules))
        case "jsonl":
            rows = read_json_lines(path, schema, rules=rules)
        case _:
            rows = _parquet(path, schema, rules)
    texts = [field.name for field in schema if field.dtype == "str"]
    keys = [field.name for field in fields.key if field.is_text]
    for number, row in enumerate(rows, 1):
        _require_text(row, texts, keys, number)
        yield row


def _parquet(path: Path, schema: Schema, rules: ReadingRules) -> Iterator[dict[str, Any]]:
    from trainfeed.conversion.arrow import open_parquet
    from trainfeed.conversion.json_lines import require_kept

    codec, number = TypedCodec(schema), 0
    try:
        with open_parquet(path) as table:
            if rules is not ReadingRules.GUESSED:
                table.require_no_times(schema)
            for row in table.iter_samples():
                number += 1
                if rules is not ReadingRules.GUESSED:
                    require_kept(schema, row)
                yield codec.decode(codec.encode(row))
    except (ConfigError, SampleShapeError) as error:
        place = f"row {number}: " if isinstance(error, SampleShapeError) else ""
        raise FormatError(f"{place}{error}", path=str(path)) from error


def _require_text(row: Mapping[str, Any], texts: list[str], keys: list[str], number: int) -> None:
    for name in texts:
        if row[name] is not None and "\0" in row[name]:
            raise FormatError(f"row {number}: field {name!r}: expected text without NUL")
    for name in keys:
        if not row[name]:
            raise FormatError(f"row {number}: field {name!r}: expected a key, got an empty one")
