"""The share of the data sets that each DAG file makes, and the errors in their specifications.

Errors are raised by files that import no operator, so they show also where one cannot be imported.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from operators.connections import datasets_folder
from trainfeed.specification import DatasetSpec, spec_folders, spec_or_error

# Fixed, with one file for each share: a data set keeps its share when others are added or removed.
NUM_SHARES: Final = 8


def share_of(dataset: str) -> int:
    """Return the number of a data set's share, from 0 on; it depends on the name alone."""
    return zlib.crc32(dataset.encode()) % NUM_SHARES


def folders_of(share: int) -> Iterator[Path]:
    """Yield the folders of the data sets of a share, in order of names."""
    return (path for path in spec_folders(datasets_folder()) if share_of(path.name) == share)


def raise_errors(share: int) -> None:
    """Raise all errors in the specifications of a share.

    Raises:
        SpecError: A specification is wrong; the message has a line for every mistake.
    """
    found = map(spec_or_error, folders_of(share))
    wrong = [spec for spec in found if not isinstance(spec, DatasetSpec)]
    if wrong:
        raise type(wrong[0])("\n".join(map(str, wrong)))
