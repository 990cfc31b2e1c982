"""Errors of predictions."""

from __future__ import annotations

from trainfeed.errors._root import Outcome, TrainFeedError

__all__ = ["PredictionError", "PredictionTimeError", "SkewError"]


class PredictionError(TrainFeedError):
    """A prediction that was asked for could not be made.

    Cause: A record is broken or not wanted, or the function of `train.model.predict` raised, or
        returned something that is no prediction.
    Remedy: Follow the message: correct the record, or the function; `--skip-bad` accepts records
        without a prediction.
    See docs/reference/errors.md#predictionerror
    """


class PredictionTimeError(PredictionError):
    """A prediction took longer than its time limit; its process was ended.

    Cause: The preprocessing function or the function that predicts does not return in time.
    Remedy: Correct the function at the line that the message shows, send fewer records at once, or
        raise the time limit.
    See docs/reference/errors.md#predictiontimeerror
    """

    outcome = Outcome.RETRY


class SkewError(PredictionError):
    """The code that would make samples today is not that of the samples the model was trained on.

    Cause: The preprocessing code, a lookup, the schema or the named function has changed since the
        data of the model were built; predictions would be wrong without any other sign.
    Remedy: Check out the code of the model, or train and promote a model on data of today's code;
        `--accept-other-code` predicts nevertheless, and every prediction says so.
    See docs/reference/errors.md#skewerror
    """
