"""
Reports every wrong `dataset.yaml` as the import error of this file.

It defines no DAG. Airflow drops all DAGs of a file that raises, so the files that make DAGs skip a
wrong specification and this one raises for all of them: the other data sets keep their DAGs.
"""

from __future__ import annotations

from operators.datasets import datasets_folder
from trainfeed.spec import DatasetSpec, load_specs

wrong = [spec for spec in load_specs(datasets_folder()) if not isinstance(spec, DatasetSpec)]
if wrong:
    raise type(wrong[0])("\n".join(map(str, wrong)))
