"""Two runs of one interval, stages on stale plans, and what publication refuses."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.test_kill import command
from trainfeed.errors import (
    CodeChangedError,
    ConfigError,
    ConflictError,
    GateError,
    NonDeterminismError,
    WindowOpenError,
)
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish


def run_until(project, last, interval="2024-03-01"):
    """Run the stages up to and with ``last``; return the plan's reference."""
    ref = plan(project.spec, project.interval(interval), project.env).ref
    where = Build(project.spec, project.env, ref)
    for stage in (ingest, preprocess, convert):
        stage(where, 0)
        if stage is last:
            return ref
    check(where)
    if last is publish:
        publish(where)
    return ref


def test_two_runs_at_once_end_with_one_generation(project):
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: command(project), range(4)))
    assert [run.returncode for run in runs] == [0, 0, 0, 0], [run.stderr for run in runs]
    assert project.folder.last_generation("2024-03-01") == 1
    project.version().verify()
    assert len(list(project.folder.plan("2024-03-01", "x").parent.glob("*.json"))) == 1


def test_every_stage_of_a_published_plan_returns_at_once(project):
    ref = run_until(project, publish)
    where = Build(project.spec, project.env, ref)
    for report in (
        ingest(where, 0),
        preprocess(where, 0),
        convert(where, 0),
        check(where),
        publish(where),
    ):
        assert report.verdict == "published"
        assert report.source_reads == 0
    assert not (project.path / "work" / "spill" / ref.plan_id).exists()
    assert not project.folder.staged(ref.plan_id).exists()


def test_a_lost_pointer_is_written_again_by_the_next_run(project):
    project.build()
    pointer = project.folder.interval("2024-03-01") / "CURRENT"
    assert pointer.read_text() == "g0001\n"
    pointer.unlink()
    project.build()
    assert pointer.read_text() == "g0001\n"


@pytest.mark.parametrize("last", [ingest, preprocess, convert])
def test_code_that_changes_between_two_tasks_stops_the_run(project, last):
    ref = run_until(project, last)
    project.edit('"label": n', '"label": n + 1', "preprocess.py")
    with pytest.raises(CodeChangedError, match="build the interval again"):
        convert(Build(project.spec, project.env, ref), 0)
    assert not project.folder.interval("2024-03-01").exists()
    assert project.build()["source_reads"] == 0


def test_a_lookup_that_changes_between_two_tasks_stops_the_run(project):
    lookup = project.env.datasets / "clicks" / "names.csv"
    lookup.write_text("a,b\n1,2\n")
    project.edit("seed: 7", "seed: 7\nlookups: {names: names.csv}")
    ref = run_until(project, ingest)
    lookup.write_text("a,b\n1,3\n")
    with pytest.raises(CodeChangedError, match=r"lookup 'names'"):
        preprocess(Build(project.spec, project.env, ref), 0)


def test_a_deployment_that_is_rolled_back_while_a_task_runs_changes_no_value(project):
    project.build()
    before = project.version().manifest.content_digest
    (project.env.datasets / "clicks" / "factor.py").write_text("FACTOR = 1\n")
    deployed = """
    from pathlib import Path
    helper = Path(__file__).with_name("factor.py")
    helper.write_text("FACTOR = 1000\\n")
    from .factor import FACTOR
    helper.write_text("FACTOR = 1\\n")
"""
    project.edit("seed: 7", "seed: 7\nresources: {processes: 1}")
    project.edit(
        "    row = record.json()\n", deployed + "    row = record.json()\n", "preprocess.py"
    )
    project.edit('"value": row["value"]', '"value": row["value"] * FACTOR', "preprocess.py")
    project.build(rebuild="a late import")
    assert project.version().manifest.content_digest == before


def test_a_missing_lookup_says_where_it_belongs(project):
    project.edit("seed: 7", "seed: 7\nlookups: {names: names.csv}")
    with pytest.raises(ConfigError, match=r"lookup 'names'.*names\.csv"):
        project.build()


def test_publishing_without_a_passed_check_is_refused(project):
    ref = run_until(project, convert)
    with pytest.raises(GateError, match="has not passed check"):
        publish(Build(project.spec, project.env, ref))
    assert not project.folder.interval("2024-03-01").exists()


def test_another_content_under_an_equal_fingerprint_is_refused(project):
    ref = run_until(project, check)
    other = project.elsewhere("other")
    other.build()
    manifest = json.loads((other.version().path / "MANIFEST.json").read_bytes())
    manifest["content_digest"] = "0" * 64
    fake_version(project, manifest)
    (project.folder.version("2024-03-01", 1) / "MANIFEST.json").rename(project.path / "kept")
    (project.folder.version("2024-03-01", 1) / "other").touch()
    with pytest.raises(ConflictError, match="holds no manifest"):
        publish(Build(project.spec, project.env, ref))
    (project.path / "kept").rename(project.folder.version("2024-03-01", 1) / "MANIFEST.json")
    with pytest.raises(NonDeterminismError, match="pure function"):
        publish(Build(project.spec, project.env, ref))


def test_a_version_of_another_fingerprint_under_the_planned_number_is_a_conflict(project):
    ref = run_until(project, check)
    other = project.elsewhere("other")
    other.build()
    manifest = json.loads((other.version().path / "MANIFEST.json").read_bytes())
    fake_version(project, manifest | {"fingerprint": "0" * 64})
    with pytest.raises(ConflictError, match="was published by plan"):
        publish(Build(project.spec, project.env, ref))


def fake_version(project, manifest):
    import hashlib

    from trainfeed.core import canonical_json

    path = project.folder.version("2024-03-01", 1)
    path.mkdir(parents=True)
    data = canonical_json.dumps(manifest)
    (path / "MANIFEST.json").write_bytes(data)
    (path / "MANIFEST.sha256").write_text(hashlib.sha256(data).hexdigest())


def test_an_open_window_says_from_when_it_can_be_planned(project):
    yesterday = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%d")
    project.edit("end: 2024-03-31", "end: 2124-03-31")
    project.edit("settle: 0s", "settle: 30d")
    with pytest.raises(WindowOpenError, match="it can be planned from") as caught:
        project.build(yesterday)
    assert caught.value.ready_at > datetime.now(UTC)
    assert not project.folder.path.exists()


@pytest.mark.parametrize("name", [".ipynb_checkpoints", ".cache"])
def test_code_in_hidden_folders_is_not_code_of_the_data_set(project, name):
    project.build()
    hidden = project.env.datasets / "clicks" / name
    hidden.mkdir()
    (hidden / "preprocess-checkpoint.py").write_text("import nothing_of_the_kind\n")
    assert project.build()["verdict"] == "identical"


def test_a_package_without_a_file_of_its_own_is_installed_all_the_same(project, monkeypatch):
    home = project.path / "site-packages"
    (home / "spread" / "inner").mkdir(parents=True)
    (home / "spread" / "inner" / "__init__.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(home))
    project.edit("def clicks", "import spread.inner\n\n\ndef clicks", "preprocess.py")
    assert plan(project.spec, project.interval(), project.env).verdict == "build"


def test_a_package_that_is_partly_elsewhere_is_refused(project, monkeypatch):
    homes = [project.path / "site-packages", project.path / "elsewhere"]
    for home in homes:
        (home / "scattered").mkdir(parents=True)
        monkeypatch.syspath_prepend(str(home))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(homes[0]))
    project.edit("def clicks", "import scattered\n\n\ndef clicks", "preprocess.py")
    with pytest.raises(ConfigError, match="missing from the code digest"):
        plan(project.spec, project.interval(), project.env)


def test_code_from_outside_the_folder_is_refused(project):
    project.edit(
        "from trainfeed.preprocessing",
        "import tests\nfrom trainfeed.preprocessing",
        "preprocess.py",
    )
    with pytest.raises(ConfigError, match="missing from the code digest"):
        project.build()


def test_a_neighbour_is_imported_relatively_and_enters_the_digest(project):
    folder = project.env.datasets / "clicks"
    (folder / "labels.py").write_text("FIRST = 5\n")
    project.edit("def clicks", "from . import labels\n\n\ndef clicks", "preprocess.py")
    project.edit('"label": n', '"label": labels.FIRST', "preprocess.py")
    project.build()
    assert project.version().manifest.code["files"] == ["labels.py", "preprocess.py"]
    (folder / "labels.py").write_text("FIRST = 6\n")
    with pytest.raises(ConflictError, match="code"):
        project.build()


def test_the_training_module_does_not_enter_the_digest(project):
    folder = project.env.datasets / "clicks"
    (folder / "train.py").write_text("def main(job):\n    return {}\n")
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
    project.build()
    (folder / "train.py").write_text("def main(job):\n    return {'a': 1}\n")
    assert project.build()["verdict"] == "identical"


def test_a_build_runs_without_airflow_installed(project):
    code = (
        "import sys; sys.modules['airflow'] = None\n"
        "import trainfeed.cli, trainfeed.pipeline.local, trainfeed.training.launch"
    )
    root = Path(__file__).parents[3]
    subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(root / "include")}, check=True
    )
    assert isinstance(project, Project)
