"""Commands that look at versions say which are withdrawn, by whom and why."""

import json

import pytest

from trainfeed.cli.named_versions import version_for_readers
from trainfeed.errors import NotFoundError, WithdrawnError
from trainfeed.readers import open_dataset
from trainfeed.upkeep.withdrawal import Maker, withdraw

DAY = "2024-03-01"
TOLD = f"clicks/{DAY}/g0002 was withdrawn by ada (builder) at 20"
WHY = "labels of yesterday"


@pytest.fixture
def hidden(project):
    """g0002 is withdrawn, readers get g0001."""
    project.prebuilt()
    project.edit("seed: 7", "seed: 8")
    project.prebuilt(rebuild="another seed")
    withdraw(project.env, "clicks", DAY, None, Maker("ada", "builder", WHY))
    return project


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("ls", "clicks"),
        ("show", "clicks"),
        ("show", f"clicks/{DAY}"),
        ("show", f"clicks/{DAY}/{DAY}"),
        ("show", f"clicks/{DAY}/g0002"),
    ],
)
def test_lists_and_single_versions_tell_a_newer_withdrawn_one(cli, hidden, command, target):
    status, _, err = cli(command, target)
    assert (status, err.count(TOLD), WHY in err) == (0, 1, True)


def test_nothing_is_told_of_what_was_withdrawn_before_the_version_for_readers(cli, hidden):
    hidden.edit("seed: 8", "seed: 9")
    hidden.prebuilt(rebuild="corrected")
    for command in ("ls", "show"):
        assert "withdrawn" not in cli(command, "clicks")[2]


def test_status_diff_and_lineage_tell_it(cli, hidden):
    row = json.loads(cli("status", "clicks", "--json")[1])
    (found,) = [each for each in row["intervals"] if each["interval"] == DAY]
    assert found["state"] == "published"
    assert found["reason"].startswith("g0002.withdrawn: ada (builder) at 20")
    assert found["reason"].endswith(WHY)
    assert TOLD in cli("diff", "clicks", f"{DAY}/g0001", f"{DAY}/g0002")[1].splitlines()[0]
    assert TOLD in cli("lineage", f"clicks/{DAY}/g0002", "--up")[1].splitlines()[0]
    withdraw(hidden.env, "clicks", DAY, 1, Maker("ben", "builder", "privacy"))
    status, out, _ = cli("status", "clicks", DAY)
    assert (status, "withdrawn" in out, "ada (builder)" in out) == (1, True, True)
    with pytest.raises(NotFoundError, match=r"give back what was withdrawn.*trainfeed restore"):
        open_dataset("clicks", interval=f"{DAY}/2024-03-09", split="train", root=hidden.env.root)


def test_predictions_follow_the_rule_of_readers(hidden, monkeypatch):
    monkeypatch.setenv("TRAINFEED_ROOT", hidden.env.root)
    name = f"clicks/{DAY}/g0002"
    with pytest.raises(WithdrawnError, match=WHY):
        version_for_readers(name, withdrawn="fail")
    assert version_for_readers(name, withdrawn="warn").name == f"{DAY}/g0002"
    assert version_for_readers(f"clicks/{DAY}", withdrawn="fail").name == f"{DAY}/g0001"
