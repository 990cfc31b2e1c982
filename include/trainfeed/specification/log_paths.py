"""The path of log files in a specification: time fields, ``*``, and the folders of an interval."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from glob import escape
from os.path import commonpath
from typing import Final, NamedTuple

from trainfeed.core.intervals import Interval, ZoneRules, zone_rules
from trainfeed.specification.values import WrongValueError

_EXAMPLE: Final = "/logs/clicks/dt={start:%Y-%m-%d}"
_FIELD: Final = re.compile(r"\{(start|end|hour|day):([^{}]*)\}")
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)
# Directive → directives of which it needs one beside it: otherwise two intervals share a folder.
_COARSER: Final = {"Y": "", "m": "Y", "d": "m", "j": "Y", "H": "dj", "M": "H", "S": "M"}
# Field of which a path has a folder for each → length of what it counts, in its finest letter.
_EACH: Final = {"hour": (timedelta(hours=1), "H"), "day": (timedelta(days=1), "dj")}


class LogPaths(NamedTuple):
    """The folders of log files of one interval.

    Attributes:
        top: Absolute path of the folder below which all of them lie.
        bases: Paths below ``top`` of the folders of which each has to be complete; the text ``""``
            is ``top`` itself. A part of a path may have ``*``.
        below: Path from such a folder to those with its files; ``""`` if it has the files itself.
        times: Aware UTC time of each of ``bases``: the start of its hour or day, or that of the
            interval.
    """

    top: str
    bases: tuple[str, ...]
    below: str
    times: tuple[datetime, ...]

    def time_of(self, name: str) -> datetime:
        """Return the time of the base with the file ``name``, a path below ``top``."""
        if len(self.bases) > 1:
            parts = name.split("/")
            for base, time in zip(self.bases, self.times, strict=True):
                if all(map(_fits, parts, base.split("/"))):
                    return time
        return self.times[0]


def log_path(text: str) -> str:
    """Return ``text``, the path of log files with fields for the time of the interval.

    Raises:
        WrongValueError: It has no such field, or two intervals would read one folder.
    """
    formats = [time_format for _, time_format in _FIELD.findall(text)]
    if not formats:
        raise WrongValueError(
            f"a path with the time of the interval in it, like {_EXAMPLE}",
            "without one, every interval would read the same folder",
        )
    if any(mark in _FIELD.sub("", text) for mark in "{}"):
        raise WrongValueError(
            "fields of the form {start:%Y-%m-%d}, {end:…}, {hour:%H} or {day:%d} only",
            f"as in {_EXAMPLE}",
        )
    _check_directives({directive for part in formats for directive in _DIRECTIVE.findall(part)})
    _check_each(text)
    _check_parts(_FIELD.sub(lambda field: _DIRECTIVE.sub("0", field[2]), text))
    return text


def log_paths_of(template: str, interval: Interval, zone: str | None = None) -> LogPaths:
    """Return the folders of an interval.

    Args:
        template: A path as ``log_path`` allows it.
        interval: The interval.
        zone: Name of the zone whose clocks the times in the path are of; None for UTC.
    """
    shown = _same if zone is None else zone_rules(zone).local
    parts = template.split("/")
    # A time format may have slashes, but no part without a field has any.
    last = max(number for number, part in enumerate(parts) if "}" in part) + 1
    timed: dict[str, datetime] = {}
    for time in _times(template, interval, zone):
        timed.setdefault(_filled("/".join(parts[:last]), interval, time, shown), time)
    tail = parts[last:]
    first = next((number for number, part in enumerate(tail) if "*" in part), len(tail))
    bases = ["/".join([base, *tail[:first]]) for base in timed]
    top = commonpath([_before_stars(base) for base in bases])
    return LogPaths(
        top,
        tuple(base.removeprefix(top).lstrip("/") for base in bases),
        "/".join(tail[first:]),
        tuple(timed.values()),
    )


def expand_path(template: str, interval: Interval, zone: str | None = None) -> str:
    """Return the folder of an interval: the one below which all its folders lie."""
    return log_paths_of(template, interval, zone).top


def has_hours(template: str) -> bool:
    """Return whether folders are at most an hour's, so that those of UTC fit into days of zones."""
    return any("%H" in form for _, form in _FIELD.findall(template))


def has_minutes(template: str) -> bool:
    """Return whether folders are at most a minute's."""
    return any("%M" in form for _, form in _FIELD.findall(template))


def logs_root(template: str) -> str:
    """Return the root of the logs: the path before the part with the first field or ``*``."""
    field = _FIELD.search(template)
    before = template[: field.start()] if field else template
    return _before_stars(before.rpartition("/")[0]) or "/"


def _fits(name: str, pattern: str) -> bool:
    # ``*`` alone has a meaning in a path; other characters of patterns stand for themselves.
    return fnmatchcase(name, escape(pattern).replace("[*]", "*"))


def _before_stars(path: str) -> str:
    """Return a path up to its first part with ``*``."""
    before, star, _ = path.partition("*")
    return before.rpartition("/")[0] or "/" if star else path


def _same(time: datetime) -> datetime:
    return time


def _times(template: str, interval: Interval, zone: str | None) -> list[datetime]:
    """Return each hour, or each day, of an interval; its start if nothing is counted so."""
    counted = {name for name, _ in _FIELD.findall(template)} & _EACH.keys()
    if not counted:
        return [interval.start]
    name = counted.pop()
    if zone is not None and name == "day":
        return _days(interval, zone_rules(zone))
    step, _ = _EACH[name]
    number = max(1, -(-(interval.end - interval.start) // step))
    return [interval.start + step * each for each in range(number)]


def _days(interval: Interval, rules: ZoneRules) -> list[datetime]:
    """Return the start of an interval, and the later ones of days of a zone in it."""
    times = [interval.start]
    day = rules.local(interval.start).replace(hour=0, minute=0, second=0, microsecond=0)
    while (time := rules.first_moment(day := day + timedelta(days=1))) < interval.end:
        if time > times[-1]:
            times.append(time)
    return times


def _filled(
    template: str, interval: Interval, time: datetime, shown: Callable[[datetime], datetime]
) -> str:
    edges = {"start": interval.start, "end": interval.end, "hour": time, "day": time}
    return _FIELD.sub(lambda field: shown(edges[field[1]]).strftime(field[2]), template)


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


def _check_each(text: str) -> None:
    """Refuse fields of each hour and each day that would not name every one of them."""
    fields = [(name, form) for name, form in _FIELD.findall(text) if name in _EACH]
    names = {name for name, _ in fields}
    if len(names) > 1:
        raise WrongValueError("{hour:…} or {day:…}, not both", "a path counts in one of them")
    for name in names:
        finest = _EACH[name][1]
        used = {letter for _, form in fields for letter in _DIRECTIVE.findall(form)}
        if not used & set(finest):
            raise WrongValueError(
                f"%{' or %'.join(finest)} in {{{name}:…}}", f"it stands for each {name}"
            )


def _check_parts(path: str) -> None:
    first, *parts = path.split("/")
    if first or any(part in {"", ".", ".."} for part in parts):
        raise WrongValueError("an absolute path without '//', '.', '..' and a last '/'")
    if not path.isprintable() or "\\" in path:
        raise WrongValueError("a path without control characters and backslashes")
    if any("**" in part for part in parts):
        raise WrongValueError("'*' for some part of a name", "folders of any depth are not read")
