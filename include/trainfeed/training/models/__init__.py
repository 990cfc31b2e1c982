"""Models of finished trainings: immutable versions, and aliases that point to them.

Each job makes at most one version of a model. The manifest of a version lists its files with
digests, its job and code, and the versions of the data. The aliases ``candidate`` and ``prod``
point to a version; ``prod`` can be rolled back. Of a version that retention removed, the record
stays.
"""

from trainfeed.training.models.aliases import (
    CANDIDATE,
    PROD,
    AliasChange,
    alias_lock,
    current,
    current_version,
    history,
    pointed_versions,
    promote,
    rollback,
)
from trainfeed.training.models.gate import Baseline, GateReport, MetricResult, judge
from trainfeed.training.models.model import (
    DAMAGED,
    Model,
    ModelData,
    ModelFile,
    ModelFolder,
    ModelJob,
    ModelManifest,
    ModelsFolder,
    RemovedModel,
    hold_model,
    known_model,
    model_version,
    parse_version,
    refuse_removed,
    spec_of_model,
)
from trainfeed.training.models.model_names import ChosenModel
from trainfeed.training.models.registration import (
    Candidate,
    data_digest,
    find,
    register,
)

__all__ = [
    "CANDIDATE",
    "DAMAGED",
    "PROD",
    "AliasChange",
    "Baseline",
    "Candidate",
    "ChosenModel",
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
