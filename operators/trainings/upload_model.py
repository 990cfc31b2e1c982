"""Version of a model → its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator

from operators._outcome import airflow_outcome
from operators._stage import open_dataset
from operators.links import ModelLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject

__all__ = ["UploadModelOperator"]


class UploadModelOperator(BaseOperator):
    """Upload the version of the run to the folder of ``train.model.upload``, or adopt an upload.

    Args:
        dataset: Name of the data set.
        model: Report of the task ``promote`` or ``evaluate`` (its XCom), with ``version``.

    Returns:
        ``model``, ``version``, and the report of the transfer.
    """

    template_fields: Sequence[str] = ("model",)
    operator_extra_links = (ModelLink(),)

    def __init__(self, *, dataset: str, model: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.model = model

    def execute(self, context: Context) -> JsonObject:
        """Upload the version."""
        from trainfeed.training.transfers import upload_model

        version = str(cast("Mapping[str, Any]", self.model)["version"])
        with airflow_outcome(context):
            return upload_model(*open_dataset(self.dataset, transfers=True), version)
