"""The log files of a data set: the folder of an interval, and when it is complete.

::

    path   := ("/" part)+                         absolute, no empty, "." or ".." part
    part   := (text | "{" edge ":" format "}")+
    edge   := "start" | "end"                     of the interval, UTC
    format := text with %Y %m %d %H %M %S %j

The *root* of the logs is the path before the part with the first field. Records are identified by
names below the root, so everything that varies from interval to interval has to be below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from trainfeed.intervals import Interval
from trainfeed.specification._problems import Place
from trainfeed.specification._source_kind import (
    LateRule,
    Measure,
    Missing,
    MissingRule,
    TopicPart,
    Wait,
)
from trainfeed.specification._spec_values import Connection, Duration, Part, Size, WrongValueError

__all__ = ["LogsSourceSpec", "expand_path", "logs_root"]

_EXAMPLE: Final = "/logs/clicks/dt={start:%Y-%m-%d}"
_FIELD: Final = re.compile(r"\{(start|end):([^{}]*)\}")
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)
# Directive → directives of which it needs one beside it: otherwise two intervals share a folder.
_COARSER: Final = {"Y": "", "m": "Y", "d": "m", "j": "Y", "H": "dj", "M": "H", "S": "M"}
_MARKER: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._][A-Za-z0-9._-]{0,249}")
_SUCCESS: Final = "_SUCCESS"


def _path(text: str) -> str:
    formats = [time_format for _, time_format in _FIELD.findall(text)]
    if not formats:
        raise WrongValueError(
            f"a path with the time of the interval in it, like {_EXAMPLE}",
            "without one, every interval would read the same folder",
        )
    if any(mark in _FIELD.sub("", text) for mark in "{}"):
        raise WrongValueError(
            "fields of the form {start:%Y-%m-%d} or {end:%Y-%m-%d} only", f"as in {_EXAMPLE}"
        )
    _check_directives({directive for part in formats for directive in _DIRECTIVE.findall(part)})
    _check_parts(_FIELD.sub(lambda field: _DIRECTIVE.sub("0", field[2]), text))
    return text


def _check_directives(used: set[str]) -> None:
    if not used or not used <= _COARSER.keys():
        known = ", ".join(f"%{directive}" for directive in _COARSER)
        raise WrongValueError(f"time formats made of {known}")
    for directive in sorted(used):
        coarser = _COARSER[directive]
        if coarser and not used & set(coarser):
            needed = " or ".join(f"%{other}" for other in coarser)
            raise WrongValueError(
                f"{needed} beside %{directive}", "without it two intervals would read one folder"
            )


def _check_parts(path: str) -> None:
    first, *parts = path.split("/")
    if first or any(part in {"", ".", ".."} for part in parts):
        raise WrongValueError("an absolute path without '//', '.', '..' and a last '/'")
    if not path.isprintable() or "\\" in path:
        raise WrongValueError("a path without control characters and backslashes")


def _marker(text: str) -> str:
    if _MARKER.fullmatch(text) is None:
        raise WrongValueError(
            f"the name of the file that marks a complete folder, like {_SUCCESS}",
            "for folders without one, give 'stable: 10m' in its place",
        )
    return text


class LogsSourceSpec(Part):
    """Log files: one folder per interval, in HDFS or on a mounted file system.

    Attributes:
        connection: Name of the connection that has the file system.
        path: Folder of an interval. ``{start:%Y-%m-%d}`` and ``{end:…}`` are its ends, UTC, in the
            letters ``%Y %m %d %H %M %S %j``; the path begins at the root of the connection.
        done: The folder is complete when it has a file of this name, by default ``_SUCCESS`` unless
            ``stable`` is given. The file itself is not read, whatever its name and content.
        stable: The folder is complete when nothing in it has changed for this long.
        format: ``lines``: a record is a line; there is no other format.
        land: Whether lines are first copied into landing files, and read from these from then on.
        settle: Time after the end of an interval before which it is not planned.
        wait: How long after that a run waits for the folder. The time counts from the interval and
            not from a run, so there is no wait for an interval of long ago.
        missing: Policy for an interval whose folder is not complete by then. ``fail``: runs fail.
            ``empty``: the interval is published as empty, if the folder is not there or holds
            nothing. ``skip``: the interval is left out, and a marker says why.
        cut_line: Whether a last line without LF is a record (``keep``) or a sign that the file was
            cut (``fail``).
        split_bytes: Approximate size of the pieces in which plain files are read.
        max_line_bytes: Largest line; a longer line is an error.
        bytes_per_record: Expected size of a record, from which the numbers of tasks and shards
            follow; for compressed files the expected compressed size.
    """

    connection: Connection = "hdfs_default"
    path: Annotated[str, AfterValidator(_path)]
    done: Annotated[str, AfterValidator(_marker)] | None = None
    stable: Duration | None = None
    format: Literal["lines"] = "lines"
    land: bool = False
    settle: Duration = timedelta(0)
    wait: Wait = timedelta(days=2)
    missing: Missing = "fail"
    cut_line: Literal["keep", "fail"] = "keep"
    split_bytes: Annotated[Size, Field(ge=1)] = 64 << 20
    max_line_bytes: Annotated[Size, Field(ge=1, le=256 << 20)] = 1 << 20
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

    @property
    def marker(self) -> str | None:
        """Name of the file that marks a complete folder; None if ``stable`` is the rule."""
        return (self.done or _SUCCESS) if self.stable is None else None

    @property
    def lands(self) -> bool:
        """The setting ``land``; if False, ``preprocess`` reads the log files directly."""
        return self.land

    @property
    def folder_wait(self) -> timedelta:
        """The setting ``wait``."""
        return self.wait

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
        """Return the rule ``keep``: a line has no time of its own, so no line is late."""
        return LateRule("keep")

    def fingerprint(self) -> dict[str, Any]:
        """Return the values that determine the records; place, pieces and rules do not."""
        return {"format": self.format, "bytes_per_record": self.bytes_per_record}

    def described(self) -> Iterator[str]:
        """Yield the folder with its connection."""
        yield f"log files `{self.path}` (connection `{self.connection}`)"

    def contradictions(
        self, schedule: str, intervals: Iterable[Interval]
    ) -> Iterator[tuple[Place, str]]:
        """Yield a problem for the first folder that two intervals share."""
        names: dict[str, str] = {}
        for interval in intervals:
            folder = expand_path(self.path, interval)
            other = names.setdefault(folder, interval.name)
            if other != interval.name:
                text = (
                    f"expected a folder for every interval, got {folder!r} for {other} and"
                    f" {interval.name}; put what the schedule {schedule!r} counts into the path,"
                    " as in {start:%Y-%m-%dT%H%M}"
                )
                yield ("logs", "path"), text
                return


def expand_path(template: str, interval: Interval) -> str:
    """Return the folder of an interval."""
    edges: dict[str, datetime] = {"start": interval.start, "end": interval.end}
    return _FIELD.sub(lambda field: edges[field[1]].strftime(field[2]), template)


def logs_root(template: str) -> str:
    """Return the root of the logs: the path before the part with the first field."""
    field = _FIELD.search(template)
    before = template[: field.start()] if field else template
    return before.rpartition("/")[0] or "/"
