"""Versions in a bucket: absent or whole at every moment, and exactly one winner of many writers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.s3.bucket_projects import (
    is_whole,
    make_bucket_root,
    observer,
    publish_version,
)
from tests.integration.s3.killed_client import KilledHereError, Requests
from tests.unit.files.stores.file_system_behaviour import names, race
from tests.unit.pipeline.conftest import make_project
from tests.unit.processes import LIMIT_S
from trainfeed.core import faults
from trainfeed.errors import (
    ChecksumError,
    ConflictError,
    RootError,
    UnsuitableStoreError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3
from trainfeed.versions import Version, bucket_versions
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import init_bucket_root, probe_bucket

DAY = "2024-03-01"
PROGRAM = """
import sys
from pathlib import Path
from trainfeed.files.stores import Location
from tests.integration.s3.bucket_projects import publish_version
print(publish_version(Location.parse(sys.argv[1]), Path(sys.argv[2])))
"""


@pytest.fixture
def source(tmp_path) -> Path:
    """A published version in a folder."""
    project = make_project(tmp_path)
    project.prebuilt(DAY)
    return project.folder.version(DAY, 1)


@pytest.fixture
def root(folder: Location) -> Location:
    """A root in a bucket; its probe is a test of its own."""
    make_bucket_root(folder)
    return folder


def version_of(root: Location, source: Path) -> BucketVersion:
    return BucketVersion.at(root, "clicks", source.parent.name, int(source.name[1:]))


def test_a_version_in_a_bucket_is_that_of_the_folder(root: Location, source: Path) -> None:
    version = version_of(root, source)
    assert not is_whole(version)
    assert publish_version(root, source) == "published"
    assert is_whole(version)
    manifest, sha256 = version.read()
    assert (manifest, sha256) == (
        Version.open(source).manifest,
        Version.open(source).manifest_sha256,
    )
    assert version.built() == json.loads((source / "BUILT.json").read_bytes())
    for name, (_, digest) in manifest.file_digests().items():
        assert version.file(name, digest).read_bytes() == (source / name).read_bytes()


def test_a_second_call_finds_the_version_and_sends_nothing(
    root: Location, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_version(root, source)
    monkeypatch.setattr(_s3.S3FileSystem, "put", None)
    assert publish_version(root, source) == "known"


def test_what_a_failed_call_has_sent_is_not_sent_again(
    root: Location, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopError(Exception):
        pass

    def stop(point: str) -> None:
        if point == "bucket.before_manifest":
            raise StopError

    monkeypatch.setattr(faults, "point", stop)
    with pytest.raises(StopError):
        publish_version(root, source)
    assert not is_whole(version_of(root, source))
    monkeypatch.setattr(faults, "point", lambda _: None)
    sent: list[str] = []
    put = _s3.S3FileSystem.put
    monkeypatch.setattr(
        _s3.S3FileSystem,
        "put",
        lambda fs, path, *a, **o: (sent.append(path), put(fs, path, *a, **o))[1],
    )
    assert publish_version(root, source) == "published"
    assert [path.rpartition("/")[2] for path in sent] == ["00000001.json", "MANIFEST.json"]


# --- kills at each point, under an observer -----------------------------------------------------


def run(root: Location, source: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, root.uri, str(source)],
        env={**os.environ, faults.VARIABLE: fault},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("point", "is_there"),
    [
        ("bucket.after_file", False),
        ("bucket.before_manifest", False),
        ("bucket.after_manifest", True),
    ],
)
def test_a_version_is_absent_or_whole_after_a_kill(
    root: Location, source: Path, point: str, is_there: bool
) -> None:
    version = version_of(root, source)
    with observer(version) as seen:
        assert run(root, source, f"{point}:kill").returncode == -signal.SIGKILL
        assert is_whole(version) is is_there
        again = run(root, source)
    assert again.returncode == 0, again.stderr
    assert again.stdout == ("known\n" if is_there else "published\n")
    assert seen[0] is False
    assert is_whole(version)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_kill_at_any_request_leaves_a_version_absent_or_whole(
    root: Location, source: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """One call after the other goes on where the last one ended, each a request further."""
    version = version_of(root, source)
    number, seen, places = 0, [], []
    while True:
        client = Requests(number, is_done=is_done)
        with monkeypatch.context() as patched:
            patched.setattr(_s3, "_package", lambda client=client: client)
            try:
                publish_version(root, source)
                break
            except KilledHereError:
                places.append(client.made[-1])
        number += 1
        seen.append(is_whole(version))
    assert is_whole(version)
    assert seen == sorted(seen)
    assert {"get", "head", "list", "put"} == set(places)
    # What was created last was the manifest: all before it were without a version.
    assert seen.count(False) > 10


# --- many writers ----------------------------------------------------------------------------


def test_of_eight_writers_of_one_version_one_publishes_it(root: Location, source: Path) -> None:
    version = version_of(root, source)
    with observer(version):
        said = race(
            [lambda state=f"state-{n}": publish_version(root, source, state) for n in range(8)]
        )
    assert sorted(said) == ["known"] * 7 + ["published"]
    assert is_whole(version)


def test_of_writers_of_two_contents_one_wins_and_the_others_are_told(
    root: Location, source: Path, tmp_path: Path
) -> None:
    other = make_project(tmp_path / "other")
    text = (other.path / "datasets/clicks/dataset.yaml").read_text()
    (other.path / "datasets/clicks/dataset.yaml").write_text(text.replace("seed: 7", "seed: 8"))
    other.build(DAY)
    sources = [source, other.folder.version(DAY, 1)]

    def publish(number: int) -> str:
        try:
            return publish_version(root, sources[number % 2], f"state-{number}")
        except ConflictError:
            return "conflict"

    version = version_of(root, source)
    with observer(version):
        said = race([lambda number=number: publish(number) for number in range(8)])
    assert said.count("published") == 1
    winner = said.index("published") % 2
    assert [said[number] for number in range(8) if number % 2 != winner] == ["conflict"] * 4
    assert version.read()[1] == Version.open(sources[winner]).manifest_sha256
    assert version.built() == json.loads((sources[winner] / "BUILT.json").read_bytes())


# --- damage ------------------------------------------------------------------------------------


def test_damage_before_the_publication_is_replaced_by_the_right_bytes(
    root: Location, source: Path
) -> None:
    version = version_of(root, source)
    name, (num_bytes, digest) = next(iter(Version.open(source).manifest.file_digests().items()))
    version.file(name, digest).write_atomic(lambda file: file.write(bytes(num_bytes)))
    assert publish_version(root, source) == "published"
    assert is_whole(version)


def test_damage_after_it_is_found_and_named(root: Location, source: Path) -> None:
    publish_version(root, source)
    version = version_of(root, source)
    name, (num_bytes, digest) = next(iter(Version.open(source).manifest.file_digests().items()))
    version.file(name, digest).write_atomic(lambda file: file.write(bytes(num_bytes)))
    (problem,) = version.problems()
    assert isinstance(problem, ChecksumError)
    assert name in str(problem)
    place = version.folder / "MANIFEST.json"
    data = place.read_bytes()
    place.write_atomic(lambda file: file.write(data.replace(b"clicks", b"clocks")))
    with pytest.raises(ChecksumError):
        version.read()


def test_a_damaged_folder_is_not_published(root: Location, source: Path) -> None:
    name = next(iter(Version.open(source).manifest.file_digests()))
    (source / name).chmod(0o644)
    data = bytearray((source / name).read_bytes())
    data[len(data) // 2] ^= 1
    (source / name).write_bytes(data)
    with pytest.raises(ChecksumError, match="expected"):
        publish_version(root, source)
    assert not is_whole(version_of(root, source))


# --- roots ---------------------------------------------------------------------------------------


def test_a_root_is_made_on_purpose(folder: Location, source: Path) -> None:
    with pytest.raises(RootError, match="trainfeed init s3://"):
        publish_version(folder, source)
    command = [sys.executable, "-m", "trainfeed", "init", folder.uri, "--json"]
    said = [
        json.loads(subprocess.run(command, capture_output=True, check=True, timeout=LIMIT_S).stdout)
        for _ in range(2)
    ]
    assert [each["verdict"] for each in said] == ["made", "known"]
    assert init_bucket_root(folder)[0].id == said[0]["id"] == said[1]["id"]
    assert names(folder) == ["TRAINFEED.json"]
    assert publish_version(folder, source) == "published"


def test_a_store_that_lets_two_win_is_refused(
    folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SeaweedFS before March 2026: the condition held between requests that did not overlap."""

    def create(fs: _s3.S3FileSystem, path: str, data: bytes) -> bool:
        if fs.exists(path):
            return False
        fs.put(path, data)
        return True

    monkeypatch.setattr(_s3.S3FileSystem, "create", create)
    with pytest.raises(UnsuitableStoreError, match="expected one of 8 writers"):
        probe_bucket(folder)
    assert names(folder) == []


def test_a_manifest_that_is_too_large_for_one_request_is_refused(
    root: Location, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_versions, "MOST_MANIFEST_BYTES", 100)
    with pytest.raises(UnsuitableStoreError, match="one request"):
        publish_version(root, source)
    assert names(root) == ["TRAINFEED.json"]
