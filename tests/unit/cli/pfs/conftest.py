"""A user with a home and a public folder, and the commands on them."""

import json
import os

import pytest

from trainfeed.cli import main


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder that is ``pfs://home``."""
    account, mount = tmp_path / "account", tmp_path / "mount"
    for folder in (account / ".trainfeed", mount / "home/alice", mount / "public"):
        folder.mkdir(parents=True)
    (mount / "home/bob").mkdir()
    (mount / "home/bob/secret").write_text("secret")
    config = account / ".trainfeed/config"
    centre = {"name": "dc1", "username": "alice", "mount": str(mount), "local": True}
    config.write_text(json.dumps({"datacenters": [centre]}))
    config.chmod(0o600)
    monkeypatch.setenv("HOME", str(account))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return mount / "home/alice"


@pytest.fixture
def pfs(home, monkeypatch, capsys):
    """Run a command; return its status, output and messages."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", "pfs", *map(os.fspath, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run
