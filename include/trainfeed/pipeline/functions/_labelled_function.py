"""A preprocessing function whose samples get the labels of uploads.

Modes call it as they call the function of the user: the join is a part of the function from a
record to its samples, so both modes have one rule, and encoding, splits and ledger follow as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.errors import PreprocessError, SampleShapeError
from trainfeed.pipeline.functions._batch_function import Judged, in_order
from trainfeed.pipeline.functions._batch_mode import SCHEMA_REMEDY
from trainfeed.pipeline.functions._user_function import SampleFunction
from trainfeed.pipeline.labels import UNLABELLED, LabelJoin
from trainfeed.preprocessing import Filtered, Record

__all__ = ["LabelledFunction"]

_UNLABELLED: Final = Filtered(UNLABELLED)


class LabelledFunction:
    """Joins the samples of a function with labels; see ``SampleFunction`` for the methods.

    Args:
        function: The function of the user.
        labels: The labels of the interval.
    """

    def __init__(self, function: SampleFunction, labels: LabelJoin) -> None:
        self._function = function
        self._labels = labels

    def call(self, record: Record) -> list[Mapping[str, Any]] | Filtered:
        """Return the samples with their labels, or ``Filtered`` if an inner join leaves none.

        Raises:
            SampleShapeError: The key of a sample is missing or has another type.
        """
        result = self._function.call(record)
        if isinstance(result, Filtered):
            return result
        return self._labels.of_samples(result) or _UNLABELLED

    def call_batch(self, batch: pa.RecordBatch) -> Judged:
        """Return the outcome of every record after the join."""
        judged = self._function.call_batch(batch)
        try:
            return self._joined(judged)
        except SampleShapeError as error:
            row = int(judged.rows[self._labels.first_wrong_row(judged.all_samples())])
            message = f"broke the schema: {error}"
            raise self.batch_mistake(batch, row, message, SCHEMA_REMEDY) from error

    def mistake(self, record: Record, message: str, remedy: str) -> PreprocessError:
        """Return the error for a mistake of the function at a record."""
        return self._function.mistake(record, message, remedy)

    def batch_mistake(
        self, batch: pa.RecordBatch, row: int | None, message: str, remedy: str
    ) -> PreprocessError:
        """Return the error for a mistake of the function in a batch."""
        return self._function.batch_mistake(batch, row, message, remedy)

    def _joined(self, judged: Judged) -> Judged:
        samples, keep = self._labels.of_batch(judged.all_samples())
        if keep is None:
            return replace(judged, returned=samples, kept=None)
        # The samples of a record that are kept are numbered again from 0.
        rows = judged.rows[keep]
        _, rows, ordinals = in_order(rows, np.arange(len(rows)))
        lost = np.setdiff1d(judged.rows, rows)
        before = judged.filtered.get(UNLABELLED, lost[:0])
        turned = {UNLABELLED: np.sort(np.concatenate([before, lost]))} if len(lost) else {}
        return replace(
            judged,
            returned=samples.filter(pa.array(keep)),
            kept=None,
            rows=rows,
            ordinals=ordinals,
            filtered={**judged.filtered, **turned},
        )
