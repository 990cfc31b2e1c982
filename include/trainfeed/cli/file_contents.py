"""``trainfeed file inspect``, ``head``, ``cat``, ``schema``, ``verify``, ``index``; arguments."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from trainfeed.cli.arguments import source_path, target_path
from trainfeed.cli.printing import Result, Table, program, progress, with_json
from trainfeed.core.datacenters import local_source
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError, ConflictError, FormatError

if TYPE_CHECKING:
    from trainfeed.conversion import SampleFile, SourceOptions, SparseOptions


# --- Arguments that the commands on files share

File = Annotated[Path, typer.Argument(help="A file.", show_default=False, parser=source_path)]
Files = Annotated[
    list[str],
    typer.Argument(
        help="Files, globs, folders of a version or of one set of shards.", show_default=False
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="JSON file with the fields of typed samples.",
        parser=source_path,
        metavar="<path>",
    ),
]
AsFormat = Annotated[
    str | None,
    typer.Option("--format", help="Format of the input; by default the content decides."),
]
Codec = Annotated[str | None, typer.Option("--codec", help="Compression: none, zstd, gzip, ….")]
IndexBase = Annotated[
    int | None, typer.Option("--index-base", help="libsvm: number of the first feature, 0 or 1.")
]
NumFeatures = Annotated[
    int | None,
    typer.Option("--num-features", help="libsvm: number of features; by default counted."),
]
LabelDtype = Annotated[
    str | None,
    typer.Option(
        "--label-dtype",
        help="libsvm: int64 for classes (the default), float32 or float64 for regression.",
    ),
]
ValueDtype = Annotated[
    str | None,
    typer.Option("--value-dtype", help="libsvm: float32 (the default) or float64."),
]
RoundValues = Annotated[
    bool,
    typer.Option(
        "--round-values", help="libsvm: take the nearest number for values that do not fit exactly."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="CSV: the character between cells, or tab; by default the header decides.",
    ),
]
TextEncoding = Annotated[
    str, typer.Option("--encoding", help="CSV: encoding of the text, such as latin-1.")
]
JsonColumns = Annotated[
    str | None,
    typer.Option(
        "--json-columns", help="Parquet, Arrow: columns, between commas, that become JSON text."
    ),
]
Flatten = Annotated[
    str | None,
    typer.Option(
        "--flatten",
        help="Parquet, Arrow: structs, between commas, whose parts become fields like image.bytes.",
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="<old=new>",
        help="Parquet, Arrow, CSV: name of the field for a column; once for each column.",
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels", help="IDX: the file of the labels.", parser=source_path, metavar="<path>"
    ),
]


def source_options(  # noqa: PLR0913 (options of a command)
    paths: list[Path],
    schema: Path | None,
    file_format: str | None,
    *,
    index_base: int | None = None,
    num_features: int | None = None,
    label_dtype: str | None = None,
    value_dtype: str | None = None,
    round_values: bool = False,
    labels: Path | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    flatten: str | None = None,
    json_columns: str | None = None,
    rename: Sequence[str] | None = None,
) -> SourceOptions:
    """Return the options for reading files.

    Raises:
        ConfigError: The format is unknown, the schema file has no schema, the delimiter is not one
            character, or the encoding is not one of text; or an option of libsvm is given without
            the number of the first feature.
        FormatError: The features of a libsvm line cannot be counted.
    """
    from trainfeed.conversion import (
        ColumnOptions,
        CsvOptions,
        Format,
        SourceOptions,
        load_schema,
        renames_of,
    )

    dtypes = {"label_dtype": label_dtype, "value_dtype": value_dtype}
    given = {name: dtype for name, dtype in dtypes.items() if dtype is not None}
    further: dict[str, Any] = {**given, **({"rounds": True} if round_values else {})}
    sparse = _sparse_options(index_base, num_features, paths, further)
    csv = CsvOptions(delimiter, encoding=encoding)
    if file_format is not None and file_format not in set(Format):
        raise ConfigError(f"expected a format of {', '.join(Format)}, got {file_format!r}")
    return SourceOptions(
        file_format=None if file_format is None else Format(file_format),
        schema=None if schema is None else load_schema(schema),
        labels=labels,
        sparse=sparse,
        csv=csv,
        columns=ColumnOptions(
            _between_commas(flatten), _between_commas(json_columns), renames_of(rename or ())
        ),
    )


def _between_commas(names: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (names or "").split(",")))


def _sparse_options(
    index_base: int | None,
    num_features: int | None,
    paths: list[Path],
    further: Mapping[str, Any],
) -> SparseOptions | None:
    """Return the options for lines of libsvm, or None without any."""
    from trainfeed.conversion import SparseOptions, count_features

    if index_base is None:
        if num_features is not None or further:
            raise ConfigError(
                "expected --index-base 0 or 1 with --num-features, --label-dtype, --value-dtype and"
                " --round-values"
            )
        return None
    if num_features is None:
        num_features = count_features(paths, index_base=index_base)
    return SparseOptions(index_base, num_features, **further)


def open_file(
    path: Path, schema: Path | None, file_format: str | None, delimiter: str | None = None
) -> SampleFile:
    """Return the samples of a file, given the options."""
    from trainfeed.conversion import open_sample_file

    return open_sample_file(path, source_options([path], schema, file_format, delimiter=delimiter))


# --- The content of files as text that is safe to print: a terminal acts on no byte of it

_SHOWN_CHARS: Final = 200
_SHOWN_BYTES: Final = 48
_SHOWN_ITEMS: Final = 8


def sample_lines(sample: Any) -> list[tuple[str, str]]:
    """Return name and short text of each part of a sample."""
    if isinstance(sample, Mapping):
        return [(printable(str(name)), _short(value)) for name, value in sample.items()]
    if isinstance(sample, tuple):
        return [(f"[{i}]", _short(value)) for i, value in enumerate(sample)]
    return [("", _short(sample))]


def samples_result(samples: Iterable[Any], *title: str) -> Result:
    """Return samples below a title, numbered; or as a JSON list, in the order of their fields."""
    return Result(
        lambda: [as_json(sample) for sample in samples],
        [*title, _Samples(samples)],
        sort_keys=False,
    )


class _Samples(NamedTuple):
    """Samples as a part of a text."""

    samples: Iterable[Any]

    def print(self) -> None:
        """Print them, numbered."""
        console = Console(soft_wrap=True, highlight=False)
        for ordinal, sample in enumerate(self.samples):
            console.print(Text(f"#{ordinal}", style="bold"))
            for name, value in sample_lines(sample):
                console.print(Text.assemble("  ", (name, "cyan"), "  " if name else "", value))


def as_json(value: Any) -> Any:
    """Return a sample as JSON as far as possible; bytes become ``{"hex": …}``."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    # NaN, infinities and objects of other types have no JSON: they become text.
    is_finite = isinstance(value, float) and math.isfinite(value)
    return value if is_finite or value is None or isinstance(value, str | int) else str(value)


def _short(value: Any) -> str:
    if isinstance(value, str):
        shown = json.dumps(value[:_SHOWN_CHARS], ensure_ascii=False)
        return printable(shown) + _more(len(value), _SHOWN_CHARS, "characters")
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value[:_SHOWN_BYTES])
        return repr(data) + _more(len(value), _SHOWN_BYTES, "bytes")
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return printable(str(value))
    text = printable(repr(value))
    return text[:_SHOWN_CHARS] + _more(len(text), _SHOWN_CHARS, "characters")


def _array(value: np.ndarray[Any, Any]) -> str:
    items = [str(each) for each in value.reshape(-1)[:_SHOWN_ITEMS]]
    if not value.shape:
        return printable(items[0])
    dots = " …" if value.size > _SHOWN_ITEMS else ""
    shape = ", ".join(map(str, value.shape))
    return printable(f"{value.dtype} ({shape}) [{' '.join(items)}{dots}]")


def _more(length: int, shown: int, what: str) -> str:
    return f" … {length} {what}" if length > shown else ""


# --- ``trainfeed file inspect``, ``head``, ``cat``, ``verify`` and ``index``: the content of files

_ACCOUNT_COLUMNS: Final = ("file", "format", "bytes", "records", "chunks", "codecs", "samples")


@with_json
def inspect(files: Files) -> Result:
    """Show format, records, chunks and schema of files.

    Status 3 when one is damaged.
    """
    from trainfeed.conversion import paths_of

    accounts = [_account(path) for path in paths_of(files)]
    rows = ([_cell(each, name) for name in _ACCOUNT_COLUMNS] for each in accounts)
    is_damaged = any("problem" in account for account in accounts)
    return Result(
        accounts, Table(_ACCOUNT_COLUMNS, rows), status=Result.DAMAGED if is_damaged else 0
    )


@with_json
def head(
    files: Files,
    *,
    number: Annotated[int, typer.Option("-n", "--number", min=0, help="Number of samples.")] = 10,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
) -> Result:
    """Show the first samples of files, one file after another."""
    from trainfeed.conversion import paths_of

    opened = (open_file(path, schema, file_format, delimiter) for path in paths_of(files))
    return samples_result(islice(chain.from_iterable(file.samples() for file in opened), number))


def cat(
    files: Files,
    *,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
) -> None:
    """Print all samples as JSON, one per line."""
    from trainfeed.conversion import JsonSamples, paths_of

    for path in paths_of(files):
        opened = open_file(path, schema, file_format, delimiter)
        for sample in opened.samples():
            value = as_json(sample)
            if opened.schema is not None and opened.container is not None:
                value = JsonSamples(opened.schema).to_json(sample)
            # ``dumps`` escapes everything except printable ASCII, so a terminal acts on nothing.
            sys.stdout.write(json.dumps(value) + "\n")


@with_json
def schema(
    file: File,
    *,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="How many records are looked at, at most.")
    ] = 10_000,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
    encoding: TextEncoding = "utf-8",
) -> Result:
    """Draft the schema of samples from the records of a file.

    JSON lines and CSV, compressed or not; Parquet, Arrow and ORC. The lines can be pasted below
    schema: in dataset.yaml. What no field can hold is left out, with the reason. Status 1 when
    that is everything.
    """
    from trainfeed.conversion import CsvOptions, draft_schema

    csv = CsvOptions(delimiter, encoding=encoding)
    draft = draft_schema(file, rows=rows, file_format=file_format, csv=csv)
    return Result(draft.to_json(), draft.lines(), status=0 if draft.fields else Result.FAILED)


@with_json
def verify(
    files: Files,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read and decode everything.")] = False,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
) -> Result:
    """Look for damage in files.

    In headers and sizes; with --deep in everything. Status 3 when there is any.
    """
    from trainfeed.conversion import paths_of

    problems: dict[str, list[str]] = {}
    with progress("verifying") as tell:
        paths = _verify_sets(files, problems, deep=deep)
        if paths is None:
            paths = paths_of(files)
        for number, path in enumerate(paths):
            tell(len(paths), number)
            try:
                opened = open_file(path, schema, file_format, delimiter)
                problems.setdefault(str(path), [])
                _read(opened, deep=deep)
            except FormatError as error:
                problems.setdefault(str(path), []).append(str(error))
    rows = [(path, printable(each)) for path, list_ in problems.items() for each in list_]
    if not rows:
        return Result(problems, f"{len(problems)} intact")
    is_repairable = any(_can_be_repaired(path) for path, list_ in problems.items() if list_)
    advice = [f"keep what is whole: {program()} file repair FILE --output NEW"]
    table = Table(("file", "problem"), rows)
    return Result(problems, table, advice if is_repairable else (), Result.DAMAGED)


def index(
    file: File,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the index to this file.",
            parser=target_path,
            metavar="<path>",
        ),
    ] = None,
) -> None:
    """Print where the chunks or records of a file begin.

    The chunks of a RecordIO file, the records of a TFRecord file.
    """
    from trainfeed.conversion import Format, format_of
    from trainfeed.conversion.input_paths import require_file
    from trainfeed.files import SetWatch
    from trainfeed.files.stores.posix import create_exclusive
    from trainfeed.recordio import RecordIndex
    from trainfeed.tfrecord import TFRecordIndex

    require_file(file)
    SetWatch([file])
    found = format_of(file)
    rows: list[dict[str, int | str]]
    if found is Format.RECORDIO:
        chunks = RecordIndex.load(file).chunks
        rows = [
            {
                "offset_bytes": chunk.offset_bytes,
                "stored_bytes": chunk.stored_bytes,
                "raw_bytes": chunk.raw_bytes,
                "records": chunk.num_records,
                "crc32": chunk.crc32,
                "codec": chunk.codec.name.lower(),
            }
            for chunk in chunks
        ]
    elif found is Format.TFRECORD:
        table = TFRecordIndex.load(file)
        places = zip(table.offsets.tolist(), table.sizes.tolist(), strict=True)
        rows = [{"offset_bytes": offset, "record_bytes": size} for offset, size in places]
    else:
        raise ConfigError(f"expected RecordIO or TFRecord, got {found}: this format has no index")
    key = "chunks" if found is Format.RECORDIO else "records"
    text = json.dumps({"file": file.name, "format": str(found), key: rows}, indent=1) + "\n"
    if output is None:
        typer.echo(text, nl=False)
    elif not create_exclusive(output, text.encode()):
        raise ConflictError(f"{output} exists; choose another name, or delete it first")


def _account(path: Path) -> dict[str, Any]:
    account: dict[str, Any] = {"file": str(path)}
    try:
        opened = open_file(path, None, None)
        account |= {
            "format": str(opened.file_format),
            "bytes": path.stat().st_size if opened.shard is None else opened.shard.num_bytes,
            "samples": str(opened.encoding),
        }
        if opened.schema is not None:
            account["schema"] = opened.schema.to_json()
        account |= _records_of(opened)
    except FormatError as error:
        account["problem"] = str(error)
    except ConfigError as error:
        account["note"] = str(error)
    return account


def _records_of(opened: SampleFile) -> dict[str, Any]:
    from trainfeed.conversion import FileFormat
    from trainfeed.recordio import ChunkInfo, RecordIndex

    if opened.container is not FileFormat.RECORDIO:
        return {"records": opened.num_samples()}
    chunks = (
        RecordIndex.load(opened.path).chunks
        if opened.shard is None
        else [each.info for each in opened.shard.chunks if isinstance(each.info, ChunkInfo)]
    )
    codecs = Counter(chunk.codec.name.lower() for chunk in chunks)
    return {
        "records": sum(chunk.num_records for chunk in chunks),
        "chunks": len(chunks),
        "codecs": dict(sorted(codecs.items())),
        "raw_bytes": sum(chunk.raw_bytes for chunk in chunks),
        "largest_chunk_bytes": max((chunk.raw_bytes for chunk in chunks), default=0),
    }


def _cell(account: dict[str, Any], column: str) -> str:
    problem = account.get("problem") or account.get("note")
    if column == "samples" and problem:
        return printable(problem)
    value = account.get(column, "")
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items())
    return printable(f"{value:,}" if isinstance(value, int) else str(value))


def _verify_sets(
    files: list[str], problems: dict[str, list[str]], *, deep: bool
) -> list[Path] | None:
    """Compare folders with their manifests.

    Returns:
        The shards that agree with their manifests; None unless every name is a folder of sets.
    """
    from trainfeed.versions.shards import ShardManifest, prefixes_in

    folders = {Path(local_source(file)): prefixes_in(file) for file in files}
    if not all(folders.values()):
        return None
    paths = []
    for folder, prefixes in folders.items():
        for prefix in prefixes:
            manifest = ShardManifest.load(folder, prefix)
            found = manifest.problems(folder, deep=deep)
            if found:
                problems.setdefault(str(folder), []).extend(found)
            # A problem begins with the name of its file. These files are not read a second time.
            names = {each.partition(":")[0] for each in found}
            paths += [folder / s.name for s in manifest.shards if s.name not in names]
    return paths


def _can_be_repaired(path: str) -> bool:
    """Return whether ``repair`` may be able to read the format of a damaged file or set."""
    from trainfeed.conversion import Format, format_of
    from trainfeed.conversion.input_paths import shard_in_bucket

    if shard_in_bucket(path) is not None:
        return False
    try:
        return format_of(path) in {Format.RECORDIO, Format.TFRECORD}
    except FormatError:
        return True


def _read(opened: SampleFile, *, deep: bool) -> None:
    from trainfeed.conversion import FileFormat
    from trainfeed.recordio import verify_shard

    if not deep:
        opened.num_samples()
        return
    if opened.container is FileFormat.RECORDIO and opened.shard is None:
        verify_shard(opened.path)
    for _ in opened.samples():
        pass
