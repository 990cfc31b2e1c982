"""The log files of a data set: the folders of an interval, and when they are complete."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

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
from trainfeed.specification.source_kinds import (
    LateRule,
    Measure,
    Missing,
    MissingRule,
    TopicPart,
    Wait,
)
from trainfeed.specification.values import (
    Connection,
    Duration,
    Size,
    SourcePart,
    Text,
    WrongValueError,
)

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


class LogsSourceSpec(SourcePart):
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
        return {self.setting: MissingRule(self.wait, self.missing)}

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml."""
        return f"{self._at}.logs"

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
