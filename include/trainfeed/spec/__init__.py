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
from trainfeed.spec._json_schema import json_schema, json_schema_text
from trainfeed.spec._load import SPEC_FILE, load_spec, load_specs, spec_folders, spec_or_error
from trainfeed.spec._logs import LogsSourceSpec, expand_path, logs_root
from trainfeed.spec._model import DatasetSpec
from trainfeed.spec._modules import read_module
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
from trainfeed.spec._problems import did_you_mean, nearest
from trainfeed.spec._values import check_dataset_name, check_name

__all__ = [
    "SPEC_FILE",
    "CountCheck",
    "DatasetSpec",
    "FieldSpec",
    "KafkaSourceSpec",
    "LogsSourceSpec",
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
    "check_dataset_name",
    "check_name",
    "did_you_mean",
    "expand_path",
    "fingerprint_fields",
    "json_schema",
    "json_schema_text",
    "load_spec",
    "load_specs",
    "logs_root",
    "nearest",
    "read_module",
    "spec_folders",
    "spec_or_error",
]
