"""The sentences on the page of a run of ``uploads.…``: what it started, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["told_uploads"]


def told_uploads(report: Mapping[str, Any]) -> str:
    """Return what a run did with uploads, and what it leaves to a person.

    Args:
        report: The XCom ``uploads`` of the task ``check``; other shapes of values count as nothing.
    """
    told = f"Builds that were started: {len(_names(report, 'builds'))}."
    if newer := _names(report, "newer_than_version"):
        told += (
            f" Published intervals with newer uploads stay as they are: {', '.join(newer)}. To take"
            " the uploads, trigger the build with window_start, and rebuild = why."
        )
    return told


def _names(report: Mapping[str, Any], key: str) -> list[str]:
    found = report.get(key)
    return [str(name) for name in found] if isinstance(found, list) else []
