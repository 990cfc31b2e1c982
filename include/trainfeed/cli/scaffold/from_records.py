"""A new data set for real records: specification and function that are drafted from them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from trainfeed.cli.scaffold.function_texts import (
    CSV_FUNCTION,
    FIELDS,
    JSON_FUNCTION,
    READERS,
    SAMPLE_OF,
    TIME_UNITS,
    TIMES,
    TYPED_FUNCTION,
)
from trainfeed.conversion import (
    CsvOptions,
    DraftColumn,
    Format,
    SchemaDraft,
    column_format_of,
    draft_rows,
    draft_schema,
)
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError
from trainfeed.specification.log_source import COLUMN_FORMATS

# --- The source of a data set whose records are those of a file

_BETWEEN: Final = r"[^\d{}%]{0,7}"
_DATE: Final = re.compile(
    rf"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<a>{_BETWEEN})(?P<month>\d\d)(?P<b>{_BETWEEN})(?P<day>\d\d)"
    rf"(?:(?P<c>[^\d{{}}%]{{1,7}})(?P<hour>\d\d))?(?!\d)"
)
_DIRECTIVES: Final = re.compile(r"%[YmdH](?:.*%[YmdH])?")


@dataclass(frozen=True)
class DatedFolder:
    """The folder of an interval, by the date in its path.

    Attributes:
        template: Its path, with the time of the interval in the place of the date.
        at: The start of the interval.
        schedule: Preset of the schedule: daily, or hourly if there is an hour in the path.
        first: Start of the first interval whose folder lies beside it.
    """

    template: str
    at: datetime
    schedule: str
    first: datetime

    @classmethod
    def of(cls, folder: Path) -> DatedFolder | None:
        """Return the folder as that of an interval; None if no date is in its path."""
        found = [(match, at) for match in _DATE.finditer(str(folder)) if (at := _time_of(match))]
        if not found:
            return None
        match, at = found[-1]
        text = str(folder)
        template = f"{text[: match.start()]}{_format_of(match)}{text[match.end() :]}"
        schedule = "@daily" if match["hour"] is None else "@hourly"
        return cls(template, at, schedule, min([at, *_siblings(folder, match)]))

    @property
    def interval(self) -> str:
        """Name of the interval of the folder."""
        return f"{self.at:%Y-%m-%d}" if self.schedule == "@daily" else f"{self.at:%Y-%m-%dT%H}"

    @property
    def start(self) -> str:
        """The start of the first interval, as dataset.yaml has it."""
        is_day = self.schedule == "@daily"
        return f"{self.first:%Y-%m-%d}" if is_day else f"{self.first:%Y-%m-%dT%H:%M:%SZ}"


def _time_of(match: re.Match[str]) -> datetime | None:
    parts = (match[name] for name in ("year", "month", "day", "hour"))
    try:
        return datetime(*(int(part) for part in parts if part is not None), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def _format_of(match: re.Match[str]) -> str:
    hour = "" if match["hour"] is None else f"{match['c']}%H"
    text = f"%Y{match['a']}%m{match['b']}%d{hour}"
    parts = (_DIRECTIVES.sub(lambda found: f"{{start:{found[0]}}}", p) for p in text.split("/"))
    return "/".join(parts)


def _siblings(folder: Path, match: re.Match[str]) -> Iterator[datetime]:
    """Yield the times of folders with the same name but for the date; of a date in one name."""
    if "/" in match[0]:
        return
    before, after = str(folder)[: match.start()], str(folder)[match.end() :]
    above, _, prefix = before.rpartition("/")
    suffix = after.partition("/")[0]
    try:
        names = [path.name for path in Path(above or "/").iterdir() if path.is_dir()]
    except OSError:
        return
    for name in names:
        inner = name.removeprefix(prefix).removesuffix(suffix)
        other = _DATE.fullmatch(inner) if name == f"{prefix}{inner}{suffix}" else None
        if other and (at := _time_of(other)) and bool(other["hour"]) == bool(match["hour"]):
            yield at


# --- The draft of a data set: what its files say, in the order of the file

_GATES_NOTE: Final = "# A proposal from these records: none of the limits is more than a guess."
_LEAST_QUARANTINE: Final = 0.05
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9_ .,;:/()|-]*")
_DTYPE_READERS: Final = {"str": "text", "bool": "boolean", "bytes": "raw"}
# Types of columns whose values are times, and what reads these.
_TIMES: Final = re.compile(r"(timestamp|date32|time32|time64)\[(\w+)")
_TIME_READERS: Final = {"timestamp": 'ticks("{}")', "date32": "days"}


@dataclass(frozen=True)
class RecordsDraft:
    """What was drafted from the records of a file.

    Attributes:
        draft: The schema, with what was seen of every field.
    """

    draft: SchemaDraft

    @classmethod
    def of_file(
        cls, file: Path, *, rows: int, file_format: str | None, csv: CsvOptions
    ) -> RecordsDraft:
        """Look at the records of a file.

        Raises:
            ConfigError: Builds do not read its format, or no column has a type of ours.
            FormatError: The file is damaged, or has no records.
            NotFoundError: It is not there.
        """
        found = column_format_of(file) if file_format in {None, *COLUMN_FORMATS} else None
        if found is not None:
            return cls(draft_rows(file, found, rows=rows)).with_fields()
        draft = draft_schema(file, rows=rows, file_format=file_format, csv=csv)
        if draft.file_format not in {Format.JSON_LINES, Format.CSV}:
            raise ConfigError(
                f"{file}: expected JSON lines, CSV, Parquet, ORC, Arrow or Avro, whose lines or"
                f" rows are the records of a build, got {draft.file_format}; nothing was made;"
                " write it as JSON lines, such as with trainfeed file convert"
            )
        return cls(draft).with_fields()

    def with_fields(self) -> Self:
        """Return the draft; refuse records none of whose parts can be a field.

        Raises:
            ConfigError: There is none.
        """
        if not self.draft.fields:
            reasons = "; ".join(f"{each.name}: {each.reason}" for each in self.draft.columns[:5])
            raise ConfigError(
                f"{self.draft.file}: expected a value that a field can hold, got {reasons}; nothing"
                " was made; write the function by hand: trainfeed new without --from"
            )
        return self

    def spec_lines(self, name: str, source: Sequence[str], start: str, schedule: str) -> str:
        """Return the text of dataset.yaml, with ``@SCHEMA@`` for the place of its schema.

        Args:
            name: The data set.
            source: The lines below ``source:``.
            start: The first tick.
            schedule: The schedule.
        """
        seen = f"{self.draft.records:,} records of {printable(Path(self.draft.file).name)}"
        lines = [
            "# yaml-language-server: $schema=@SCHEMA@",
            f"# The specification of the data set {name}, drafted by `trainfeed new` from {seen}.",
            "# Look at every line; `trainfeed schema` prints what else may stand here.",
            "",
            f'name: "{name}"',
            f'schedule: "{schedule}"               # UTC; a version holds [tick, next tick)',
            f"start: {start}",
            "catchup: false                   # true: the DAG, once switched on, builds the past",
            "seed: 7",
            "",
            "source:",
            *source,
            "",
            'preprocess: {function: "preprocess:make_sample"}',
            "",
            "schema:",
            *self.draft.lines(),
            "",
            "split: {train: 0.9, eval: 0.1}   # by: [FIELD] keeps samples of one value together",
            "",
            "output: {codec: zstd, samples_per_shard: 100000}",
            "",
            _GATES_NOTE,
            "quality:",
            *self._gates(),
            "",
            "retention: {keep_generations: 3}",
            "",
        ]
        return "\n".join(lines)

    def _gates(self) -> Iterator[str]:
        yield "  - {check: count, min: 1}"
        unread = sum(self.draft.unread.values())
        refused = unread + sum(each.refused for each in self._fields())
        share = min(1.0, refused / (unread + self.draft.records))
        limit = _rounded_up(max(_LEAST_QUARANTINE, 2 * share))
        seen = f"   # {share:.2%} of what was seen" if refused else ""
        yield f"  - {{check: quarantine_ratio, max: {limit}}}{seen}"
        for each in self._fields():
            if each.absent:
                limit = _rounded_up(2 * each.absent / self.draft.records)
                yield (
                    f"  - {{check: null_ratio, field: {json.dumps(each.spec_name)}, max: {limit},"
                    f" severity: warn}}   # {each.absent / self.draft.records:.2%} were seen"
                )
        for each in self._fields():
            if each.low is not None and each.high is not None:
                yield (
                    f"  # - {{check: range, field: {json.dumps(each.spec_name)}, min: {each.low!r},"
                    f" max: {each.high!r}}}   # as far as was seen"
                )

    def function(self, name: str) -> str:
        """Return the text of preprocess.py."""
        fields = [
            f"    {json.dumps(each.spec_name)}: ({_literal(each.name)}, {_reader(each)}),"
            for each in self._fields()
        ]
        optional = [each.spec_name for each in self._fields() if each.absent]
        values = {
            "@NAME@": name,
            "@FILE@": printable(Path(self.draft.file).name).replace("\\", "/").replace('"', "'"),
            "@FIELDS@": "\n".join(fields),
            "@OPTIONAL@": f"{{{', '.join(map(json.dumps, optional))}}}" if optional else "set()",
        }
        text = TYPED_FUNCTION if self.draft.is_typed else JSON_FUNCTION
        csv = self.draft.csv
        if csv is not None:
            text = CSV_FUNCTION
            texts = [e.name for e in self._fields() if e.field is not None and e.field.is_text]
            values |= {
                "@COLUMNS@": "\n".join(f"    {_literal(e.name)}," for e in self.draft.columns),
                "@DELIMITER@": _literal(csv.delimiter or ","),
                "@QUOTE@": _literal(csv.quote),
                "@ENCODING@": _literal("utf-8-sig" if csv.is_utf8 else csv.encoding),
                "@TEXTS@": f"{{{', '.join(map(_literal, texts))}}}" if texts else "set()",
            }
        has_times = any(_TIMES.search(each.kind) for each in self._fields())
        values["@TIMES@"] = TIMES if has_times else ""
        words = {word for each in self._fields() for word in re.findall("[a-z]+", _reader(each))}
        used = [text for name, text in READERS.items() if name in words]
        if csv is not None:
            used = [READERS["from_cell"], *used]
        units = TIME_UNITS if has_times else ""
        text = "".join([text, SAMPLE_OF, units, *used, FIELDS])
        for mark, value in values.items():
            text = text.replace(mark, value)
        return text

    def _fields(self) -> list[DraftColumn]:
        return [each for each in self.draft.columns if each.field is not None]


def _rounded_up(share: float) -> float:
    return min(1.0, math.ceil(round(share * 100, 6)) / 100)


def _literal(text: str) -> str:
    """Return a text as a literal of Python, in ASCII."""
    return f'"{text}"' if _PLAIN_TEXT.fullmatch(text) else ascii(text)


def _reader(column: DraftColumn) -> str:
    field = column.field
    if field is None:
        raise ValueError(f"{column.name} has no field")
    kind = _DTYPE_READERS.get(field.dtype, "number" if field.dtype.startswith("f") else "whole")
    if field.dtype == "uint64":
        kind = "unsigned"
    if (time := _TIMES.search(column.kind)) is not None:
        kind = _TIME_READERS.get(time[1], 'clock("{}")').format(time[2])
    if not field.shape:
        return kind
    shape = ", ".join(str(length) for length in field.shape)
    return f"array({kind}, {shape})"
