"""The fields that the forms of several DAGs have alike."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import Param

INTERVAL_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
# 3 to 500 characters on one line, and not blank.
REASON: Final[dict[str, Any]] = {
    "minLength": 3,
    "maxLength": 500,
    "pattern": r"^[^\r\n\t]*\S[^\r\n\t]*$",
}
DATASET_PATTERN: Final = "^[a-z][a-z0-9_]{0,62}$"


def dataset_param() -> Param:
    """Return the field for the name of a data set; the task refuses an unknown one."""
    return Param(
        type="string",
        pattern=DATASET_PATTERN,
        title="Data set",
        description="Its name, such as flights.",
    )


def interval_param(where: str = "", *, such_as: str = "2013-01-01") -> Param:
    """Return the field for the name of an interval.

    Args:
        where: Where a person finds the name.
        such_as: An example: in a form for one data set, an interval of that one.
    """
    return Param(
        type="string",
        pattern=INTERVAL_PATTERN,
        title="Interval",
        description=f"Such as {such_as}{where}.",
    )


def generation_param(unset: str) -> Param:
    """Return the field for a generation; ``unset`` says which one it is by default."""
    return Param(
        None,
        type=["null", "string"],
        pattern="^g[0-9]{4,}$",
        title="Generation",
        description=f"Such as g0002; {unset}.",
    )


def why_param(keeper: str) -> Param:
    """Return the field for the reason; ``keeper`` says what keeps it."""
    return Param(
        type="string",
        **REASON,
        title="Why",
        description=f"The reason, which {keeper} keeps: one line of 3 to 500 characters.",
    )


def dry_run_param(description: str, *, is_on: bool = False) -> Param:
    """Return the field that makes a run change nothing; ``is_on`` for what cannot be undone."""
    return Param(is_on, type="boolean", title="Dry run", description=description)
