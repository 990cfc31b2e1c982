"""Finds log files that are gone or shorter than an earlier plan of the interval saw them.

A plan is written before anything is read, and stays. A file that vanished or shrank between the
first plan and the publication of the interval is therefore known by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import FormatError, SourceReplacedError
from trainfeed.intervals import Interval
from trainfeed.pipeline.plans import Planned, PlannedFile, earlier_plans, first_few
from trainfeed.storage import Location

__all__ = ["refuse_cut", "require_whole"]


def refuse_cut(folder: Location, inputs: Iterable[PlannedFile]) -> None:
    """Refuse compressed files of 0 bytes: a compressed file has a header even without any line.

    Raises:
        FormatError: There are such files; the message names them.
    """
    names = [each.path.rpartition("/")[2] for each in inputs if not each.is_cut and not each.end]
    if names:
        raise FormatError(
            "expected compressed files as their names say, got files of 0 bytes, as a"
            f" writer leaves them that was killed at its start: {first_few(names)}; nothing was"
            " read or published;"
            " write them again; if no line is missing, remove or hide them: names that begin with"
            " '_' are not read",
            path=folder.uri,
        )


def require_whole(
    folder: DatasetFolder,
    interval: Interval,
    path: str,
    inputs: Mapping[str, Planned],
    allow_gap: str | None,
) -> list[dict[str, Any]]:
    """Compare the files with those that earlier plans of the interval saw in the same folder.

    Args:
        folder: The data set below the publication root.
        interval: An interval that is not published.
        path: The folder of logs, as the specification names it.
        inputs: The files of now.
        allow_gap: The reason given for accepting a gap, or None to refuse it.

    Returns:
        One gap per file that is gone or shorter: ``source``, ``start`` and ``end`` of the missing
        bytes in the stored file, and ``why``.

    Raises:
        SourceReplacedError: There are gaps, and ``allow_gap`` is None; the message names the files.
    """
    seen = _largest(folder, interval, f"{path}/")
    gaps = [
        {"source": source, "start": length, "end": old.end, "why": allow_gap}
        for source, old in sorted(seen.items())
        if (length := _length(inputs.get(source))) < old.end
    ]
    if gaps and allow_gap is None:
        lines = list(_lines(gaps, seen, inputs))
        raise SourceReplacedError(
            f"the folder of logs of {folder.name}/{interval.name} has less than an earlier plan"
            f" saw: {first_few(lines)}; nothing was read or published; restore the files, or, to"
            " build from what is there now, run again with --allow-gap WHY (Airflow: parameter"
            " 'allow_gap')"
        )
    return gaps


def _largest(folder: DatasetFolder, interval: Interval, prefix: str) -> dict[str, PlannedFile]:
    seen: dict[str, PlannedFile] = {}
    for plan in earlier_plans(folder, interval.name):
        for source, old in plan.inputs.items():
            if not isinstance(old, PlannedFile) or not old.path.startswith(prefix):
                continue
            if old.end > _length(seen.get(source)):
                seen[source] = old
    return seen


def _lines(
    gaps: list[dict[str, Any]], seen: Mapping[str, PlannedFile], inputs: Mapping[str, Planned]
) -> Iterator[str]:
    for gap in gaps:
        old = seen[gap["source"]]
        now = inputs.get(gap["source"])
        found = "gone" if now is None else f"length {old.end} → {now.end}"
        yield f"{old.path}: {found}"


def _length(planned: Planned | None) -> int:
    return 0 if planned is None else planned.end
