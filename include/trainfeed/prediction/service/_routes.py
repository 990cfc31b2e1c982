"""The routes of the service: predictions, and the model in use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from trainfeed.errors import Outcome, PredictionTimeError, TrainFeedError
from trainfeed.prediction.service._batcher import Answer, Batcher
from trainfeed.prediction.service._payload import read_payload
from trainfeed.server import Refusal, caller_of, tell_outcome

__all__ = ["SCOPES", "make_routes"]

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
