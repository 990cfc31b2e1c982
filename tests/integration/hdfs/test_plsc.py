"""Entries of PLSC on a real HDFS: models up and down over both protocols, and no password shown."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_manifest import read_manifest, verify

CANARY = "c4n4ry-p4ssw0rd"
# One rank with an engine that needs no framework. The account comes by standard input.
PROGRAM = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.DEBUG)
from trainfeed.compat.plsc import Entry, Report, engine
address, user_and_password, save, checkpoint = sys.stdin.read().split("|")

def train(settings, readers):
    if settings.model_save_dir is not None:
        (settings.model_save_dir / "0").mkdir()
        (settings.model_save_dir / "0" / "network.npz").write_bytes(b"model" * 1000)
    print("TRAINED", settings)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            print(path.read_bytes())
        except OSError:
            pass
    return Report()

engine.train = train
entry = Entry()
entry.set_with_test(False)
if entry.settings.world_size == 1:
    entry.set_loss_type("softmax")
entry.set_model_save_dir("output" if save else None)
if checkpoint:
    entry.set_checkpoint_dir("downloaded")
entry.set_train_reader(sample_reader=lambda: iter(()))
entry.set_hdfs_info(address, user_and_password, save or None, checkpoint or None)
entry.train()
"""


@pytest.fixture(params=["TEST_HDFS_URI", "TEST_WEBHDFS_URI"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, str, Location]]:
    """Address, user, and a folder of that user."""
    base = os.environ[request.param]
    folder = Location.parse(base) / "trainfeed-test" / str(uuid.uuid4())
    folder.make_dir()
    uri = urlsplit(base)
    user = uri.username or os.environ.get("HADOOP_USER_NAME") or "root"
    yield f"{uri.scheme}://{uri.hostname}:{uri.port}", user, folder
    folder.delete(recursive=True)


def begun(
    store: tuple[str, str, Location], folder: Path, save: str, checkpoint: str, **ranks: str
) -> subprocess.Popen[str]:
    address, user, _ = store
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PADDLE")}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env=environ | ranks,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(f"{address}|{user},{CANARY}|{save}|{checkpoint}")
    process.stdin.close()
    process.stdin = None
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=240)
    assert CANARY not in said
    return process.returncode, said


@pytest.mark.integration("hdfs")
def test_a_model_goes_up_once_and_comes_down_on_two_ranks(
    store: tuple[str, str, Location], tmp_path: Path
) -> None:
    target = store[2] / "model"
    status, said = ended(begun(store, tmp_path, target.path, ""))
    assert status == 0, said
    manifest = read_manifest(target)
    assert manifest is not None
    verify(target, manifest)
    assert [info.name for info in store[2].list()] == ["model"]

    (elsewhere := tmp_path / "elsewhere").mkdir()
    status, said = ended(begun(store, elsewhere, target.path, ""))
    assert status == 1
    assert "is taken; nothing was trained" in said
    assert "TRAINED" not in said

    ranks = [
        begun(store, tmp_path, "", target.path, PADDLE_TRAINER_ID=rank, PADDLE_TRAINERS_NUM="2")
        for rank in "10"
    ]
    for status, said in map(ended, ranks):
        assert status == 0, said
        assert "TRAINED" in said
    downloaded = (tmp_path / "downloaded" / "0" / "network.npz").read_bytes()
    assert downloaded == b"model" * 1000


@pytest.mark.integration("hdfs")
def test_an_account_without_the_right_to_write_is_found_before_the_training(
    store: tuple[str, str, Location], tmp_path: Path
) -> None:
    address, _, folder = store
    other = (address, "stranger", folder)
    environ = {"HADOOP_USER_NAME": "stranger"}
    process = begun(other, tmp_path, (folder / "model").path, "", **environ)
    status, said = ended(process)
    assert status == 1
    assert "AccessDeniedError" in said
    assert "TRAINED" not in said
    assert not list(folder.list())
