"""Predictions of published models: raw records in, predictions out, in their order.

The data set's own preprocessing makes the samples, with the code and lookups of the data that the
model was trained on; where these differ, nothing is predicted.
"""

from trainfeed.prediction._lines import STANDARD_INPUT, read_lines
from trainfeed.prediction._model_worker import ModelWorker, PredictionLimits
from trainfeed.prediction._opened_model import ModelFacts, ModelPlace
from trainfeed.prediction._predictor import Predictor
from trainfeed.prediction._record_outcome import Counts, Outcome, OutcomeKind
from trainfeed.prediction._records import RawRecord, RecordForm, WrongRecordError
from trainfeed.prediction._runs import predict_records, predict_split, write_outcomes

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
