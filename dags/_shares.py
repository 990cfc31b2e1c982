"""The shares of the data sets: each has a DAG file, and another file for wrong specifications.

Airflow has a time limit for each file, and drops all DAGs of a file that exceeds it or raises. Each
file therefore makes the DAGs of an eighth of the data sets, and reads no other specifications.
Errors in specifications are raised by separate files, which make no DAGs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from airflow.sdk import get_parsing_context

from dags._build import build_dag
from dags._train import train_dag
from dags._uploads import uploads_dag
from dags._waive import waive_dag
from operators.connections import datasets_folder
from trainfeed.specification import DatasetSpec, load_spec, spec_folders, spec_or_error

# Fixed, with one file for each share: a data set keeps its share when others are added or removed.
NUM_SHARES: Final = 8
_KINDS: Final = ("build", "train", "uploads", "waive")


def share_of(dataset: str) -> int:
    """Return the number of a data set's share, from 0 on; it depends on the name alone."""
    return zlib.crc32(dataset.encode()) % NUM_SHARES


def make_dags(share: int) -> None:
    """Make the DAGs of a share, in order of names, without those of wrong specifications.

    A task parses its file again at its start, for its own DAG: then only that DAG is made.
    """
    wanted = get_parsing_context().dag_id
    if wanted is None:
        for spec in map(spec_or_error, _folders(share)):
            if isinstance(spec, DatasetSpec):
                _make(spec, *_KINDS)
        return
    kind, _, name = wanted.partition(".")
    if kind in _KINDS and name and share_of(name) == share:
        _make(load_spec(datasets_folder() / name), kind)


def raise_errors(share: int) -> None:
    """Raise all errors in the specifications of a share.

    Raises:
        SpecError: A specification is wrong; the message has a line for every mistake.
    """
    found = map(spec_or_error, _folders(share))
    wrong = [spec for spec in found if not isinstance(spec, DatasetSpec)]
    if wrong:
        raise type(wrong[0])("\n".join(map(str, wrong)))


def _folders(share: int) -> Iterator[Path]:
    return (path for path in spec_folders(datasets_folder()) if share_of(path.name) == share)


def _make(spec: DatasetSpec, *kinds: str) -> None:
    if "build" in kinds:
        build_dag(spec)
    if "train" in kinds and spec.train is not None:
        train_dag(spec)
    if "uploads" in kinds and spec.uploads is not None:
        uploads_dag(spec)
    if "waive" in kinds:
        # Also without gates in the specification: a change of the schema may stop a build, too.
        waive_dag(spec)
