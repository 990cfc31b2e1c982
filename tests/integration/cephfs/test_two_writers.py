"""Two builders, and a reader beside retention, on clients of CephFS of their own; a third observes.

What is shown here is the table of promises in docs/operations/two-writers.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.cephfs import CephFS
from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from tests.unit.processes import LIMIT_S, until
from trainfeed.core import faults
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.files.stores import posix
from trainfeed.versions import DatasetFolder, Version, init_root
from trainfeed.versions.lease import HeldLease, building, hold_versions, leased_versions, leases

DAY = "2024-03-01"
SOURCES = Path(__file__).parents[3]


@dataclass
class Mounts:
    """One folder of CephFS as three clients see it."""

    ceph: CephFS
    points: list[Path]
    name: str

    def folder(self, client: int) -> DatasetFolder:
        return DatasetFolder(self.root(client), "clicks")

    def root(self, client: int) -> Path:
        return self.points[client] / self.name

    def evict(self, client: int) -> None:
        for session in json.loads(self.ceph.command("tell", "mds.a", "session", "ls")):
            if session["client_metadata"].get("mount_point") == str(self.points[client]):
                self.ceph.command("tell", "mds.a", "client", "evict", f"id={session['id']}")


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CephFS, list[Path]]]:
    """The mount of all tests, and two of this module, each with a client of its own."""
    first = Path(os.environ["TEST_CEPHFS_PATH"])
    ceph = CephFS(first.parents[1])
    others = [tmp_path_factory.mktemp("client") / "mount" for _ in range(2)]
    for other in others:
        ceph.mount(other)
    # The mount of all tests observes, for no test evicts it.
    yield ceph, [*others, first]
    for other in others:
        ceph.unmount(other)


@pytest.fixture
def mounts(points: tuple[CephFS, list[Path]]) -> Iterator[Mounts]:
    ceph, paths = points
    made = Mounts(ceph, paths, f"trainfeed-test-{uuid.uuid4()}")
    init_root(made.root(2))
    yield made
    for path in paths[:2]:
        ceph.mount(path)
    shutil.rmtree(made.root(2))


@pytest.fixture
def builders(mounts: Mounts, tmp_path: Path) -> list[Project]:
    """Two machines: a client, a work folder and a landing area each."""
    project = make_project(tmp_path)
    made = []
    for client in range(2):
        base = tmp_path / f"machine {client}"
        places = {place: str(base / place) for place in ("landing", "work")}
        env = replace(project.env, root=str(mounts.root(client)), **places)
        made.append(replace(project, env=env))
    return made


def start(project: Project, fault: str = "", *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trainfeed", "build", "clicks", "--interval", DAY, *options],
        env={
            "PYTHONPATH": str(SOURCES / "include"),
            "TRAINFEED_ROOT": project.env.root,
            "TRAINFEED_LANDING": project.env.landing,
            "TRAINFEED_WORK": project.env.work,
            "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
            "TRAINFEED_DATASETS": str(project.env.datasets),
            faults.VARIABLE: fault,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, output + errors


def is_stopped(process: subprocess.Popen[str]) -> bool:
    status = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return status[0] == "T"


class Observer:
    """Opens and verifies, again and again, every version that a client sees."""

    def __init__(self, folder: DatasetFolder) -> None:
        self._folder = folder
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.looks = 0
        self.problems: list[str] = []

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.is_set():
            self.looks += 1
            try:
                for number in self._folder.generations(DAY):
                    version = Version.open(self._folder.version(DAY, number))
                    self.problems += map(str, version.problems())
            except TrainFeedError as error:
                self.problems.append(str(error))


def check_one_version(mounts: Mounts) -> Version:
    """Return the one version, whole as every client sees it."""
    digests = set()
    for client in (1, 2):
        assert mounts.folder(client).generations(DAY) == [1]
        version = Version.resolve(mounts.folder(client), DAY)
        version.verify()
        digests.add(version.manifest_sha256)
    assert len(digests) == 1
    return version


def race(mounts: Mounts, number: int, held: list[HeldLease]) -> tuple[bool, bool]:
    """Let a reader lease a version while retention marks it.

    Args:
        mounts: The clients.
        number: Number of the race.
        held: Gets the lease; one that nobody refers to is released.

    Returns:
        Whether the reader got its lease, and whether retention saw it.
    """
    name = f"2024-01-01.{number}"
    mounts.folder(2).interval(name).mkdir(parents=True)
    gate = threading.Barrier(2)

    def read() -> bool:
        gate.wait()
        try:
            held.append(hold_versions(mounts.folder(0), [(name, 1)], "a race"))
        except NotFoundError:
            return False
        return True

    def retain() -> bool:
        gate.wait()
        mounts.folder(1).removal_mark(name, 1).touch()
        return (name, 1) in leased_versions(mounts.folder(1), datetime.now(UTC))

    with ThreadPoolExecutor(2) as pool:
        reader, retention = pool.submit(read), pool.submit(retain)
        return reader.result(), retention.result()


@pytest.mark.parametrize(
    "rounds", [10, pytest.param(300, marks=pytest.mark.nightly)], ids=["short", "long"]
)
def test_reader_and_retention_on_two_clients_never_miss_each_other(
    mounts: Mounts, rounds: int
) -> None:
    held: list[HeldLease] = []
    seen = [race(mounts, number, held) for number in range(rounds)]
    for lease in held:
        lease.release()
    # The reader reads although retention saw no lease: the version would go from under it.
    assert seen.count((True, False)) == 0


def test_a_renewal_is_seen_by_another_client_at_once(mounts: Mounts) -> None:
    now = datetime(2026, 3, 8, 12, tzinfo=UTC)
    times = [now]
    version = (DAY, 1)
    mounts.folder(2).interval(DAY).mkdir(parents=True)
    with hold_versions(mounts.folder(0), [version], "a reader", clock=lambda: times[-1]) as held:
        for hours in range(1, 6):
            (found,) = leases(mounts.folder(1))
            assert found.renewed == times[-1]
            assert version in leased_versions(mounts.folder(1), now + timedelta(hours=hours))
            times.append(now + timedelta(hours=hours))
            held.renew()
    assert leases(mounts.folder(1)) == []


def test_two_machines_that_build_at_once_publish_one_version(
    mounts: Mounts, builders: list[Project]
) -> None:
    with Observer(mounts.folder(2)) as observer:
        results = [ended(each) for each in [start(builder) for builder in builders]]
    assert [status for status, _ in results] == [0, 0], results
    assert observer.looks > 0
    assert observer.problems == []
    check_one_version(mounts)


def stopped_and_overtaken(
    mounts: Mounts, builders: list[Project], point: str, then: Callable[[], None]
) -> tuple[int, str]:
    """Stop the first builder at a point for longer than its lease; let the second build; go on."""
    once = builders[0].path / "once"
    once.mkdir()
    first = start(builders[0], f"{point}:stop:{once}")
    try:
        until(lambda: is_stopped(first))
        (held,) = building(mounts.folder(2), DAY, datetime.now(UTC))
        assert held.lease is not None
        assert held.lease.pid == first.pid
        long_ago = datetime.now(UTC).timestamp() - 86_400
        os.utime(held.path, (long_ago, long_ago))
        assert building(mounts.folder(1), DAY, datetime.now(UTC)) == []
        then()
        status, output = ended(start(builders[1]))
        assert status == 0, output
        first.send_signal(signal.SIGCONT)
        return ended(first)
    finally:
        first.kill()
        first.communicate()


@pytest.mark.parametrize(
    "point",
    [
        "publish.after_verify",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in (
                "ingest.before_rename",
                "preprocess.start",
                "convert.before_sync",
                "staging.before_rename",
                "check.before_rename",
                "publish.after_manifest",
            )
        ),
    ],
)
def test_a_builder_stopped_past_its_lease_adopts_the_version_of_the_other(
    mounts: Mounts, builders: list[Project], point: str
) -> None:
    with Observer(mounts.folder(2)) as observer:
        status, output = stopped_and_overtaken(mounts, builders, point, lambda: None)
    assert status == 0, output
    assert observer.problems == []
    check_one_version(mounts)


def test_a_builder_whose_client_was_evicted_fails_and_harms_nothing(
    mounts: Mounts, builders: list[Project]
) -> None:
    """CE-06."""
    with Observer(mounts.folder(2)) as observer:
        status, output = stopped_and_overtaken(
            mounts, builders, "publish.after_verify", lambda: mounts.evict(0)
        )
    assert status == 1, output
    assert observer.problems == []
    version = check_one_version(mounts)
    mounts.ceph.unmount(mounts.points[0])
    mounts.ceph.mount(mounts.points[0])
    status, output = ended(start(builders[0], "", "--json"))
    assert status == 0, output
    assert Version.resolve(mounts.folder(0), DAY).manifest_sha256 == version.manifest_sha256


def test_a_lock_of_a_file_without_write_permission_is_seen_by_another_client(
    mounts: Mounts,
) -> None:
    mine, other = (mounts.root(client) / "MANIFEST.json" for client in (0, 1))
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("{}")
    mine.chmod(0o444)
    with posix.shared_lock(mine), posix.try_lock(other) as is_free:
        assert not is_free
    with posix.try_lock(other) as is_free:
        assert is_free
