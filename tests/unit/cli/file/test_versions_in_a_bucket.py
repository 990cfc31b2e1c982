"""``trainfeed file …`` on a version in a bucket tells what it tells of the one in a folder."""

import json

import pytest

from tests.support.memory_root import memory_bucket, moved
from tests.unit.cli.conftest import cli, project

__all__ = ["cli", "memory_bucket", "project"]

COMMANDS = ["inspect", "head", "verify", "verify --deep", "stats"]


@pytest.fixture(params=["recordio", "tfrecord"])
def root(request, project, memory_bucket):
    project.edit("output: {codec: zstd,", f"output: {{format: {request.param}, codec: none,")
    project.prebuilt()
    return moved(memory_bucket, project.env.root)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_tells_what_it_tells_of_the_folder(project, root, cli, command):
    told = []
    for folder in (project.version().path, root.version().path):
        status, out, errors = cli("file", *command.split(), f"{folder}/clicks-train-*", "--json")
        assert (status, errors) == (0, "")
        told.append(out.replace(str(folder), ""))
    assert told[0] == told[1]
    assert json.loads(told[0])


def test_a_damaged_shard_is_told(root, cli):
    (key, *_) = root.shards()
    root.flip(key)
    folder = root.version().path
    status, out, _ = cli("file", "verify", "--deep", str(folder), "--json")
    assert status == 3
    problems = {path: found for path, found in json.loads(out).items() if found}
    (path,) = problems
    assert path == f"{folder}/{key.rpartition('/')[2]}"
    assert f"s3://bucket/{key}" in problems[path][0]
    status, out, _ = cli("file", "verify", "--deep", str(folder))
    assert "file repair" not in out


def test_what_works_on_the_bytes_of_a_file_says_where_they_are(root, cli):
    path = f"{root.version().path}/{root.shards()[0].rpartition('/')[2]}"
    for words in (["index", path], ["merge", path, "new"], ["repair", path, "--output", "new"]):
        status, _, errors = cli("file", *words)
        assert status == 2
        assert "they are in s3://bucket/root/clicks/versions/2024-03-01/g0001" in errors


def test_a_version_says_where_its_shards_are(root, cli, monkeypatch):
    monkeypatch.setenv("TRAINFEED_ROOT", str(root.state))
    status, out, errors = cli("show", "clicks/2024-03-01")
    assert (status, errors) == (0, "")
    said = dict(line.strip("│ ").split(" │ ", 1) for line in out.splitlines() if " │ " in line)
    said = {name.strip(): value.strip() for name, value in said.items()}
    assert said["path"] == str(root.version().path)
    assert said["bucket"] == "s3://bucket/root/clicks/versions/2024-03-01/g0001"
