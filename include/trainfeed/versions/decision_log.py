"""The decisions about a data set in a bucket: a log of objects that are only created, in one order.

``<data set>/+decisions/00000001.json`` and so on are ``Entry``; the creation of the next number is
a compare-and-swap over all decisions about the data set. ``00000064.state.json`` has what all
entries up to that one amount to. docs/authors/adr/0074-decisions-in-a-bucket.md has the reasons.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from trainfeed.core import canonical_json, faults
from trainfeed.core.accounts import account_name
from trainfeed.core.intervals import format_time
from trainfeed.errors import NotFoundError, StorageError, UnsuitableStoreError
from trainfeed.files.records import RecordFile, Time
from trainfeed.files.stores import Location
from trainfeed.versions.bucket_root import bucket_of
from trainfeed.versions.decision_files import is_decision_file
from trainfeed.versions.layout import GENERATION, is_name

logger = logging.getLogger(__name__)

# Begins with what no name of a file or a data set begins with.
DECISIONS: Final = "+decisions"
# One request each, so with a condition.
MOST_ENTRY_BYTES: Final = canonical_json.MAX_BYTES
_STATE_EVERY: Final = 64
_STATE: Final = re.compile(r"([0-9]{8})\.state\.json")
# Entries that are asked for at once, when one of them is there.
_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Entry:
    """One change of what people decided, and of the versions that are announced.

    Attributes:
        dataset: Name of the data set.
        number: Its place in the log, from 1.
        at: When it was written, by the clock of the writer.
        account: The account of the writer.
        host: Its machine.
        work: What it did, such as ``withdraw``.
        files: Path below the data set → the text of the decision from now on, or None.
        versions: ``<interval>/gNNNN`` whose manifests are in the bucket, or may come.
    """

    dataset: str
    number: int
    at: Time
    account: str
    host: str
    work: str
    files: dict[str, str | None] = field(repr=False)
    versions: list[str]


@dataclass(frozen=True)
class LogState:
    """What the entries of a log amount to.

    Attributes:
        dataset: Name of the data set.
        number: Number of the last entry; 0 before the first.
        files: Path below the data set → text of the decision.
        versions: ``<interval>/gNNNN`` that were announced, sorted.
    """

    dataset: str
    number: int = 0
    files: dict[str, str] = field(default_factory=dict, repr=False)
    versions: list[str] = field(default_factory=list, repr=False)

    def after(self, entry: Entry) -> LogState:
        """Return the state with the next entry."""
        files = {path: text for path, text in self.files.items() if path not in entry.files}
        files |= {path: text for path, text in entry.files.items() if text is not None}
        versions = sorted({*self.versions, *entry.versions})
        return LogState(self.dataset, entry.number, files, versions)


def is_version(name: str) -> bool:
    """Return whether a text is ``<interval>/gNNNN``."""
    interval, _, generation = name.partition("/")
    match = GENERATION.fullmatch(generation)
    return is_name(interval) and match is not None and not match[2]


def _check(record: Entry | LogState) -> None:
    wrong = [path for path in record.files if not is_decision_file(path)]
    wrong += [name for name in record.versions if not is_version(name)]
    if wrong:
        raise ValueError(f"got {wrong[0][:200]!r}, which is no decision and no version")


_REMEDY: Final = "nothing was changed; bring the object back, or read with the newest trainfeed"
_ENTRIES: Final = RecordFile(
    Entry,
    "an entry of the decisions about a data set",
    _REMEDY,
    max_bytes=MOST_ENTRY_BYTES,
    format=1,
    check=_check,
)
STATES: Final = RecordFile(
    LogState,
    "the state of the decisions about a data set",
    _REMEDY,
    max_bytes=MOST_ENTRY_BYTES,
    format=1,
    check=_check,
)


class DecisionLog:
    """The log of one data set.

    Args:
        home: The data set in the bucket.

    Raises:
        ConfigError: The place is in no bucket.
    """

    def __init__(self, home: Location) -> None:
        self._bucket = bucket_of(home)
        self._place = home / DECISIONS
        self._dataset = home.name

    def entry(self, number: int) -> Entry | None:
        """Return an entry; None if the log ends before.

        Raises:
            FormatError: The object is damaged, or of a newer trainfeed.
            StorageError: The store refused or failed.
        """
        place = self._place / f"{number:08d}.json"
        try:
            data = place.read_bytes(max_bytes=MOST_ENTRY_BYTES)
        except NotFoundError:
            return None
        return _ENTRIES.parse(data, place.uri, number=number, dataset=self._dataset)

    def newest(self, known: LogState | None = None) -> LogState:
        """Return what all entries amount to.

        Args:
            known: An earlier state, from which it goes on; None to begin anew.

        Raises:
            FormatError: An object is damaged, or of a newer trainfeed.
            StorageError: The store refused or failed.
        """
        state, num_found = self._begin() if known is None else known, 0
        while (entry := self.entry(state.number + 1)) is not None:
            state, num_found = state.after(entry), num_found + 1
            if num_found > 1:
                state = self._further(state)
        return state

    def append(
        self,
        state: LogState,
        files: Mapping[str, str | None],
        work: str,
        versions: Iterable[str] = (),
    ) -> LogState | None:
        """Create the entry after a state, which was the end of the log when it was read.

        Returns:
            The state with the entry; None if another one has the number.

        Raises:
            CommitUnknownError: The store did not say whether the entry is there.
            StorageError: The store refused or failed. There is no entry.
            UnsuitableStoreError: The entry is too large for one request.
        """
        entry = Entry(
            self._dataset,
            state.number + 1,
            format_time(datetime.now(UTC).replace(microsecond=0)),
            account_name(),
            socket.gethostname(),
            work,
            dict(files),
            list(versions),
        )
        place = self._place / f"{entry.number:08d}.json"
        data = _ENTRIES.dumps(entry)
        if len(data) > MOST_ENTRY_BYTES:
            raise UnsuitableStoreError(
                f"{place.uri}: expected at most {MOST_ENTRY_BYTES} bytes, which are one request,"
                f" got {len(data)}; nothing was changed; decide about fewer intervals at once"
            )
        faults.point("log.before_entry")
        if not self._bucket.create(place.path, data):
            return None
        faults.point("log.after_entry")
        after = state.after(entry)
        if after.number % _STATE_EVERY == 0:
            self._keep(after)
        return after

    def _begin(self) -> LogState:
        """Return the newest state that was written; an empty one before the first."""
        try:
            matches = (_STATE.fullmatch(each.name) for each in self._place.list())
        except NotFoundError:
            return LogState(self._dataset)
        numbers = [int(match[1]) for match in matches if match]
        if not numbers:
            return LogState(self._dataset)
        place = self._state_place(max(numbers))
        data = place.read_bytes(max_bytes=MOST_ENTRY_BYTES)
        return STATES.parse(data, place.uri, number=max(numbers), dataset=self._dataset)

    def _further(self, state: LogState) -> LogState:
        """Return the state with the next entries that are there, several asked for at once."""
        numbers = range(state.number + 1, state.number + 1 + _AT_ONCE)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="trainfeed-log") as pool:
            for entry in pool.map(self.entry, numbers):
                # An entry that came meanwhile may stand behind a number that was free before.
                if entry is None:
                    break
                state = state.after(entry)
        return state

    def _keep(self, state: LogState) -> None:
        """Create the object of a state; without it, readers begin with an earlier one."""
        place = self._state_place(state.number)
        data = STATES.dumps(state)
        try:
            if len(data) <= MOST_ENTRY_BYTES:
                self._bucket.create(place.path, data)
        except StorageError as error:
            logger.warning("%s was not written, a later one will: %s", place.uri, error)

    def _state_place(self, number: int) -> Location:
        return self._place / f"{number:08d}.state.json"
