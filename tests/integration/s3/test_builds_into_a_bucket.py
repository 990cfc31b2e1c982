"""Builds publish in a bucket what they publish in a folder; decisions there count everywhere."""

from __future__ import annotations

import pytest

from tests.integration.s3.bucket_projects import (
    DAY,
    BucketProject,
    make_bucket_project,
)
from tests.unit.pipeline.conftest import make_project
from trainfeed.files.stores import Location
from trainfeed.versions.bucket_objects import BucketVersion


@pytest.fixture
def project(tmp_path, folder: Location) -> BucketProject:
    return make_bucket_project(tmp_path / "project", folder / "root")


def test_a_build_into_a_bucket_has_the_bytes_of_a_local_one(project, tmp_path) -> None:
    local = make_project(tmp_path / "local")
    for each in (local, project):
        assert each.build()["verdict"] == "built"
    there = BucketVersion.at(project.bucket, "clicks", DAY, 1)
    assert list(there.problems()) == []
    assert there.read()[1] == local.version().manifest_sha256
    project.version().verify()
    assert not list(project.folder.version(DAY, 1).glob("*.recordio"))
    project.require_followed()
    assert project.build()["verdict"] == "identical"
