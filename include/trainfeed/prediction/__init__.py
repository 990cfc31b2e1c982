"""Predictions of published models: raw records in, predictions out, in their order.

The data set's own preprocessing makes the samples, with the code and lookups of the data that the
model was trained on; where these differ, nothing is predicted.
"""

from trainfeed.prediction.opened_model import ModelFacts, ModelPlace
from trainfeed.prediction.predictor import Predictor
from trainfeed.prediction.records import (
    STANDARD_INPUT,
    Counts,
    Outcome,
    OutcomeKind,
    RawRecord,
    RecordForm,
    WrongRecordError,
    read_lines,
)
from trainfeed.prediction.runs import predict_records, predict_split, write_outcomes
from trainfeed.prediction.worker import ModelWorker, PredictionLimits

__all__ = [
    "STANDARD_INPUT",
    "Counts",
    "ModelFacts",
    "ModelPlace",
    "ModelWorker",
    "Outcome",
    "OutcomeKind",
    "PredictionLimits",
    "Predictor",
    "RawRecord",
    "RecordForm",
    "WrongRecordError",
    "predict_records",
    "predict_split",
    "read_lines",
    "write_outcomes",
]
