"""Trainings by tag: exactly its versions, one job per content, and no other after a move."""

import json

import pytest

from tests.support.roots import reseal
from tests.unit.training.test_launch import trained
from trainfeed.core.accounts import Decision
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.training.launch import train
from trainfeed.training.tagged import tagged_training
from trainfeed.versions import TrainingMarks
from trainfeed.versions.tag import apply_change, propose_tag, untag

__all__ = ["trained"]

DAYS = ("2024-03-01", "2024-03-02", "2024-03-03")


@pytest.fixture
def tagged(trained):
    """Three days, all of them tagged; the window of the training has two."""
    for name in DAYS:
        trained.prebuilt(name)
    give(trained)
    return trained


def give(project, asked=f"{DAYS[0]}/{DAYS[2]}", **options):
    decision = Decision.now("released")
    return apply_change(
        project.folder, propose_tag(project.folder, asked, "prod", decision, **options)
    )


def run(project, text="prod", **options):
    tag, last = tagged_training(project.spec, project.folder, text, **options)
    return train(project.spec, project.env, last, tag=tag)


def test_a_training_reads_the_versions_of_its_tag_and_says_which_it_was(tagged):
    tagged.edit("seed: 7", "seed: 8")
    tagged.prebuilt(DAYS[1], rebuild="another order")
    report = run(tagged)
    assert report["versions"] == [f"{day}/g0001" for day in DAYS]
    assert report["tag"] == "prod#1"
    job = json.loads((tagged.folder.training(DAYS[2], report["job"]) / "job.json").read_bytes())
    assert job["tag"] == "prod#1"
    assert run(tagged)["verdict"] == "adopted"


def test_equal_versions_are_one_job_by_whatever_name(tagged):
    give(tagged, f"{DAYS[1]}/{DAYS[2]}")
    by_window = train(tagged.spec, tagged.env, tagged.interval(DAYS[2]))
    by_tag = run(tagged)
    assert (by_tag["job"], by_tag["verdict"]) == (by_window["job"], "adopted")


def test_a_training_by_tag_is_not_that_of_the_interval(tagged):
    run(tagged)
    waiting = [each.interval for each in TrainingMarks(tagged.folder).untrained(older=True)]
    assert DAYS[2] in waiting


def test_a_repeated_request_keeps_its_versions_when_the_tag_has_moved(tagged):
    first, _ = tagged_training(tagged.spec, tagged.folder, "prod", request="manual__1")
    give(tagged, DAYS[0])
    again, last = tagged_training(tagged.spec, tagged.folder, "prod", request="manual__1")
    assert (again, last.name) == (first, DAYS[2])
    now, last = tagged_training(tagged.spec, tagged.folder, "prod", request="manual__2")
    assert (now.number, last.name) == (2, DAYS[0])
    assert tagged_training(tagged.spec, tagged.folder, "prod#1")[0] == first


def test_a_tag_that_cannot_be_read_starts_nothing(tagged):
    tagged.folder.removal_mark(DAYS[1], 1).touch()
    with pytest.raises(ConflictError, match="was removed by retention"):
        run(tagged)
    untag(tagged.folder, "prod", Decision.now("retired"))
    with pytest.raises(NotFoundError, match="was removed by"):
        run(tagged)
    assert not list(tagged.folder.path.glob("training/2024*"))


def test_a_repeated_request_keeps_its_versions_when_the_tag_was_removed(tagged):
    first, _ = tagged_training(tagged.spec, tagged.folder, "prod", request="night 1")
    untag(tagged.folder, "prod", Decision.now("no longer used"))
    again, _ = tagged_training(tagged.spec, tagged.folder, "prod", request="night 1")
    assert again == first
    with pytest.raises(NotFoundError, match="was removed by"):
        tagged_training(tagged.spec, tagged.folder, "prod", request="night 2")


def test_the_file_of_a_request_counts_for_that_request_alone(tagged):
    first, _ = tagged_training(tagged.spec, tagged.folder, "prod", request="night 1")
    (path,) = tagged.folder.tag("prod").glob("requests/*.json")
    reseal(path, number="1", dataset=None, tag=None)
    give(tagged, DAYS[0])
    assert tagged_training(tagged.spec, tagged.folder, "prod", request="night 1")[0] == first
    tagged_training(tagged.spec, tagged.folder, "prod", request="night 2")
    (other,) = {*tagged.folder.tag("prod").glob("requests/*.json")} - {path}
    data = path.read_bytes()
    path.write_bytes(other.read_bytes())
    with pytest.raises(FormatError, match="a request for a tag"):
        tagged_training(tagged.spec, tagged.folder, "prod", request="night 1")
    path.write_bytes(data)
    for change in ({"dataset": "views"}, {"tag": "next"}):
        reseal(path, **change)
        with pytest.raises(FormatError, match="a request for a tag"):
            tagged_training(tagged.spec, tagged.folder, "prod", request="night 1")
