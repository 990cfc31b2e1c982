"""Settings and commands with ``pfs://``: a public root is read, and never written."""

import json
from unittest.mock import ANY

import pytest

from tests.unit.cli.conftest import cli, project
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import AccessDeniedError, ConfigError
from trainfeed.files.stores import Location
from trainfeed.readers import open_dataset
from trainfeed.versions import require_root, require_writable_root

__all__ = ["cli", "project"]


def test_every_place_may_be_a_shared_path(areas, monkeypatch):
    connections = areas.home / "connections.json"
    connections.write_text(json.dumps({"more_logs": "pfs://public/logs"}))
    for name, value in {
        "ROOT": "pfs://home/root/",
        "LANDING": "pfs://home/landing",
        "WORK": "pfs://home/work",
        "LOGS": "pfs://public/logs",
        "MODELS": "pfs://home/models",
        "KAFKA": "recorded:pfs://public/topics",
        "DATASETS": "pfs://home/sets",
        "CONNECTIONS": str(connections),
    }.items():
        monkeypatch.setenv(f"TRAINFEED_{name}", value)
    env = environment_from_environ()
    assert (env.root, env.is_root_public) == (f"{areas.home}/root", False)
    assert str(env.datasets) == f"{areas.home}/sets"
    assert env.logs["more_logs"] == "pfs://public/logs"
    assert Location.parse(env.landing).path == f"{areas.home}/landing"
    assert Location.parse(env.kafka["kafka_default"].recorded).path == f"{areas.public}/topics"


def test_a_root_on_an_area_that_is_away_is_refused(areas):
    areas.home.rmdir()
    with pytest.raises(ConfigError, match="trainfeed pfs cp"):
        environment_from_environ(root="pfs://home/root")


@pytest.mark.parametrize("root", ["pfs://public/root", "pfs:///public/root", "pfs://./public/root"])
def test_a_public_root_is_for_reading(areas, root):
    env = environment_from_environ(root=root)
    assert env.root == f"{areas.public}/root"
    with pytest.raises(AccessDeniedError, match="the argument 'root'"):
        require_writable_root(env)
    with pytest.raises(AccessDeniedError, match="for reading"):
        require_root(root, "it")


def test_all_data_below_a_public_folder_is_refused(areas, monkeypatch):
    monkeypatch.setenv("TRAINFEED_DATA", "pfs://public/data")
    with pytest.raises(AccessDeniedError, match="for reading"):
        environment_from_environ()


def test_a_wrong_shared_path_names_itself(areas):
    with pytest.raises(ConfigError, match="pfs://common/root"):
        environment_from_environ(root="pfs://common/root")


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_public_root_is_looked_at_by_commands_and_changed_by_none(areas, cli, monkeypatch):
    root = areas.public / "root"
    monkeypatch.setenv("TRAINFEED_ROOT", str(root))
    assert cli("init", str(root))[0] == 0
    assert cli("build", "clicks", "--interval", "2024-03-01") == (0, ANY, ANY)
    before = files_in(root)
    monkeypatch.setenv("TRAINFEED_ROOT", "pfs://public/root")
    assert json.loads(cli("ls", "clicks", "--json")[1])[0]["interval"] == "2024-03-01"
    assert cli("show", "clicks/2024-03-01")[0] == 0
    assert cli("verify", "clicks/2024-03-01")[0] == 0
    reader = open_dataset("clicks", interval="2024-03-01", split="train", root="pfs://public/root")
    assert reader.num_samples == sum(1 for _ in reader.reader()())
    for command in (
        ("build", "clicks", "--interval", "2024-03-02"),
        ("init",),
        ("gc",),
        ("prune", "clicks"),
    ):
        status, _, message = cli(*command)
        assert status != 0, command
        assert "pfs://public" in message, command
    assert files_in(root) == before


def test_commands_on_files_take_shared_paths(areas, cli):
    (areas.home / "rows.csv").write_text("a,b\n1,2\n")
    assert cli("file", "convert", "pfs://home/rows.csv", "pfs://home/rows.jsonl")[0] == 0
    assert (areas.home / "rows.jsonl").exists()
    assert cli("file", "inspect", "pfs://home/rows.*")[0] == 0
    assert cli("file", "head", "pfs://home/rows.jsonl")[0] == 0
    for command in (
        ("convert", "pfs://home/rows.csv", "pfs://public/rows.jsonl"),
        ("merge", "pfs://home/rows.csv", "pfs://public/m"),
        ("repair", "pfs://public/rows", "--in-place", "--format", "recordio"),
        ("repair", "pfs://home/rows.csv", "--output", "pfs://public/r", "--format", "recordio"),
        ("reshard", "pfs://home/rows.csv", "pfs://public/s", "--shards", "1", "--prefix", "p"),
        ("stats", "pfs://home/rows.csv", "--html", "pfs://public/p.html"),
    ):
        status, _, message = cli("file", *command)
        assert (status, "for reading" in message) == (1, True), (command, message)
    assert files_in(areas.public) == []
