"""The model of a whole ``dataset.yaml``, and its values that determine a version's content."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, PrivateAttr

from trainfeed.intervals import Schedule
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.specification._dataset_part import OutputSpec, ResourceSpec
from trainfeed.specification._retention_part import RetentionSpec
from trainfeed.specification._source_kind import MissingRule
from trainfeed.specification._source_part import (
    FieldSpec,
    LookupType,
    PreprocessSpec,
    SourceSpec,
    SplitSpec,
)
from trainfeed.specification._spec_values import (
    Documents,
    FieldName,
    Name,
    Part,
    RelativeFile,
    UtcTime,
)
from trainfeed.specification._uploads_part import UploadsSpec
from trainfeed.specification.quality import QualityCheck
from trainfeed.specification.training import TrainSpec

__all__ = ["DatasetSpec", "fingerprint_fields"]

_WHOLE = {"train": 1}
# Cached, because a DAG asks nine times for the schedule of its data set.
_schedule: Final = lru_cache(maxsize=256)(Schedule)


class DatasetSpec(Part):
    """One data set: a schedule, a source, a function, a schema, and how it is published.

    Attributes:
        name: Name of the data set's folder; the DAGs are ``build.<name>`` and ``train.<name>``.
        description: Text about the data set that Airflow shows.
        schedule: Cron expression or preset, read in UTC.
        start: First tick, UTC.
        end: Last tick, inclusive, UTC; without it the data set goes on.
        catchup: Whether Airflow builds all past intervals when the DAG is switched on.
        seed: Seed of the order of samples; 64 bits.
        source: Origin of the records.
        preprocess: The function that makes samples from records.
        uploads: Labelled files that are joined with the samples, if any.
        lookups: Name → path of a file in the data set's folder; the function gets it as a table.
        lookup_types: Name of a CSV lookup → name of a column → type of its cells, as in ``schema``.
            A column without a type is text. An empty cell of a type other than str is a null.
        keep_lookups: Whether lookups of at most 1 MiB are kept beside the versions, readable only
            for the account that builds, so that ``trainfeed diff`` can show what changed in them.
        documents: Paths of files in the data set's folder that are published in every version, as
            ``documents/<name>``: a licence, the origin of the data, a list of words.
        fields: Every field of a sample by its name, in their order (``schema`` in the file).
        split: Share of every split by its name; without it all samples are in ``train``.
        output: The files of a version.
        quality: Gates that an interval has to pass before it is published.
        train: The training that follows a version, if any.
        retention: How long versions, plans, landing files and all else are kept.
        resources: Resources of a build.
    """

    name: Name
    description: str = ""
    schedule: str
    start: UtcTime
    end: UtcTime | None = None
    catchup: bool = False
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    source: SourceSpec
    preprocess: PreprocessSpec
    uploads: UploadsSpec | None = None
    lookups: Mapping[Name, RelativeFile] = Field(default_factory=dict)
    lookup_types: Mapping[Name, Mapping[str, LookupType]] = Field(default_factory=dict)
    keep_lookups: bool = True
    documents: Documents = ()
    fields: Annotated[Mapping[FieldName, FieldSpec], Field(min_length=1)] = Field(alias="schema")
    split: SplitSpec = Field(default_factory=lambda: SplitSpec.model_validate(_WHOLE))
    output: OutputSpec = Field(default_factory=OutputSpec)
    quality: tuple[QualityCheck, ...] = ()
    train: TrainSpec | None = None
    retention: RetentionSpec = Field(default_factory=RetentionSpec)
    resources: ResourceSpec = Field(default_factory=ResourceSpec)

    _folder: Path = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Keep the folder that the validation context names."""
        self._folder = context["folder"]

    @property
    def folder(self) -> Path:
        """The data set's folder: specification, user code and lookups."""
        return self._folder

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """Place in dataset.yaml → policy for intervals whose source or uploads never come."""
        uploads = {} if self.uploads is None else self.uploads.missing_rules
        return {**self.source.kind.missing_rules, **uploads}

    @property
    def wait(self) -> timedelta:
        """How long after ``settle`` runs of the schedule wait at most; 0 if nothing is awaited."""
        return max((rule.wait for rule in self.missing_rules.values()), default=timedelta(0))

    def schedule_model(self) -> Schedule:
        """The schedule with its first and last tick."""
        return _schedule(self.schedule, self.start, self.end)

    def schema_fields(self) -> list[dict[str, Any]]:
        """Return the schema as in manifests: a list of name, dtype, shape and ``optional``."""
        return [
            {"name": name, "dtype": field.dtype, "shape": list(field.shape)}
            | ({"optional": True} if field.optional else {})
            for name, field in self.fields.items()
        ]

    def function_fields(self) -> list[dict[str, Any]]:
        """Return the fields that the function makes: the schema without the labels of uploads."""
        labels = () if self.uploads is None else self.uploads.labels
        return [field for field in self.schema_fields() if field["name"] not in labels]

    @property
    def csv_lookups(self) -> list[str]:
        """Names of the lookups that are CSV files, in name order."""
        return sorted(name for name, path in self.lookups.items() if path.endswith(".csv"))

    @property
    def follows_reading_rules(self) -> bool:
        """Whether a set of reading rules can make another version of this data set."""
        by = [self.fields[name].dtype for name in self.split.by or () if name in self.fields]
        return bool(
            self.csv_lookups
            or self.uploads is not None
            or self.source.kind.topics
            or any(dtype.startswith("float") for dtype in by)
        )


def fingerprint_fields(spec: DatasetSpec, rules: ReadingRules = NEWEST) -> dict[str, Any]:
    """Return the values of ``spec`` that enter the fingerprint, with defaults, as plain JSON.

    Args:
        spec: The data set.
        rules: The reading rules of the version; the first ones do not know types of lookups.

    The values do not depend on how the file is written: ``0.9`` or ``0.90``, a default given or
    left out. Offsets, code and lookups determine the content too, but are not part of ``spec``. An
    option that is added to specifications later must be left out here while it has its default.
    """
    return {
        "schema": spec.schema_fields(),
        "preprocess": {"function": spec.preprocess.function, "input": spec.preprocess.input},
        "split": {
            "by": "record" if spec.split.by is None else list(spec.split.by),
            "millionths": spec.split.millionths,
        },
        "output": _output(spec.output),
        "source": dict(spec.source.kind.fingerprint()),
        "seed": spec.seed,
        **({} if spec.uploads is None else {"uploads": spec.uploads.fingerprint()}),
        **_lookup_types(spec, rules),
    }


def _lookup_types(spec: DatasetSpec, rules: ReadingRules) -> dict[str, Any]:
    types = {name: dict(each) for name, each in spec.lookup_types.items() if each}
    return {"lookup_types": types} if types and rules is not ReadingRules.GUESSED else {}


def _output(output: OutputSpec) -> dict[str, Any]:
    return {
        "format": output.format,
        "codec": output.codec,
        "level": output.level,
        "chunk_bytes": output.chunk_bytes,
        "shards": output.shards,
        "samples_per_shard": output.samples_per_shard,
        "positions": output.positions,
    }
