"""Models of finished trainings: immutable versions, and aliases that point to them.

Each job makes at most one version of a model. The manifest of a version lists its files with
digests, its job and code, and the versions of the data. The aliases ``candidate`` and ``prod``
point to a version; ``prod`` can be rolled back. Of a version that retention removed, the record
stays.
"""

from trainfeed.models._alias_changes import AliasChange, alias_lock
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
from trainfeed.models._held_model import hold_model
from trainfeed.models._known_model import known_model
from trainfeed.models._model import DAMAGED, Model
from trainfeed.models._model_manifest import ModelData, ModelFile, ModelJob, ModelManifest
from trainfeed.models._models_folder import ModelFolder, ModelsFolder, model_version, parse_version
from trainfeed.models._pointed_versions import pointed_versions
from trainfeed.models._registration import Candidate, data_digest, find, register
from trainfeed.models._removed_model import RemovedModel, refuse_removed
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
    "RemovedModel",
    "alias_lock",
    "current",
    "current_version",
    "data_digest",
    "find",
    "history",
    "hold_model",
    "judge",
    "known_model",
    "model_version",
    "parse_version",
    "pointed_versions",
    "promote",
    "refuse_removed",
    "register",
    "rollback",
    "spec_of_model",
]
