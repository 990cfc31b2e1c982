"""The document on storage, on a real CephFS: convert, upload with checksums, read (S16, S20)."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

import pytest

from tests.unit.cli.pfs.seed_commands import downloaded, play


@pytest.fixture
def area():
    folder = Path(os.environ["TEST_CEPHFS_PATH"]) / f"home-{uuid.uuid4()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.mark.nightly
def test_the_document_on_storage_runs_as_it_stands_on_cephfs(area, tmp_path, monkeypatch):
    config = tmp_path / "account/.trainfeed/config"
    config.parent.mkdir(parents=True)
    centre = {"name": "dc1", "username": "alice", "home": str(area)}
    config.write_text(json.dumps({"datacenters": [centre]}))
    config.chmod(0o600)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "account"))
    play(tmp_path / "account", area)
    downloaded(tmp_path / "account")
