"""Kinds of sources: Kafka topics, recorded topics, folders of log files, and their facts."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import AfterValidator, Field, model_validator

from trainfeed.core.intervals import Interval
from trainfeed.specification.line_formats import (
    FIELD_FORMATS,
    LINE_FORMATS,
    CsvSpec,
    LineFields,
)
from trainfeed.specification.log_paths import has_hours, has_minutes, log_path, log_paths_of
from trainfeed.specification.messages import Place
from trainfeed.specification.payload_formats import PayloadSpec, payload_fingerprints
from trainfeed.specification.values import (
    Connection,
    Duration,
    Part,
    Size,
    Text,
    Topic,
    WrongValueError,
)

# --- The protocol of a kind of source: the facts that follow from its specification alone

Late: TypeAlias = Literal["keep", "separate", "fail"]
_LONGEST_WAIT: Final = timedelta(days=36_500)
Wait: TypeAlias = Annotated[Duration, Field(le=_LONGEST_WAIT)]
Missing: TypeAlias = Literal["fail", "empty", "skip"]


@dataclass(frozen=True)
class Measure:
    """The sizes of a source's ranges, in the unit of its positions: offsets or bytes.

    Attributes:
        range_span: The largest span of a range.
        span_per_record: The approximate span of a record.
    """

    range_span: int
    span_per_record: int


@dataclass(frozen=True)
class LateRule:
    """The policy for records with stamps outside of the interval that reads them.

    Attributes:
        policy: Policy for older records: ``keep``, ``separate`` or ``fail``.
        skew: How far after the interval's end stamps may lie if the policy is ``fail``.
    """

    policy: Late
    skew: timedelta = timedelta(0)


@dataclass(frozen=True)
class MissingRule:
    """The policy for intervals whose source does not come.

    Attributes:
        wait: How long after ``settle`` runs of the schedule wait for it.
        missing: Policy after that: ``fail``, publish as ``empty``, or ``skip``.
    """

    wait: timedelta
    missing: Missing


class TopicPart(Protocol):
    """One topic of a specification, on a broker or in a folder."""

    @property
    def topic(self) -> str:
        """Name of the topic; empty for a recorded topic, whose folder has the name."""

    @property
    def skew(self) -> timedelta:
        """Largest expected distance of stamps from the time of a boundary."""

    @property
    def transaction_wait(self) -> timedelta:
        """How long a run waits while an open transaction may hide records of the interval."""

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml, for messages."""

    @property
    def missing_rule(self) -> MissingRule:
        """The policy for intervals without a record of the topic."""

    @property
    def value(self) -> PayloadSpec | None:
        """The format of the values; None for bytes that only the function reads."""

    @property
    def key(self) -> PayloadSpec | None:
        """The format of the keys, likewise."""

    def place(self, folder: str | os.PathLike[str]) -> str:
        """Return the connection string of the topic in a plan, for a data set in ``folder``."""


@runtime_checkable
class SourceKind(Protocol):
    """A source, described by its specification."""

    @property
    def settle(self) -> timedelta:
        """Time after the end of an interval before which it is not planned."""

    @property
    def lands(self) -> bool:
        """Whether ``ingest`` copies the records into landing files, for ``preprocess`` to read.

        Otherwise ``preprocess`` reads the source itself.
        """

    @property
    def folder_wait(self) -> timedelta | None:
        """How long after ``settle`` runs wait for the folder of log files of an interval.

        None for a source without such a folder: then no task waits before the plan.
        """

    @property
    def missing_rules(self) -> Mapping[str, MissingRule]:
        """Place in dataset.yaml → policy for intervals that never come.

        A topic that is published as empty at once, by the evidence of its boundaries, has no entry.
        """

    @property
    def topics(self) -> Sequence[TopicPart]:
        """The topics, which have boundary files; empty for other kinds."""

    @property
    def clusters(self) -> Sequence[str]:
        """Ids of the Kafka connections of the source."""

    @property
    def file_systems(self) -> Sequence[str]:
        """Ids of the file system connections of the source."""

    def measure(self, records_per_task: int) -> Measure:
        """Return the sizes of ranges.

        Args:
            records_per_task: The setting of the specification.
        """

    def late_rule(self, label: str) -> LateRule:
        """Return the rule for late records.

        Args:
            label: The ``label`` of a planned input, under which late records are counted.
        """

    def fingerprint(self) -> Mapping[str, Any]:
        """Return the values that determine the content of the records, as plain JSON."""

    def described(self) -> Iterable[str]:
        """Return a line of Markdown for each source, for pages."""

    def contradictions(
        self, schedule: str, zone: str | None, intervals: Iterable[Interval]
    ) -> Iterator[tuple[Place, str]]:
        """Yield violated rules: the place below ``source``, and the message.

        Args:
            schedule: The schedule of the specification.
            zone: Its zone, None for UTC.
            intervals: Some of the first intervals; none if the schedule itself is wrong.
        """


# --- The log files of a data set: the folder of an interval, and when it is complete

_MARKER: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._][A-Za-z0-9._-]{0,249}")
_SUCCESS: Final = "_SUCCESS"
_UTC: Final = "UTC"


def _marker(text: str) -> str:
    if _MARKER.fullmatch(text) is None:
        raise WrongValueError(
            f"the name of the file that marks a complete folder, like {_SUCCESS}",
            "for folders without one, give 'stable: 10m' in its place",
        )
    return text


# Formats of files of columns.
COLUMN_FORMATS: Final = frozenset({"parquet", "orc", "arrow", "avro"})
_NAMES: Final = {
    "lines": "log", "json": "JSON lines", "csv": "CSV", "parquet": "Parquet", "orc": "ORC",
    "arrow": "Arrow", "avro": "Avro", "recordio": "RecordIO",
    "tfrecord": "TFRecord",
}  # fmt: skip
# Settings that speak of lines.
_OF_LINES: Final = frozenset({"cut_line", "max_line_bytes", "long_lines"})


class LogsSourceSpec(Part):
    """Log files: one folder per interval, in HDFS or on a mounted file system.

    Attributes:
        connection: Name of the connection that has the file system.
        path: Folder of an interval. ``{start:%Y-%m-%d}`` and ``{end:…}`` are its ends in the
            letters ``%Y %m %d %H %M %S %j``; the path begins at the root of the connection. With
            ``{hour:%H}`` or ``{day:%d}`` it names a folder for each hour or day of the interval.
            ``*`` stands for some part of a folder's name: all folders that fit are read.
        tz: Zone of the times in ``path``: UTC, or that of the data set, which then has to say.
        done: The folder is complete when it has a file of this name, by default ``_SUCCESS`` unless
            ``stable`` is given. The file itself is not read, whatever its name and content. Each
            folder that ``path`` names has one; those below the first ``*`` that follows the time
            need none.
        stable: The folder is complete when nothing in it has changed for this long.
        format: ``lines``: a record is a line. ``json``, ``csv``: the same, and the line gives the
            fields of the record; the first line of each file of CSV names its columns.
            ``parquet``, ``orc``, ``arrow``, ``avro``: a record is a row, with the columns as its
            fields. ``recordio``, ``tfrecord``: a record is one of the file.
        columns: The columns of Parquet, ORC, Arrow and Avro files that are read, and no others;
            by default all.
        fields: Name → type of the fields that lines of ``json`` and ``csv`` give: ``bool``,
            ``int64``, ``float64`` or ``str``. A line with another value is quarantined; what a line
            does not have is null.
        csv: How the cells of a line of CSV are told apart.
        land: Whether lines are first copied into landing files, and read from these from then on.
        settle: Time after the end of an interval before which it is not planned.
        wait: How long after that a run waits for the folder. The time counts from the interval and
            not from a run, so there is no wait for an interval of long ago.
        missing: Policy for an interval whose folder is not complete by then. ``fail``: runs fail.
            ``empty``: the interval is published as empty, if the folder is not there or holds
            nothing; of several folders, those that are not there or hold nothing are passed over.
            ``skip``: the interval is left out, and a marker says why.
        cut_line: Whether a last line without LF is a record (``keep``) or a sign that the file was
            cut (``fail``).
        split_bytes: Approximate size of the pieces in which plain files are read. A group of rows
            of a file of columns is never cut: it belongs to the piece in which it begins.
        max_line_bytes: Largest line.
        long_lines: Whether a longer line stops the build (``fail``) or is quarantined with the
            reason ``line_too_long`` (``quarantine``), which keeps and counts its first
            ``max_line_bytes`` bytes and one more. A landing file cannot hold such a line.
        bytes_per_record: Expected size of a record, from which the numbers of tasks and shards
            follow; for compressed files the expected compressed size.
    """

    connection: Connection = "hdfs_default"
    path: Annotated[str, AfterValidator(log_path)]
    tz: str | None = None
    done: Annotated[str, AfterValidator(_marker)] | None = None
    stable: Duration | None = None
    format: Literal[
        "lines", "json", "csv", "parquet", "orc", "arrow", "avro", "recordio", "tfrecord"
    ] = "lines"
    columns: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    fields: LineFields | None = None
    csv: CsvSpec = CsvSpec()
    land: bool = False
    settle: Duration = timedelta(0)
    wait: Wait = timedelta(days=2)
    missing: Missing = "fail"
    cut_line: Literal["keep", "fail"] = "keep"
    split_bytes: Annotated[Size, Field(ge=1)] = 64 << 20
    max_line_bytes: Annotated[Size, Field(ge=1, le=256 << 20)] = 1 << 20
    long_lines: Literal["fail", "quarantine"] = "fail"
    bytes_per_record: Annotated[Size, Field(ge=1)] = 256

    topics: ClassVar[tuple[TopicPart, ...]] = ()
    clusters: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _has_one_rule(self) -> LogsSourceSpec:
        if self.done is not None and self.stable is not None:
            raise WrongValueError(
                "done or stable, not both", "one rule says when a folder is complete",
                shows_got=False,
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _fits_its_format(self) -> LogsSourceSpec:
        if not self.has_columns and self.columns is not None:
            formats = ", ".join(sorted(COLUMN_FORMATS))
            raise WrongValueError(
                f"columns with one of the formats {formats}", "other files have no columns; leave"
                " it out, or say the format of the files", shows_got=False,
            )  # fmt: skip
        if len(set(self.columns or ())) < len(self.columns or ()):
            raise WrongValueError("each column once")
        if self.has_columns and self.land:
            raise WrongValueError(
                "land: true with lines or records", "rows of files of columns are read from the"
                " files alone, which keeps it to the columns that are wanted; leave it out",
                shows_got=False,
            )  # fmt: skip
        unused = set() if self.is_of_lines else self.model_fields_set & _OF_LINES
        if unused:
            raise WrongValueError(
                f"{' and '.join(sorted(unused))} with format: lines, json or csv", "other files"
                " have no lines; leave it out", shows_got=False,
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _has_fields_of_lines(self) -> LogsSourceSpec:
        if self.has_line_fields and self.fields is None:
            raise WrongValueError(
                f"fields beside format: {self.format}", "say the types of the fields that the"
                " function gets, as in fields: {price: float64, name: str}; or say format: lines"
                " for a function that reads the lines itself", shows_got=False,
            )  # fmt: skip
        if not self.has_line_fields and self.fields is not None:
            raise WrongValueError(
                "fields with format: json or csv", "other files say their types themselves: name"
                " columns in their place, or say the format of the lines", shows_got=False,
            )  # fmt: skip
        if self.format != "csv" and "csv" in self.model_fields_set:
            raise WrongValueError(
                "csv with format: csv", "leave it out, or say the format", shows_got=False
            )
        return self

    @model_validator(mode="after")
    def _keeps_whole_lines(self) -> LogsSourceSpec:
        if self.land and self.long_lines == "quarantine":
            raise WrongValueError(
                "long_lines: quarantine without land: true", "a landing file would have the"
                " beginning of a line alone; leave one of them out", shows_got=False,
            )  # fmt: skip
        return self

    @property
    def marker(self) -> str | None:
        """Name of the file that marks a complete folder; None if ``stable`` is the rule."""
        return (self.done or _SUCCESS) if self.stable is None else None

    @property
    def has_columns(self) -> bool:
        """Whether its files have columns, so that records have typed fields."""
        return self.format in COLUMN_FORMATS

    @property
    def is_of_lines(self) -> bool:
        """Whether the records are lines, whose positions are bytes of the file."""
        return self.format in LINE_FORMATS

    @property
    def has_line_fields(self) -> bool:
        """Whether lines give the fields of records, so that records have both."""
        return self.format in FIELD_FORMATS

    @property
    def lands(self) -> bool:
        """The setting ``land``; if False, ``preprocess`` reads the log files directly."""
        return self.land

    @property
    def folder_wait(self) -> timedelta:
        """The setting ``wait``."""
        return self.wait

    @property
    def zone(self) -> str | None:
        """Name of the zone of the times in ``path``; None for UTC."""
        return None if self.tz == _UTC else self.tz

    def _zone_problem(self, zone: str | None) -> str | None:
        """Return what is wrong with ``tz`` in a data set of a zone, or None."""
        if zone is None:
            if self.zone is None:
                return None
            return f"expected UTC, as the schedule, got {self.tz!r}; leave it out"
        if self.tz not in (_UTC, zone):
            got = "nothing" if self.tz is None else repr(self.tz)
            return f"expected UTC or {zone}, got {got}; say of which zone the times in the path are"
        if self.zone is None and not has_hours(self.path):
            return (
                f"expected {zone}, or %H in the path, got UTC: a folder of a day in UTC has parts"
                f" of two days of {zone}; name the folders of hours, as in {{hour:%Y-%m-%d/%H}}"
            )
        return None

    def _needs_whole_hours(self, zone: str | None) -> bool:
        return zone is not None and self.zone is None and not has_minutes(self.path)

    def _doubled(self) -> str:
        if self.zone is None:
            return ""
        return (
            "; where clocks are put back, times of a zone come twice: use folders in UTC (tz: UTC),"
            " or a schedule of days"
        )

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The settings ``wait`` and ``missing``."""
        return {"source.logs": MissingRule(self.wait, self.missing)}

    @property
    def file_systems(self) -> tuple[str, ...]:
        """The connection."""
        return (self.connection,)

    def measure(self, records_per_task: int) -> Measure:  # noqa: ARG002 - files are cut by bytes
        """Return sizes in bytes of the stored files."""
        return Measure(self.split_bytes, self.bytes_per_record)

    def late_rule(self, label: str) -> LateRule:  # noqa: ARG002 - all files are alike
        """Return the rule ``keep``: a line or row has no time of its own, so none is late."""
        return LateRule("keep")

    def fingerprint(self) -> dict[str, Any]:
        """Return the values that determine the records; place, pieces and rules do not.

        The limit of lines does where longer ones are quarantined: else such a line has no version.
        """
        value: dict[str, Any] = {
            "format": self.format,
            "bytes_per_record": self.bytes_per_record,
        }
        if self.long_lines == "quarantine":
            value["max_line_bytes"] = self.max_line_bytes
        if self.columns is not None:
            value["columns"] = list(self.columns)
        if self.fields is not None:
            value["fields"] = dict(self.fields)
        if self.format == "csv":
            value["csv"] = self.csv.fingerprint()
        return value

    def described(self) -> Iterator[str]:
        """Yield the folder with its connection."""
        yield f"{_NAMES[self.format]} files `{self.path}` (connection `{self.connection}`)"

    def contradictions(
        self, schedule: str, zone: str | None, intervals: Iterable[Interval]
    ) -> Iterator[tuple[Place, str]]:
        """Yield what is wrong with the zone of the path, or the first folder that two share."""
        if (text := self._zone_problem(zone)) is not None:
            yield ("logs", "tz"), text
            return
        names: dict[str, str] = {}
        for interval in intervals:
            if self._needs_whole_hours(zone) and (interval.start.minute or interval.end.minute):
                text = (
                    f"expected %M in the path beside tz: UTC, since {interval.name} begins or ends"
                    f" within an hour; or tz: {zone}, if the times of folders are of that zone"
                )
                yield ("logs", "path"), text
                return
            top, bases, below, _ = log_paths_of(self.path, interval, self.zone)
            folders = ["/".join(filter(None, (top, base, below))) for base in bases]
            others = [names.setdefault(folder, interval.name) for folder in folders]
            shared = (
                (f, other)
                for f, other in zip(folders, others, strict=True)
                if other != interval.name
            )
            for folder, other in shared:
                text = (
                    f"expected a folder for every interval, got {folder!r} for {other} and"
                    f" {interval.name}; put what the schedule {schedule!r} counts into the path,"
                    f" as in {{start:%Y-%m-%dT%H%M}}{self._doubled()}"
                )
                yield ("logs", "path"), text
                return


# --- Topics as kinds of source: topics of Kafka clusters, and a recorded topic

# Prefix of a recorded topic's location in a plan, in the place of a connection's name.
RECORDED: Final = "recorded:"
_FORMAT: Final = "topic"
# The rule of a topic without settings: no record is an empty interval, if the boundaries prove it.
_AT_ONCE: Final = MissingRule(timedelta(0), "empty")


class KafkaSourceSpec(Part):
    """One Kafka topic.

    Attributes:
        connection: Name of the connection that has the Kafka settings.
        topic: Name of the topic.
        settle: Time that has to pass after the end of an interval before it is planned.
        late: Policy for records that are older than the interval of their offset; ``fail`` also
            refuses records that are stamped more than ``skew`` after the interval's end.
        skew: Largest expected distance of stamps from the time of a boundary. The search for
            boundaries uses it as a guide only: the offsets that are found determine the content.
        transaction_wait: How long runs of the schedule and of backfills wait while an open
            transaction may hide records of the interval; then they fail.
        wait: How long after ``settle`` runs of the schedule wait for a first record of an interval,
            and for the topic itself. The time counts from the interval and not from a run.
        missing: Policy for an interval without a record after that. ``fail``: runs fail. ``empty``:
            it is published as empty, if its boundaries prove that no record belongs to it.
            ``skip``: with the same proof it is left out, and a marker says why.
        value: Format of the values: with a schema, the function gets their fields. Without it, the
            function gets bytes.
        key: Format of the keys; their fields have names that begin with ``_key``.
    """

    connection: Connection = "kafka_default"
    topic: Topic
    settle: Duration = timedelta(minutes=10)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)
    transaction_wait: Duration = timedelta(hours=1)
    wait: Wait = timedelta(0)
    missing: Missing = "empty"
    value: PayloadSpec | None = None
    key: PayloadSpec | None = None

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml, with its name."""
        return f"source.kafka {self.topic}"

    @property
    def missing_rule(self) -> MissingRule:
        """The settings ``wait`` and ``missing``."""
        return MissingRule(self.wait, self.missing)

    def place(self, folder: str | os.PathLike[str]) -> str:  # noqa: ARG002 - as of a recorded topic
        """Return the name of the connection."""
        return self.connection


@dataclass(frozen=True)
class KafkaTopics:
    """All Kafka topics of a data set, as one source.

    Attributes:
        topics: At least one.
    """

    topics: tuple[KafkaSourceSpec, ...]

    lands: ClassVar[bool] = True
    folder_wait: ClassVar[timedelta | None] = None
    file_systems: ClassVar[tuple[str, ...]] = ()

    @property
    def settle(self) -> timedelta:
        """The longest time of all topics: the interval waits for the last one."""
        return max(topic.settle for topic in self.topics)

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The rules of the topics that have one."""
        return _rules(self.topics)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The connection of every topic."""
        return tuple(topic.connection for topic in self.topics)

    def measure(self, records_per_task: int) -> Measure:
        """Return sizes in offsets; a record takes about one."""
        return Measure(records_per_task, 1)

    def late_rule(self, label: str) -> LateRule:
        """Return the rule of the topic ``label``."""
        rules = {topic.topic: LateRule(topic.late, topic.skew) for topic in self.topics}
        return rules[label]

    def fingerprint(self) -> dict[str, Any]:
        """Return the policies for late records, and the formats of values and keys with a schema.

        Connections do not determine the content.
        """
        late = {topic.topic: topic.late for topic in self.topics}
        payloads = {topic.topic: payload_fingerprints(topic) for topic in self.topics}
        found = {topic: each for topic, each in payloads.items() if each}
        return {"format": _FORMAT, "late": late, **({"payloads": found} if found else {})}

    def described(self) -> Iterator[str]:
        """Yield every topic with its connection."""
        for topic in self.topics:
            yield f"Kafka topic `{topic.topic}` (connection `{topic.connection}`)"

    def contradictions(
        self,
        schedule: str,  # noqa: ARG002 - a topic goes with every schedule
        zone: str | None,  # noqa: ARG002
        intervals: Iterable[Interval],  # noqa: ARG002
    ) -> Iterator[tuple[Place, str]]:
        """Yield a problem for every topic that is named twice."""
        for topic, count in Counter(topic.topic for topic in self.topics).items():
            if count > 1:
                text = (
                    f"expected every topic once, got {topic!r} {count} times; positions are named"
                    " by topic, so one data set cannot have it from two clusters"
                )
                yield ("kafka",), text


class RecordedSourceSpec(Part):
    """A recorded topic: a folder of landing files, read as if a broker served it.

    Attributes:
        path: Path or URI of the folder. A path that begins with ``./`` starts in the data set's
            folder, any other relative path in the working directory.
        settle: Time that has to pass after the end of an interval before it is planned.
        late: Policy for records that are older than the interval of their offset; ``fail`` also
            refuses records that are stamped more than ``skew`` after the interval's end.
        skew: Largest expected distance of stamps from the time of a boundary.
        wait: How long after ``settle`` runs of the schedule wait for a first record of an interval,
            and for the folder itself. The time counts from the interval and not from a run.
        missing: Policy for an interval without a record after that: ``fail``, ``empty`` or
            ``skip``, as of a Kafka topic.
        value: Format of the values: with a schema, the function gets their fields. Without it, the
            function gets bytes.
        key: Format of the keys; their fields have names that begin with ``_key``.
    """

    path: Text
    settle: Duration = timedelta(0)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)
    wait: Wait = timedelta(0)
    missing: Missing = "empty"
    value: PayloadSpec | None = None
    key: PayloadSpec | None = None

    setting: ClassVar[str] = "source.recorded"
    topic: ClassVar[str] = ""  # the folder of the topic has the name
    transaction_wait: ClassVar[timedelta] = timedelta(0)  # no broker, no transaction
    lands: ClassVar[bool] = True
    folder_wait: ClassVar[timedelta | None] = None
    clusters: ClassVar[tuple[str, ...]] = ()
    file_systems: ClassVar[tuple[str, ...]] = ()

    @property
    def missing_rule(self) -> MissingRule:
        """The settings ``wait`` and ``missing``."""
        return MissingRule(self.wait, self.missing)

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The rule of the topic, if it has one."""
        return _rules([self])

    @property
    def topics(self) -> tuple[RecordedSourceSpec, ...]:
        """This topic alone."""
        return (self,)

    def location(self, folder: str | os.PathLike[str]) -> str:
        """Return URI or absolute path of the topic, for a data set in ``folder``."""
        if "://" in self.path:
            return self.path
        base = Path(folder) if self.path.startswith("./") else Path()
        return str((base / self.path).absolute())

    def place(self, folder: str | os.PathLike[str]) -> str:
        """Return the location of the topic after the prefix ``recorded:``."""
        return f"{RECORDED}{self.location(folder)}"

    def measure(self, records_per_task: int) -> Measure:
        """Return sizes in offsets; a record takes about one."""
        return Measure(records_per_task, 1)

    def late_rule(self, label: str) -> LateRule:  # noqa: ARG002 - there is one topic
        """Return the rule of the topic."""
        return LateRule(self.late, self.skew)

    def fingerprint(self) -> dict[str, Any]:
        """Return the policy for late records, and the formats with a schema; not the location."""
        found = payload_fingerprints(self)
        return {"format": _FORMAT, "late": self.late, **({"payloads": found} if found else {})}

    def described(self) -> Iterator[str]:
        """Yield the topic with its folder."""
        yield f"recorded topic `{self.path}`"

    def contradictions(
        self,
        schedule: str,  # noqa: ARG002 - a topic goes with every schedule
        zone: str | None,  # noqa: ARG002
        intervals: Iterable[Interval],  # noqa: ARG002
    ) -> Iterator[tuple[Place, str]]:
        """Yield nothing: one topic has no contradictions."""
        yield from ()


def _rules(topics: Sequence[TopicPart]) -> dict[str, MissingRule]:
    """Return the rules that differ from the one of a topic without settings."""
    rules = {topic.setting: topic.missing_rule for topic in topics}
    return {setting: rule for setting, rule in rules.items() if rule != _AT_ONCE}
