"""Messages of refused builds: the changed files and values, and the files left by a full disk."""

import errno
import json

import pytest

from trainfeed.errors import CodeChangedError, ConflictError, QuotaExceededError
from trainfeed.pipeline import Build
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preview import dry_run
from trainfeed.pipeline.run_stage import run_stage


def test_a_conflict_shows_what_changed_in_the_code(project):
    project.build()
    project.edit('raise Reject("no_value"', 'raise Reject("no_number"', "preprocess.py")
    with pytest.raises(ConflictError) as refused:
        project.build()
    first, *rest = str(refused.value).splitlines()
    assert "is published from other inputs: the code; the published version stays" in first
    assert rest[:3] == [
        "preprocess.py changed",
        "--- preprocess.py as published",
        "+++ preprocess.py now",
    ]
    assert '-        raise Reject("no_value", "expected a value")' in rest
    assert '+        raise Reject("no_number", "expected a value")' in rest
    assert not any(len(word) == 64 for word in str(refused.value).split())


def test_a_dry_run_shows_what_changed_in_the_code_and_keeps_no_text(project):
    project.build()
    kept = sorted((project.folder.path / "code").iterdir())
    project.edit('raise Reject("no_value"', 'raise Reject("no_number"', "preprocess.py")
    with pytest.raises(ConflictError, match=r"preprocess\.py as published"):
        dry_run(project.spec, project.interval("2024-03-01"), project.env)
    assert sorted((project.folder.path / "code").iterdir()) == kept


def test_a_conflict_names_new_files_and_values_of_the_specification(project):
    project.build()
    (project.env.datasets / "clicks" / "features.py").write_text("ONE = 1\n")
    project.edit("seed: 7", "seed: 8")
    with pytest.raises(ConflictError) as refused:
        project.build()
    message = str(refused.value)
    assert "inputs: spec.seed: 7 → 8; the code; " in message
    assert "\nfeatures.py changed\n--- features.py as published\n" in message
    assert message.endswith("\n+ONE = 1")


def test_a_long_difference_is_cut(project):
    project.build()
    more = "\n".join(f"LINE_{n} = {n}" for n in range(200))
    (project.env.datasets / "clicks" / "features.py").write_text(more)
    with pytest.raises(ConflictError) as refused:
        project.build()
    assert len(str(refused.value).splitlines()) == 63
    assert str(refused.value).endswith("… and 143 more lines")


@pytest.mark.parametrize("damage", ["gone", "other", "torn"])
def test_without_the_code_of_then_the_files_are_named_and_that_it_is_not_there(project, damage):
    project.build()
    (kept,) = (project.folder.path / "code").iterdir()
    kept.chmod(0o600)
    if damage == "gone":
        kept.unlink()
    else:
        kept.write_text(json.dumps({"preprocess.py": "x"}) if damage == "other" else '{"pre')
    project.edit("row = record.json()", "row = record.json()  # now", "preprocess.py")
    with pytest.raises(ConflictError, match=r"the code \(preprocess.py\) differs from the code"):
        project.build()


def test_the_code_is_kept_for_the_account_that_builds(project):
    project.build()
    (kept,) = (project.folder.path / "code").iterdir()
    assert kept.stem == project.version().manifest.code["digest"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text()).keys() == {"preprocess.py"}


def planned(project):
    return plan(project.spec, project.interval(), project.env).ref


def test_a_code_change_in_the_middle_of_a_run_is_shown(project):
    ref = planned(project)
    project.edit('"no_value"', '"no_number"', "preprocess.py")
    with pytest.raises(CodeChangedError, match=r"\(the code\)(.|\n)*\n\+ +raise Reject\(\"no_nu"):
        run_stage("convert", Build(project.spec, project.env, ref), dict)


def test_a_full_disk_says_what_was_kept_what_is_needed_and_what_is_free(project):
    project.build()
    ref = plan(project.spec, project.interval("2024-03-02"), project.env).ref

    def work(stage):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(QuotaExceededError) as refused:
        run_stage("convert", Build(project.spec, project.env, ref), work)
    message = str(refused.value)
    assert "no space left on device" in message
    assert "kept: landing files of this run, the plan and every published version" in message
    for place in ("landing: about ", "root: about "):
        assert place in message
    assert message.count(" free") >= 4
    assert "make room and build the interval again" in message
