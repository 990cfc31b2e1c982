"""The marks of published versions that a training has seen."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from tests.support.roots import as_before, reseal, write_sealed
from trainfeed.core import canonical_json
from trainfeed.errors import FormatError
from trainfeed.versions import DatasetFolder, TrainingMarks, Untrained, init_root
from trainfeed.versions import training_marks as _training_marks

FIRST, SECOND, THIRD = (Untrained(f"2024-03-0{n}", 1) for n in (1, 2, 3))


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "clicks")


@pytest.fixture
def marks(folder):
    return TrainingMarks(folder)


def publish(folder, *versions):
    for version in versions:
        path = folder.version(version.interval, version.generation)
        path.mkdir(parents=True)
        (path / "MANIFEST.json").touch()


def begin_and_publish(folder, marks, *versions):
    marks.begin(versions[0].interval)
    publish(folder, *versions)


def test_what_no_training_has_seen_is_untrained_in_order(folder, marks):
    begin_and_publish(folder, marks, THIRD, FIRST, SECOND)
    marks.see(SECOND.interval)
    assert marks.untrained() == [FIRST, THIRD]


def test_a_rebuild_is_a_version_that_no_training_has_seen(folder, marks):
    begin_and_publish(folder, marks, FIRST)
    marks.see(FIRST.interval)
    again = Untrained(FIRST.interval, 2)
    publish(folder, again)
    assert marks.untrained() == [again]
    marks.see(FIRST.interval)
    assert marks.untrained() == []


def test_a_withdrawn_version_is_none_to_train_on(folder, marks):
    begin_and_publish(folder, marks, FIRST)
    path = folder.version(FIRST.interval, 1)
    path.rename(path.with_suffix(".withdrawn"))
    assert marks.untrained() == []


def test_versions_older_than_the_training_are_trained_on_only_when_asked(folder, marks):
    publish(folder, FIRST)
    marks.begin(SECOND.interval)
    publish(folder, SECOND)
    marks.begin(THIRD.interval)
    assert marks.untrained() == [SECOND]
    assert marks.untrained(older=True) == [FIRST, SECOND]


def test_a_rebuild_of_an_older_version_is_not_older(folder, marks):
    publish(folder, FIRST)
    marks.begin(SECOND.interval)
    publish(folder, Untrained(FIRST.interval, 2))
    assert marks.untrained() == [Untrained(FIRST.interval, 2)]


def test_an_interval_that_is_built_again_asks_for_its_training(folder, marks):
    publish(folder, FIRST, SECOND)
    marks.begin(SECOND.interval)
    assert marks.untrained() == [SECOND]


def test_a_training_that_was_taken_away_and_comes_back_begins_anew(folder, marks):
    marks.begin(FIRST.interval)
    marks.end()
    publish(folder, FIRST)
    marks.begin(SECOND.interval)
    assert marks.untrained() == []


def test_a_data_set_without_a_training_has_no_marks_to_end(marks):
    marks.end()


def test_seeing_what_is_not_published_marks_nothing(folder, marks):
    marks.see(FIRST.interval)
    begin_and_publish(folder, marks, FIRST)
    assert marks.untrained() == [FIRST]


def test_a_job_from_before_there_were_marks_counts(folder, marks):
    begin_and_publish(folder, marks, FIRST, SECOND)
    for version, generation in ((FIRST, "g0001"), (SECOND, "g0000")):
        home = folder.training(version.interval, "job")
        home.mkdir(parents=True)
        read = {"interval": version.interval, "generation": generation}
        (home / "job.json").write_text(json.dumps({"versions": [read]}))
    assert marks.untrained() == [SECOND]


@pytest.mark.parametrize("text", ["", "[]", '{"versions": 1}', '{"versions": [1]}'])
def test_a_damaged_job_file_is_no_training(folder, marks, text):
    begin_and_publish(folder, marks, FIRST)
    home = folder.training(FIRST.interval, "job")
    home.mkdir(parents=True)
    (home / "job.json").write_text(text)
    assert marks.untrained() == [FIRST]


def test_a_changed_job_file_or_that_of_another_job_is_told_and_no_training(folder, marks, caplog):
    begin_and_publish(folder, marks, FIRST)
    home = folder.training(FIRST.interval, "job")
    home.mkdir(parents=True)
    read = {"interval": FIRST.interval, "generation": "g0001"}
    write_sealed(home / "job.json", {"home": "job", "versions": [read]})
    assert marks.untrained() == []
    reseal(home / "job.json", home="job-2")
    assert marks.untrained() == [FIRST]
    assert str(home / "job.json") in caplog.text
    write_sealed(home / "job.json", {"home": "job", "versions": [{**read, "generation": "g0002"}]})
    data = (home / "job.json").read_bytes()
    (home / "job.json").write_bytes(data.replace(b"g0002", b"g0001"))
    assert marks.untrained() == [FIRST]


@pytest.mark.parametrize("text", ["", "[]", '{"versions": 1}'])
def test_damage_of_the_file_of_older_versions_is_named(folder, marks, text):
    begin_and_publish(folder, marks, FIRST)
    (folder.training_marks / "since.json").write_text(text)
    with pytest.raises(FormatError, match=r"in .*/training/_marks/since\.json"):
        marks.untrained()


def test_what_another_run_has_announced_is_not_lost_for_an_hour(folder, marks, monkeypatch):
    begin_and_publish(folder, marks, FIRST, SECOND)
    marks.announce([FIRST], "run 1")
    assert marks.lost([FIRST, SECOND], "run 2") == [SECOND]
    monkeypatch.setattr(_training_marks, "ANNOUNCED_FOR", timedelta(0))
    assert marks.lost([FIRST, SECOND], "run 2") == [FIRST, SECOND]


def test_a_further_try_of_the_same_run_announces_again(folder, marks):
    begin_and_publish(folder, marks, FIRST)
    marks.announce([FIRST], "run 1")
    assert marks.lost([FIRST], "run 1") == [FIRST]


@pytest.mark.parametrize("text", ["", "[]", '{"at": "yesterday"}', '{"at": 7}', '{"by": "x"}'])
def test_a_damaged_announcement_is_none(folder, marks, text):
    begin_and_publish(folder, marks, FIRST)
    marks.announce([FIRST], "run 1")
    (file,) = folder.training_marks.glob("*.announced")
    file.write_text(text)
    assert marks.lost([FIRST], "run 2") == [FIRST]


def test_a_training_that_starts_takes_its_announcement_away(folder, marks):
    begin_and_publish(folder, marks, FIRST)
    marks.announce([FIRST], "run 1")
    marks.see(FIRST.interval)
    names = {path.name for path in folder.training_marks.iterdir()}
    assert names == {"since.json", "2024-03-01.g0001.seen"}


def test_an_announcement_of_another_version_or_data_set_counts_as_none(folder, marks, caplog):
    begin_and_publish(folder, marks, FIRST, SECOND)
    for by, version in (("run 1", FIRST), ("run 2", SECOND)):
        marks.announce([version], by)
    assert marks.lost([FIRST, SECOND], "run 3") == []
    first, second = sorted(folder.training_marks.glob("*.announced"))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    assert marks.lost([FIRST, SECOND], "run 3") == [FIRST]
    first.write_bytes(data)
    reseal(second, dataset="views")
    assert marks.lost([FIRST, SECOND], "run 3") == [SECOND]
    assert str(first) in caplog.text
    assert str(second) in caplog.text


def test_a_changed_reason_is_not_told_as_one(folder, marks):
    begin_and_publish(folder, marks, FIRST)
    marks.decline(FIRST, "only a test", "run 1")
    assert [each.why for each in marks.declined()] == ["only a test"]
    (file,) = folder.training_marks.glob("*.declined")
    file.write_bytes(file.read_bytes().replace(b"only a test", b"only a rest"))
    (declined,) = marks.declined()
    assert declined.version == FIRST
    assert str(file) in declined.why


def test_what_is_older_than_the_training_is_that_of_its_data_set(folder, marks):
    publish(folder, FIRST)
    marks.begin(SECOND.interval)
    since = folder.training_marks / "since.json"
    data = since.read_bytes()
    since.write_bytes(data.replace(b'"2024-03-01":1', b'"2024-03-01":2'))
    with pytest.raises(FormatError, match=r"since\.json"):
        marks.untrained()
    since.write_bytes(data)
    reseal(since, dataset="views")
    with pytest.raises(FormatError, match=r"since\.json"):
        marks.untrained()


def test_marks_of_before_are_read_and_others_without_a_seal_are_damaged(folder, marks):
    init_root(folder.root)
    publish(folder, FIRST)
    marks.begin(SECOND.interval)
    publish(folder, SECOND, THIRD)
    marks.announce([SECOND], "run 1")
    marks.decline(THIRD, "only a test", "run 1")
    as_before(folder.root)
    for _ in range(2):
        assert marks.untrained() == [SECOND]
        assert marks.lost([SECOND], "run 2") == []
        assert [each.why for each in marks.declined()] == ["only a test"]
        init_root(folder.root)
    (file,) = folder.training_marks.glob("*.announced")
    file.write_bytes(canonical_json.dumps({"at": "2026-01-01T00:00:00Z", "by": "run 1"}))
    assert marks.lost([SECOND], "run 2") == [SECOND]
    (folder.training_marks / "since.json").write_bytes(b'{"versions":{}}')
    with pytest.raises(FormatError, match=r"since\.json"):
        marks.untrained()
