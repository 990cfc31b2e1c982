"""Folder of ``train.model.upload`` → proof that models can be written there, before a training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators._outcome import airflow_outcome
from operators._stage import open_dataset

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject

__all__ = ["RequireUploadOperator"]


class RequireUploadOperator(BaseOperator):
    """Fail before the training if its model could not be uploaded afterwards.

    Args:
        dataset: Name of the data set.

    Returns:
        ``upload``: the URI of the folder.
    """

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    def execute(self, context: Context) -> JsonObject:
        """Make and remove a folder in the folder of the models."""
        from trainfeed.training.transfers import require_upload

        with airflow_outcome(context):
            return require_upload(*open_dataset(self.dataset, transfers=True))
