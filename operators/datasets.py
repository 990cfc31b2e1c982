"""Where the data sets are: what DAG files and operators must agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainfeed.config import environment_from_environ

__all__ = ["datasets_folder"]

_HERE: Final = Path("include/datasets")


def datasets_folder() -> Path:
    """The folder that holds one folder per data set.

    It is what ``TRAINFEED_DATASETS`` says. Without it, it is the one beside this package:
    Airflow starts tasks in folders of its own choice, so the working directory says nothing.

    Raises:
        ConfigError: The variable is empty.
    """
    configured = environment_from_environ().datasets
    if configured == _HERE.absolute():
        return Path(__file__).resolve().parent.parent / _HERE
    return configured
