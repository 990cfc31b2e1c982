"""A real object store, reached as every client reaches one: by variables of the environment."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3

VARIABLES = {
    "AWS_ENDPOINT_URL": "TEST_S3_ENDPOINT",
    "AWS_ACCESS_KEY_ID": "TEST_S3_ACCESS_KEY",
    "AWS_SECRET_ACCESS_KEY": "TEST_S3_SECRET_KEY",
}


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, variable in VARIABLES.items():
        monkeypatch.setenv(name, os.environ[variable])
    _s3._connect.cache_clear()
    yield
    _s3._connect.cache_clear()


@pytest.fixture
def folder(account: None) -> Iterator[Location]:
    folder = Location.parse(os.environ["TEST_S3_URI"]) / "trainfeed-test" / str(uuid.uuid4())
    folder.make_dir()
    yield folder
    folder.delete(recursive=True)
