"""Versions in a real bucket are read as those of the folder that they were published from."""

from __future__ import annotations

import numpy as np
import pytest

from tests.integration.s3.bucket_projects import make_bucket_root, publish_version
from tests.support.clicks_afar import DAYS, batches, opened
from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import FormatError, NotFoundError, TruncatedError, WindowIncompleteError
from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3
from trainfeed.versions.bucket_objects import BucketVersion


@pytest.fixture
def project(tmp_path):
    project = make_project(tmp_path / "project")
    for day in DAYS:
        project.prebuilt(day)
    return project


@pytest.fixture
def root(project, folder: Location, tmp_path, monkeypatch) -> Location:
    """A root in a bucket with both days; its probe is a test of its own."""
    monkeypatch.setenv("TRAINFEED_CACHE", str(tmp_path / "cache"))
    make_bucket_root(folder)
    for day in DAYS:
        publish_version(folder, project.folder.version(day, 1))
    return folder


def test_samples_are_those_of_the_folder(project, root: Location) -> None:
    here, afar = opened(project.env.root), opened(root.uri)
    assert list(afar.reader()()) == list(here.reader()())
    assert afar.version == here.version


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"num_workers": 2}])
def test_a_training_goes_on_from_a_state_of_the_folder(project, root: Location, options) -> None:
    here = batches(opened(project.env.root))
    afar = batches(opened(root.uri), here[3][1], **options)
    assert [each for _, each in afar] == [each for _, each in here[4:]]
    for (one, _), (other, _) in zip(afar, here[4:], strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in other)


def test_a_day_without_a_manifest_is_not_published(root: Location) -> None:
    (BucketVersion.at(root, "clicks", DAYS[1], 1).folder / "MANIFEST.json").delete()
    with pytest.raises(WindowIncompleteError, match=DAYS[1]):
        opened(root.uri)


def test_damage_is_named(root: Location) -> None:
    version = BucketVersion.at(root, "clicks", DAYS[0], 1)
    manifest, _ = version.read()
    for name, (num_bytes, sha256) in manifest.file_digests().items():
        if "train" in name:
            version.file(name, sha256).write_atomic(lambda f, n=num_bytes: f.write(bytes(n)))
    with pytest.raises(FormatError, match="train"):
        list(opened(root.uri).reader()())


def shard_of(root: Location) -> tuple[Location, int]:
    """The place of a shard of the first day, and its bytes."""
    version = BucketVersion.at(root, "clicks", DAYS[0], 1)
    manifest, _ = version.read()
    name, (num_bytes, sha256) = next(
        (name, facts) for name, facts in manifest.file_digests().items() if "train" in name
    )
    return version.file(name, sha256), num_bytes


def test_a_chunk_is_one_request(root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = opened(root.uri)
    asked: list[str] = []
    head, ranged = _s3.S3FileSystem._head, _s3.S3FileSystem._range
    monkeypatch.setattr(
        _s3.S3FileSystem, "_head", lambda fs, path: (asked.append("HEAD"), head(fs, path))[1]
    )
    monkeypatch.setattr(
        _s3.S3FileSystem, "_range", lambda *words: (asked.append("GET"), ranged(*words))[1]
    )
    list(dataset.reader()())
    assert set(asked) == {"GET"}


@pytest.mark.parametrize("kept", [0, 10])
def test_a_shard_that_was_cut_is_told(root: Location, kept: int) -> None:
    place, num_bytes = shard_of(root)
    place.write_atomic(lambda file: file.write(bytes(num_bytes)[:kept]))
    with pytest.raises(TruncatedError, match="train"):
        list(opened(root.uri, interval=DAYS[0]).reader()())


def test_a_shard_that_is_gone_is_told(root: Location) -> None:
    shard_of(root)[0].delete()
    with pytest.raises(NotFoundError, match="train"):
        list(opened(root.uri, interval=DAYS[0]).reader()())


def test_a_manifest_that_was_copied_is_no_version(root: Location) -> None:
    place = BucketVersion.at(root, "clicks", DAYS[0], 1).folder / "MANIFEST.json"
    data = place.read_bytes()
    place.delete()
    place.write_atomic(lambda file: file.write(data))
    with pytest.raises(FormatError, match="copied"):
        opened(root.uri)
