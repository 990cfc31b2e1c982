"""One Airflow for the tests that end none of its parts, each with data sets of names of its own.

Its places are those of ``make run`` and ``make ui`` themselves, in a folder of the tests. A process
of tests starts it once, with the first data sets; for further ones it reads its DAG files again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from examples.daily import places
from services.airflow import AirflowStack
from services.airflow_client import AirflowClient
from tests.e2e.ways import START_S

# Faults that a test may arm; without a folder of their marks each would kill the first who comes.
FAULTS = ("convert.before_spill", "convert.after_shard", "convert.after_commit")


class SharedAirflow:
    """The Airflow, which starts with the first :meth:`client_of`.

    Args:
        data: Empty folder of all that is made.

    Attributes:
        datasets: Folder of data sets; each test file adds some.
        fired: Folder with a mark for each fault that is not armed, or that has happened.
        files: Folder below which conversions read and write.
        place: Places of builds and the environment of tasks.
    """

    def __init__(self, data: Path) -> None:
        made = places.embedded(data)
        self.datasets, self.fired, self.files = data / "datasets", data / "fired", data / "files"
        for folder in (self.datasets, self.fired, self.files):
            folder.mkdir()
        for point in FAULTS:
            (self.fired / f"{point}.fired").touch()
        environ = {
            **made.environ,
            "TRAINFEED_DATASETS": str(self.datasets),
            "TRAINFEED_FAULTS": ",".join(f"{point}:kill:{self.fired}" for point in FAULTS),
        }
        self.place = replace(made, environ=environ)
        # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
        self._home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
        self.stack = AirflowStack(self._home, environ=environ)
        self._runs = False

    def client_of(self, dag_ids: Collection[str]) -> AirflowClient:
        """Return the client as soon as the DAGs are known, which are paused at first.

        The DAG processor parses every file again within half a minute. ``dags reserialize`` beside
        it would be sooner, and fails now and then: both add the same new DAG.
        """
        if not self._runs:
            self.stack.start()
            self._runs = True
            self.stack.wait(START_S)
        self.stack.wait_for_dags(dag_ids, START_S)
        return self.stack.client

    def arm(self) -> None:
        """Have each of the faults kill the next task that gets there, once."""
        for mark in self.fired.iterdir():
            mark.unlink()

    def stop(self) -> None:
        """End all processes, and remove what is theirs."""
        self.stack.stop()
        shutil.rmtree(self._home, ignore_errors=True)


@contextmanager
def shared_airflow(data: Path) -> Iterable[SharedAirflow]:
    """Make one, and stop it at the end."""
    made = SharedAirflow(data)
    try:
        yield made
    finally:
        made.stop()
