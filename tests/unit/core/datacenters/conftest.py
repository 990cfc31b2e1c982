"""A machine with one data centre, whose areas are folders of the test."""

from typing import NamedTuple

import pytest


class Areas(NamedTuple):
    home: object
    public: object
    config: object


@pytest.fixture
def areas(tmp_path, monkeypatch):
    """The folders of ``pfs://home`` and ``pfs://public``; the working directory is empty."""
    account, home, public = (tmp_path / name for name in ("account", "mnt/home", "mnt/public"))
    for folder in (account / ".trainfeed", home, public, tmp_path / "work"):
        folder.mkdir(parents=True)
    config = account / ".trainfeed/config"
    config.write_text(
        f"datacenters: [{{name: dc1, username: alice, home: {home}, public: {public}, "
        "local: true}]"
    )
    config.chmod(0o600)
    monkeypatch.setenv("HOME", str(account))
    monkeypatch.chdir(tmp_path / "work")
    return Areas(home, public, config)
