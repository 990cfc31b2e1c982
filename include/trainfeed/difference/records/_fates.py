"""What became of records in the version that lacks them: quarantined, or not."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset import Version
from trainfeed.dataset.order import Uint64s, position_hash, source_hash
from trainfeed.errors import StorageError
from trainfeed.pipeline.quarantine import quarantine_of_version

__all__ = ["UNKNOWN", "Fates"]

# The file is only for the account that builds.
UNKNOWN: Final = "unknown: the quarantine cannot be read"
_OTHER: Final = "not quarantined"


class Fates:
    """The quarantined records of a version, to look positions up; 24 bytes for each record.

    Args:
        version: The version.

    Raises:
        FormatError: The file of the quarantine is damaged.
    """

    def __init__(self, version: Version) -> None:
        self._reasons: list[str] = []
        self._is_known = True
        try:
            self._hashes, self._numbers = self._read(version)
        except StorageError:
            self._is_known = False

    def of(self, sources: Uint64s, offsets: NDArray[Any]) -> list[str]:
        """Return, for each record, ``quarantined: REASON`` or that it is not in the quarantine.

        Args:
            sources: Hashes of the source strings, shape (n,).
            offsets: Offsets, shape (n,).
        """
        if not self._is_known:
            return [UNKNOWN] * len(sources)
        hashes = position_hash(0, sources, offsets)
        places = self._hashes.searchsorted(hashes)
        places[places == len(self._hashes)] = 0
        found = self._hashes[places] == hashes if len(self._hashes) else np.zeros(len(hashes), bool)
        return [
            f"quarantined: {self._reasons[self._numbers[place]]}" if is_found else _OTHER
            for place, is_found in zip(places.tolist(), found.tolist(), strict=True)
        ]

    def _read(self, version: Version) -> tuple[Uint64s, NDArray[np.int32]]:
        names = np.array([source_hash(name) for name in version.manifest.sources], np.uint64)
        known: dict[str, int] = {}
        hashes, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
        for part in quarantine_of_version(version).positions():
            hashes.append(position_hash(0, names[part.sources], part.offsets))
            numbers.append(
                np.array([known.setdefault(each, len(known)) for each in part.reasons], np.int32)
            )
        self._reasons = list(known)
        joined = np.concatenate(hashes)
        order = np.argsort(joined)
        return joined[order], np.concatenate(numbers)[order]
