"""Corrections killed at sampled calls of the system, on a real CephFS, seen from a second mount.

Each command is recorded once; calls are drawn from those that concern the publication root, by a
seed. After a kill, a second client sees the state of before or of afterwards, and nothing else; the
same command again completes; a reader that is not trainfeed's finds every sample. The observer on
the second mount looks all the time.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
import threading
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.cephfs import CephFS
from tests.integration.cephfs.killed_calls import Commands
from tests.oracle.accounting import check_manifest_ledger
from tests.oracle.independent_reader import Version as IndependentVersion
from tests.unit.pipeline.clicks import CODE, SPEC, Project, batch, day
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.versions import DatasetFolder, Version, init_root
from trainfeed.versions.lease import leases
from trainfeed.versions.tag_files import current_tag

INTERVAL = "2024-03-01"
SEED = int(os.environ.get("TEST_KILLED_SEED", "19"))
# Kills of each command: some in every run, three hundred and more in all every night.
KILLS = int(os.environ.get("TEST_KILLED_CALLS", "2"))


@dataclass(frozen=True)
class Place:
    """A data set on CephFS, seen from two clients.

    Attributes:
        project: The data set, through the first mount.
        other: Its folder, through the second mount.
        commands: Its commands.
        damaged: Digests of the files of a version that a test has damaged.
    """

    project: Project
    other: DatasetFolder
    commands: Commands
    damaged: set[str] = field(default_factory=set)

    def run(self, *command):
        status, output = self.commands.run(*command)
        assert status == 0, output
        self.settle()

    def settle(self):
        """Let the first client write its journal now; the second one would wait for its turn."""
        first = self.project.folder
        for folder in (first.interval(INTERVAL), first.path / "tags" / "prod", first.path):
            if folder.is_dir():
                fd = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)

    @property
    def readable(self):
        return self.other.readable_generation(INTERVAL)

    @property
    def tagged(self):
        tag = current_tag(self.other, "prod")
        return None if tag is None else tag.generations.get(INTERVAL)

    @property
    def names(self):
        return {path.name for path in self.other.interval(INTERVAL).iterdir()}


@pytest.fixture(scope="module")
def mounts(tmp_path_factory):
    """A folder of nobody else, as two clients see it."""
    first = Path(os.environ["TEST_CEPHFS_PATH"])
    ceph = CephFS(first.parents[1])
    second = tmp_path_factory.mktemp("mounts") / "second"
    ceph.mount(second)
    name = f"trainfeed-killed-{uuid.uuid4()}"
    (first / name).mkdir()
    yield first / name, second / name
    shutil.rmtree(first / name)
    ceph.unmount(second)


@pytest.fixture(scope="module")
def place(mounts, tmp_path_factory):
    first, second = mounts
    path = tmp_path_factory.mktemp("place")
    datasets = path / "datasets"
    (datasets / "clicks").mkdir(parents=True)
    text = f"{SPEC}\nretention: {{keep_generations: 1}}\n"
    (datasets / "clicks" / "dataset.yaml").write_text(text)
    (datasets / "clicks" / "preprocess.py").write_text(CODE)
    init_root(first / "root")
    env = Environment(
        root=str(first / "root"),
        landing=str(path / "landing"),
        work=str(path / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(path / "recorded"))},
        datasets=datasets,
    )
    project = Project(path, env)
    project.record({0: [batch(day(0, 12))]})
    project.build()
    rebuild(project)
    environ = {
        "TRAINFEED_ROOT": env.root,
        "TRAINFEED_LANDING": env.landing,
        "TRAINFEED_WORK": env.work,
        "TRAINFEED_KAFKA": f"recorded:{path / 'recorded'}",
        "TRAINFEED_DATASETS": str(datasets),
    }
    commands = Commands(environ, env.root, path)
    return Place(project, DatasetFolder(second / "root", "clicks"), commands)


def rebuild(project):
    """Publish the next generation, of other content."""
    text = (project.env.datasets / "clicks" / "preprocess.py").read_text()
    number = text.count("# changed")
    changed = text.replace('"value": row["value"]', f'"value": row["value"] + {number + 1}', 1)
    changed = changed if number == 0 else text.replace(f"+ {number}", f"+ {number + 1}", 1)
    (project.env.datasets / "clicks" / "preprocess.py").write_text(f"{changed}# changed\n")
    project.build(rebuild="the values are others")


class Observer:
    """Looks at the versions through the second mount, all the time."""

    def __init__(self, place):
        self._place, self._stop, self.looks = place, threading.Event(), 0
        self._thread = threading.Thread(target=self._watch)
        self._first: dict[str, dict[str, str]] = {}
        self._others: list[tuple[str, str]] = []
        self.wrong: list[str] = []

    def __enter__(self):
        # The first look is one at intact versions, before anything is damaged or killed.
        self._look_at_all()
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()
        damaged = self._place.damaged
        strange = {each for each in self._others if each[1] not in damaged}
        self.wrong += [f"{name} has other bytes: {found}" for name, found in sorted(strange)]

    def _watch(self):
        while not self._stop.wait(0.5):
            self._look_at_all()
            self.looks += 1

    def _look_at_all(self):
        for path in self._place.other.interval(INTERVAL).glob("g[0-9]*[0-9]"):
            self._look(path)

    def _look(self, path):
        found = digests(path)
        if found is None or not path.exists():
            if not path.with_name(f"{path.name}.removed").exists():
                self.wrong.append(f"{path.name} went without a mark")
            return
        first = self._first.setdefault(path.name, found)
        self._others += [
            (f"{path.name}/{name}", found.get(name, "missing"))
            for name in first.keys() | found.keys()
            if first.get(name) != found.get(name)
        ]


def digests(version):
    """Return file → digest of a version, None if it is being removed."""
    try:
        return {
            str(path.relative_to(version)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(version.rglob("*"))
            if path.is_file() and path.name != "BUILT.json"
        }
    except FileNotFoundError:
        return None


def withdraw(place):
    """Withdrawal of what readers get; taken back afterwards."""
    last = place.readable
    return (
        ("withdraw", f"clicks/{INTERVAL}/g{last:04d}", "--why", "the values are wrong"),
        lambda: place.readable,
        (last, last - 1),
        lambda: place.run("restore", f"clicks/{INTERVAL}/g{last:04d}", "--why", "they are right"),
    )


def restore(place):
    """Restoration of what was withdrawn before."""
    last = place.readable
    name = f"clicks/{INTERVAL}/g{last:04d}"
    place.run("withdraw", name, "--why", "the values are wrong")
    return (
        ("restore", name, "--why", "they are right"),
        lambda: place.readable,
        (last - 1, last),
        lambda: None,
    )


def tag(place):
    """A tag moves from one generation to the other."""
    last, now = place.readable, place.tagged
    then = last if now != last else last - 1
    return (
        ("tag", "clicks", f"{INTERVAL}/g{then:04d}", "prod", "--why", "for production"),
        lambda: place.tagged,
        (now, then),
        lambda: None,
    )


def prune(place):
    """Retention removes the generation before the newest."""
    place.project.build()
    if place.tagged is not None:
        place.run("untag", "clicks", "prod", "--why", "no more")
    end_leases(place.project.folder)
    rebuild(place.project)
    gone = place.readable - 1
    return (
        ("prune", "clicks"),
        lambda: f"g{gone:04d}" not in place.names or f"g{gone:04d}.removed" in place.names,
        (False, True),
        lambda: None,
    )


def end_leases(folder):
    """Let the time of the leases pass that killed repairs have left."""
    for lease in leases(folder):
        os.utime(lease.path, (0, 0))


def repair(place):
    """Repair of a flipped byte in a shard."""
    number = place.readable
    folder = place.project.folder.version(INTERVAL, number)
    seen = place.other.version(INTERVAL, number)
    if not list(Version.open(seen).problems()):
        flip(folder / "clicks-train-00000-of-00000")
        place.damaged.update(digests(folder).values())
        place.settle()
    return (
        ("repair", f"clicks/{INTERVAL}/g{number:04d}", "--why", "a byte was flipped"),
        lambda: not list(Version.open(seen).problems()),
        (False, True),
        lambda: None,
    )


def flip(path):
    """Change a byte in the middle of a file, and nothing else."""
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
        os.fsync(file.fileno())
    path.chmod(0o444)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "prepared", [withdraw, restore, tag, repair, prune], ids=lambda each: each.__name__
)
def test_a_correction_that_is_killed_at_any_call_completes_when_it_is_repeated(place, prepared):
    # A first run may compile modules, with calls that no later run makes.
    command, _, _, undo = prepared(place)
    place.run(*command)
    undo()
    command, state, (_, after), undo = prepared(place)
    calls = place.commands.recorded(*command)
    assert state() == after
    undo()
    drawn = random.Random(f"{SEED} {prepared.__name__}")
    died, seen, survived = Counter(), Counter(), 0
    with Observer(place) as observer:
        while died.total() < KILLS:
            # A call that another run does not make kills nobody; most must.
            assert survived <= died.total() + 5, f"{survived} runs survived"
            call = drawn.choice(calls)
            command, state, (before, after), undo = prepared(place)
            is_dead = place.commands.killed(call, *command)
            place.settle()
            died[call.name] += is_dead
            survived += not is_dead
            found = state()
            assert found in {before, after}, f"killed before {call}: {found}"
            seen["before" if found == before else "after"] += is_dead
            place.run(*command)
            assert state() == after, f"killed before {call}, and repeated: {state()}"
            account(place)
            undo()
    assert observer.wrong == []
    assert observer.looks > 0
    told = f"{prepared.__name__}: {len(calls)} calls, kills {dict(died)}, then {dict(seen)}\n"
    sys.stdout.write(told)


def account(place):
    """Every sample of every version that is there, by a reader that is not trainfeed's."""
    for name in place.names:
        if name.startswith("g") and "." not in name:
            check_manifest_ledger(IndependentVersion(place.other.interval(INTERVAL) / name))
    assert not [
        name for name in place.names if name.endswith(".removed") and name[:5] in place.names
    ]
