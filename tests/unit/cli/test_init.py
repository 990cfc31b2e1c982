"""``trainfeed init``, ``trainfeed index``, and the error for a folder that is not a root."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import cli
from trainfeed.versions.root import ROOT_MARKER

__all__ = ["cli"]


def test_init_makes_the_root_of_the_setting_once(cli, project, monkeypatch):
    root = project.path / "mnt" / "sets"
    monkeypatch.setenv("TRAINFEED_ROOT", str(root))
    status, output, _ = cli("init")
    assert (status, output.splitlines()[0]) == (
        0,
        f"made {root} a publication root; no data set in it yet",
    )
    again = json.loads(cli("init", "--json")[1])
    assert (again["verdict"], again["root"], again["datasets"]) == ("known", str(root), [])
    assert cli("init")[1].startswith(f"{root} is a publication root since {again['made_at']}")


def test_init_takes_a_root_that_is_named_and_says_what_is_in_it(cli, project):
    project.prebuilt()
    root = Path(project.env.root)
    (root / ROOT_MARKER).unlink()
    status, output, _ = cli("init", str(root))
    assert status == 0
    assert "data sets in it: clicks; untouched" in output
    assert cli("verify", "clicks")[0] == 0


def test_index_names_what_readers_find_and_changes_with_the_root_alone(cli, project):
    project.prebuilt()
    path = Path(project.env.root) / "index.json"
    status, output, _ = cli("index")
    assert (status, output) == (0, f"wrote {path} with 1 version and 5 files\n")
    before = path.read_bytes()
    assert json.loads(cli("index", "--json")[1]) == {"index": str(path), "versions": 1, "files": 5}
    assert path.read_bytes() == before
    project.prebuilt("2024-03-02")
    assert json.loads(cli("index", "--json")[1])["versions"] == 2
    assert (
        "clicks/versions/2024-03-02/g0001/MANIFEST.json" in json.loads(path.read_bytes())["files"]
    )


def test_index_of_a_folder_that_is_no_root_writes_nothing(cli, tmp_path):
    (tmp_path / "other").mkdir()
    status, _, error = cli("index", str(tmp_path / "other"))
    assert status == 2
    assert "expected the argument 'root' to name a publication root" in error
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("ls", "clicks"),
        ("show", "clicks/2024-03-01"),
        ("verify", "clicks"),
        ("build", "clicks", "--interval", "2024-03-01"),
        ("gc",),
        ("prune", "clicks"),
        ("boundaries", "check", "clicks"),
        ("quarantine", "ls", "clicks/2024-03-01"),
        ("train", "clicks", "--catch-up", "missed"),
        ("bench", "read", "clicks/2024-03-01"),
    ],
)
def test_a_misspelt_root_is_a_usage_error_of_every_command(cli, project, monkeypatch, command):
    spec = project.env.datasets / "clicks" / "dataset.yaml"
    spec.write_text(spec.read_text() + 'train: {entry: "preprocess:clicks"}\n')
    wrong = project.path / "rot"
    monkeypatch.setenv("TRAINFEED_ROOT", str(wrong))
    status, output, messages = cli(*command)
    assert (status, output) == (2, "")
    assert f"expected TRAINFEED_ROOT to name a publication root, got {wrong}" in messages
    assert f"trainfeed init {wrong}" in messages
    assert not wrong.exists()


def test_a_root_without_a_marker_is_listed_and_verified(cli, project):
    project.prebuilt()
    (Path(project.env.root) / ROOT_MARKER).unlink()
    assert "2024-03-01" in cli("ls", "clicks")[1]
    assert cli("verify", "clicks")[0] == 0


def test_a_new_data_set_is_shown_init_only_while_there_is_no_root(cli, project, monkeypatch):
    assert "trainfeed init" not in cli("new", "views")[1]
    monkeypatch.setenv("TRAINFEED_ROOT", str(project.path / "fresh"))
    _, output, _ = cli("new", "likes")
    assert output.index("trainfeed init    # once") < output.index("trainfeed build likes")
    assert cli("init")[0] == 0
    assert "trainfeed init" not in cli("new", "shares")[1]
