"""Plan files: sealed, compared with their path, and free of contradictions; a build heals them."""

import json
import logging

import pytest

from trainfeed.core import canonical_json
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files.records import ROOT_MARK_FILE
from trainfeed.pipeline import Build, OutdatedRule
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import PLANS, load_plan
from trainfeed.versions import DatasetFolder

DAY, NEXT = "2024-03-01", "2024-03-02"


def planned(project, interval=DAY, **wish):
    report = plan(project.spec, project.interval(interval), project.env, **wish)
    return load_plan(project.folder, report.ref)


def file_of(project, made):
    return project.folder.plan(made.interval_name, made.plan_id)


def resealed(path, change):
    """Change the content of a plan file, and seal it again."""
    value = json.loads(path.read_bytes())
    del value["digest"]
    change(value)
    path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))


def set_at(*keys, value):
    """Return a change that sets a value, or applies it if it is a function."""

    def change(plan_json):
        *above, last = keys
        for key in above:
            plan_json = plan_json[key]
        plan_json[last] = value(plan_json[last]) if callable(value) else value

    return change


def named(change):
    """Return a change after which fingerprint and plan id are those of the new values."""

    def whole(plan_json):
        change(plan_json)
        plan_json["fingerprint"] = canonical_json.sha256_of(plan_json["fingerprint_of"])

    return whole


def less(number):
    return number - 1


def more(number):
    return number + 1


CONTRADICTIONS = {
    "a range ends too early": set_at("ranges", 0, "end", value=less),
    "a range ends too late": set_at("ranges", 0, "end", value=more),
    "a range begins too late": set_at("ranges", 0, "start", value=more),
    "a range is missing": set_at("ranges", value=lambda ranges: ranges[1:]),
    "a range stands twice": set_at("ranges", value=lambda ranges: [ranges[0], *ranges]),
    "a range is of another source": set_at("ranges", 0, "source", value="other"),
    "ranges are in another order": set_at("ranges", value=lambda ranges: ranges[::-1]),
    "no range is read": set_at("ranges", value=[]),
    "a task lands a range again": set_at("ingest", 0, value=lambda group: [*group, 0]),
    "no task lands a range": set_at("ingest", 0, value=lambda group: group[1:]),
    "no task reads a range": set_at("preprocess", 0, value=lambda group: group[1:]),
    "a task reads a range that is not there": set_at("preprocess", 0, 0, value=99),
    "no task writes a shard": set_at("convert", 0, value=lambda group: group[1:]),
    "more shards than tasks write": set_at("shards", "train", value=more),
    "another fingerprint": set_at("fingerprint", value="0" * 64),
    "another value of the fingerprint": set_at("fingerprint_of", "spec", "seed", value=8),
    "another value, with its fingerprint": named(set_at("fingerprint_of", "spec", "seed", value=8)),
    "another generation": set_at("generation", value=more),
    "another name": set_at("plan_id", value="0" * 16 + "-g0001"),
    "another data set": set_at("dataset", value="other"),
    "another interval": set_at("interval", "name", value=NEXT),
    "another end of the interval": set_at("interval", "end", value="2024-03-03T00:00:00Z"),
    "other code": set_at("code", "digest", value="0" * 64),
    "other lookups": set_at("lookups", value={"table": "0" * 64}),
    "other documents": set_at("documents", value={"README.md": "0" * 64}),
    "other fields": set_at("schema", 0, "dtype", value="float64"),
    "another format": set_at("format", value=2),
    "a key of a later trainfeed": set_at("later", value=1),
}


def test_no_changed_or_cut_plan_is_read(project):
    made = planned(project)
    path = file_of(project, made)
    data = path.read_bytes()
    assert load_plan(project.folder, made.ref()) == made
    for place in range(len(data)):
        for changed in (data[:place], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]):
            with pytest.raises(FormatError):
                PLANS.parse(changed, path)


def test_the_digest_of_a_plan_is_that_of_its_content_without_the_seal(project):
    made = planned(project)
    data = file_of(project, made).read_bytes()
    assert made.sha256() == canonical_json.sha256_of(json.loads(made.to_bytes()))
    assert data.startswith(made.to_bytes().removesuffix(b"}"))
    value = json.loads(data)
    del value["digest"]
    assert value == json.loads(made.to_bytes())


def test_the_plan_of_another_interval_generation_or_data_set_is_refused_in_its_place(project):
    first, other_day = planned(project), planned(project, NEXT)
    path = file_of(project, first)
    own = path.read_bytes()
    project.build()
    project.edit("seed: 7", "seed: 8")
    second = planned(project, outdated=OutdatedRule.REBUILD)
    other = DatasetFolder(project.folder.root, "other")
    other.plan(DAY, first.plan_id).parent.mkdir(parents=True)
    other.plan(DAY, first.plan_id).write_bytes(own)
    with pytest.raises(FormatError):
        load_plan(other, first.ref())
    for wrong in (other_day, second):
        path.write_bytes(file_of(project, wrong).read_bytes())
        with pytest.raises(FormatError):
            load_plan(project.folder, first.ref())
    file_of(project, second).write_bytes(own)
    with pytest.raises(FormatError):
        load_plan(project.folder, second.ref())


@pytest.mark.parametrize("change", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_plan_that_contradicts_itself_is_refused_although_it_is_sealed(project, change):
    made = planned(project)
    resealed(file_of(project, made), change)
    with pytest.raises(FormatError, match="build the interval again"):
        load_plan(project.folder, made.ref())
    with pytest.raises(FormatError):
        ingest(Build(project.spec, project.env, made.ref()), 0)
    # A build makes the plan again, and goes on from there.
    assert planned(project) == made
    assert project.build()["verdict"] == "built"


def test_input_and_range_that_were_changed_alike_differ_from_the_fingerprint(project):
    made = planned(project)
    source = made.ranges[0].source

    def change(plan_json):
        plan_json["ranges"][0]["end"] -= 1
        plan_json["inputs"][source]["end"] -= 1

    resealed(file_of(project, made), change)
    with pytest.raises(FormatError, match=source):
        load_plan(project.folder, made.ref())


def test_a_raised_limit_of_a_gate_is_found_by_the_seal_and_only_by_the_seal(project):
    project.edit("split:", "quality: [{check: quarantine_ratio, max: 0}]\nsplit:")
    made = planned(project)
    path = file_of(project, made)
    own = path.read_bytes()
    path.write_bytes(own.replace(b'"max":0', b'"max":9'))
    assert path.read_bytes() != own
    with pytest.raises(FormatError):
        load_plan(project.folder, made.ref())
    path.write_bytes(own)
    resealed(path, set_at("quality", 0, "max", value=9.0))
    assert load_plan(project.folder, made.ref()).quality[0]["max"] == 9.0


def test_a_gap_that_meets_what_is_read_is_refused(project):
    made = planned(project)
    gap = {"source": made.ranges[0].source, "start": 3, "end": 5, "why": "lost"}
    resealed(file_of(project, made), set_at("gaps", value=[gap]))
    with pytest.raises(FormatError, match="gaps"):
        load_plan(project.folder, made.ref())


def test_a_plan_of_before_the_seal_is_read_until_the_mark_of_its_root_lists_the_unsealed_files(
    project,
):
    made = planned(project)
    path, mark = file_of(project, made), project.folder.root / ROOT_MARK_FILE
    path.write_bytes(made.to_bytes())
    with pytest.raises(FormatError):
        load_plan(project.folder, made.ref())
    value = json.loads(mark.read_bytes())
    mark.write_bytes(
        canonical_json.dumps({key: value[key] for key in ("format", "id", "made_at", "made_by")})
    )
    assert load_plan(project.folder, made.ref()) == made
    # The first write lists the file with its digest, so it stays readable as it is, and only so.
    assert planned(project) == made
    assert path.read_bytes() == made.to_bytes()
    assert project.build()["verdict"] == "built"
    path.write_bytes(made.to_bytes().replace(b'"rebuild":null', b'"rebuild":"why"'))
    with pytest.raises(FormatError):
        load_plan(project.folder, made.ref())


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"], ids=["empty", "cut", "no text"])
@pytest.mark.parametrize("wish", [{}, {"rebuild": "why"}], ids=["build", "rebuild"])
def test_a_damaged_plan_of_a_published_version_counts_as_removed(project, caplog, content, wish):
    project.build()
    path = project.folder.plan(DAY, project.version().manifest.plan)
    own = path.read_bytes()
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        report = project.build(**wish)
    assert report["verdict"] == ("built" if wish else "identical")
    assert str(path) in caplog.text
    assert path.read_bytes() == own
    assert project.build()["verdict"] == "identical"


def test_a_damaged_plan_of_a_published_version_leaves_a_conflict_explained(project):
    project.build()
    path = project.folder.plan(DAY, project.version().manifest.plan)
    path.write_bytes(b"{")
    project.edit("seed: 7", "seed: 8")
    assert project.build(outdated=OutdatedRule.REBUILD)["verdict"] == "built"
    assert project.version().manifest.generation == 2


def test_a_version_that_is_kept_although_its_plan_is_damaged_says_what_to_do(project):
    project.build()
    path = project.folder.plan(DAY, project.version().manifest.plan)
    path.write_bytes(b"{")
    project.edit("seed: 7", "seed: 8")
    with pytest.raises(NotFoundError, match="outdated rebuild"):
        project.build(outdated=OutdatedRule.KEEP)
