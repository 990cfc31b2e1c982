"""A dry run says what a build then does, and leaves every place as it was."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import batch, day
from trainfeed.errors import ConflictError, QuotaExceededError, WindowOpenError
from trainfeed.pipeline.preview import describe, dry_run


def tree(path):
    """Every file and folder below ``path``: name, bytes, time of change."""
    return {
        str(place): (place.stat().st_size, place.stat().st_mtime_ns)
        for place in sorted(path.rglob("*"))
    }


def dry(project, name="2024-03-01", **request):
    return dry_run(project.spec, project.interval(name), project.env, **request)


def test_it_names_what_a_build_then_reads_and_publishes(project):
    said = dry(project)
    done = project.build()
    sizes = [part.end - part.start for part in said.reads]
    assert sizes == [60, 61, 62]
    assert sum(sizes) == done["source_reads"]
    assert (said.verdict, said.generation) == ("build", done["generation"])
    assert sum(said.shards.values()) == done["shards"]
    assert said.publishes.path == str(project.version().path)


@pytest.mark.parametrize("built", [False, True], ids=["before the first build", "afterwards"])
def test_nothing_is_written_anywhere(project, built):
    if built:
        project.build()
    before = tree(project.path)
    dry(project)
    dry(project, "2024-03-02")
    dry(project, rebuild="other label")
    assert tree(project.path) == before


def test_a_published_interval_would_be_found_identical(project):
    project.build()
    said = dry(project)
    assert said.verdict == "identical"
    (line,) = describe(said)
    assert line == (
        "dry run of clicks/2024-03-01: g0001 is published from the same inputs; a build would find"
        " it identical, read nothing and publish nothing"
    )
    # Inputs that were not compared are not said to be the same.
    (line,) = describe(replace(said, note="its source was not compared"))
    assert "the same inputs" not in line
    assert line.endswith("; its source was not compared")


def test_a_rebuild_reads_what_has_landed(project):
    project.build()
    said = dry(project, rebuild="other label")
    assert (said.generation, said.publishes.supersedes["generation"]) == ("g0002", 1)
    assert all(part.landed_pieces == part.pieces == 1 for part in said.reads)
    landed = [path.stat().st_size for path in Path(project.env.landing).rglob("*.arrow")]
    assert sum(part.bytes for part in said.reads) == sum(landed)


def test_sizes_are_estimated_from_the_newest_version(project):
    assert dry(project).publishes.bytes is None
    built = project.build()
    said = dry(project, "2024-03-02")
    assert said.publishes.estimated_from == "2024-03-01/g0001"
    assert said.publishes.bytes == round(built["bytes"] * 123 / 183)
    assert said.read_bytes == said.space[0].needed_bytes > 0
    assert all(place.free_bytes > 0 for place in said.space)


def test_a_version_that_is_much_smaller_is_nothing_to_go_by(project):
    project.record({0: [batch(day(0, 1) + day(1, 40))]})
    project.build()
    said = dry(project, "2024-03-02")
    assert (said.publishes.bytes, said.read_bytes) == (None, None)
    assert "size unknown" in "\n".join(describe(said))


def test_a_damaged_version_is_no_reason_to_estimate_nothing(project):
    project.build()
    project.build("2024-03-02")
    manifest = project.version("2024-03-02").path / "MANIFEST.json"
    manifest.chmod(0o644)
    manifest.write_bytes(b"{}")
    assert dry(project, "2024-03-03").publishes.estimated_from == "2024-03-01/g0001"


def test_it_ends_with_the_error_that_a_build_would_end_with(project):
    project.build()
    project.edit("seed: 7", "seed: 8")
    with pytest.raises(ConflictError, match="published from other inputs"):
        dry(project)


def test_an_interval_that_has_not_ended_cannot_be_planned(project):
    project.edit("end: 2024-03-31\n", "")
    with pytest.raises(WindowOpenError, match="2999-01-01"):
        dry(project, "2999-01-01")


def test_the_lines_for_people_name_sources_tasks_version_and_space(project):
    project.build()
    text = "\n".join(describe(dry(project, "2024-03-02")))
    assert "would read     kafka:clicks/0 [60, 100): 40 offsets" in text
    assert "would read     3 sources in all, 123 offsets, about " in text
    assert "tasks: 1 ingest, 1 preprocess, 1 convert; shards: eval 1, train 2" in text
    assert "would publish  clicks/2024-03-02/g0001: about " in text
    assert f"space          root {project.env.root}: needs about " in text


def test_the_lines_for_people_count_one_thing_as_one(project):
    report = dry(project)
    file = replace(report.reads[0], start=0, end=9, unit="bytes", pieces=1)
    one = replace(report, lands=False, reads=[file], sources=1, offsets=1)
    text = "\n".join(describe(one))
    assert "9 B in 1 piece\n" in text
    assert "would read     1 source in all, 1 offset" in text


def test_what_it_returns_is_small_json(project):
    assert len(json.dumps(dry(project).to_json())) < 4000


@pytest.fixture
def full(monkeypatch):
    """All file systems have 10 bytes left."""
    monkeypatch.setattr("trainfeed.files.stores.Location.free_bytes", lambda _: 10)


def test_a_build_that_cannot_fit_is_refused_before_it_reads(project, full):
    project.build()
    before = tree(Path(project.env.landing))
    with pytest.raises(QuotaExceededError, match=r"\(landing\).*got 10 bytes free; nothing was"):
        project.build("2024-03-02")
    assert tree(Path(project.env.landing)) == before


def test_a_dry_run_says_that_it_would_not_fit(project, full):
    project.build()
    assert describe(dry(project, "2024-03-02"))[-1].endswith("10 B free: too little")


def test_the_first_version_is_built_without_an_estimate(project, full):
    assert project.build()["verdict"] == "built"
