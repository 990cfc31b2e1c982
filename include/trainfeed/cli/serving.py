"""``trainfeed serve`` and ``predict``: predictions with a model, as a service or of files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from trainfeed.cli.arguments import (
    ServerOptions,
    readable_environment,
    target_path,
    with_options,
)
from trainfeed.cli.completion import complete_target
from trainfeed.cli.named_versions import version_for_readers
from trainfeed.cli.printing import print_message
from trainfeed.errors import ConfigError, PredictionError
from trainfeed.files import NewFile
from trainfeed.prediction import (
    STANDARD_INPUT,
    Counts,
    ModelPlace,
    ModelWorker,
    PredictionLimits,
    RecordForm,
    predict_records,
    predict_split,
    read_lines,
    write_outcomes,
)
from trainfeed.specification import check_name, load_spec
from trainfeed.training.models import ChosenModel, Model, ModelsFolder
from trainfeed.versions import Version

# --- The model that a command names, and the limits of the process that predicts with it

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="NAME@prod, NAME@candidate or NAME/vNNNN; NAME alone is NAME@prod."
    ),
]
AcceptOtherCode = Annotated[
    bool,
    typer.Option(
        "--accept-other-code",
        help="Predict although today's preprocessing differs from that of the model's data; every"
        " prediction says so.",
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit", min=0.1, help="Seconds for the records that are predicted at once."
    ),
]


def chosen_place(target: str, *, accepts_other_code: bool) -> tuple[ChosenModel, ModelPlace]:
    """Return the named model, and the place of its version of today.

    Raises:
        ConfigError: ``target`` names no model.
        NotFoundError: There is no such model, or the alias points to none.
    """
    env = readable_environment()
    chosen = ChosenModel.parse(ModelsFolder(Path(env.root)), target)
    name = chosen.folder.name
    place = ModelPlace(Path(env.root), env.datasets, name, chosen.resolve(), accepts_other_code)
    return chosen, place


def limits_of(place: ModelPlace, time_s: float) -> PredictionLimits:
    """Return the limits of the process: its memory is that of a worker of the data set.

    Raises:
        NotFoundError: There is no such model or data set.
        SpecError: The specification of the data set is wrong.
    """
    model = Model.open(ModelsFolder(place.root).model(place.model), place.number)
    spec = load_spec(place.datasets / check_name(model.manifest.job.dataset))
    return PredictionLimits(time_s, spec.resources.worker_memory_bytes)


# --- ``trainfeed serve``: a service of predictions, which follows the alias of a model

_PORT: Final = 8791


@with_options("server", ServerOptions, port=_PORT)
def serve(  # noqa: PLR0913 - options of a command
    target: ModelName,
    *,
    server: ServerOptions,
    max_batch: Annotated[
        int, typer.Option(min=1, max=65536, help="Most records of a batch, and of a request.")
    ] = 256,
    max_delay: Annotated[
        float,
        typer.Option(min=0, max=1, help="Seconds that a request waits for others if none is run."),
    ] = 0.002,
    queue: Annotated[
        int,
        typer.Option(
            min=1, help="Most records that wait, of which one caller gets half; else 503."
        ),
    ] = 2048,
    max_body: Annotated[int, typer.Option(min=1, help="Most bytes of a request.")] = 64 << 10,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Most requests at once, of which one caller gets half.")
    ] = 256,
    rate: Annotated[float, typer.Option(min=0.1, help="Requests per second of one token.")] = 10000,
    watch: Annotated[
        float, typer.Option(min=0.1, help="Seconds from one look at the alias to the next.")
    ] = 2.0,
    time_limit: TimeLimit = 10.0,
    accept_other_code: AcceptOtherCode = False,
) -> None:
    """Answer requests for predictions with a model.

    Until SIGTERM. With NAME@prod, a promotion or a rollback changes the model without a lost
    request.
    """
    if queue < max_batch:
        raise ConfigError(
            f"expected --queue of at least --max-batch = {max_batch}, got {queue}: a batch waits"
            " before it is predicted; raise --queue"
        )
    from trainfeed.prediction.batcher import BatchBounds
    from trainfeed.prediction.service import ServiceSettings, serve_model
    from trainfeed.serving.server import Limits

    limits = Limits(
        body_bytes=max_body,
        bodies_bytes=max(Limits.bodies_bytes, 2 * max_body),
        requests=max_requests,
        caller_requests=max_requests,
        connections=2 * max_requests,
        requests_per_second=rate,
        burst=max(1, int(rate)),
        # Three batches at worst: the one in work, the own one, and its requests one by one. Before
        # the last two the process may be replaced, which opens the model: seconds, and more on a
        # machine that is busy.
        request_seconds=3 * time_limit + 90,
    )
    chosen, place = chosen_place(target, accepts_other_code=accept_other_code)
    settings = ServiceSettings(
        server.settings(limits),
        limits_of(place, time_limit),
        BatchBounds(max_batch, max_delay, queue),
        watch,
    )

    def ready(url: str) -> None:
        print_message(f"{url} predicts with {target}")

    serve_model(chosen, place, settings, ready)


# --- ``trainfeed predict``: predictions of records in files, or of a published split

_BUFFER_BYTES: Final = 1 << 20


def predict(  # noqa: PLR0913 - options of a command
    target: ModelName,
    files: Annotated[
        list[str] | None, typer.Argument(help="Files of lines; - is standard input, the default.")
    ] = None,
    *,
    version: Annotated[
        str | None,
        typer.Option(
            help="NAME[@TAG]/INTERVAL[/gNNNN]: predict samples of a published version.",
            autocompletion=complete_target,
        ),
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
    """Predict records in files with a model.

    A line of JSON for each record, in their order. A record is preprocessed as for the model's
    data. Status 1: a record has no prediction.
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
