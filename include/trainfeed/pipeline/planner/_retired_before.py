"""Refuses to build a retired interval, so that no backfill makes again what retention removed."""

from __future__ import annotations

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.retire import retirement_of
from trainfeed.errors import RetiredError

__all__ = ["refuse_retired"]


def refuse_retired(folder: DatasetFolder, interval: str) -> None:
    """Refuse to plan an interval that is retired.

    Raises:
        RetiredError: It is; the message says who retired it, when and why.
    """
    retired = retirement_of(folder, interval)
    if retired is not None:
        next_one = generation_name(retired.last_generation + 1)
        raise RetiredError(
            f"{folder.name}/{retired.told}; nothing was planned; a build with a reason makes it"
            f" again as {next_one}: trainfeed build {folder.name}"
            f" --interval {interval} --rebuild 'WHY' (Airflow: parameter 'rebuild')"
        )
