"""The folder of the data sets, for DAG files and operators."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainfeed.config import environment_from_environ

__all__ = ["datasets_folder"]

_HERE: Final = Path("include/datasets")


def datasets_folder() -> Path:
    """Return the folder with one folder per data set.

    The variable ``TRAINFEED_DATASETS`` names it. By default it is the folder beside this package,
    not in the working directory, because Airflow chooses the working directory of tasks.

    Raises:
        ConfigError: The variable is empty.
    """
    configured = environment_from_environ().datasets
    if configured == _HERE.absolute():
        return Path(__file__).resolve().parent.parent / _HERE
    return configured
