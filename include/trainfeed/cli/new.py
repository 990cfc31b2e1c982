"""``trainfeed new`` and ``schema``: make a data set, and print the schema of its file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.arguments import source_path
from trainfeed.cli.file_contents import AsFormat, Delimiter, TextEncoding
from trainfeed.cli.printing import Part, Result, program, with_json
from trainfeed.cli.scaffold import new_dataset
from trainfeed.core.config import (
    KAFKA_CONNECTION,
    LOGS_CONNECTION,
    Environment,
    environment_from_environ,
)
from trainfeed.errors import ConfigError, NotFoundError, RootError, TopicNotFoundError
from trainfeed.specification import json_schema_text
from trainfeed.versions import require_readable_root

if TYPE_CHECKING:
    from trainfeed.cli.scaffold.from_records import RecordsDraft
    from trainfeed.conversion import CsvOptions

# Columns that are left out, in the lines about a new data set.
_MOST_NAMED: Final = 10


@with_json
def new(  # noqa: PLR0913 - options of a command
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and _.")],
    *,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Write a function that gets many records at once, as arrays."),
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE or TOPIC",
            help="Draft it from the records of a file: JSON lines or CSV, compressed or not,"
            " Parquet, ORC, Arrow or Avro; with a date in the path of its folder, the folders like"
            " it are the intervals. Or from the last records of a topic of kafka_default, which are"
            " JSON, or have their schemas in registry_default.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="With --from: how many records are looked at.")
    ] = 10_000,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
    encoding: TextEncoding = "utf-8",
) -> Result:
    """Make the folder of a new data set, ready to build.

    It has a commented dataset.yaml, a function, and sample records. With --from the schema, the
    function and a proposal of gates are drafted from real records.
    """
    env = environment_from_environ()
    if like is not None:
        if batch:
            raise ConfigError("expected --batch or --from, got both; leave one out")
        from trainfeed.conversion import CsvOptions

        csv = CsvOptions(delimiter, encoding=encoding)
        return _drafted(env, name, like, rows, file_format, csv)
    created = new_dataset(env.datasets, name, batch=batch)
    command, interval = program(), created["interval"]
    build = f"{command} build {name} --interval {interval}"
    return Result(
        created,
        f"made {created['folder']}: {', '.join(created['files'])}"
        f" ({created['records']} sample records)\n"
        "next:\n"
        f"{_init_line(Path(env.root), command)}"
        f"  {build} --limit 100    # a look at samples, quarantine and statistics\n"
        f"  {build}                # the first version\n"
        f"  {command} train {name} --interval {interval}\n"
        f"In Airflow, build.{name} and train.{name} appear by themselves, paused.",
    )


def _drafted(
    env: Environment, name: str, like: str, rows: int, file_format: str | None, csv: CsvOptions
) -> Result:
    # It takes longer to import than a data set with made-up records to make.
    from trainfeed.cli.scaffold.drafted_sets import dataset_of_file
    from trainfeed.cli.scaffold.from_records import RecordsDraft
    from trainfeed.conversion.formats import format_of_name

    file = source_path(like)
    if "/" not in like and not file.exists() and format_of_name(file) is None:
        return _of_topic(env, name, like, rows)
    records = RecordsDraft.of_file(file, rows=rows, file_format=file_format, csv=csv)
    logs = env.logs[LOGS_CONNECTION]
    created = dataset_of_file(env.datasets, name, file, records, rows=rows, logs=logs)
    return Result(created, _drafted_text(env, name, created, records))


def _of_topic(env: Environment, name: str, topic: str, rows: int) -> Result:
    from trainfeed.cli.scaffold.drafted_sets import dataset_of_topic, last_records
    from trainfeed.cli.scaffold.framed_topics import are_framed, draft_framed
    from trainfeed.cli.scaffold.from_records import RecordsDraft
    from trainfeed.conversion import draft_of_json
    from trainfeed.pipeline.inputs.topics import open_source

    try:
        with open_source(env, KAFKA_CONNECTION, topic) as opened:
            found = last_records(opened, rows)
    except TopicNotFoundError as error:
        raise NotFoundError(
            f"expected a file or a topic, {topic!r} is no file here, and: {error}"
        ) from error
    values = [value for _, value in found]
    framed = draft_framed(env, topic, values) if are_framed(values) else None
    if framed is None:
        draft = draft_of_json(f"topic {topic}", values, rows=len(values))
    else:
        draft = framed.draft
    records = RecordsDraft(draft).with_fields()
    first = datetime.fromtimestamp(max(0, min(at for at, _ in found)) / 1000, UTC)
    created = dataset_of_topic(env.datasets, name, topic, records, first=first, framed=framed)
    return Result(created, _drafted_text(env, name, created, records))


def _drafted_text(
    env: Environment, name: str, created: dict[str, Any], records: RecordsDraft
) -> Iterator[Part]:
    command, draft = program(), records.draft
    seen = f"from {draft.records:,} records: {len(draft.fields)} fields"
    left = [each.name for each in draft.columns if each.field is None]
    yield f"made {created['folder']}: {', '.join(created['files'])} ({seen})"
    if left:
        more = f", and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
        yield f"left out, for the reasons in dataset.yaml: {', '.join(left[:_MOST_NAMED])}{more}"
    yield f"next:\n{_init_line(Path(env.root), command)}".removesuffix("\n")
    if created.get("logs_from") is not None:
        start = created["logs_from"]
        yield f"  export TRAINFEED_LOGS={start}    # the path of the logs starts there"
    if created.get("just_changed"):
        yield "  # The logs changed minutes ago; builds take them when they stood still for 10m."
        yield f"  # Of a copy that is whole: stable: 1s in {created['folder']}/dataset.yaml."
    build = f"{command} build {name} --interval {created['interval']}"
    yield f"  {build} --limit 100    # a look at samples, quarantine and statistics"
    yield f"  {build}                # the first version"


def _init_line(root: Path, command: str) -> str:
    """Return the line with the command that makes the publication root, if there is none."""
    try:
        require_readable_root(root, "TRAINFEED_ROOT")
    except RootError:
        return f"  {command} init    # once: makes {root}, which versions are published in\n"
    return ""


def schema() -> None:
    """Print the JSON Schema of dataset.yaml, for editors."""
    typer.echo(json_schema_text(), nl=False)
