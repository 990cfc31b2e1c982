"""The commands of docs/reference/rest-pfs.md, run as they stand, and its table of routes."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, running
from trainfeed.serving.pfs import wire
from trainfeed.serving.pfs.tree import CHUNK_BYTES

pytestmark = pytest.mark.usefixtures("socket_enabled")

PAGE = (Path(__file__).parents[5] / "docs/reference/rest-pfs.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_upload_read_move_and_remove(tmp_path):
    storage = Storage(tmp_path)
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    work = tmp_path / "work"
    work.mkdir()
    data = os.urandom(CHUNK_BYTES + 100)
    (work / "local.bin").write_bytes(data)
    with running(storage) as server:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=work,
            env={**os.environ, "URL": server.url, "TOKEN": storage.token_file("alice").read_text()},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (storage.home() / "moved.bin").read_bytes() == data
    assert (work / "ten.bin").read_bytes() == data[:10]
    assert [each.name for each in storage.home().iterdir()] == ["moved.bin"]


def test_the_page_has_every_route():
    values = {str(value) for value in vars(wire).values()}
    routes = {value for value in values if value.startswith(f"{wire._API}/")}
    assert routes
    assert {route for route in routes if f"`{route}`" not in PAGE} == set()
