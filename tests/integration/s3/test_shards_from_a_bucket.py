"""What reads shards as files in a folder reads them from a real bucket, to the same results."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.s3.bucket_projects import (
    DAY,
    BucketProject,
    make_bucket_root,
    move_into_bucket,
)
from tests.unit.conversion.conftest import contents
from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from tests.unit.serving.dispatch.masters import Place, known
from trainfeed.conversion import (
    ConversionRequest,
    FileFormat,
    Roots,
    convert_files,
    gather_shards,
    plan_conversion,
    publish_conversion,
    scatter_files,
)
from trainfeed.errors import LoaderError, NotFoundError
from trainfeed.files.stores import Location
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.state_folder import follow_root, make_state

TRAINER = """
import signal, sys
from pathlib import Path
from trainfeed.readers import dispatched
from trainfeed.serving.server import Access

url, root, token = sys.argv[1:]
samples = dispatched(url, root=root, access=Access(token_file=Path(token)), tasks_per_lease=3)()
next(samples)
print("reads", flush=True)
signal.pause()
"""


@pytest.fixture(params=["recordio", "tfrecord"])
def local(request, tmp_path):
    """Two generations in a folder, in shards of several chunks; the second has other labels."""
    project = make_project(tmp_path / "local")
    project.edit("output: {codec: zstd,", f"output: {{format: {request.param}, codec: none,")
    project.edit("samples_per_shard: 50", "samples_per_shard: 50, chunk_bytes: 100")
    project.build()
    project.edit('"label": n}', '"label": n + (row["value"] == 12)}', "preprocess.py")
    project.edit("train: 0.8, eval: 0.2", "train: 0.5, eval: 0.5")
    project.build(rebuild="other labels")
    return project


@pytest.fixture
def project(local, folder: Location, tmp_path, monkeypatch) -> BucketProject:
    """The same in a bucket, with a folder that follows it."""
    monkeypatch.setenv("TRAINFEED_CACHE", str(tmp_path / "cache"))
    state = tmp_path / "state"
    shutil.copytree(local.env.root, state, symlinks=True)
    move_into_bucket(state, folder / "root")
    env = replace(local.env, root=str(state), bucket=(folder / "root").uri)
    return BucketProject(tmp_path, env, folder / "root")


def difference(project: BucketProject, *sides: str) -> dict[str, Any]:
    value = json.loads(project.command("diff", *sides, "--json", status=3).stdout)
    return {name: value[name] for name in ("differs", "records", "sections")}


def test_a_difference_is_that_of_the_folder_with_both_or_one_in_the_bucket(
    project: BucketProject, local: Project
) -> None:
    mine, theirs = (
        [str(each.version(generation=number).path) for number in (1, 2)]
        for each in (local, project)
    )
    expected = difference(project, *mine)
    assert expected["records"]["counts"]["changed"] > 0
    for sides in itertools.product(*zip(mine, theirs, strict=True)):
        assert difference(project, *sides) == expected
    # By name; a private copy has no plans, and gets the positions when it is asked.
    assert difference(project, "clicks", f"{DAY}/g0001", f"{DAY}/g0002") == expected
    private = replace(project, env=replace(project.env, is_root_private=True))
    found = difference(private, "clicks", f"{DAY}/g0001", f"{DAY}/g0002")
    assert found["records"]["counts"] == expected["records"]["counts"]


def converted(roots: Roots, folder: Path, output: Path) -> dict[str, bytes]:
    """The files that the steps of the DAG make of a version."""
    wanted = ConversionRequest(
        str(folder), str(output), 4, "p", 3, FileFormat.RECORDIO, "zstd", "run"
    )
    plan = plan_conversion(wanted, roots, max_units=3)
    for step in (scatter_files, gather_shards):
        for unit in range(plan["units"]):
            step(roots, plan["plan"], unit)
    publish_conversion(roots, plan["plan"])
    return contents(output)


def test_a_version_and_its_mirror_in_a_bucket_are_converted_to_equal_files(
    project: BucketProject, local: Project, folder: Location, tmp_path
) -> None:
    bucket, state = folder / "mirror", tmp_path / "follows"
    make_bucket_root(bucket)
    project.command("mirror", local.env.root, bucket.uri)
    make_state(state, bucket, is_private=False)
    follow_root(state)
    mirrored = state / "clicks" / "versions" / DAY / "g0001"
    assert not list(mirrored.glob("clicks-*"))
    mine = local.version(generation=1).path
    for below, file_format in itertools.product(("", "/clicks-train-*"), FileFormat):
        made = [tmp_path / f"{place}-{file_format}{len(below)}" for place in ("mine", "theirs")]
        for source, output in zip((mine, mirrored), made, strict=True):
            words = (f"{source}{below}", str(output), "--shards", "3", "--prefix", "q")
            project.command("file", "reshard", *words, "--to", str(file_format))
        assert contents(made[0]) == contents(made[1])
    roots = Roots((state, Path(local.env.root)), (tmp_path / "out",), tmp_path / "work")
    assert converted(roots, mirrored, tmp_path / "out" / "a") == converted(
        roots, mine, tmp_path / "out" / "b"
    )


def test_a_version_whose_shards_are_gone_is_not_converted(project: BucketProject, tmp_path) -> None:
    BucketVersion.at(project.bucket, "clicks", DAY, 2).delete()
    with pytest.raises(NotFoundError, match="s3://"):
        convert_files(project.version().path, tmp_path / "out", 2, "q")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("is_named", [False, True])
def test_a_pass_over_a_bucket_gives_every_sample_once_though_a_trainer_is_killed(
    project: BucketProject, local: Project, tmp_path, socket_enabled, is_named
) -> None:
    (tmp_path / "master").mkdir()
    root = project.bucket.uri if is_named else project.env.root
    rules = {"lease_seconds": 1.0}
    place = Place(Path(project.env.root), tmp_path / "master", rules=rules, root_of_trainers=root)
    expected = replace(place, root=local.env.root).expected()
    with place.master():
        words = [sys.executable, "-c", TRAINER, place.url, root, str(place.token_file)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as killed:
            assert killed.stdout is not None
            assert killed.stdout.readline() == "reads\n"
            killed.kill()
        reader = place.reader()
        assert sorted(map(known, reader())) == expected
    report = reader.report
    assert (report.timeouts, report.leases) == (3, report.tasks + 3)


def test_a_trainer_stops_where_the_version_was_removed(
    project: BucketProject, tmp_path, socket_enabled
) -> None:
    (tmp_path / "master").mkdir()
    place = Place(Path(project.env.root), tmp_path / "master")
    with place.master():
        BucketVersion.at(project.bucket, "clicks", DAY, 2).delete()
        with pytest.raises(LoaderError, match="3 tasks one after another could not be read here"):
            list(place.reader(tasks_per_lease=1)())
