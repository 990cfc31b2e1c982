"""``trainfeed init``, and the error of other commands for a folder that is not a root."""

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
