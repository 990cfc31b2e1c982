"""Models of finished trainings: immutable versions, and aliases that point to them.

Each job makes at most one version of a model. The manifest of a version lists its files with
digests, its job and code, and the versions of the data. The aliases ``candidate`` and ``prod``
point to a version; ``prod`` can be rolled back.
"""

from trainfeed.models._alias_changes import AliasChange
from trainfeed.models._aliases import (
    CANDIDATE,
    PROD,
    current,
    current_version,
    history,
    promote,
    rollback,
)
from trainfeed.models._chosen import ChosenModel
from trainfeed.models._gate import Compared, GateReport, MetricResult, judge
from trainfeed.models._model import DAMAGED, Model
from trainfeed.models._model_manifest import ModelData, ModelFile, ModelJob, ModelManifest
from trainfeed.models._models_folder import ModelFolder, ModelsFolder, model_version, parse_version
from trainfeed.models._registration import Candidate, data_digest, find, register
from trainfeed.models._spec_of_model import spec_of_model

__all__ = [
    "CANDIDATE",
    "DAMAGED",
    "PROD",
    "AliasChange",
    "Candidate",
    "ChosenModel",
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
    "current_version",
    "data_digest",
    "find",
    "history",
    "judge",
    "model_version",
    "parse_version",
    "promote",
    "register",
    "rollback",
    "spec_of_model",
]
