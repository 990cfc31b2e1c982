"""Landing files of planned ranges: their places, and the accounts in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.core import canonical_json, faults
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.files.stores import Location
from trainfeed.pipeline.plans import Planned, PlannedRange
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.preprocessing.typed_fields import row_bytes
from trainfeed.sources import LandingFile, LandingWriter, landing_name
from trainfeed.versions import Leaf
from trainfeed.versions.order import source_hash, split_member

_LEDGER: Final = "ledger"
BUILD_AGAIN: Final = "build the interval again (in Airflow: clear the run from ingest on)"
REMEDY: Final = f"nothing was published; delete the file and {BUILD_AGAIN}"

logger = logging.getLogger(__name__)


def landing_name_of(planned: Planned, piece: PlannedRange) -> str:
    """Return the path of the landing file of a range, relative to the landing area."""
    return f"{planned.landing_folder}/{landing_name(piece.start, piece.end)}"


def landing_file(landing: Location, planned: Planned, piece: PlannedRange) -> Location:
    """Return the landing file of a range, below the landing area."""
    return landing / landing_name_of(planned, piece)


@contextmanager
def opened_landing(location: Location, *, verified: bool = True) -> Iterator[LandingFile]:
    """Open a landing file.

    Args:
        location: The file.
        verified: Whether its content is verified first; else the caller verifies while reading.

    Raises:
        NotFoundError: The file is not there.
        ChecksumError: The file is torn or damaged.
    """
    if not location.exists():
        raise NotFoundError(
            f"landing file {location.uri} is missing; nothing was published; {BUILD_AGAIN}"
        )
    with remedy_in_errors():
        landing = LandingFile.open(location)
    with closing(landing):
        if verified:
            with remedy_in_errors():
                landing.verify()
        yield landing


def landed_batches(landing: LandingFile, *, verifies: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the records of an open landing file; see ``LandingFile.iter_batches``.

    Raises:
        ChecksumError: The file is damaged.
    """
    batches = landing.iter_batches(verifies=verifies)
    while True:
        with remedy_in_errors():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def landed_records(location: Location) -> Iterator[pa.RecordBatch]:
    """Yield the records of a landing file, whose digest is not compared.

    Raises:
        NotFoundError: The file is not there.
        ChecksumError: The file is torn, or its records cannot be decoded.
    """
    with opened_landing(location, verified=False) as landing:
        yield from landed_batches(landing)


@contextmanager
def remedy_in_errors() -> Iterator[None]:
    """Let errors of a damaged landing file say what to do with it.

    Raises:
        ChecksumError: The block found a FormatError.
    """
    try:
        yield
    except FormatError as error:
        raise ChecksumError(f"{error}; {REMEDY}") from error


def promised_leaf(landing: LandingFile) -> Leaf:
    """Return the account in the trailer of a landing file.

    Raises:
        FormatError: There is no account, or one that cannot be read.
    """
    if (text := landing.metadata.get(_LEDGER)) is None:
        raise FormatError(
            f"expected {_LEDGER!r} in the trailer, got {sorted(landing.metadata)}",
            path=landing.path,
        )
    try:
        return Leaf.from_json(canonical_json.loads(text.encode()))
    except FormatError as error:
        error.path = error.path or landing.path
        raise


def landed_leaf(
    location: Location,
    planned: Planned,
    piece: PlannedRange,
    on_batch: Callable[[pa.RecordBatch], None] | None = None,
) -> Leaf | None:
    """Return the account of a landing file, or None if there is no complete, intact file.

    Args:
        location: The file.
        planned: Its input.
        piece: Its range.
        on_batch: Gets every batch, also of a file that turns out to be damaged.

    The account is computed from the records; a different one in the trailer means damage. So do
    records of another range: an intact file in the place of another one.
    """
    if not location.exists():
        return None
    try:
        with closing(LandingFile.open(location)) as landing:
            promised = promised_leaf(landing)
            number = source_hash(split_member(piece.source)[1])
            found = Leaf()
            for batch in landing.iter_batches(verifies=True):
                if not is_of_range(planned, piece, batch):
                    logger.warning(
                        "%s has records of another range and will be landed again", location.uri
                    )
                    return None
                found += leaf_of(batch, number)
                if on_batch is not None:
                    on_batch(batch)
    except FormatError as error:
        logger.warning("%s is torn or damaged and will be landed again: %s", location.uri, error)
        return None
    if found != promised:
        logger.warning("%s has a wrong account and will be landed again", location.uri)
        return None
    return found


def is_landed(landing: Location, planned: Planned, piece: PlannedRange) -> bool:
    """Return whether a complete, intact landing file covers the range."""
    return landed_leaf(landing_file(landing, planned, piece), planned, piece) is not None


def write_landing(file: BinaryIO, batches: Iterable[pa.RecordBatch], source: str) -> Leaf:
    """Write the records of one range with their account, and return the account.

    Args:
        file: The file; the caller closes it.
        batches: The records by ascending offset, as batches of ``LANDING_SCHEMA``.
        source: Source string of the range; the account is that of the source itself, whatever
            member of a union reads it, as other data sets may read the file as well.
    """
    writer = LandingWriter(file)
    number = source_hash(split_member(source)[1])

    def written(batch: pa.RecordBatch) -> Leaf:
        writer.write(batch)
        return leaf_of(batch, number)

    leaf = Leaf()
    for part in _while_the_next_is_made(written, batches):
        leaf += part
        faults.point("ingest.after_batch")
    writer.close({_LEDGER: canonical_json.dumps(leaf.to_json()).decode()})
    return leaf


def _while_the_next_is_made(
    written: Callable[[pa.RecordBatch], Leaf], batches: Iterable[pa.RecordBatch]
) -> Iterator[Leaf]:
    """Yield what ``written`` returns for each batch; a thread calls it, one batch at a time.

    A batch is compressed and digested while its source makes the next one. Two batches are held
    at once, and no thread remains when the iterator ends or is closed.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="trainfeed-landing") as thread:
        waiting: Future[Leaf] | None = None
        for batch in batches:
            if waiting is not None:
                yield waiting.result()
            waiting = thread.submit(written, batch)
        if waiting is not None:
            yield waiting.result()


def is_of_range(planned: Planned, piece: PlannedRange, batch: pa.RecordBatch) -> bool:
    """Return whether the records of a batch, by ascending offset, are of a range of offsets.

    Positions of other units are those of a source's own reader, and are not compared.
    """
    if planned.unit != "offsets" or not batch.num_rows:
        return True
    offsets = batch.column("offset")
    return bool(piece.start <= offsets[0].as_py() and offsets[-1].as_py() < piece.end)


def record_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the bytes of every record of a landing batch, as ledgers count them.

    A record has the bytes of its value; a row of typed fields, which has no value, those of its
    fields; a record with neither counts 0 bytes.
    """
    values = batch.column("value")
    found: NDArray[np.int64] = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    if values.null_count and FIELDS in batch.schema.names:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        return np.where(is_null, row_bytes(batch.column(FIELDS)), found)
    return found


def leaf_of(batch: pa.RecordBatch, source: int) -> Leaf:
    """Return the account of a landing batch; ``source`` is the hash of its source string."""
    return Leaf.of(source, batch.column("offset").to_numpy(), int(record_bytes(batch).sum()))
