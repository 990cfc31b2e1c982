"""Lineage, up and down, on a chain that was really built, trained and promoted."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.roots import reseal
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.look.lineage import SourcePosition, Tracer
from trainfeed.look.lineage.graph import Trainings
from trainfeed.upkeep.retention import Context, prune

DAY = "2024-03-01"
VERSION = "version clicks/2024-03-01/g0001"
MODEL = "model click_model/v0001"


def tracer(project, **directions):
    return Tracer(project.env.root, **directions)


def edges(found):
    return set(found.graph.edges())


def names(nodes):
    return {node.id for node in nodes}


def test_a_version_leads_down_to_aliases_and_up_to_offsets_code_and_lookups(chain):
    project, job = chain
    found = tracer(project).of_version("clicks", DAY, 1)
    assert found.focus == (VERSION,)
    assert {(VERSION, job), (job, MODEL)} <= edges(found)
    aliases = {"alias click_model@candidate", "alias click_model@prod"}
    assert names(found.graph.targets(MODEL)) == aliases
    inputs = {
        node.name: node.facts for node in found.graph.sources(VERSION) if node.kind == "input"
    }
    manifest = project.version(generation=1).manifest
    assert {
        (facts["source"], facts["start"], facts["end"], facts["topic_uuid"])
        for facts in inputs.values()
    } == {(n, i["start"], i["end"], i["topic_uuid"]) for n, i in manifest.inputs.items()}
    (code,) = (node for node in found.graph.sources(VERSION) if node.kind == "code")
    assert (code.facts["sha256"], code.facts["kept"]) == (manifest.code["digest"], True)
    assert found.damaged == {}


def test_a_model_leads_up_to_the_same_offsets(chain):
    project, job = chain
    down = tracer(project, up=False).of_version("clicks", DAY, 1)
    up = tracer(project, down=False).of_model("click_model@prod")
    assert {(VERSION, job), (job, MODEL)} <= edges(down) & edges(up)
    assert not down.graph.sources(VERSION)
    assert not up.graph.targets(MODEL)
    assert {node.kind for node in up.graph.sources(VERSION)} == {"input", "code"}


def test_the_versions_of_a_job_are_read_once_for_all_versions_that_are_asked(tmp_path):
    class Read:
        name, looks = "job", 0

        @property
        def versions(self):
            Read.looks += 1
            return []

    trainings = Trainings(SimpleNamespace(root=tmp_path))
    trainings._jobs["clicks"] = [SimpleNamespace(job=Read())]
    assert [trainings.readers_of("clicks", DAY, number) for number in range(1, 50)] == [[]] * 49
    assert Read.looks == 1


def test_a_job_leads_both_ways(chain):
    project, job = chain
    found = tracer(project).of_job(job.removeprefix("job "))
    assert {(VERSION, job), (job, MODEL)} <= edges(found)
    assert found.graph.nodes[job].facts["state"] == "succeeded"


@pytest.mark.parametrize(
    ("offset", "first", "second"),
    [
        (1, "valid", "valid"),
        (0, "valid", "no sample"),
        (3, "quarantined", "quarantined"),
        (4, "no sample", "no sample"),
    ],
)
def test_a_record_is_found_in_every_generation_with_its_fate(chain, offset, first, second):
    project, job = chain
    found = tracer(project).of_position(SourcePosition("kafka:clicks/1", offset))
    assert found.focus == (VERSION, "version clicks/2024-03-01/g0002")
    assert [found.fates[node]["fate"] for node in found.focus] == [first, second]
    assert (VERSION, job) in edges(found)
    assert not found.graph.targets("version clicks/2024-03-01/g0002")


def test_a_record_of_no_version_has_no_lineage_and_a_source_has_all_versions(chain):
    project, _ = chain
    project.prebuilt("2024-03-02")
    assert tracer(project).of_position(SourcePosition("kafka:clicks/1", 10**9)).focus == ()
    assert tracer(project).of_position(SourcePosition("kafka:clicks/9", None)).focus == ()
    everything = tracer(project).of_position(SourcePosition("kafka:clicks/1", None))
    assert len(everything.focus) == 3
    assert not any(everything.fates.values())
    boundary = project.version("2024-03-02").manifest.inputs["kafka:clicks/1"]["start"]
    for offset, day in ((boundary - 1, DAY), (boundary, "2024-03-02")):
        found = tracer(project).of_position(SourcePosition("kafka:clicks/1", offset))
        assert {name.split("/")[1] for name in found.focus} == {day}


def test_a_range_has_the_versions_for_readers(chain):
    project, _ = chain
    project.prebuilt("2024-03-02")
    expected = ("version clicks/2024-03-01/g0002", "version clicks/2024-03-02/g0001")
    assert tracer(project).of_range("clicks", "2024-03").focus == expected
    assert tracer(project).of_range("clicks", None).focus == expected
    assert tracer(project).of_range("clicks", "2024-03-02").focus == expected[1:]


def test_damaged_entries_are_named_and_hide_no_other(chain):
    project, job = chain
    project.prebuilt("2024-03-02")
    root = Path(project.env.root)
    other = root / "clicks" / "training" / DAY / "other"
    other.mkdir()
    (other / "job.json").write_text("{")
    shutil.copytree(root / "models/click_model/v0001", root / "models/click_model/v0002")
    manifest = project.version("2024-03-02").path / "MANIFEST.json"
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes() + b" ")
    found = tracer(project).of_position(SourcePosition("kafka:clicks/1", 1))
    assert (VERSION, job) in edges(found)
    assert found.damaged.keys() == {
        "clicks/2024-03-02/g0001",
        "job other",
        "model click_model/v0002",
    }
    assert "MANIFEST.json" in found.damaged["clicks/2024-03-02/g0001"]


def test_a_job_without_its_folder_is_known_by_its_model(chain):
    project, job = chain
    name = job.removeprefix("job ")
    shutil.rmtree(Path(project.env.root) / "clicks" / "training" / DAY / name)
    found = tracer(project).of_version("clicks", DAY, 1)
    assert {(VERSION, job), (job, MODEL)} <= edges(found)
    assert found.graph.nodes[job].facts["state"] == "its folder is gone"
    assert (VERSION, job) in edges(tracer(project).of_model("click_model/v0001"))


def test_a_removed_version_keeps_its_place_in_the_lineage(chain):
    project, job = chain
    project.edit("seed: 7\n", "seed: 7\nretention: {keep_generations: 1}\n")
    prune(Context.of(project.spec, project.env))
    found = tracer(project).of_model("click_model@prod")
    assert found.graph.nodes[VERSION].facts["state"] == "removed"
    assert (VERSION, job) in edges(found)
    assert found.damaged == {}
    assert (VERSION, job) in edges(tracer(project).of_version("clicks", DAY, 1))


def test_a_version_that_was_exchanged_is_said(chain):
    project, job = chain
    path = project.folder.training(DAY, job.removeprefix("job ")) / "job.json"
    told = json.loads(path.read_bytes())
    told["versions"][0]["manifest_sha256"] = "0" * 64
    reseal(path, versions=told["versions"])
    found = tracer(project).of_job(job.removeprefix("job "))
    assert found.doubts == (f"{job} read another {VERSION} than the one that is there now",)


def test_a_job_file_cannot_lead_out_of_the_root(chain):
    project, job = chain
    path = project.folder.training(DAY, job.removeprefix("job ")) / "job.json"
    told = json.loads(path.read_bytes())
    told["versions"][0]["interval"] = "../../x"
    reseal(path, versions=told["versions"])
    found = tracer(project).of_job(job.removeprefix("job "))
    assert "expected the name of a version" in found.damaged[job]


def test_what_is_not_there_is_an_error(chain):
    project, _ = chain
    with pytest.raises(NotFoundError, match="g0009"):
        tracer(project).of_version("clicks", DAY, 9)
    with pytest.raises(NotFoundError):
        tracer(project).of_job("nothing")
    with pytest.raises(NotFoundError):
        tracer(project).of_model("nothing@prod")


@pytest.mark.parametrize("text", ["clicks", "kafka:", "KAFKA:a/0@1", "@5", "kafka:a/0@-1x@"])
def test_what_is_no_position_is_refused(text):
    if text == "kafka:a/0@-1x@":
        assert SourcePosition.parse(text).offset is None
        return
    with pytest.raises(ConfigError, match="expected a position"):
        SourcePosition.parse(text)


def test_positions_are_read_as_they_are_written():
    assert SourcePosition.parse("kafka:a/0@12") == SourcePosition("kafka:a/0", 12)
    assert SourcePosition.parse("logs:dt=1/a@b.txt") == SourcePosition("logs:dt=1/a@b.txt", None)
    assert SourcePosition.parse("logs:dt=1/a.txt@0") == SourcePosition("logs:dt=1/a.txt", 0)
