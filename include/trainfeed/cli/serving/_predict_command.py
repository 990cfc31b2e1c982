"""``trainfeed predict``: predictions of records in files, or of a published split."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from trainfeed.cli._look_target import version_for_readers
from trainfeed.cli._places import target_path
from trainfeed.cli._printing import print_message
from trainfeed.cli.serving._chosen_place import (
    AcceptOtherCode,
    Target,
    TimeLimit,
    chosen_place,
    limits_of,
)
from trainfeed.dataset import Version
from trainfeed.errors import ConfigError, PredictionError
from trainfeed.paths import NewFile
from trainfeed.prediction import (
    STANDARD_INPUT,
    Counts,
    ModelWorker,
    RecordForm,
    predict_records,
    predict_split,
    read_lines,
    write_outcomes,
)

__all__ = ["predict"]

_BUFFER_BYTES: Final = 1 << 20


def predict(  # noqa: PLR0913 - options of a command
    target: Target,
    files: Annotated[
        list[str] | None, typer.Argument(help="Files of lines; - is standard input, the default.")
    ] = None,
    *,
    version: Annotated[
        str | None, typer.Option(help="NAME/INTERVAL: predict samples of a published version.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="The split of --version.")] = None,
    withdrawn: Annotated[
        str, typer.Option(help="For a withdrawn --version, named with gNNNN: fail or warn.")
    ] = "fail",
    form: Annotated[
        RecordForm,
        typer.Option(help="value: a line is the value of a record; record: a line is JSON."),
    ] = RecordForm.VALUE,
    output: Annotated[
        Path | None,
        typer.Option(
            help="New file for the predictions, which appears whole.",
            parser=target_path,
            metavar="<path>",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Accept records without a prediction.")
    ] = False,
    accept_other_code: AcceptOtherCode = False,
    batch: Annotated[
        int, typer.Option(min=1, max=1 << 20, help="Most records that are predicted at once.")
    ] = 1024,
    time_limit: TimeLimit = 60.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the counts to standard error as JSON.")
    ] = False,
) -> None:
    """Predict records with a model: a line of JSON for each record, in their order.

    A record is preprocessed as for the model's data. Status 1: a record has no prediction.
    """
    started = time.perf_counter()
    _require_one_source(files, version, split)
    _, place = chosen_place(target, accepts_other_code=accept_other_code)
    opened = None if version is None else version_for_readers(version, withdrawn=withdrawn)
    at = None if opened is None else opened.path
    with _opened(output) as file, ModelWorker(place, limits_of(place, time_limit), at) as worker:
        for warning in worker.facts.warnings():
            print_message(f"warning: {warning}")
        batches = (
            predict_records(worker, read_lines(files or [STANDARD_INPUT], form), batch)
            if opened is None
            else predict_split(worker, opened, _split(split, opened), batch)
        )
        counts = write_outcomes(worker, batches, file)
        report = {**worker.facts.to_json(), **counts.to_json()}
        _tell({**report, "seconds": round(time.perf_counter() - started, 3)}, as_json=as_json)
        _require_predictions(counts, output, skip_bad=skip_bad)


def _require_one_source(files: list[str] | None, version: str | None, split: str | None) -> None:
    if files and version is not None:
        raise ConfigError("expected files or --version, got both; leave one out")
    if version is None and split is not None:
        raise ConfigError("expected --version beside --split, got none; name the version")


def _split(split: str | None, version: Version) -> str:
    if split is None:
        names = ", ".join(sorted(version.manifest.splits))
        raise ConfigError(f"expected --split beside --version, got none; name one of: {names}")
    return split


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        return
    with NewFile(output, buffer_bytes=_BUFFER_BYTES) as new:
        yield new.file


def _tell(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report, sort_keys=True), err=True)
        return
    kinds = ", ".join(f"{report[kind]} {kind}" for kind in ("predicted", "filtered", "rejected"))
    print_message(
        f"{report['model']}/{report['version']}: {report['records']} records: {kinds},"
        f" {report['failed']} failed; {report['seconds']} s"
    )


def _require_predictions(counts: Counts, output: Path | None, *, skip_bad: bool) -> None:
    """Refuse no records, and records without a prediction unless they are accepted.

    Raises:
        PredictionError: There are such records, or there is none at all.
    """
    total = counts.kinds.total()
    if total == 0:
        raise PredictionError("expected at least one record, got none; no prediction was made")
    if counts.num_bad == 0 or skip_bad:
        return
    reasons = ", ".join(f"{reason}: {n}" for reason, n in sorted(counts.reasons.items()))
    kept = "their lines say why" if output is None else f"{output} was not made"
    raise PredictionError(
        f"{counts.num_bad} of {total} records have no prediction ({reasons}); the first is"
        f" {json.dumps(counts.first_bad)}; {kept}; correct the records, or accept that with"
        " --skip-bad"
    )
