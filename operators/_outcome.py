"""What a failed stage means to Airflow: retry it, fail at once, or wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from trainfeed.errors import Outcome, TrainFeedError

__all__ = ["airflow_outcome", "call_again"]


@contextmanager
def airflow_outcome() -> Iterator[None]:
    """Translate the errors of trainfeed that raise inside.

    Whatever is not an error of trainfeed (a broken network, a bug) passes through, and so does
    one that calls for a retry: Airflow retries everything that it does not know.

    Raises:
        AirflowFailException: Another try would end the same way.
    """
    try:
        yield
    except TrainFeedError as error:
        if error.outcome is Outcome.FAIL:
            raise AirflowFailException(str(error)) from error
        raise


def call_again(at: datetime) -> AirflowRescheduleException:
    """What a task raises to be called again at ``at``, without holding a slot or losing a try."""
    return AirflowRescheduleException(at)  # type: ignore[no-untyped-call]
