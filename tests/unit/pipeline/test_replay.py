"""Replay of quarantined records: from plan and landing alone, once, and the same after kills."""

from dataclasses import replace

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from tests.unit.pipeline.log_project import make_log_project, rewrite
from trainfeed.errors import ConfigError, GateError, NotFoundError, SourceReplacedError
from trainfeed.pipeline import Build, OutdatedRule
from trainfeed.pipeline.check import check
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import PLANS, load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.waivers import next_command

OLD = "row = record.json()"
FIXED = 'row = record.json() if record.value != b"not json" else {"value": 0.5}'
GATE = "quality: [{check: quarantine_ratio, max: 0}]"


def fix(project):
    project.edit(OLD, FIXED, "preprocess.py")


def without_broker(project):
    """The project with no connection, and no recorded topic in place of one."""
    for path in (project.path / "recorded").rglob("*"):
        if path.is_file():
            path.unlink()
    return type(project)(project.path, replace(project.env, kafka={}))


def ledger(project):
    return project.version().manifest.ledger


def test_a_replay_makes_the_next_generation_without_broker(project):
    before = project.build()
    fix(project)
    alone = without_broker(project)
    report = alone.build(replay=True)
    assert (report["verdict"], report["generation"]) == ("built", "g0002")
    assert (report["source_reads"], report["quarantined"]) == (0, 0)
    assert report["samples"] == before["samples"] + before["quarantined"]
    why = alone.version().manifest.supersedes["why"]
    assert why == f"replay of the quarantine of g0001: {before['quarantined']} not_json"
    assert "replay of the quarantine of g0001" in report["note"]


def test_a_replay_has_the_bytes_of_a_rebuild_from_the_source(project):
    project.build()
    fix(project)
    other = project.elsewhere("other")
    other.build()
    project.build(replay=True, rebuild="the parser learned a form")
    assert project.version().manifest.supersedes["why"] == "the parser learned a form"
    mine, others = project.version().manifest, other.version().manifest
    assert mine.content_digest == others.content_digest
    assert mine.ledger == others.ledger
    assert mine.fingerprint == others.fingerprint


def test_a_second_replay_is_identical_whatever_its_reason(project):
    project.build()
    fix(project)
    project.build(replay=True)
    for why in (None, "again"):
        report = project.build(replay=True, rebuild=why)
        assert (report["verdict"], report["generation"]) == ("identical", "g0002")
    assert project.build()["verdict"] == "identical"
    assert project.folder.last_generation("2024-03-01") == 2


def test_a_replay_with_the_code_of_the_version_builds_nothing_and_says_what_stays(project):
    project.build()
    report = project.build(replay=True)
    assert (report["verdict"], report["generation"]) == ("identical", "g0001")
    assert "nothing is built" in report["note"]
    assert "not_json" in report["note"]


def test_an_interval_without_quarantine_is_skipped_with_the_reason(project):
    project.record({0: [batch([event(1, START_MS)])]})
    project.build()
    fix(project)
    report = project.build(replay=True)
    assert report["verdict"] == "skipped"
    assert "no record is quarantined in g0001" in report["note"]


def test_a_replay_of_a_failed_build_is_the_build_of_its_plan(project):
    project.edit("seed: 7", f"seed: 7\n{GATE}")
    with pytest.raises(GateError):
        project.build()
    fix(project)
    alone = without_broker(project)
    report = alone.build(replay=True)
    assert (report["verdict"], report["generation"]) == ("built", "g0001")
    assert "this is the build of the interval" in report["note"]
    assert alone.version().manifest.supersedes is None


def test_an_interval_that_was_never_built_is_an_error_with_the_command(project):
    with pytest.raises(NotFoundError, match="trainfeed build clicks --interval 2024-03-01"):
        project.build(replay=True)


def test_landing_that_was_removed_or_torn_is_an_error_and_the_version_stays(project):
    project.build()
    fix(project)
    first, second, _ = sorted((project.path / "landing").rglob("*.arrow"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-20])
    with pytest.raises(NotFoundError, match="2 of 3 landing files are gone or torn") as caught:
        project.build(replay=True)
    assert "--rebuild WHY" in str(caught.value)
    assert project.folder.last_generation("2024-03-01") == 1


def test_landing_files_are_found_after_the_size_of_tasks_changed(project):
    project.build()
    fix(project)
    project.edit("seed: 7", "seed: 7\nresources: {records_per_task: 7}")
    report = without_broker(project).build(replay=True)
    assert (report["verdict"], report["source_reads"]) == ("built", 0)


def test_a_plan_that_is_gone_is_made_again_from_the_version(project):
    project.build()
    for path in project.folder.plans("2024-03-01").glob("*.json"):
        path.unlink()
    fix(project)
    assert without_broker(project).build(replay=True)["verdict"] == "built"


def test_no_gap_is_allowed_beside_a_replay(project):
    project.build()
    with pytest.raises(ConfigError, match="allow_gap"):
        project.build(replay=True, allow_gap="lost")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("topic: clicks", "topic: others"),
        ("kafka: {connection: kafka_default, topic: clicks, settle: 0s}",
         'logs: {path: "/logs/{start:%Y-%m-%d}"}'),
    ],
)  # fmt: skip
def test_a_specification_with_another_source_is_refused(project, old, new):
    project.build()
    fix(project)
    project.edit(old, new)
    with pytest.raises(SourceReplacedError, match=r"dataset\.yaml names another source now"):
        project.build(replay=True)


def test_log_files_are_read_again_while_they_are_those_of_the_plan(tmp_path):
    project = make_log_project(tmp_path)
    before = project.build()
    fix(project)
    report = project.build(replay=True)
    assert (report["verdict"], report["quarantined"]) == ("built", 0)
    assert report["samples"] == before["samples"] + before["quarantined"]


def test_log_files_that_changed_refuse_a_replay_and_are_named(tmp_path):
    project = make_log_project(tmp_path)
    project.build()
    fix(project)
    rewrite(project.logs / "part-0.txt", b"not json", b"NOT json")
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt"):
        project.build(replay=True)
    assert project.folder.last_generation("2024-03-01") == 1


def test_landed_log_files_are_not_needed_any_more(tmp_path):
    project = make_log_project(tmp_path)
    project.edit("wait: 36500d", "wait: 36500d, land: true")
    project.build()
    fix(project)
    for path in project.logs.iterdir():
        path.unlink()
    # Nor is their file system: there is no connection to it.
    away = replace(project, env=replace(project.env, logs={}))
    report = away.build(replay=True)
    assert (report["verdict"], report["quarantined"], report["source_reads"]) == ("built", 0, 0)


def failed(project):
    """A build of the project that a gate refuses, and a function that was fixed since."""
    project.edit("seed: 7", f"seed: 7\n{GATE}")
    with pytest.raises(GateError):
        project.build()
    fix(project)


@pytest.mark.parametrize("land", [True, False])
def test_a_log_file_that_came_after_a_failed_build_refuses_its_replay(tmp_path, land):
    project = make_log_project(tmp_path)
    if land:
        project.edit("wait: 36500d", "wait: 36500d, land: true")
    failed(project)
    (project.logs / "part-9.txt").write_bytes(b'{"value": 1}\n')
    with pytest.raises(SourceReplacedError, match=r"part-9\.txt came;") as caught:
        project.build(replay=True)
    assert "trainfeed build clicks --interval 2024-03-01" in str(caught.value)
    assert project.folder.last_generation("2024-03-01") == 0
    assert project.build()["verdict"] == "built"


def test_a_log_file_that_changed_after_a_failed_build_refuses_its_replay(tmp_path):
    project = make_log_project(tmp_path)
    project.edit("wait: 36500d", "wait: 36500d, land: true")
    failed(project)
    rewrite(project.logs / "part-0.txt", b"not json", b"NOT json")
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: "):
        project.build(replay=True)


def test_the_log_files_of_a_failed_build_are_replayed_while_they_are_the_same(tmp_path):
    project = make_log_project(tmp_path)
    project.edit("wait: 36500d", "wait: 36500d, land: true")
    failed(project)
    report = project.build(replay=True)
    assert (report["verdict"], report["quarantined"], report["source_reads"]) == ("built", 0, 0)


def test_a_replay_that_is_refused_leaves_no_plan(project):
    project.build()
    fix(project)
    before = project.folder.plan_ids("2024-03-01")
    for path in (project.path / "landing").rglob("*.arrow"):
        path.unlink()
    with pytest.raises(NotFoundError):
        project.build(replay=True)
    assert project.folder.plan_ids("2024-03-01") == before


def planned(project, **wish):
    """Plan the interval; return the plan file that is there then."""
    report = plan(project.spec, project.interval(), project.env, **wish)
    return load_plan(project.folder, report.ref)


@pytest.mark.parametrize("why", [None, "the parser learned a form"])
def test_a_replay_and_the_rule_for_outdated_versions_share_one_plan_file(project, why):
    project.build()
    fix(project)
    first = planned(project, outdated=OutdatedRule.REBUILD)
    assert first.made_by == "outdated"
    assert planned(project, replay=True, rebuild=why).sha256() == first.sha256()
    project.folder.plan("2024-03-01", first.plan_id).unlink()
    second = planned(project, replay=True, rebuild=why)
    assert second.made_by == "replay"
    assert planned(project, outdated=OutdatedRule.REBUILD).sha256() == second.sha256()
    assert project.build(outdated=OutdatedRule.REBUILD)["verdict"] == "built"
    assert project.build(replay=True)["verdict"] == "identical"


def test_the_pieces_of_a_replay_are_adopted_and_those_of_a_person_are_not(project):
    project.build()
    fix(project)
    project.edit("seed: 7", "seed: 7\nresources: {records_per_task: 7}")
    replayed = planned(project, replay=True)
    assert planned(project, outdated=OutdatedRule.REBUILD).sha256() == replayed.sha256()
    forced = planned(project, rebuild="smaller tasks")
    assert len(forced.ranges) > len(replayed.ranges)
    assert (forced.made_by, forced.rebuild) == (None, "smaller tasks")


def test_the_note_says_that_another_reason_was_recorded(project):
    project.build()
    fix(project)
    planned(project, outdated=OutdatedRule.REBUILD)
    report = project.build(replay=True, rebuild="mine")
    assert "the reason is that of a build of this generation that had begun" in report["note"]
    assert project.version().manifest.supersedes["why"].startswith("outdated: ")


def test_what_made_a_plan_is_in_its_file_alone(project):
    project.build()
    fix(project)
    plain = planned(project, rebuild="fixed")
    assert b"made_by" not in plain.to_bytes()
    replayed = plain.model_copy(update={"made_by": "replay"})
    assert b'"made_by":"replay"' in replayed.to_bytes()
    assert replayed.plan_id == plain.plan_id
    # The texts of replays, typed by a person, make no replay.
    typed = plain.model_copy(update={"rebuild": "replay of the quarantine of g0001: 1 x"})
    assert next_command(typed).startswith("trainfeed build clicks --interval 2024-03-01 --rebuild ")
    assert next_command(replayed) == "trainfeed quarantine replay clicks/2024-03-01"
    outdated = plain.model_copy(update={"made_by": "outdated", "rebuild": "outdated: seed"})
    assert next_command(outdated) == (
        "trainfeed build clicks --interval 2024-03-01 --outdated rebuild"
    )


def test_work_files_of_another_cut_are_refused(project):
    project.build()
    fix(project)
    first = planned(project, replay=True)
    begun = Build(project.spec, project.env, first.ref())
    for unit in range(len(first.preprocess)):
        preprocess(begun, unit)
    last = first.ranges[-1]
    cut = [{"end": last.end - 1}, {"start": last.end - 1}]
    ranges = [*first.ranges[:-1], *(last.model_copy(update=each) for each in cut)]
    tasks = [*first.preprocess, [len(first.ranges)]]
    update = {"ranges": ranges, "ingest": tasks, "preprocess": tasks}
    other = first.model_copy(update=update)
    PLANS.replace(project.folder.plan("2024-03-01", first.plan_id), other)
    with pytest.raises(GateError, match="cut the inputs in another way"):
        check(begun)
