"""The common settings of all DAGs: retries, time limits, tags, assets.

Only this module makes assets, because Airflow refuses, at run time, a task whose asset URI is known
under a second name.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from airflow.sdk import Asset

RETRY_DELAY: Final = timedelta(seconds=5)
RETRY_BACKOFF: Final = 6.0  # second try within 10 s, for a flake; third one after 30 to 60 s more

SINGLE_LIMIT: Final = timedelta(hours=1)
MAPPED_LIMIT: Final = timedelta(hours=3)
TRAINING_LIMIT: Final = timedelta(hours=12)
# How long a run waits for a person's answer about gates that ask.
ANSWER_LIMIT: Final = timedelta(days=7)

DEFAULT_ARGS: Final[dict[str, Any]] = {
    "owner": "trainfeed",
    "retries": 2,
    "retry_delay": RETRY_DELAY,
    "retry_exponential_backoff": RETRY_BACKOFF,
    "execution_timeout": SINGLE_LIMIT,
}
TAGS: Final = ("trainfeed",)


def dataset_asset(dataset: str) -> Asset:
    """Return the asset of a data set; its events have the interval's name as partition key."""
    return Asset(name=dataset, uri=f"trainfeed://{dataset}")


def uploads_asset(dataset: str) -> Asset:
    """Return the asset of the uploads of a data set; an event tells of new receipts."""
    return Asset(name=f"{dataset}.uploads", uri=f"trainfeed://{dataset}/uploads")
