"""``trainfeed parameters``, and how ``bring-forward`` ends what was chosen."""

import json

import pytest

from trainfeed.versions.overrides import overrides_of

DAY, NEXT = "2024-03-01", "2024-03-02"
CODE = """
def clicks(record, lookups, parameters):
    return {"value": parameters["scale"], "label": parameters["count"]}
"""


@pytest.fixture
def given(project):
    project.edit(
        '{function: "preprocess:clicks", input: record}',
        '{function: "preprocess:clicks", parameters: {scale: 0.5, count: 3}}',
    )
    (project.env.datasets / "clicks" / "preprocess.py").write_text(CODE)
    return project


def test_values_of_an_interval_are_chosen_shown_and_ended(cli, given):
    status, output, messages = cli("parameters", f"clicks/{DAY}", "count=7", "--why", "a test")
    assert status == 0
    assert "count=7" in output + messages
    assert "a test" in output + messages
    status, output, _ = cli("parameters", "clicks", "--json")
    found = json.loads(output)
    assert (status, found["parameters"]) == (0, {"count": 3, "scale": 0.5})
    assert [(e["interval"], e["parameters"]) for e in found["overrides"]] == [(DAY, {"count": 7})]
    status, output, _ = cli("parameters", f"clicks/{DAY}", "--end", "--why", "done", "--json")
    assert (status, json.loads(output)["parameters"]) == (0, {"count": 3, "scale": 0.5})
    assert len(overrides_of(given.folder, DAY)) == 2


def test_a_dry_run_and_a_look_write_nothing(cli, given):
    for words in (["count=7", "--dry-run"], ["--end", "--dry-run"], []):
        assert cli("parameters", f"clicks/{DAY}", *words)[0] == 0
    assert not given.folder.overrides(DAY).exists()


@pytest.mark.parametrize(
    "words",
    [
        ["clicks", "count=7", "--why", "a test"],
        [f"clicks/{DAY}", "count=7", "--end", "--why", "a test"],
        [f"clicks/{DAY}", "cuont=7", "--why", "a test"],
        [f"clicks/{DAY}", "count", "--why", "a test"],
        [f"clicks/{DAY}", "count=7"],
        [f"clicks/{DAY}/g0001", "count=7", "--why", "a test"],
        ["clicks/2024-03", "count=7", "--why", "a test"],
    ],
)
def test_what_is_not_clear_is_refused(cli, given, words):
    status, output, _ = cli("parameters", *words)
    assert (status in {1, 2}, output) == (True, "")
    assert not given.folder.overrides(DAY).exists()


def test_bring_forward_ends_what_was_chosen_in_its_range(cli, given):
    given.build(DAY)
    before = given.version(DAY).manifest.content_digest
    cli("parameters", f"clicks/{DAY}", "count=7", "--why", "a test")
    cli("parameters", f"clicks/{NEXT}", "count=8", "--why", "a test")
    status, _, messages = cli("outdated", "clicks")
    assert (status, "--outdated rebuild builds it so" in messages) == (1, True)
    given.build(DAY, rebuild="other count")
    status, _, messages = cli("bring-forward", f"clicks/{DAY}", "--dry-run")
    assert (status, "would end that" in messages) == (0, True)
    status, _, messages = cli("bring-forward", f"clicks/{DAY}", "--json")
    assert (status, "bring-forward ended that" in messages) == (0, True)
    assert given.version(DAY).manifest.content_digest == before
    assert overrides_of(given.folder, DAY)[-1].parameters == {}
    assert overrides_of(given.folder, NEXT)[-1].parameters == {"count": 8}
