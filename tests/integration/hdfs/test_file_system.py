"""The shared cases against a real HDFS, over both protocols."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.unit.files.stores.file_system_behaviour import RenamingBehaviour
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs


def fresh_folder(uri: str) -> Iterator[Location]:
    folder = Location.parse(uri) / "trainfeed-test" / str(uuid.uuid4())
    folder.make_dir()
    yield folder
    folder.delete(recursive=True)


@pytest.fixture(scope="module", autouse=True)
def superuser() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HADOOP_USER_NAME", "hdfs")
        _hdfs._connect.cache_clear()
        yield
        _hdfs._connect.cache_clear()


class TestHdfsFileSystem(RenamingBehaviour):
    @pytest.fixture
    def folder(self) -> Iterator[Location]:
        yield from fresh_folder(os.environ["TEST_HDFS_URI"])


class TestWebHdfsFileSystem(RenamingBehaviour):
    @pytest.fixture
    def folder(self) -> Iterator[Location]:
        yield from fresh_folder(os.environ["TEST_WEBHDFS_URI"])
