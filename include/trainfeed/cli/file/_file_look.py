"""``trainfeed file inspect``, ``head``, ``cat``, ``verify`` and ``index``: the content of files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainfeed.cli._places import target_path
from trainfeed.cli._printing import print_json, print_message, print_rows, program
from trainfeed.cli.file._file_options import (
    AsFormat,
    AsJson,
    Delimiter,
    File,
    Files,
    SchemaFile,
    open_file,
    progress,
)
from trainfeed.cli.file._file_text import as_json, print_samples
from trainfeed.datacenters import local_source
from trainfeed.errors import ConfigError, ConflictError, FormatError
from trainfeed.printable_text import printable

if TYPE_CHECKING:
    from trainfeed.conversion import SampleFile

__all__ = ["cat", "head", "index", "inspect", "verify"]

_DAMAGED = 3


def inspect(files: Files, *, use_json: AsJson = False) -> None:
    """Show format, records, chunks, codecs and schema of files; status 3 if one is damaged."""
    from trainfeed.conversion import paths_of

    accounts = [_account(path) for path in paths_of(files)]
    if use_json:
        print_json(accounts)
    else:
        columns = ("file", "format", "bytes", "records", "chunks", "codecs", "samples")
        print_rows(columns, [[_cell(each, name) for name in columns] for each in accounts])
    if any("problem" in account for account in accounts):
        raise typer.Exit(_DAMAGED)


def head(
    files: Files,
    *,
    number: Annotated[int, typer.Option("-n", "--number", min=0, help="Number of samples.")] = 10,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
    use_json: AsJson = False,
) -> None:
    """Show the first samples of files, one file after another."""
    from trainfeed.conversion import paths_of

    opened = (open_file(path, schema, file_format, delimiter) for path in paths_of(files))
    samples = islice(chain.from_iterable(file.samples() for file in opened), number)
    print_samples(samples, use_json=use_json)


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


def verify(
    files: Files,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read and decode everything.")] = False,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
    use_json: AsJson = False,
) -> None:
    """Look for damage in headers and sizes, or in everything; status 3 if there is any."""
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
    found = sum(map(len, problems.values()))
    if use_json:
        print_json(problems)
    elif found:
        rows = [(path, printable(each)) for path, list_ in problems.items() for each in list_]
        print_rows(("file", "problem"), rows)
    else:
        typer.echo(f"{len(problems)} intact")
    if found:
        if any(_can_be_repaired(path) for path, list_ in problems.items() if list_):
            print_message(f"keep what is whole: {program()} file repair FILE --output NEW")
        raise typer.Exit(_DAMAGED)


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
    """Print the places of the chunks of a RecordIO file, or the records of a TFRecord file."""
    from trainfeed.conversion import Format, format_of
    from trainfeed.paths import SetWatch
    from trainfeed.recordio import RecordIndex
    from trainfeed.storage.posix import create_exclusive
    from trainfeed.tfrecord import TFRecordIndex

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
            "bytes": path.stat().st_size,
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
    from trainfeed.recordio import RecordIndex

    if opened.container is not FileFormat.RECORDIO:
        return {"records": opened.num_samples()}
    chunks = RecordIndex.load(opened.path).chunks
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
    from trainfeed.dataset.shards import ShardManifest, prefixes_in

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
    if opened.container is FileFormat.RECORDIO:
        verify_shard(opened.path)
    for _ in opened.samples():
        pass
