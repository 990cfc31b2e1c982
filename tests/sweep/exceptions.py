"""What damage may change without an error: the list of the sweep, each entry with its reason.

Most entries are removals of a whole file: where one file alone says something, and nothing that is
read or published depends on it, its absence is the same as that it was never written.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["CASES", "READINGS", "excepted_case", "excepted_reading"]

# Kind of file → why another answer of its readers is no fault.
READINGS: Final[dict[str, str]] = {
    "upload": "a person's file: what it holds is a new upload, with a receipt of its own digest",
}
_REMOVED: Final = ("removal",)
# Kind of file, kinds of damage → why other answers of commands are no fault.
CASES: Final[dict[tuple[str, tuple[str, ...]], str]] = {
    ("action", _REMOVED): "the history decides nothing; it is the record of what was done",
    ("applied waivers", _REMOVED): "the manifest has them; the next publication writes the file",
    (
        "begin of trainings",
        _REMOVED,
    ): "the next run writes it, and says from which version on",
    ("boundary", _REMOVED): "determined again from the topic, and compared with both neighbours",
    ("code", _REMOVED): "only the lines of a difference are missing, which the command says",
    ("gate of a job", _REMOVED): "the gate judges again, by the sealed result of the job",
    ("index of status", _REMOVED): "an index: it is made again from the manifests",
    ("landing file", _REMOVED): "read again from the source, by the offsets or digests of the plan",
    ("last run of retention", _REMOVED): "times of files and of the store still bound the clock",
    ("lease", _REMOVED): "as a lease that ended: a reader whose version goes gets an error",
    ("lookup", _REMOVED): "only the lines of a difference are missing, which the command says",
    ("note of a checkpoint", _REMOVED): "a checkpoint without its note is not complete",
    ("plan", _REMOVED): "retention removes plans; replay and difference say that it is gone",
    ("refused gates", _REMOVED): "the next build of the plan judges again",
    ("refused upload", _REMOVED): "the next check of uploads refuses the file again",
    ("removal of a job", _REMOVED): "tells who removed it; the history has the action",
    ("removal of landing files", _REMOVED): "tells who removed them; the history has the action",
    ("removal of uploads", _REMOVED): "tells who removed them; the history has the action",
    ("result of a job", _REMOVED): "the job counts as one that failed, and may run again",
    ("schedule", _REMOVED): "versions judge what is between them; the next build writes the file",
    ("skip", _REMOVED): "the interval is missing again, ranges over it are refused, and the next"
    " build decides again",
    ("training mark", _REMOVED): "the next run announces the version again",
    ("unpublished attempt", _REMOVED): "the next attempt writes it again",
    ("upload", _REMOVED): "a person's file; its receipt and its kept bytes stay",
    ("waiver", _REMOVED): "a used one is in the manifest; without an unused one the gate refuses",
}


def excepted_reading(kind: str) -> bool:
    """Whether readers of this kind may answer otherwise without an error."""
    return kind in READINGS


def excepted_case(case: Any, outcome: Any) -> bool:
    """Whether commands may answer otherwise after this damage; what is published never may."""
    may = any(case.kind == kind and case.damage in damages for kind, damages in CASES)
    return may and outcome.result != "published"
