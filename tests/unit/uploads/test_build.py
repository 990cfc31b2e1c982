"""Builds with uploads: the join, its account, and what a later upload changes."""

import json

import pytest

from tests.unit.pipeline.clicks import batch
from tests.unit.pipeline.conftest import make_project
from tests.unit.uploads.labelled import (
    BATCH_CODE,
    CODE,
    DAY,
    clicks,
    csv_of,
    jsonl_of,
    make_labelled,
)
from trainfeed.errors import (
    ChecksumError,
    ConflictError,
    EmptyUnprovenError,
    FormatError,
    PreprocessError,
)
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.preview import dry_run, preview
from trainfeed.pipeline.publish import publish
from trainfeed.readers import DatasetReader
from trainfeed.uploads import join as _applied
from trainfeed.uploads.files import iter_rows


def samples(version):
    """All samples by id: (value, label, note)."""
    found = {}
    for split in version.manifest.splits:
        for sample in DatasetReader([version], split).reader()():
            number = int(sample["id"])
            assert number not in found
            found[number] = (int(sample["label"]), sample["note"])
    return found


def test_a_left_join_gives_labels_by_key_and_defaults_to_the_others(labelled):
    labelled.put("a.csv", csv_of([(1, 0, "no"), (2, 1, None), (500, 1, None)]))
    labelled.check()
    labelled.put("b.jsonl", jsonl_of([(2, 0, "newer"), (3, 1, "ü")]))
    report = labelled.build()
    assert report["verdict"] == "built"
    found = samples(labelled.version())
    assert len(found) == 100
    assert {n: found[n] for n in (1, 2, 3)} == {1: (0, "no"), 2: (0, "newer"), 3: (1, "ü")}
    assert {found[n] for n in range(4, 100)} == {(-1, None)}
    account = labelled.version().manifest.uploads
    assert account["join"] == "left"
    assert [file["name"] for file in account["files"]] == [f"{DAY}/a.csv", f"{DAY}/b.jsonl"]
    assert account["labels"] == {
        "rows": 5, "repeated": 0, "superseded": 1, "used": 3, "unused": 1,
    }  # fmt: skip
    assert account["samples"] == {"matched": 3, "unmatched": 97}


def test_an_inner_join_leaves_out_the_others_and_counts_them(labelled):
    inner(labelled)
    labelled.put("a.csv", csv_of([(1, 0, None), (2, 1, None), (500, 1, None)]))
    labelled.build()
    assert samples(labelled.version()) == {1: (0, None), 2: (1, None)}
    manifest = labelled.version().manifest
    assert manifest.filtered == {"unlabelled": 98}
    assert manifest.uploads["samples"] == {"matched": 2, "unmatched": 98}
    assert manifest.uploads["labels"]["unused"] == 1


def test_an_inner_join_without_any_upload_is_refused_and_not_published_empty(labelled):
    inner(labelled)
    with pytest.raises(EmptyUnprovenError, match="expected at least one accepted upload"):
        labelled.build()
    assert labelled.folder.current_generation(DAY) is None


def test_a_record_keeps_the_labelled_ones_of_its_samples_under_numbers_from_0(labelled):
    labelled.record({0: [batch(clicks([{"id": 10, "copies": 3}, {"id": 20, "copies": 0}]))]})
    inner(labelled)
    labelled.put("a.csv", csv_of([(11, 0, None), (12, 1, None)]))
    labelled.build()
    assert samples(labelled.version()) == {11: (0, None), 12: (1, None)}
    manifest = labelled.version().manifest
    assert manifest.filtered == {"empty": 1}
    assert manifest.uploads["samples"] == {"matched": 2, "unmatched": 1}


def test_a_set_without_any_upload_gets_the_defaults(labelled):
    labelled.build()
    assert set(samples(labelled.version()).values()) == {(-1, None)}
    assert labelled.version().manifest.uploads["files"] == []


@pytest.mark.parametrize("join", ["left", "inner"])
def test_record_mode_and_batch_mode_and_any_division_give_equal_bytes(tmp_path, join):
    manifests = []
    for number, (code, mode, tasks, processes) in enumerate(
        [
            (None, "record", 100_000, 1),
            (BATCH_CODE, "batch", 100_000, 1),
            (None, "record", 100_000, 2),
            (BATCH_CODE, "batch", 33, 1),
        ]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        labelled = make_labelled(place, **({} if code is None else {"code": code}))
        labelled.edit("input: record", f"input: {mode}")
        labelled.edit(
            "output:", f"resources: {{records_per_task: {tasks}, processes: {processes}}}\noutput:"
        )
        if join == "inner":
            inner(labelled)
        rows = [{"id": n, "copies": n // 3 % 3} for n in range(0, 300, 3)]
        # Three partitions: a task of many records has several ranges, and divides them.
        parts = [[*rows[:30], {"no": 1}], [*rows[30:70], {"id": -4}], rows[70:]]
        labelled.record({p: [batch(clicks(part))] for p, part in enumerate(parts)})
        labelled.put("a.csv", csv_of([(n, n % 2, f"a{n}") for n in range(0, 200, 2)]))
        labelled.put("b.csv", csv_of([(n, 3, None) for n in range(50, 400, 7)]))
        labelled.build()
        manifests.append(labelled.version().manifest)
    first = manifests[0]
    assert all(first.uploads["samples"].values())
    assert all(first.uploads["labels"][name] for name in ("superseded", "used", "unused"))
    for manifest in manifests[1:]:
        assert manifest.content_digest == first.content_digest
        assert manifest.ledger == first.ledger
        assert manifest.uploads == first.uploads


def test_a_later_upload_is_a_conflict_that_names_it_and_a_rebuild_takes_it(labelled):
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.build()
    before = labelled.version()
    assert labelled.build()["verdict"] == "identical"
    labelled.put("b.csv", csv_of([(1, 1, None)]))
    with pytest.raises(ConflictError, match=f"uploads.{DAY}/b.csv: None → '[0-9a-f]{{12}}'"):
        labelled.build()
    assert labelled.version().manifest_sha256 == before.manifest_sha256
    report = labelled.build(rebuild="b.csv has come")
    assert report["version"] == f"{DAY}/g0002"
    assert samples(labelled.version())[1] == (1, None)
    assert list(before.problems()) == []
    assert samples(labelled.version(generation=1))[1] == (0, None)
    assert labelled.build()["verdict"] == "identical"


def test_an_upload_of_another_interval_changes_nothing(labelled):
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.build()
    labelled.put("b.csv", csv_of([(1, 1, None)]), day="2024-03-02")
    labelled.check()
    assert labelled.build()["verdict"] == "identical"


def test_a_refused_upload_is_in_the_note_and_changes_nothing(labelled):
    labelled.put("a.csv", b"id,label\n1,x\n")
    report = labelled.build()
    assert f"uploads that are not used: {DAY}/a.csv: line 2" in report["note"]
    assert labelled.version().manifest.uploads["files"] == []
    assert "uploads that are not used" in labelled.build()["note"]


def test_an_upload_that_changed_after_its_receipt_stops_the_build(labelled):
    path = labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.check()
    path.write_bytes(csv_of([(1, 1, None)]))
    with pytest.raises(ChecksumError, match="changed after receipt 1"):
        labelled.build()
    assert labelled.folder.plan_ids(DAY) == []


def test_kept_bytes_that_are_replaced_behind_their_digest_are_not_published(labelled, monkeypatch):
    """As of labels: a file of the same name with other labels, while a task reads them."""
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.check()

    def replaced(path, *others):
        new = path.with_name("new")
        new.write_bytes(csv_of([(1, 1, None)]))
        new.replace(path)
        return iter_rows(path, *others)

    monkeypatch.setattr(_applied, "iter_rows", replaced)
    with pytest.raises(ChecksumError, match="damaged"):
        labelled.build()
    assert not labelled.folder.generations(DAY)


def test_a_version_is_built_again_from_the_kept_bytes(labelled):
    path = labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.build()
    path.unlink()
    assert labelled.build()["verdict"] == "identical"
    labelled.build(rebuild="once more")
    versions = [labelled.version(generation=number) for number in (1, 2)]
    assert versions[0].manifest.content_digest == versions[1].manifest.content_digest


def test_an_upload_between_plan_and_build_belongs_to_the_next_plan(labelled):
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    planned = plan(labelled.spec, labelled.interval(), labelled.env)
    labelled.put("b.csv", csv_of([(1, 1, None)]))
    labelled.check()
    started = Build(labelled.spec, labelled.env, planned.ref)
    for stage in (ingest, preprocess, convert):
        stage(started, 0)
    check(started)
    publish(started)
    assert samples(labelled.version())[1] == (0, None)
    with pytest.raises(ConflictError, match=r"b\.csv"):
        labelled.build()


def test_labels_that_the_function_returns_are_refused(labelled):
    labelled.edit('"value": row["id"] / 2}', '"value": 0.0, "label": 1}', "preprocess.py")
    with pytest.raises(PreprocessError, match=r"without the labels.*\['label'\].*offset 0"):
        labelled.build()


@pytest.mark.parametrize("mode", ["record", "batch"])
def test_a_key_of_another_type_is_refused_at_its_record(tmp_path, mode):
    labelled = make_labelled(tmp_path, code=BATCH_CODE if mode == "batch" else CODE)
    labelled.edit("input: record", f"input: {mode}")
    if mode == "batch":
        labelled.edit('"id": pa.int64()', '"id": pa.float64()', "preprocess.py")
    labelled.edit('"id": row["id"] + n', '"id": row["id"] + (0.5 if n else 0)', "preprocess.py")
    labelled.record({0: [batch(clicks([{"id": 1}, {"id": 2, "copies": 2}]))]})
    with pytest.raises(PreprocessError, match=r"'id'.*offset 1"):
        labelled.build()


def test_a_changed_schema_reads_the_kept_uploads_again(labelled):
    labelled.put("a.csv", csv_of([(1, 100, None)]))
    labelled.build()
    labelled.edit("label: {dtype: int8}", "label: {dtype: float32}")
    labelled.build(rebuild="labels are floats")
    assert samples(labelled.version())[1] == (100, None)
    labelled.edit("label: {dtype: float32}", "label: {dtype: bool}")
    labelled.edit("label: -1", "label: false")
    with pytest.raises(FormatError, match=r"a\.csv \(receipt 1\) does not match the fields"):
        labelled.build(rebuild="labels are bools")


def test_rows_whose_keys_are_one_under_other_key_fields_are_named_with_their_upload(labelled):
    now = "key: [id], labels: [label, note], join: left, defaults: {label: -1}"
    earlier = "key: [id, label], labels: [note], join: left, defaults: {note: none}"
    labelled.edit(now, earlier)
    labelled.put("a.csv", csv_of([(1, 0, "a")]))
    labelled.put("b.csv", csv_of([(2, 0, "a"), (2, 1, "b")]))
    labelled.check()
    labelled.edit(earlier, now)
    with pytest.raises(FormatError, match=r"rows 1 and 2 of upload .*/b\.csv \(receipt 2\)"):
        labelled.build()


def test_a_dry_run_and_a_preview_show_the_labels_and_write_nothing(labelled):
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.put("b.csv", b"id,label\n1,x\n")
    before = sorted(labelled.folder.root.rglob("*"))
    run = dry_run(labelled.spec, labelled.interval(), labelled.env)
    assert f"uploads that are not used: {DAY}/b.csv" in run.note
    found = preview(labelled.spec, labelled.interval(), labelled.env, limit=5)
    assert sorted(row["label"] for row in found["first_samples"]) == [-1, -1, -1, -1, 0]
    assert sorted(labelled.folder.root.rglob("*")) == before
    labelled.check()
    assert dry_run(labelled.spec, labelled.interval(), labelled.env).verdict == "build"


def test_the_plan_of_a_set_without_uploads_has_no_key_for_them(tmp_path):
    project = make_project(tmp_path)
    project.build()
    (plan_id,) = project.folder.plan_ids("2024-03-01")
    text = json.loads(project.folder.plan("2024-03-01", plan_id).read_bytes())
    assert not {"uploads"} & {*text, *text["fingerprint_of"], *text["fingerprint_of"]["spec"]}
    assert b"uploads" not in (project.version().path / "MANIFEST.json").read_bytes()


def inner(labelled):
    labelled.edit("join: left, defaults: {label: -1}", "join: inner")
