"""Models of finished trainings: published as versions are, with names that lead to them.

A model is made once of each job, is immutable, and says what it was made of: files with digests,
job, code, versions of the data. ``candidate`` and ``prod`` lead to a version and can be led back.
"""

from trainfeed.models._aliases import (
    CANDIDATE,
    PROD,
    AliasChange,
    current,
    history,
    promote,
    rollback,
)
from trainfeed.models._gate import Compared, GateReport, MetricResult, judge
from trainfeed.models._model import Model
from trainfeed.models._model_manifest import ModelData, ModelFile, ModelJob, ModelManifest
from trainfeed.models._models_folder import ModelFolder, ModelsFolder, model_version, parse_version
from trainfeed.models._registration import Candidate, data_digest, find, register

__all__ = [
    "CANDIDATE",
    "PROD",
    "AliasChange",
    "Candidate",
    "Compared",
    "GateReport",
    "MetricResult",
    "Model",
    "ModelData",
    "ModelFile",
    "ModelFolder",
    "ModelJob",
    "ModelManifest",
    "ModelsFolder",
    "current",
    "data_digest",
    "find",
    "history",
    "judge",
    "model_version",
    "parse_version",
    "promote",
    "register",
    "rollback",
]
