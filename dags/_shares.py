"""The shares of the data sets: each has a DAG file of its own, and one for what is wrong.

Airflow gives a file a time limit, and drops all its DAGs when it is exceeded or when the file
raises. So a file makes the DAGs of an eighth of the data sets, and reads no specification of the
others; and what is wrong with a specification is raised by a file that makes no DAGs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from airflow.sdk import get_parsing_context

from dags._build import build_dag
from dags._train import train_dag
from operators.datasets import datasets_folder
from trainfeed.specification import DatasetSpec, load_spec, spec_folders, spec_or_error

__all__ = ["NUM_SHARES", "make_dags", "raise_errors", "share_of"]

# The files are there, one for each; a data set stays in its share when others come and go.
NUM_SHARES: Final = 8


def share_of(dataset: str) -> int:
    """The number of the share, from 0 on, that a data set belongs to: by its name alone."""
    return zlib.crc32(dataset.encode()) % NUM_SHARES


def make_dags(share: int) -> None:
    """Make the DAGs of a share, in order of names; wrong specifications are left out.

    A task that starts parses its file again, for one DAG: only that one is made.
    """
    wanted = get_parsing_context().dag_id
    if wanted is None:
        for spec in map(spec_or_error, _folders(share)):
            if isinstance(spec, DatasetSpec):
                _make(spec, "build", "train")
        return
    kind, _, name = wanted.partition(".")
    if kind in {"build", "train"} and name and share_of(name) == share:
        _make(load_spec(datasets_folder() / name), kind)


def raise_errors(share: int) -> None:
    """Raise what is wrong with the specifications of a share, all of it.

    Raises:
        SpecError: A line for every mistake.
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
