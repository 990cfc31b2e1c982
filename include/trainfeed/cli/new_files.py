"""``trainfeed file repair``, ``convert``, ``merge``, ``reshard``, and ``process-base64``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.arguments import target_path
from trainfeed.cli.file_contents import (
    AsFormat,
    Codec,
    Delimiter,
    File,
    Files,
    Flatten,
    IndexBase,
    JsonColumns,
    LabelDtype,
    Labels,
    NumFeatures,
    Rename,
    RoundValues,
    SchemaFile,
    TextEncoding,
    ValueDtype,
    source_options,
)
from trainfeed.cli.printing import Result, Table, error_console, progress, with_json
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from trainfeed.conversion import RepairReport, SampleFile, ShardManifest


# --- ``trainfeed file repair``, ``convert``, ``merge`` and ``reshard``: new files from old ones

_TOLD_SAMPLES: Final = 1000
Output = Annotated[
    Path,
    typer.Argument(help="The new file.", show_default=False, parser=target_path),
]
NewFileOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The new file.", parser=target_path, metavar="<path>"),
]


@with_json
def repair(
    file: Annotated[str, typer.Argument(help="A file.", show_default=False)],
    *,
    output: NewFileOption = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the old file with the new one.")
    ] = False,
    file_format: AsFormat = None,
) -> Result:
    """Write the whole parts of a damaged file to a new one.

    The ranges that were dropped are reported.
    """
    from trainfeed.conversion import Format, format_of, repair_file, repair_in_place

    if (output is None) != in_place:
        raise ConfigError("expected either --output or --in-place")
    found = format_of(file) if file_format is None else Format(file_format)
    with progress("reading") as tell:
        if output is None:
            report = repair_in_place(file, found, on_progress=tell)
        else:
            report = repair_file(file, output, found, on_progress=tell)
    dropped = _shown(report)
    kept = {"file": str(output or file), "records": report.num_records, "chunks": report.num_chunks}
    rows = [[printable(str(value)) for value in each.values()] for each in dropped]
    table = Table(("from byte", "to byte", "records lost", "reason"), rows)
    return Result(
        {**kept, "dropped": dropped},
        [Table.of_pairs(kept), table if rows else "nothing was dropped"],
    )


def _shown(report: RepairReport) -> list[dict[str, int | str | None]]:
    return [
        {
            "start_bytes": each.start_bytes,
            "end_bytes": each.end_bytes,
            "records": each.num_records,
            "reason": each.reason,
        }
        for each in report.dropped
    ]


@with_json
def convert(  # noqa: PLR0913 (options of a command)
    file: File,
    output: Output,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Format of the new file; by default its name decides."),
    ] = None,
    codec: Codec = None,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    index_base: IndexBase = None,
    num_features: NumFeatures = None,
    label_dtype: LabelDtype = None,
    value_dtype: ValueDtype = None,
    round_values: RoundValues = False,
    labels: Labels = None,
    delimiter: Delimiter = None,
    encoding: TextEncoding = "utf-8",
    flatten: Flatten = None,
    json_columns: JsonColumns = None,
    rename: Rename = None,
    labels_output: Annotated[
        Path | None,
        typer.Option(
            "--labels-output",
            help="IDX: new file of the labels.",
            parser=target_path,
            metavar="<path>",
        ),
    ] = None,
) -> Result:
    """Write the samples of a file to a new one of any format.

    In their order. Formats:
    recordio, tfrecord, parquet, arrow, jsonl, csv, idx, libsvm, webdataset (a tar), npy, npz.
    """
    from trainfeed.conversion import Format, SinkOptions, open_sample_file, transcode

    if to is not None and to not in set(Format):
        raise ConfigError(f"expected a format of {', '.join(Format)}, got {to!r}")
    reading = source_options(
        [file],
        schema,
        file_format,
        index_base=index_base,
        num_features=num_features,
        label_dtype=label_dtype,
        value_dtype=value_dtype,
        round_values=round_values,
        labels=labels,
        delimiter=delimiter,
        encoding=encoding,
        flatten=flatten,
        json_columns=json_columns,
        rename=rename,
    )
    source = open_sample_file(file, reading)
    options = SinkOptions(None if to is None else Format(to), codec, reading.sparse, labels_output)
    with progress("converting") as tell:
        count = transcode(_telling(source, tell), output, options)
    return Result({"file": str(output), "samples": count, "bytes": output.stat().st_size})


def _telling(source: SampleFile, tell: Callable[[int, int], None]) -> SampleFile:
    """Return a file that reports how many of its samples or records were read."""

    def counted(read: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        for number, sample in enumerate(read()):
            if not number % _TOLD_SAMPLES:
                tell(0, number)
            yield sample

    records = None if source.records is None else partial(counted, source.records)
    return replace(source, samples=partial(counted, source.samples), records=records)


@with_json
def merge(files: Files, output: Output) -> Result:
    """Write the records of several files to a new one.

    One file after another.
    """
    from trainfeed.conversion import merge_files, paths_of

    with progress("merging") as tell:
        count = merge_files(paths_of(files), output, on_progress=tell)
    return Result({"file": str(output), "records": count, "bytes": output.stat().st_size})


@with_json
def reshard(  # noqa: PLR0913 (options of a command)
    files: Files,
    output: Annotated[
        Path,
        typer.Argument(
            help="Folder of the shards.",
            show_default=False,
            parser=target_path,
        ),
    ],
    *,
    shards: Annotated[int, typer.Option("--shards", help="Number of files.")],
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix of the names of the files.")],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the shuffle.")] = 0,
    to: Annotated[str, typer.Option("--to", help="recordio or tfrecord.")] = "recordio",
    codec: Codec = None,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    index_base: IndexBase = None,
    num_features: NumFeatures = None,
    label_dtype: LabelDtype = None,
    value_dtype: ValueDtype = None,
    round_values: RoundValues = False,
    labels: Labels = None,
    delimiter: Delimiter = None,
    encoding: TextEncoding = "utf-8",
    flatten: Flatten = None,
    json_columns: JsonColumns = None,
    rename: Rename = None,
    memory_mib: Annotated[
        int, typer.Option("--memory-mib", help="Memory for samples, in MiB.")
    ] = 128,
) -> Result:
    """Write samples to shards, shuffled over all of them."""
    from trainfeed.conversion import ConvertOptions, FileFormat, convert_files, paths_of

    if to not in set(FileFormat):
        raise ConfigError(f"expected a format of {', '.join(FileFormat)}, got {to!r}")
    paths = paths_of(files)
    reading = source_options(
        paths,
        schema,
        file_format,
        index_base=index_base,
        num_features=num_features,
        label_dtype=label_dtype,
        value_dtype=value_dtype,
        round_values=round_values,
        labels=labels,
        delimiter=delimiter,
        encoding=encoding,
        flatten=flatten,
        json_columns=json_columns,
        rename=rename,
    )
    with progress("converting") as tell:
        manifest = convert_files(
            paths,
            output,
            shards,
            prefix,
            seed=seed,
            codec=codec or "none",
            source=reading,
            options=ConvertOptions(
                file_format=FileFormat(to), memory_bytes=memory_mib << 20, on_progress=tell
            ),
        )
    return Result(_account(output, manifest))


def _account(output: Path, manifest: ShardManifest) -> dict[str, int | str]:
    return {
        "folder": str(output),
        "shards": len(manifest.shards),
        "samples": manifest.num_samples,
        "bytes": manifest.num_bytes,
    }


# --- ``trainfeed process-base64``: shuffles base64 image files and divides them among ranks


@with_json
def process_base64(
    *,
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data_dir",
            "--data-dir",
            help="Folder of the image files.",
            parser=target_path,
            metavar="<path>",
        ),
    ],
    file_list: Annotated[
        str, typer.Option("--file_list", "--file-list", help="List of the files in the folder.")
    ],
    nranks: Annotated[int, typer.Option("--nranks", help="Number of files to make.")],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the shuffle.")] = 0,
) -> Result:
    """Shuffle base64 image files into one file per rank.

    The counts of the files are equal; the inputs are kept.
    """
    from trainfeed import conversion

    with error_console().status(f"dealing out {file_list} to {nranks} files"):
        report = asdict(conversion.process_base64(data_dir, file_list, nranks, seed=seed))
    shown = {**report, "files": f"{report['files'][0]} … {report['files'][-1]}"}
    return Result(report, Table.of_pairs(shown))
