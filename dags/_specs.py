"""The specifications that a DAG file makes its DAGs from."""

from __future__ import annotations

from collections.abc import Iterator

from airflow.sdk import get_parsing_context

from operators.datasets import datasets_folder
from trainfeed.spec import DatasetSpec, load_spec, load_specs

__all__ = ["dag_specs"]


def dag_specs(kind: str) -> Iterator[DatasetSpec]:
    """The data sets that may get a DAG ``<kind>.<data set>``, in order of their names.

    A task that starts parses its file again, for one DAG: only that one's specification is read.
    Wrong specifications are left out here and reported by ``spec_errors.py``.
    """
    wanted = get_parsing_context().dag_id
    if wanted is None:
        yield from (s for s in load_specs(datasets_folder()) if isinstance(s, DatasetSpec))
    elif wanted.startswith(f"{kind}."):
        yield load_spec(datasets_folder() / wanted.removeprefix(f"{kind}."))
