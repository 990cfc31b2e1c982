"""Predictions of many records, in batches; each is written before the next one is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import BinaryIO, Final

from trainfeed.errors import PredictionError
from trainfeed.loader import DataLoader
from trainfeed.prediction.records import Counts, Outcome, RawRecord
from trainfeed.prediction.worker import ModelWorker
from trainfeed.readers import DatasetReader
from trainfeed.versions import Version

# A batch goes to the process in one message.
_BATCH_BYTES: Final = 8 << 20


def predict_records(
    worker: ModelWorker, records: Iterable[RawRecord], batch_size: int
) -> Iterator[list[Outcome]]:
    """Yield the outcomes of records in their order, batch by batch.

    Args:
        worker: The process with the model.
        records: The records.
        batch_size: Most records that are predicted at once; fewer if they are large.

    Raises:
        PredictionError: As for ``ModelWorker.predict``; the message names the records.
    """
    first = 0
    for batch in _batches(iter(records), batch_size):
        try:
            outcomes = worker.predict(batch)
        except PredictionError as error:
            place = f"records {first} to {first + len(batch) - 1}"
            error.args = (f"{place}: {error}", *error.args[1:])
            raise
        yield outcomes
        first += len(batch)


def predict_split(
    worker: ModelWorker, version: Version, split: str, batch_size: int
) -> Iterator[list[Outcome]]:
    """Yield the predictions of a published split, in the order of its samples.

    The batches are those of a loader that does not shuffle, as a training evaluates.

    Args:
        worker: The process with the model, opened for this version.
        version: The version.
        split: Name of the split.
        batch_size: Samples that are predicted at once.

    Raises:
        PredictionError: As for ``ModelWorker.predict_samples``.
        FormatError: A shard is damaged.
    """
    reader = DatasetReader([version], split)
    if not reader.num_samples:
        return
    with closing(DataLoader(reader, batch_size, copy=True)) as batches:
        for batch in batches:
            yield worker.predict_samples(dict(batch), batch.num_rows)


def write_outcomes(worker: ModelWorker, batches: Iterable[list[Outcome]], file: BinaryIO) -> Counts:
    """Write a line of JSON for every record, and count the outcomes.

    Raises:
        PredictionError: As for ``predict_records``.
        StorageError: The file cannot be written.
    """
    counts, mark = Counts(), worker.facts.mark()
    for outcomes in batches:
        first = counts.kinds.total()
        rows = ({**each.to_json(first + n), **mark} for n, each in enumerate(outcomes))
        file.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        counts.add(first, outcomes)
    file.flush()
    return counts


def _batches(records: Iterator[RawRecord], most: int) -> Iterator[list[RawRecord]]:
    batch: list[RawRecord] = []
    num_bytes = 0
    for record in records:
        batch.append(record)
        num_bytes += record.num_bytes
        if len(batch) >= most or num_bytes >= _BATCH_BYTES:
            yield batch
            batch, num_bytes = [], 0
    if batch:
        yield batch
