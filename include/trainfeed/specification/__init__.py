"""The specification of a data set: the model of ``dataset.yaml``, read and checked strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.specification.gate_options import (
        AcceptedValuesCheck,
        CountCheck,
        DriftCheck,
        Gate,
        NullRatioCheck,
        QualityCheck,
        QuarantineRatioCheck,
        RangeCheck,
        RelativeCountCheck,
        SchemaEvolutionCheck,
        Severity,
        ShardSkewCheck,
        ShareCheck,
        UniqueCheck,
        earlier_versions,
        gate_limits,
        gate_name,
        shown_number,
    )
    from trainfeed.specification.iceberg_source import IcebergSourceSpec, catalogs_of
    from trainfeed.specification.inputs import (
        FieldSpec,
        OneSource,
        PreprocessSpec,
        SourceSpec,
        SplitSpec,
        UploadsSpec,
    )
    from trainfeed.specification.load import (
        load_spec,
        load_specs,
        read_module,
        spec_folders,
        spec_or_error,
    )
    from trainfeed.specification.log_paths import LogPaths, expand_path, log_paths_of, logs_root
    from trainfeed.specification.log_source import LogsSourceSpec
    from trainfeed.specification.model import (
        DatasetSpec,
        OutputSpec,
        ResourceSpec,
        fingerprint_fields,
    )
    from trainfeed.specification.names import (
        RESERVED_NAMES,
        SPEC_FILE,
        check_dataset_name,
        check_name,
        did_you_mean,
        nearest,
    )
    from trainfeed.specification.payload_formats import PayloadSpec, payloads, registries_of
    from trainfeed.specification.retention import RetentionRule, RetentionSpec
    from trainfeed.specification.schema_document import json_schema, json_schema_text
    from trainfeed.specification.source_kinds import (
        RECORDED,
        KafkaSourceSpec,
        KafkaTopics,
        LateRule,
        Measure,
        MissingRule,
        RecordedSourceSpec,
        SourceKind,
        TopicPart,
    )
    from trainfeed.specification.train import (
        GpuSpec,
        LauncherName,
        MetricGate,
        ModelSpec,
        StoreFolderSpec,
        TolerationSpec,
        TrackingSpec,
        TrainingWish,
        TrainSpec,
        train_contradictions,
    )
    from trainfeed.specification.union_source import UNION, UnionSource

__all__ = [
    "RECORDED",
    "RESERVED_NAMES",
    "SPEC_FILE",
    "UNION",
    "AcceptedValuesCheck",
    "CountCheck",
    "DatasetSpec",
    "DriftCheck",
    "FieldSpec",
    "Gate",
    "GpuSpec",
    "IcebergSourceSpec",
    "KafkaSourceSpec",
    "KafkaTopics",
    "LateRule",
    "LauncherName",
    "LogPaths",
    "LogsSourceSpec",
    "Measure",
    "MetricGate",
    "MissingRule",
    "ModelSpec",
    "NullRatioCheck",
    "OneSource",
    "OutputSpec",
    "PayloadSpec",
    "PreprocessSpec",
    "QualityCheck",
    "QuarantineRatioCheck",
    "RangeCheck",
    "RecordedSourceSpec",
    "RelativeCountCheck",
    "ResourceSpec",
    "RetentionRule",
    "RetentionSpec",
    "SchemaEvolutionCheck",
    "Severity",
    "ShardSkewCheck",
    "ShareCheck",
    "SourceKind",
    "SourceSpec",
    "SplitSpec",
    "StoreFolderSpec",
    "TolerationSpec",
    "TopicPart",
    "TrackingSpec",
    "TrainSpec",
    "TrainingWish",
    "UnionSource",
    "UniqueCheck",
    "UploadsSpec",
    "catalogs_of",
    "check_dataset_name",
    "check_name",
    "did_you_mean",
    "earlier_versions",
    "expand_path",
    "fingerprint_fields",
    "gate_limits",
    "gate_name",
    "json_schema",
    "json_schema_text",
    "load_spec",
    "load_specs",
    "log_paths_of",
    "logs_root",
    "nearest",
    "payloads",
    "read_module",
    "registries_of",
    "shown_number",
    "spec_folders",
    "spec_or_error",
    "train_contradictions",
]

# Imported on demand: the name of a data set is checked without pydantic, schedules and YAML.

__getattr__ = on_demand(__name__)
