"""Every command that writes below a publication root, on one in a bucket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.s3.bucket_projects import move_into_bucket
from tests.kills.prepared import COMMANDS, Places, prepare
from tests.unit.processes import LIMIT_S
from trainfeed.files.stores import Location
from trainfeed.versions.decision_files import decision_files, read_decision
from trainfeed.versions.decision_log import DecisionLog
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.state_folder import follow_root

# The index is for servers that list nothing; repairs have tests of their own, on damaged objects.
LEFT_OUT = {"index", "repair"}


def run(places: Places, bucket: Location, words) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        **places.environ,
        "TRAINFEED_ROOT": bucket.uri,
        "TRAINFEED_STATE": str(places.root),
        "TRAINFEED_CACHE": str(places.path / "cache"),
    }
    return subprocess.run(
        [sys.executable, "-m", "trainfeed", *words],
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def decided(folder: DatasetFolder) -> dict[str, str | None]:
    return {path: read_decision(folder, path) for path in decision_files(folder)}


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - LEFT_OUT))
def test_a_command_does_in_a_bucket_what_it_does_in_a_folder(
    folder: Location, tmp_path: Path, name: str
) -> None:
    """All that it decided is in the log: nothing is lost when the folder follows again."""
    command, bucket = COMMANDS[name], folder / "root"
    places = Places(tmp_path / "places", tmp_path / "root")
    prepare(command, places)
    move_into_bucket(places.root, bucket)
    done = run(places, bucket, command.arguments)
    assert done.returncode == command.status, done.stdout + done.stderr
    mine = decided(DatasetFolder(places.root, "clicks"))
    assert mine == DecisionLog(bucket / "clicks").newest().files
    follow_root(places.root)
    assert decided(DatasetFolder(places.root, "clicks")) == mine
    again = run(places, bucket, command.arguments)
    assert again.returncode in {command.status, *command.done_again, 0, 1}, again.stderr
