"""The data of a training, by the name of its job: to be read again, and to be kept by a tag."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import cli
from tests.unit.pipeline.conftest import project
from trainfeed import open_dataset
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    WithdrawnError,
)
from trainfeed.training.jobs import JobSpec
from trainfeed.training.jobs.job_file import JobVersion
from trainfeed.versions.job_versions import cover_job, data_set_of_job

__all__ = ["cli", "project"]

FIRST, SECOND = "2024-03-01", "2024-03-02"


def version_of(project, interval, generation):
    found = project.version(interval, generation)
    return JobVersion(
        interval=interval,
        generation=f"g{generation:04d}",
        path=str(found.path.relative_to(project.env.root)),
        content_digest=found.manifest.content_digest,
        manifest_sha256=found.manifest_sha256,
    )


def job_of(project, *versions, **fields):
    usual = {"folder": ".", "entry": "train:run", "code": "c" * 64, "seed": 7, "ranks": 1}
    named = {"dataset": "clicks", "interval": versions[-1].interval, "versions": list(versions)}
    job = JobSpec.named(**{**usual, **named, **fields})
    home = project.folder.path / "training" / job.interval / job.name
    home.mkdir(parents=True)
    job.write(home / "job.json")
    return job.name


@pytest.fixture
def job(project):
    """A job of the first two days, of which the first has a later generation since."""
    project.prebuilt()
    project.prebuilt(SECOND)
    name = job_of(project, version_of(project, FIRST, 1), version_of(project, SECOND, 1))
    project.prebuilt(rebuild="again")
    return name


def test_the_versions_of_a_job_are_opened_and_no_later_ones(project, job):
    with open_dataset(job=job, split="train", root=project.env.root, lease=True) as found:
        assert [version.name for version in found.versions] == [
            "2024-03-01/g0001",
            f"{SECOND}/g0001",
        ]
        assert list(found.reader()()) == [
            *open_dataset(
                "clicks", interval=FIRST, generation="g0001", split="train", root=project.env.root
            ).reader()(),
            *open_dataset(
                "clicks", interval=SECOND, split="train", root=project.env.root
            ).reader()(),
        ]
    newer = open_dataset(
        "clicks", interval=f"{FIRST}/{SECOND}", split="train", root=project.env.root
    )
    assert newer.versions[0].name == "2024-03-01/g0002"


def test_the_data_set_may_be_named_and_must_be_that_of_the_job(project, job):
    root = project.env.root
    assert len(open_dataset("clicks", job=job, split="train", root=root).versions) == 2
    with pytest.raises(NotFoundError, match="a job of data set 'visits'"):
        open_dataset("visits", job=job, split="train", root=root)
    for further in ({"interval": FIRST}, {"generation": "g0001"}):
        with pytest.raises(ConfigError, match="names all of its versions itself"):
            open_dataset(job=job, split="train", root=root, **further)
    with pytest.raises(ConfigError, match="the name of a data set, or job="):
        open_dataset(split="train", root=root)


@pytest.mark.parametrize("name", ["clicks-2024-03-02-000000000000", "../clicks", "_marks", ""])
def test_an_unknown_job_is_refused(project, job, name):
    with pytest.raises(NotFoundError, match="jobs ls"):
        open_dataset(job=name, split="train", root=project.env.root)
    with pytest.raises(NotFoundError):
        data_set_of_job(Path(project.env.root), name)


def test_a_withdrawn_version_is_read_on_request_alone(cli, project, job):
    assert cli("withdraw", f"clicks/{FIRST}/g0001", "--why", "wrong labels")[0] == 0
    with pytest.raises(WithdrawnError):
        open_dataset(job=job, split="train", root=project.env.root)
    found = open_dataset(job=job, split="train", root=project.env.root, withdrawn="warn")
    assert found.versions[0].name == "2024-03-01/g0001"


def test_a_removed_version_is_told_with_how_to_keep_such_ones(project, job):
    version = project.folder.version(FIRST, 1)
    version.with_name("g0001.removed").touch()
    version.rename(version.with_name("elsewhere"))
    with pytest.raises(ConflictError, match=r"removed by retention.*trainfeed tag clicks --job"):
        open_dataset(job=job, split="train", root=project.env.root)


def test_another_manifest_than_that_of_the_job_is_refused(project, job):
    wrong = version_of(project, FIRST, 1).model_copy(update={"manifest_sha256": "0" * 64})
    other = job_of(project, wrong, version_of(project, SECOND, 1), ranks=2)
    with pytest.raises(ChecksumError, match="the manifest that job"):
        cover_job(project.folder, other)


@pytest.mark.parametrize("change", [b"{", b'{"dataset": "clicks", "versions": [{}]}'])
def test_a_damaged_job_file_is_no_data(project, job, change):
    path = next(project.folder.path.glob(f"training/*/{job}/job.json"))
    path.write_bytes(change)
    with pytest.raises(FormatError, match="the specification of a job"):
        open_dataset(job=job, split="train", root=project.env.root)


def test_the_file_of_another_job_is_no_data(project, job):
    path = next(project.folder.path.glob(f"training/*/{job}/job.json"))
    other = path.parent.with_name("other")
    other.mkdir()
    (other / "job.json").write_bytes(path.read_bytes())
    with pytest.raises(FormatError, match="home: expected 'other'"):
        cover_job(project.folder, "other")


def test_an_interval_that_was_left_out_is_told(project):
    project.prebuilt()
    name = job_of(project, version_of(project, FIRST, 1), skipped=["2024-02-29"])
    found = open_dataset(job=name, split="train", root=project.env.root)
    assert (found.missing, found.skipped) == (("2024-02-29",), ())


def test_a_tag_is_given_to_the_versions_of_a_job(cli, project, job):
    status, output, _ = cli("tag", "clicks", "--job", job, "trained", "--why", "of the model")
    assert (status, output.splitlines()[-1]) == (
        0,
        f"clicks@trained is change 1: 2 versions of {FIRST}/{SECOND}, 2 of them changed",
    )
    shown = json.loads(cli("tags", "clicks@trained", "--json")[1])
    assert shown["generations"] == {FIRST: "g0001", SECOND: "g0001"}
    read = open_dataset("clicks@trained", split="train", root=project.env.root)
    assert read.versions == open_dataset(job=job, split="train", root=project.env.root).versions
    again = cli("tag", "clicks", "trained", "--job", job, "--why", "of the model", "--verify")
    assert "names these versions already" in again[1]


def test_a_tag_of_a_job_takes_no_range_and_changes_nothing_in_a_dry_run(cli, project, job):
    for words in (("clicks", FIRST, "trained"), ("clicks/2024-03-01", "trained"), ("clicks",)):
        status, output, message = cli("tag", *words, "--job", job, "--why", "to try")
        assert (status, output) == (2, "")
        assert "expected NAME TAG beside --job" in message
    assert cli("tag", "clicks", "trained", "--job", job, "--dry-run")[0] == 0
    assert cli("tags", "clicks", "--json")[1] == "[]\n"
    assert cli("tag", "clicks", "t", "--job", "nobody", "--why", "to try")[0] == 1
