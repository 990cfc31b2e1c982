"""``trainfeed pfs serve`` and the commands of a machine without a mount, over TLS."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.pfs.service.file_servers import Storage
from tests.unit.server.test_serve import certified
from trainfeed.pfs.trees import CHUNK_BYTES

pytestmark = pytest.mark.usefixtures("socket_enabled")

ROOT = Path(__file__).parents[4]


def command(account, *arguments):
    return [sys.executable, "-m", "trainfeed", "pfs", *arguments], {
        **os.environ,
        "HOME": str(account),
        "PYTHONPATH": str(ROOT / "include"),
    }


def run(account, *arguments):
    words, environment = command(account, *arguments)
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_the_commands_of_a_mount_work_through_a_server_with_tls_and_token(tmp_path):
    storage = Storage(tmp_path)
    pair, ca, _ = certified(tmp_path, "authority")
    _, certificate, key = certified(tmp_path, "server", by=pair)
    words, environment = command(
        tmp_path, "serve", storage.mount, "--tokens", storage.tokens, "--port", "0"
    )
    files = ["--certificate", certificate, "--key", key, "--port-file", tmp_path / "port"]
    server = subprocess.Popen([*map(str, [*words, *files])], env=environment)
    try:
        while not (tmp_path / "port").exists():
            assert server.poll() is None
        account = tmp_path / "account"
        (account / ".trainfeed").mkdir(parents=True)
        # The folder that a mount has left is no area, so the server is asked.
        left = tmp_path / "not-mounted/home/alice"
        left.mkdir(parents=True)
        centre = {
            "name": "dc",
            "username": "alice",
            "mount": str(tmp_path / "not-mounted"),
            "endpoint": f"https://localhost:{(tmp_path / 'port').read_text().strip()}",
            "token_file": str(storage.token_file("alice")),
            "ca_file": str(ca),
        }
        config = account / ".trainfeed/config"
        config.write_text(json.dumps({"datacenters": [centre]}))
        config.chmod(0o600)
        data = os.urandom(CHUNK_BYTES + 9)
        (tmp_path / "local").write_bytes(data)
        up = run(account, "cp", str(tmp_path / "local"), "pfs://home/folder/")
        assert up.returncode == 0, up.stderr
        assert (storage.home() / "folder/local").read_bytes() == data
        assert not any(left.iterdir())
        down = run(account, "cp", "pfs://home/folder/local", str(tmp_path / "back"))
        assert down.returncode == 0, down.stderr
        assert (tmp_path / "back").read_bytes() == data
        refused = run(account, "ls", "/pfs/dc/home/bob")
        assert refused.returncode == 1
        assert "another user" in " ".join(refused.stderr.split())
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
