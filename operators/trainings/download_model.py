"""Model on a store → publication root, before a training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators._outcome import airflow_outcome
from operators._stage import open_dataset

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject

__all__ = ["DownloadModelOperator"]


class DownloadModelOperator(BaseOperator):
    """Download the model of ``train.model.download``, or adopt an equal download.

    The task has the store's connection; the ranks of the training see only the folder.

    Args:
        dataset: Name of the data set.

    Returns:
        ``start_model`` (digest of the model's manifest), ``path``, and the report of the transfer.
    """

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    def execute(self, context: Context) -> JsonObject:
        """Download the model."""
        from trainfeed.training.transfers import download_start_model

        with airflow_outcome(context):
            return download_start_model(*open_dataset(self.dataset, transfers=True))
