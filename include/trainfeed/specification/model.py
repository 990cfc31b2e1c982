"""The model of a whole ``dataset.yaml``, with the rules that concern more than one field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from trainfeed.core.intervals import Interval, Schedule, format_time, zone_rules
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import ConfigError, SpecError, WindowError
from trainfeed.files import MAX_SHARDS
from trainfeed.specification.gate_options import QualityCheck, quality_contradictions
from trainfeed.specification.inputs import (
    UNTIL,
    FieldSpec,
    LookupType,
    OneSource,
    PreprocessSpec,
    SourcePeriod,
    SourceSpec,
    SplitSpec,
    UploadsSpec,
    upload_contradictions,
)
from trainfeed.specification.messages import Place
from trainfeed.specification.names import RESERVED_NAMES, check_name, did_you_mean
from trainfeed.specification.retention import RetentionRule, RetentionSpec
from trainfeed.specification.source_kinds import MissingRule, TopicPart
from trainfeed.specification.train import TrainSpec, train_contradictions
from trainfeed.specification.values import (
    MILLIONTHS,
    Documents,
    Duration,
    FieldName,
    Name,
    ParameterValue,
    Part,
    RelativeFile,
    Size,
    Text,
    UtcTime,
    WrongValueError,
    Zone,
    local_time,
    parameter_value,
)

# --- The output side of a specification: files, resources

_LEVELS = {"zstd": (1, 22), "gzip": (1, 9)}
_DEFAULT_LEVELS = {"zstd": 1, "gzip": 6}


def _default_codec(fields: dict[str, Any]) -> Literal["none", "zstd"]:
    return "none" if fields.get("format") == "tfrecord" else "zstd"


class OutputSpec(Part):
    """The files of a version.

    Attributes:
        format: Format of the shards: RecordIO, or TFRecord files of Examples.
        codec: Compression of the chunks, zstd by default. TFRecord files of a data set are never
            compressed.
        level: Compression level, by default that of the codec; None for codecs without levels.
        chunk_bytes: Record bytes, before compression, at which a chunk is closed; for TFRecord a
            run of records that is read at once.
        shards: Number of shards per split; without it ``samples_per_shard`` decides.
        samples_per_shard: Intended number of samples in a shard; without it ``shards`` decides.
        positions: Whether the position of every sample is published.
    """

    format: Literal["recordio", "tfrecord"] = "recordio"
    codec: Literal["none", "snappy", "gzip", "lz4", "zstd"] = Field(
        default_factory=_default_codec, json_schema_extra={"default": "zstd"}
    )
    level: Annotated[int | None, Field(validate_default=True)] = None
    chunk_bytes: Annotated[Size, Field(ge=1, le=32 << 20)] = 1 << 20
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] | None = None
    samples_per_shard: Annotated[
        Annotated[int, Field(ge=1)] | None, Field(validate_default=True)
    ] = None
    positions: bool = True

    @field_validator("codec")
    @classmethod
    def _fits_the_format(cls, codec: str, info: ValidationInfo) -> str:
        if info.data.get("format") == "tfrecord" and codec != "none":
            # TFRecord files are compressed as a whole: a shard could only be read from its start.
            raise WrongValueError("codec none beside format tfrecord", "leave it out")
        return codec

    @field_validator("level")
    @classmethod
    def _fits_the_codec(cls, level: int | None, info: ValidationInfo) -> int | None:
        codec = info.data.get("codec")
        if level is None or codec is None:
            return _DEFAULT_LEVELS.get(codec or "")
        if codec not in _LEVELS:
            raise WrongValueError(f"no level beside codec {codec}", "leave it out")
        low, high = _LEVELS[codec]
        if not low <= level <= high:
            raise WrongValueError(f"a level of {codec} from {low} to {high}")
        return level

    @field_validator("samples_per_shard")
    @classmethod
    def _is_the_only_aim(cls, samples: int | None, info: ValidationInfo) -> int | None:
        if info.data.get("shards") is None:
            return 100_000 if samples is None else samples
        if samples is not None:
            raise WrongValueError("one of shards and samples_per_shard", "leave one out")
        return None


class ResourceSpec(Part):
    """Resources of a build; nothing here changes its result.

    Attributes:
        pool: Scheduler pool of the tasks that read the source.
        max_active_runs: Number of intervals that are built at once. Runs that wait for log files do
            not count; of the other runs, this many are planned, checked and published at once.
        records_per_task: Approximate number of source records for one task of a stage. Where it is
            left out, tasks of an interval of more than 3,200,000 records are up to four times as
            large, as long as their samples have a fixed size and fit into memory at once. A landing
            file has at most this many records of a topic.
        memory_bytes: Memory in which one task sorts samples; further samples go through files. A
            sample may take a tenth of it.
        processes: Number of processes in which a task runs the preprocessing function.
        worker_memory_bytes: Memory of one of these processes; a process that takes more is ended.
        time_limit: Time of one of these processes for its part of a task.
    """

    pool: Text | None = None
    max_active_runs: Annotated[int, Field(ge=1)] = 4
    records_per_task: Annotated[int, Field(ge=1)] = 100_000
    memory_bytes: Annotated[Size, Field(ge=1 << 20, lt=1 << 31)] = 512 << 20
    processes: Annotated[int, Field(ge=1, le=256)] = 1
    worker_memory_bytes: Annotated[Size, Field(ge=256 << 20)] = 4 << 30
    time_limit: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(hours=1)

    @property
    def task_memory_bytes(self) -> int:
        """``memory_bytes`` of a task that runs alone: the limit for its quarantined records."""
        return self.memory_bytes


# --- The model of a whole ``dataset.yaml``, and its values that determine a version's content

_WHOLE = {"train": 1}
# Cached, because a DAG asks nine times for the schedule of its data set.
_schedule: Final = lru_cache(maxsize=256)(Schedule)


class DatasetSpec(Part):
    """One data set: a schedule, a source, a function, a schema, and how it is published.

    Attributes:
        name: Name of the data set's folder; the DAGs are ``build.<name>`` and ``train.<name>``.
        description: Text about the data set that Airflow shows.
        schedule: Cron expression or preset, read in UTC or in the zone ``tz``.
        tz: Time zone whose clocks cut days and hours, such as Europe/Berlin; UTC by default. Names
            of intervals stay in UTC.
        start: First tick. A date is a day of the zone, a time of day needs its distance to UTC.
        end: Last tick, inclusive, likewise; without it the data set goes on.
        catchup: Whether Airflow builds all past intervals when the DAG is switched on.
        seed: Seed of the order of samples; 64 bits.
        sources: Origins of the records, one after the other in time, in place of ``source``: an
            archive, and a topic from some day on. Each interval has exactly one of them.
        one_source: Origin of the records (``source`` in the file), unless there are ``sources``.
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
    tz: Zone = None
    start: UtcTime
    end: UtcTime | None = None
    catchup: bool = False
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    sources: Annotated[tuple[SourcePeriod, ...], Field(min_length=1)] = ()
    one_source: Annotated[SourceSpec | None, Field(alias="source", validate_default=True)] = None
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
    _text: str = PrivateAttr()
    _beside: tuple[TopicPart, ...] = PrivateAttr(default=())
    _member: str | None = PrivateAttr(default=None)

    @field_validator("start", "end", mode="before")
    @classmethod
    def _is_of_the_zone(cls, value: Any, info: ValidationInfo) -> Any:
        zone = info.data.get("tz")
        return value if zone is None or value is None else local_time(value, zone)

    @field_validator("sources", mode="before")
    @classmethod
    def _end_in_the_zone(cls, value: Any, info: ValidationInfo) -> Any:
        zone = info.data.get("tz")
        if zone is None or not isinstance(value, tuple):
            return value
        return tuple(
            {**each, UNTIL: local_time(each[UNTIL], zone)}
            if isinstance(each, dict) and each.get(UNTIL) is not None
            else each
            for each in value
        )

    def model_post_init(self, context: Any) -> None:
        """Keep the folder and the text that the validation context names."""
        self._folder, self._text = context["folder"], context["text"]

    @field_validator("one_source", mode="before")
    @classmethod
    def _is_given_once(cls, value: Any, info: ValidationInfo) -> Any:
        has_sources = bool(info.data.get("sources", True))  # as far as can be said of a wrong list
        if value is None and not has_sources:
            raise WrongValueError("a source, or a list of sources of different times")
        if value is not None and has_sources and "sources" in info.data:
            raise WrongValueError(
                "one of source and sources", "put this one into the list", shows_got=False
            )
        return value

    @property
    def folder(self) -> Path:
        """The data set's folder: specification, user code and lookups."""
        return self._folder

    @property
    def text(self) -> str:
        """The file as it was read; the one in the folder may have been replaced since."""
        return self._text

    @property
    def source(self) -> OneSource:
        """Origin of the records, of a data set that has one, or of one interval.

        Raises:
            LookupError: The data set has several, and this is not the specification of an interval.
        """
        if self.one_source is None:
            raise LookupError(f"data set {self.name!r} has several sources: ask for one interval")
        return self.one_source

    @property
    def all_sources(self) -> tuple[OneSource, ...]:
        """The sources of all intervals, in order of time."""
        return self.sources if self.one_source is None else (self.one_source,)

    @property
    def all_parts(self) -> tuple[OneSource, ...]:
        """The sources of all intervals, with the members of unions in their place."""
        return tuple(part for source in self.all_sources for part in source.parts)

    @property
    def members(self) -> dict[str, DatasetSpec]:
        """Name → specification with this member of a union alone; none without a union."""
        members = self.source.members
        found = {
            name: self.model_copy(update={"one_source": each}) for name, each in members.items()
        }
        for name, spec in found.items():
            others = (each for other, each in members.items() if other != name)
            spec._beside = tuple(part for each in others for part in each.kind.topics)  # noqa: SLF001
            spec._member = name  # noqa: SLF001
        return found

    @property
    def member(self) -> str | None:
        """Name of the member of a union whose specification this is; None for any other."""
        return self._member

    @property
    def topics_beside(self) -> tuple[TopicPart, ...]:
        """The topics of the other members, in the specification of a member of a union."""
        return self._beside

    @property
    def ends_of_sources(self) -> tuple[datetime | None, ...]:
        """The end of each of ``all_sources``, aware; None for the last, which goes on."""
        return tuple(each.until for each in self.sources) if self.sources else (None,)

    def for_interval(self, start: datetime) -> DatasetSpec:
        """Return the specification of one interval, which has exactly one source.

        Args:
            start: Start of the interval, aware.
        """
        return self.of_each_source[self.source_at(start)]

    def source_at(self, start: datetime) -> int:
        """Return the number, from 0, of the source of the interval that starts at an aware time."""
        ends = enumerate(self.ends_of_sources)
        return next(number for number, end in ends if end is None or start < end)

    @property
    def of_each_source(self) -> tuple[DatasetSpec, ...]:
        """The specification with each of its sources alone, in order of time."""
        if self.one_source is not None:
            return (self,)
        return tuple(
            self.model_copy(update={"one_source": each, "sources": ()}) for each in self.sources
        )

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """Place in dataset.yaml → policy for intervals whose source or uploads never come."""
        uploads = {} if self.uploads is None else self.uploads.missing_rules
        return {**self.source.kind.missing_rules, **uploads}

    @property
    def wait(self) -> timedelta:
        """How long after ``settle`` runs of the schedule wait at most; 0 if nothing is awaited."""
        settle = self.source.kind.settle
        # The members of a union wait from their own ``settle`` on.
        kinds = [each.kind for each in self.source.parts]
        ends = [kind.settle + rule.wait for kind in kinds for rule in kind.missing_rules.values()]
        uploads = {} if self.uploads is None else self.uploads.missing_rules
        ends += [settle + rule.wait for rule in uploads.values()]
        return max(max(ends, default=settle) - settle, timedelta(0))

    def schedule_model(self) -> Schedule:
        """The schedule with its first and last tick."""
        return _schedule(self.schedule, self.start, self.end, self.tz)

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

    def with_parameters(self, values: Mapping[str, Any], told: str = "") -> DatasetSpec:
        """Return the data set with other values of some parameters.

        Args:
            values: Name → value, of the type that the parameter has in dataset.yaml; a whole number
                also where it has a float.
            told: Where the values come from, and what to do if they do not fit; for the message.

        Raises:
            ConfigError: dataset.yaml has no such parameter, or one of another type.
        """
        base = self.preprocess.parameters
        chosen = {name: _of_type(name, value, base, told) for name, value in values.items()}
        parameters = {**base, **chosen}
        preprocess = self.preprocess.model_copy(update={"parameters": parameters})
        return self.model_copy(update={"preprocess": preprocess})

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
            or any(each.kind.topics for each in self.all_sources)
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
        "preprocess": _function(spec),
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


def _function(spec: DatasetSpec) -> dict[str, Any]:
    parameters = {name: as_json(value) for name, value in spec.preprocess.parameters.items()}
    function = {"function": spec.preprocess.function, "input": spec.preprocess.input}
    return {**function, **({"parameters": parameters} if parameters else {})}


def _of_type(
    name: str, value: Any, base: Mapping[str, ParameterValue], told: str
) -> ParameterValue:
    """Return a value of a parameter of a data set.

    Raises:
        ConfigError: There is no such parameter, or one of another type.
    """
    more = f"; {told}" if told else "; nothing was changed"
    if name not in base:
        hint = did_you_mean(name, base) if base else "declare it under preprocess.parameters"
        raise ConfigError(f"dataset.yaml has no parameter {name!r}; {hint}{more}")
    try:
        found = parameter_value(value)
    except WrongValueError as error:
        what = f"parameter {name}: expected {error.expected}, got {value!r}"
        raise ConfigError(f"{what}{more}") from error
    wanted = type(base[name])
    if wanted is float and type(found) is int:
        return float(found)
    if type(found) is not wanted:
        kind = "list" if wanted is tuple else wanted.__name__
        raise ConfigError(
            f"parameter {name}: expected {kind}, like {as_json(base[name])!r}, got {value!r}{more}"
        )
    return found


def as_json(value: ParameterValue) -> Any:
    """Return the value of a parameter as plain JSON."""
    return list(value) if isinstance(value, tuple) else value


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


# --- The rules that concern more than one field of a specification, or its folder

# Intervals that are compared: more than any cron expression needs to repeat its pattern in a week.
_LOOKED_AT = 32
# Changes of a zone that are looked at, and the time around one in which clocks show times twice.
_YEARS_AHEAD: Final = timedelta(days=3653)
_AROUND: Final = timedelta(hours=3)
_RESERVED_SPLITS = ("late", "quarantine")


class Contradiction(NamedTuple):
    """A violated rule: the place of the field, and the message."""

    place: Place
    text: str


def contradictions(spec: DatasetSpec) -> Iterator[Contradiction]:
    """Yield every violated rule of ``spec``."""
    yield from _name(spec)
    yield from _ticks(spec)
    yield from _source(spec)
    yield from _modules(spec)
    yield from _training(spec)
    yield from _models(spec)
    yield from _labels(spec)
    yield from _split_names(spec.split.millionths)
    yield from _shares(spec.split.millionths)
    yield from _split_by(spec)
    yield from _uploads(spec)
    yield from _types_of_lookups(spec)
    for place, text in quality_contradictions(spec.quality, spec.fields, spec.lookups):
        yield Contradiction(("quality", *place), text)


def _name(spec: DatasetSpec) -> Iterator[Contradiction]:
    if spec.name in RESERVED_NAMES:
        text = f"expected a name that is not reserved, got {spec.name!r}; choose another"
        yield Contradiction(("name",), text)
    folder = spec.folder.name
    if spec.name != folder:
        text = f"expected the name of its folder, {folder!r}, got {spec.name!r}; rename one"
        yield Contradiction(("name",), text)


def _ticks(spec: DatasetSpec) -> Iterator[Contradiction]:
    field = "start"
    try:
        Schedule(spec.schedule, spec.start, zone=spec.tz)
        field = "end"
        spec.schedule_model()
    except WindowError as error:
        yield Contradiction((field,), str(error))
    except ConfigError as error:
        yield Contradiction(("schedule",), str(error))


def _source(spec: DatasetSpec) -> Iterator[Contradiction]:
    """Yield violated rules of sources; intervals are compared only if the schedule is right."""
    is_wrong = next(_ticks(spec), None) is not None
    if spec.sources:
        wrong = [] if is_wrong else list(_changes(spec))
        yield from wrong
        is_wrong = is_wrong or bool(wrong)
    since: datetime | None = spec.start
    ends = spec.ends_of_sources
    for number, (source, end) in enumerate(zip(spec.all_sources, ends, strict=True)):
        at: Place = ("sources", number) if spec.sources else ("source",)
        known = () if is_wrong or since is None else _looked_at(spec.schedule_model(), since)
        for place, text in source.kind.contradictions(spec.schedule, spec.tz, known):
            yield Contradiction((*at, *place), text)
        since = end


def _changes(spec: DatasetSpec) -> Iterator[Contradiction]:
    """Yield violated rules of the times at which one source ends and the next one begins."""
    schedule, before = spec.schedule_model(), spec.start
    *earlier, last = spec.sources
    if last.until is not None:
        text = "expected no until for the last source, which goes on; leave it out"
        yield Contradiction(("sources", len(earlier), "until"), text)
    for number, part in enumerate(earlier):
        place: Place = ("sources", number, "until")
        if part.until is None:
            text = "expected until, the time at which the next source begins, got none; add it"
            yield Contradiction(place[:-1], text)
            return
        if part.until <= before:
            text = f"expected a time after {format_time(before)}, got {format_time(part.until)}"
            yield Contradiction(place, f"{text}; order the sources by time")
            return
        following = next(schedule.intervals(part.until), None)
        if following is None or following.start != part.until:
            text = f"expected the start of an interval, got {format_time(part.until)}"
            hint = "none starts later" if following is None else f"the next is {following.name}"
            yield Contradiction(place, f"{text}; {hint}, and an interval has one source alone")
        before = part.until


def _looked_at(schedule: Schedule, first: datetime) -> Iterator[Interval]:
    """Yield some intervals from a time on; in a zone also those around changes of its clocks."""
    yield from islice(schedule.intervals(first), _LOOKED_AT)
    if schedule.zone is None:
        return
    for change in zone_rules(schedule.zone).changes(first, first + _YEARS_AHEAD):
        yield from schedule.overlapping(change.at - _AROUND, change.at + _AROUND)


def _modules(spec: DatasetSpec) -> Iterator[Contradiction]:
    entries: dict[Place, str] = {("preprocess", "function"): spec.preprocess.module}
    if spec.train is not None and spec.train.module is not None:
        entries["train", "entry"] = spec.train.module
    model = None if spec.train is None else spec.train.model
    for name in () if model is None else ("evaluate", "predict", "complete"):
        if (entry := getattr(model, name)) is not None:
            entries["train", "model", name] = entry.partition(":")[0]
    for place, module in entries.items():
        if not (spec.folder / f"{module}.py").is_file():
            there = sorted(path.stem for path in spec.folder.glob("*.py"))
            hint = did_you_mean(module, there) if there else "add it"
            text = f"expected the file {module}.py beside the specification, got none; {hint}"
            yield Contradiction(place, text)


def _training(spec: DatasetSpec) -> Iterator[Contradiction]:
    if spec.train is not None:
        for name, text in train_contradictions(spec.train):
            yield Contradiction(("train", name) if name else ("train",), text)


def _models(spec: DatasetSpec) -> Iterator[Contradiction]:
    has_model = spec.train is not None and spec.train.model is not None
    if spec.retention.models != RetentionRule() and not has_model:
        text = "expected train.model, whose versions it is about; add that, or remove this"
        yield Contradiction(("retention", "models"), text)


def _labels(spec: DatasetSpec) -> Iterator[Contradiction]:
    model = None if spec.train is None else spec.train.model
    labels = () if model is None else model.labels
    for number, name in enumerate(labels):
        if name not in spec.fields:
            yield _unknown_field(spec.fields, name, ("train", "model", "labels", number))
    if labels and set(labels) >= set(spec.fields):
        text = "expected a field of the schema that is no label, got none; shorten labels"
        yield Contradiction(("train", "model", "labels"), text)


def _split_names(names: Mapping[str, int]) -> Iterator[Contradiction]:
    for name in names:
        try:
            check_name(name, what="split")
        except SpecError as error:
            yield Contradiction(("split", name), str(error))
        if name in _RESERVED_SPLITS:
            text = f"expected a split name that is not reserved, got {name!r}; choose another"
            yield Contradiction(("split", name), text)


def _shares(shares: Mapping[str, int]) -> Iterator[Contradiction]:
    if (total := sum(shares.values())) != MILLIONTHS:
        terms = " + ".join(f"{name} {_decimal(share)}" for name, share in shares.items())
        text = f"expected shares that sum to 1, got {_decimal(total)} ({terms or 'no split'})"
        yield Contradiction(("split",), text)


def _split_by(spec: DatasetSpec) -> Iterator[Contradiction]:
    for number, name in enumerate(spec.split.by or ()):
        place: Place = ("split", "by", number)
        field = spec.fields.get(name)
        if field is None:
            yield _unknown_field(spec.fields, name, place)
        elif None in field.shape:
            text = f"expected a field of fixed shape, got {name!r} of any length; choose another"
            yield Contradiction(place, text)


def _uploads(spec: DatasetSpec) -> Iterator[Contradiction]:
    if spec.uploads is None:
        return
    for place, text in upload_contradictions(spec.uploads, spec.fields, spec.split.by or ()):
        yield Contradiction(("uploads", *place), text)
    if not spec.function_fields():
        text = "expected a field that the function makes, got labels only; add one"
        yield Contradiction(("uploads", "labels"), text)


def _types_of_lookups(spec: DatasetSpec) -> Iterator[Contradiction]:
    for name in spec.lookup_types:
        place: Place = ("lookup_types", name)
        if name not in spec.lookups:
            hint = did_you_mean(name, spec.lookups)
            yield Contradiction(place, f"expected a name of lookups, got {name!r}; {hint}")
        elif name not in spec.csv_lookups:
            text = f"expected a CSV file, got {spec.lookups[name]!r}, which has types; remove this"
            yield Contradiction(place, text)


def _unknown_field(fields: Mapping[str, FieldSpec], name: str, place: Place) -> Contradiction:
    hint = did_you_mean(name, fields)
    return Contradiction(place, f"expected a field of the schema, got {name!r}; {hint}")


def _decimal(millionths: int) -> str:
    whole, rest = divmod(millionths, MILLIONTHS)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
