"""The golden run: what two recordings have in common, and what is a difference from it."""

import pytest

from tests.golden.life import play
from tests.golden.pattern import differences, learned
from tests.golden.steps import recording


def step(name="build", **more):
    return {"step": name, "files": {}, "status": 0, "out": "", "messages": "", "points": []} | more


def changed(before, after, **other):
    """The differences of a step from what was learned of two steps."""
    return list(differences(learned([[step(**before)], [step(**after)]]), [step(**other)]))


def test_a_word_that_was_another_one_in_a_recording_may_be_any_word():
    first, second = {"out": "made 3 of a1b2 in 4 ms"}, {"out": "made 3 of c3d4 in 52 ms"}
    assert changed(first, second, out="made 3 of e5f6 in 7 ms") == []
    assert changed(first, second, out="made 4 of e5f6 in 7 ms")
    assert changed(first, second, out="made 3 of e5f6 and g7 in 7 ms")
    assert changed(first, second, out="made 3 of e5f6")


def test_times_of_today_are_no_difference_and_those_of_the_data_are():
    recorded = {"files": {"a.json": '{"at": "2026-11-29T10:00:00Z", "start": "2024-03-01"}'}}
    later = {"a.json": '{"at": "2027-01-02T11:30:00.5Z", "start": "2024-03-01"}'}
    other = {"a.json": '{"at": "2027-01-02T11:30:00Z", "start": "2024-03-02"}'}
    assert changed(recorded, recorded, files=later) == []
    assert changed(recorded, recorded, files=other)


@pytest.mark.parametrize(
    "other",
    [
        {"status": 1},
        {"points": ["publish.before_rename", "publish.after_rename"]},
        {"points": []},
        {"files": {}},
        {"files": {"a": "x", "b": "y"}},
        {"files": {"a": None}},
        {"files": {"a": "sha256 0f"}},
        {"step": "tag"},
    ],
)
def test_statuses_points_and_files_must_be_the_same(other):
    recorded = {"files": {"a": "x"}, "points": ["publish.before_rename"]}
    assert changed(recorded, recorded, **recorded) == []
    assert changed(recorded, recorded, **(recorded | other))


def test_steps_that_are_missing_or_besides_are_a_difference():
    pattern = learned([[step("a"), step("b")]] * 2)
    assert list(differences(pattern, [step("a")]))
    assert list(differences(pattern, [step("a"), step("b"), step("c")]))


def test_recordings_that_have_other_files_have_nothing_in_common():
    with pytest.raises(ValueError, match="other files"):
        learned([[step(files={"a": "x"})], [step(files={"b": "x"})]])


def test_a_played_life_has_files_answers_and_points_and_differs_if_a_file_does(tmp_path):
    with recording() as script:
        play(script, tmp_path, ("files",))
    steps = script.steps
    assert any("sha256" in text for each in steps for text in each["files"].values())
    assert any("reshard" in each["step"] and each["points"] for each in steps)
    pattern = learned([steps, steps])
    assert list(differences(pattern, steps)) == []
    first = next(each for each in steps if each["files"])
    first["files"] = dict.fromkeys(first["files"], "sha256 00")
    assert len(list(differences(pattern, steps))) == len(first["files"])
