"""What a data set is: the model of ``dataset.yaml``, read strictly and checked as a whole."""

from __future__ import annotations

from trainfeed.spec._fingerprint import fingerprint_fields
from trainfeed.spec._input import (
    FieldSpec,
    KafkaSourceSpec,
    PreprocessSpec,
    RecordedSourceSpec,
    SourceSpec,
    SplitSpec,
)
from trainfeed.spec._load import SPEC_FILE, load_spec, load_specs
from trainfeed.spec._model import DatasetSpec
from trainfeed.spec._output import (
    CountCheck,
    NullRatioCheck,
    OutputSpec,
    QualityCheck,
    QuarantineRatioCheck,
    RangeCheck,
    ResourceSpec,
    RetentionSpec,
    TrainSpec,
)
from trainfeed.spec._values import check_name

__all__ = [
    "SPEC_FILE",
    "CountCheck",
    "DatasetSpec",
    "FieldSpec",
    "KafkaSourceSpec",
    "NullRatioCheck",
    "OutputSpec",
    "PreprocessSpec",
    "QualityCheck",
    "QuarantineRatioCheck",
    "RangeCheck",
    "RecordedSourceSpec",
    "ResourceSpec",
    "RetentionSpec",
    "SourceSpec",
    "SplitSpec",
    "TrainSpec",
    "check_name",
    "fingerprint_fields",
    "load_spec",
    "load_specs",
]
