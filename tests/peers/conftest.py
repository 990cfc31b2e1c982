"""Tests against other frameworks; `make peers` installs these."""

import pytest

from tests.peers import made


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """Record files of a thousand samples."""
    return made.write(tmp_path_factory.mktemp("files") / "r")
