"""``trainfeed build --training``, and what ``train --catch-up`` then does and says."""

import json

import pytest

from tests.unit.cli.conftest import cli
from trainfeed.versions import TrainingMarks

__all__ = ["cli"]

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
RANGE = "clicks/2024-03-01/2024-03-03"


@pytest.fixture
def trained(project):
    (project.env.datasets / "clicks" / "train.py").write_text("def main(job):\n    return {'a': 1}")
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
    return project


def untrained(project):
    return [each.interval for each in TrainingMarks(project.folder).untrained()]


def declined(project):
    return [each.version.interval for each in TrainingMarks(project.folder).declined()]


@pytest.mark.parametrize(
    ("wish", "wanted"),
    [((), DAYS), (("--training", "last"), DAYS[-1:]), (("--training=none",), [])],
)
def test_a_range_leaves_those_untrained_that_were_asked_for(cli, trained, wish, wanted):
    assert cli("build", RANGE, *wish)[0] == 0
    assert untrained(trained) == wanted
    assert declined(trained) == [name for name in DAYS if name not in wanted]


def test_one_interval_is_the_last_of_itself_and_a_later_wish_lifts_an_earlier_one(cli, trained):
    cli("build", f"clicks/{DAYS[0]}", "--training", "none")
    assert untrained(trained) == []
    cli("build", f"clicks/{DAYS[0]}", "--training", "last")
    assert untrained(trained) == DAYS[:1]


def fail_on_the_last(project):
    fail = (
        "row = record.json()\n    if record.timestamp_ms // 86_400_000 == 19785: raise OSError(7)"
    )
    project.edit("row = record.json()", fail, "preprocess.py")


def test_when_the_last_of_a_range_fails_the_newest_that_is_there_is_wanted(cli, trained):
    fail_on_the_last(trained)
    status, _, message = cli("build", RANGE, "--training", "last")
    assert status == 1
    assert untrained(trained) == [DAYS[1]]
    assert "2024-03-03 has no version, so 2024-03-02 is the last that counts" in message


def test_a_last_one_that_is_not_built_again_has_its_earlier_version_still(cli, trained):
    assert cli("build", RANGE, "--training", "none")[0] == 0
    fail_on_the_last(trained)
    again = ("build", RANGE, "--training", "last", "--rebuild", "a better function")
    status, _, message = cli(*again)
    assert (status, untrained(trained)) == (1, [DAYS[1]])
    assert (
        "2024-03-03 was not built, its version is still g0001, so 2024-03-02 is the last that"
        " counts as untrained"
    ) in message
    TrainingMarks(trained.folder).see(DAYS[1])
    status, _, message = cli(*again)
    assert (status, untrained(trained)) == (1, [])
    assert "still g0001, and a training has seen 2024-03-02 already" in message


def test_a_last_one_whose_earlier_version_no_training_has_seen_counts_as_well(cli, trained):
    assert cli("build", RANGE)[0] == 0
    fail_on_the_last(trained)
    message = cli("build", RANGE, "--training", "last", "--rebuild", "a better function")[2]
    assert untrained(trained) == DAYS[1:]
    assert "still g0001, and both it and 2024-03-02 count as untrained" in message


def test_catching_up_leaves_declined_versions_alone_and_says_so_and_all_trains_them(cli, trained):
    cli("build", RANGE, "--training", "last")
    status, output, message = cli("train", "clicks", "--catch-up", "missed", "--json")
    assert (status, [each["interval"] for each in json.loads(output)]) == (0, DAYS[-1:])
    assert "2 published intervals were declined, 2024-03-01 to 2024-03-02" in message
    status, output, message = cli("train", "clicks", "--catch-up", "all", "--json")
    assert [each["interval"] for each in json.loads(output)] == DAYS[:2]
    assert (declined(trained), message) == ([], "")


def test_a_wish_for_a_data_set_without_a_training_is_refused(cli, project):
    status, _, message = cli("build", RANGE, "--training", "none")
    assert status == 2
    assert "expected no --training, clicks has no training; nothing was built" in message
    assert project.folder.intervals() == []
