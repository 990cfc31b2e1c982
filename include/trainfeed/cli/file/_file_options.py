"""Arguments that the commands on files share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trainfeed.cli._places import source_path
from trainfeed.cli._printing import error_console
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainfeed.conversion import SampleFile, SourceOptions, SparseOptions

__all__ = [
    "AsFormat",
    "AsJson",
    "Codec",
    "Delimiter",
    "File",
    "Files",
    "Flatten",
    "IndexBase",
    "JsonColumns",
    "LabelDtype",
    "Labels",
    "NumFeatures",
    "RoundValues",
    "SchemaFile",
    "TextEncoding",
    "ValueDtype",
    "open_file",
    "progress",
    "source_options",
]

File = Annotated[Path, typer.Argument(help="A file.", show_default=False, parser=source_path)]
Files = Annotated[
    list[str],
    typer.Argument(
        help="Files, globs, folders of a version or of one set of shards.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
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
) -> SourceOptions:
    """Return the options for reading files.

    Raises:
        ConfigError: The format is unknown, the schema file has no schema, the delimiter is not one
            character, or the encoding is not one of text; or an option of libsvm is given without
            the number of the first feature.
        FormatError: The features of a libsvm line cannot be counted.
    """
    from trainfeed.conversion import ColumnOptions, CsvOptions, Format, SourceOptions, load_schema

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
        columns=ColumnOptions(_between_commas(flatten), _between_commas(json_columns)),
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


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; yield a function of the total (0: unknown) and the number done."""
    console = error_console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)

        def tell(total: int, done: int) -> None:
            bar.update(task, total=total or None, completed=done)

        yield tell
