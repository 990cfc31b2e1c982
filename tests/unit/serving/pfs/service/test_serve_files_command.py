"""``trainfeed pfs serve`` and the commands of a machine without a mount, over TLS."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage
from tests.unit.serving.server.test_serve import certified
from trainfeed.cli import main
from trainfeed.serving.pfs.tree import CHUNK_BYTES

pytestmark = pytest.mark.usefixtures("socket_enabled")

ROOT = Path(__file__).parents[5]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command of a machine without a mount; return its status and messages."""
    account = tmp_path / "account"
    (account / ".trainfeed").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(account))

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", "pfs", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, " ".join(capsys.readouterr().err.split())

    return run


@contextmanager
def served(storage, *files):
    """The command of the server in a process of its own; yields its address."""
    options = ["--tokens", storage.tokens, "--port", "0", "--local", "--small-files", "300", *files]
    words = [sys.executable, "-m", "trainfeed", "pfs", "serve", storage.mount, *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "include")}
    server = subprocess.Popen(
        list(map(str, words)), env=environment, stderr=subprocess.PIPE, text=True
    )
    with server:
        try:
            line = server.stderr.readline()
            assert "serves /pfs/dc" in line
            yield line.split()[0].replace("127.0.0.1", "localhost")
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


def test_the_commands_of_a_mount_work_through_a_server_with_tls_and_token(tmp_path, run):
    storage = Storage(tmp_path)
    pair, ca, _ = certified(tmp_path, "authority")
    _, certificate, key = certified(tmp_path, "server", by=pair)
    # The folder that a mount has left is no area, so the server is asked.
    left = tmp_path / "not-mounted/home/alice"
    left.mkdir(parents=True)
    with served(storage, "--certificate", certificate, "--key", key) as url:
        centre = {
            "name": "dc",
            "username": "alice",
            "mount": str(tmp_path / "not-mounted"),
            "endpoint": url,
            "token_file": str(storage.token_file("alice")),
            "ca_file": str(ca),
        }
        config = tmp_path / "account/.trainfeed/config"
        config.write_text(json.dumps({"datacenters": [centre]}))
        config.chmod(0o600)
        data = os.urandom(CHUNK_BYTES + 9)
        (tmp_path / "local").write_bytes(data)
        status, messages = run("cp", tmp_path / "local", "pfs://home/folder/")
        assert status == 0, messages
        assert (storage.home() / "folder/local").read_bytes() == data
        assert not any(left.iterdir())
        status, messages = run("cp", "pfs://home/folder/local", tmp_path / "back")
        assert status == 0, messages
        assert (tmp_path / "back").read_bytes() == data
        status, messages = run("ls", "/pfs/dc/home/bob")
        assert status == 1
        assert "another user" in messages
