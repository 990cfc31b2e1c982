"""The service of predictions, ``trainfeed serve``: requests, routes, and the model in use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from trainfeed.errors import Outcome, PredictionTimeError, TrainFeedError
from trainfeed.prediction.batcher import AliasWatch, Answer, BatchBounds, Batcher, VersionOpening
from trainfeed.prediction.opened_model import ModelPlace
from trainfeed.prediction.records import (
    RawRecord,
    RecordForm,
    WrongRecordError,
    read_json,
    record_of_json,
)
from trainfeed.prediction.worker import ModelWorker, PredictionLimits
from trainfeed.serving.server import (
    Metrics,
    Parts,
    Refusal,
    ServerSettings,
    caller_of,
    make_app,
    serve,
    tell_outcome,
)
from trainfeed.training.models import ChosenModel

# --- The body of a request for predictions: records in JSON, each checked by itself

_NAMES: Final = frozenset({"records", "form", "skip_bad"})
_REMEDY: Final = (
    'send {"records": [text or JSON of each record], "form": "value" or "record", "skip_bad":'
    " false or true}; the last two are optional"
)
_MAX_WRONG: Final = 8


@dataclass(frozen=True)
class Payload:
    """A request for predictions.

    Attributes:
        records: The records, at least one.
        skip_bad: Whether records without a prediction are accepted.
    """

    records: list[RawRecord]
    skip_bad: bool


def read_payload(body: bytes, max_records: int) -> Payload:
    """Read the body of a request.

    Raises:
        Refusal: 400 for a body that is no JSON; 413 for too many records; 422 for another form, and
            for values that are no records, with their numbers.
    """
    try:
        found = read_json(body)
    except WrongRecordError as error:
        raise Refusal(
            400, "NotJson", expected="a body of JSON", got=str(error), remedy=_REMEDY
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("records"), list):
        raise _wrong_form("a JSON object with a list 'records'", _kind(found))
    if unknown := set(found) - _NAMES:
        raise _wrong_form(f"the keys {sorted(_NAMES)}", f"{len(unknown)} other keys")
    records, skip_bad = found["records"], found.get("skip_bad", False)
    if not isinstance(skip_bad, bool):
        raise _wrong_form("skip_bad as true or false", _kind(skip_bad))
    if not records:
        raise _wrong_form("at least one record", "none")
    if len(records) > max_records:
        raise Refusal(
            413,
            "TooManyRecords",
            expected=f"at most {max_records} records",
            got=str(len(records)),
            remedy="send several requests; nothing of this one was predicted",
        )
    return Payload(_records(records, _form(found)), skip_bad)


def _form(found: dict[str, Any]) -> RecordForm:
    try:
        return RecordForm(found.get("form", RecordForm.VALUE))
    except ValueError:
        names = " or ".join(repr(each.value) for each in RecordForm)
        raise _wrong_form(f"form {names}", _kind(found["form"])) from None


def _records(values: list[Any], form: RecordForm) -> list[RawRecord]:
    records, wrong = [], []
    for index, value in enumerate(values):
        try:
            records.append(record_of_json(value, form))
        except WrongRecordError as error:
            wrong.append(f"record {index}: {error}")
    if wrong:
        more = f"; and {len(wrong) - _MAX_WRONG} others" if len(wrong) > _MAX_WRONG else ""
        raise _wrong_form("records", "; ".join(wrong[:_MAX_WRONG]) + more)
    return records


def _wrong_form(expected: str, got: str) -> Refusal:
    return Refusal(422, "InvalidRequest", expected=expected, got=got, remedy=_REMEDY)


def _kind(value: Any) -> str:
    return "null" if value is None else f"a value of type {type(value).__name__}"


# --- The routes of the service: predictions, and the model in use

_PREDICT: Final = "/v1/predict"
_MODEL: Final = "/v1/model"
# Route → the scope that a token needs.
SCOPES: Final = {_PREDICT: "predict", _MODEL: "predict"}

_log: Final = logging.getLogger("trainfeed.prediction")


def make_routes(
    batcher: Batcher, told: Callable[[], dict[str, Any]], max_records: int
) -> APIRouter:
    """Return the routes.

    Args:
        batcher: Predicts.
        told: Returns what ``/v1/model`` says beside the facts of the model.
        max_records: Most records of a request.
    """
    router = APIRouter()

    @router.post(_PREDICT)
    async def predict(request: Request) -> JSONResponse:
        payload = read_payload(await request.body(), max_records)
        try:
            answer = await batcher.predict(payload.records, caller_of(request).name)
        except TrainFeedError as error:
            _log.error("records were not predicted: %s", error)
            raise _refusal(error) from error
        if bad := sum(not outcome.is_predicted for outcome in answer.outcomes):
            tell_outcome(request, f"{bad} of {len(answer.outcomes)} records refused")
        return _answer(answer, skip_bad=payload.skip_bad)

    @router.get(_MODEL)
    async def model() -> JSONResponse:
        return JSONResponse({**batcher.facts.to_json(), **told()})

    return router


def _answer(answer: Answer, *, skip_bad: bool) -> JSONResponse:
    results = [outcome.to_json(index) for index, outcome in enumerate(answer.outcomes)]
    bad = sum(not outcome.is_predicted for outcome in answer.outcomes)
    body: dict[str, Any] = {**answer.facts.mark(), "results": results}
    if not bad or skip_bad:
        return JSONResponse(body)
    refusal = {
        "error": "RecordsRefused",
        "expected": "records that preprocessing takes",
        "got": f"{bad} of {len(results)} without a prediction; results says why",
        "remedy": "correct these records, or send skip_bad: true to accept that",
    }
    return JSONResponse({**refusal, **body}, status_code=422)


def _refusal(error: TrainFeedError) -> Refusal:
    """Return the answer to an error of user code; the log has its text, which may quote records."""
    if isinstance(error, PredictionTimeError):
        return Refusal(
            504,
            "PredictionTimeError",
            expected="predictions within the time limit",
            got="none; the process was ended and is replaced",
            remedy="send fewer records at once; the log of the service has the place in the code",
        )
    passes = error.outcome is Outcome.RETRY
    return Refusal(
        503 if passes else 500,
        type(error).__name__,
        expected="predictions of the model",
        got="an error of its code, or of its process",
        remedy="look in the log of the service" + ("; try again" if passes else ""),
        retry_after=1 if passes else None,
    )


# --- The service of one model: opened before the first request, followed by alias, ended cleanly

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_AGAIN_S: Final = 10.0


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of a service of predictions.

    Attributes:
        server: Address, files and limits.
        limits: Limits of the process that predicts.
        bounds: Bounds of batches and of the queue.
        watch_s: Seconds from one look at the alias to the next.
    """

    server: ServerSettings
    limits: PredictionLimits
    bounds: BatchBounds = field(default_factory=BatchBounds)
    watch_s: float = 2.0


def serve_model(
    chosen: ChosenModel,
    place: ModelPlace,
    settings: ServiceSettings,
    on_ready: Callable[[str], None],
) -> None:
    """Answer requests for predictions until SIGTERM or SIGINT.

    Args:
        chosen: The model; if an alias was named, the service follows the alias.
        place: The version of today, which is opened before the first request.
        settings: See ``ServiceSettings``.
        on_ready: Called with the address once the service answers.

    Raises:
        TrainFeedError: The model cannot be opened; see ``Predictor.open``.
        ConfigError: A setting of the server is wrong; see ``trainfeed.serving.server.serve``.
        StorageError: A file of the server cannot be written.
    """
    with ModelWorker(place, settings.limits) as worker:
        for warning in worker.facts.warnings():
            logger.warning(warning)
        serve(_app(chosen, place, worker, settings), settings.server, on_ready=on_ready)


def _app(
    chosen: ChosenModel, place: ModelPlace, worker: ModelWorker, settings: ServiceSettings
) -> FastAPI:
    metrics = Metrics()
    batcher = Batcher(worker, settings.bounds, metrics)

    parts = Parts()
    parts.add("model", lambda: batcher.is_able)
    opening = VersionOpening(place, settings.limits)
    watch = AliasWatch(chosen, opening.open, batcher, metrics, every_s=settings.watch_s)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        predicting = parts.start("batches", batcher.run())
        reviving = parts.start("process", _revive(batcher))
        # A service of a version that was named by its number follows nothing.
        watching = parts.start("alias", watch.run()) if chosen.alias is not None else None
        try:
            yield
        finally:
            # The watch ends first: the batcher closes the engine that it has at its own end.
            await _ended(reviving)
            if watching is not None:
                await _ended(watching)
            opening.close()
            await _ended(predicting)

    def told() -> dict[str, Any]:
        return watch.to_json()

    return make_app(
        make_routes(batcher, told, settings.bounds.records),
        settings.server,
        scopes=SCOPES,
        metrics=metrics,
        lifespan=running,
        parts=parts,
    )


async def _revive(batcher: Batcher) -> None:
    """Replace a process that died while nobody asked: callers may stay away from a sick service."""
    while True:
        await asyncio.sleep(_LOOK_S)
        if batcher.is_able:
            continue
        try:
            await batcher.revive()
        except TrainFeedError as error:
            logger.error("the process that predicts was not replaced: %s", error)  # noqa: TRY400
            await asyncio.sleep(_AGAIN_S)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Its own error, if it ended before, is in the log.
    with suppress(asyncio.CancelledError, Exception):
        await task
