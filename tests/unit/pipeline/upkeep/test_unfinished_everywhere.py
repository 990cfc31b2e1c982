"""Unfinished files have an end everywhere: what killed writers leave is swept when it is old."""

import re
import shutil
import uuid
from pathlib import Path

import pytest

from tests.unit.cli.conftest import cli
from tests.unit.pipeline.upkeep.test_housekeeping import files, grow_old
from tests.unit.training.models.conftest import finished
from tests.unit.training.points import job_in, writer
from tests.unit.uploads.conftest import labelled
from tests.unit.uploads.labelled import csv_of
from trainfeed.core.patience import Patience
from trainfeed.errors import GateError, StorageError
from trainfeed.files import UnfinishedFile
from trainfeed.files.stores import Location, posix
from trainfeed.files.stores import mounts as _probe
from trainfeed.files.stores.folder_transfer import temporary_folder
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.pipeline.leftovers import leftovers_of_dataset, sweep
from trainfeed.training.jobs import JobRecord
from trainfeed.training.jobs.kubernetes import launcher as _job_code
from trainfeed.training.jobs.kubernetes.launcher import JobCode
from trainfeed.training.models import ModelsFolder, RemovedModel, promote, register
from trainfeed.training.tagged import tagged_training
from trainfeed.uploads import mark_announced
from trainfeed.versions import Skip, TrainingMarks, init_root, write_skip
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.skip import AcceptedHole, write_hole

__all__ = ["cli", "finished", "labelled"]

DAY = "2024-03-01"


@pytest.fixture
def left(monkeypatch):
    """Files that writers leave: each file leaves a copy when it gets its name, as a kill does."""
    copies = set()

    def leaving(real):
        def name(self, *args, **options):
            old = self._unfinished
            new = re.sub(r"[0-9a-f]{32}\.tmp$", f"{uuid.uuid4().hex}.tmp", old.name)
            copies.add(Path(shutil.copyfile(old, old.with_name(new))))
            return real(self, *args, **options)

        return name

    for name in ("claim", "replace"):
        monkeypatch.setattr(UnfinishedFile, name, leaving(getattr(UnfinishedFile, name)))
    return copies


def places_of(project, paths):
    """Return the folders of files below the root and the landing area, intervals and ids as *."""
    tops = [Path(project.env.root), Path(project.env.landing)]
    found = set()
    for path in paths:
        top = next((top for top in tops if path.is_relative_to(top)), None)
        if top is not None and path.exists():
            parts = path.parent.relative_to(top).parts
            form = r"2024-03-0\d|\d{6}|p=\d|[0-9a-f-]{36}"
            found.add("/".join("*" if re.fullmatch(form, part) else part for part in parts))
    return found


def require_swept(project, paths):
    """Check that old leftovers go, young ones stay, and nothing else is touched."""
    there = {path for path in paths if path.exists()}
    others = {path: path.read_bytes() for path in files(project) - there}
    # The files of a plan that was never published go, too.
    stay = {path for path in others if not {"spill", "_staging"} & set(path.parts)}
    assert sweep(project.env) == []
    assert all(path.exists() for path in there)
    grow_old(project)
    sweep(project.env)
    assert [path for path in there if path.exists()] == []
    assert {path: path.read_bytes() for path in stay} == {path: others[path] for path in stay}


EVERYWHERE = {
    "",
    "clicks",
    "clicks/_leases",
    "clicks/_staging/tmp",
    "clicks/boundaries/clicks/*",
    "clicks/code",
    "clicks/history/*",
    "clicks/holes",
    "clicks/lookups",
    "clicks/plans/*",
    "clicks/tags/good",
    "clicks/tags/good/requests",
    "clicks/training/_marks",
    "clicks/training/*/job",
    "clicks/training/*/job/attempts",
    "clicks/training/*/job/evaluations/abc",
    "clicks/training/*/job/evaluations/abc/attempts",
    "clicks/unpublished",
    "clicks/versions/*",
    "clicks/*/*",
    "models/_staging/tmp",
    "models/clicker/aliases/prod",
    "models/clicker/removed",
}


def test_each_file_below_the_root_and_in_landing_has_an_end(project, cli, left, finished):
    (project.env.datasets / "clicks/names.csv").write_text("a\n1\n")
    project.edit("seed: 7", "seed: 7\nlookups: {names: names.csv}")
    init_root(Path(project.env.root))
    (Path(project.env.root) / "TRAINFEED.json").unlink()
    init_root(Path(project.env.root))
    for day in (DAY, "2024-03-02"):
        project.build(day)
    project.edit("seed: 7", "seed: 7\nquality: [{check: quarantine_ratio, max: 0.01}]")
    with pytest.raises(GateError):
        project.build("2024-03-03")
    cli("status", "clicks")
    for command in (
        ("tag", "clicks", DAY, "good", "--why", "for a test"),
        ("withdraw", f"clicks/{DAY}/g0001", "--why", "for a test"),
        ("restore", f"clicks/{DAY}/g0001", "--why", "for a test"),
    ):
        assert cli(*command)[0] == 0
    folder = project.folder
    tagged_training(project.spec, folder, "good", request="run")
    hold_versions(folder, [(DAY, 1)], "test").release()
    write_skip(folder, Skip("2024-03-05", "no logs", "2024-03-08T00:00:00Z", None))
    times = "2024-03-05T00:00:00Z", "2024-03-05T06:00:00Z"
    decided = {"who": "ana", "account": "ana", "why": "moved", "at": times[0]}
    write_hole(folder, AcceptedHole("clicks", *times, **decided))
    marks = TrainingMarks(folder)
    marks.begin(DAY)
    marks.see(DAY)
    home = folder.training(DAY, "job")
    for record in (JobRecord(home), JobRecord(home / "evaluations" / "abc")):
        record.mark_created(1, "uid")
        record.write(job_in(home).spec)
    models = ModelsFolder(Path(project.env.root)).model("clicker")
    model, _ = register(models, finished())
    promote(models, "prod", model.manifest.version, "better")
    told = dict.fromkeys(("manifest_sha256", "at", "who", "account", "why"), "x")
    RemovedModel(model.manifest, **told).write(models)
    found = places_of(project, left)
    assert found >= EVERYWHERE, sorted(EVERYWHERE - found)
    require_swept(project, left)


def test_each_folder_of_a_data_set_is_swept(project):
    """Also one that a later version adds: the folders are those that the layout names."""
    project.build()
    kind = type(project.folder)
    names = [name for name in dir(kind) if isinstance(getattr(kind, name), property)]
    places = {getattr(project.folder, name) for name in names}
    # People put files there, and what is in the other one goes as a whole.
    places -= {project.folder.uploads, project.folder.trash}
    left = []
    for place in (each for each in places if not each.suffix):
        place.mkdir(parents=True, exist_ok=True)
        left.append(place / f".x.json.{uuid.uuid4().hex}.tmp")
        left[-1].write_text("{")
    assert project.folder.holes in {path.parent for path in left}
    require_swept(project, left)


def test_each_file_of_uploads_has_an_end(labelled, left):
    labelled.put("labels.csv", csv_of([(1, 0, "a")]))
    labelled.put("wrong.csv", b"x")
    labelled.check()
    mark_announced(labelled.folder, 1)
    assert places_of(labelled, left) >= {"clicks/receipts", "clicks/receipts/refused"}
    require_swept(labelled, left)


def probed(project, monkeypatch):
    monkeypatch.setattr(_probe.shutil, "rmtree", lambda *_, **__: None)
    folder = project.folder
    posix.probe(Path(project.env.root))
    posix.probe(folder.staging, into=folder.path / "versions")


def shipped(project, monkeypatch):
    folder = project.spec.folder
    code = JobCode.read(folder, digest_of_texts(training_texts(folder)))
    monkeypatch.setattr(_job_code.shutil, "rmtree", lambda *_, **__: None)
    monkeypatch.setattr(posix, "rename_directory", refuse)
    with pytest.raises(StorageError):
        code.copy_to(Path(project.env.root), "clicks")


def checkpointed(project, monkeypatch):
    monkeypatch.setattr(posix, "remove_tree", lambda _: None)
    monkeypatch.setattr(posix, "rename_directory", refuse)
    with pytest.raises(StorageError):
        job_in(project.folder.training(DAY, "job")).save(1, writer(1))


def downloaded(project, monkeypatch):
    target = Location.parse(str(ModelsFolder(Path(project.env.root)).start_models / "download"))
    monkeypatch.setattr(Location, "delete", lambda *_, **__: None)
    with temporary_folder(target, Patience()) as place:
        (place / "weights").write_atomic(lambda file: file.write(b"w"))
    monkeypatch.undo()


def refuse(*_, **__):
    raise StorageError("refused")


@pytest.mark.parametrize("leave", [probed, shipped, checkpointed, downloaded])
def test_each_folder_that_did_not_get_its_name_has_an_end(project, monkeypatch, leave):
    project.build()
    before = everything(project)
    with monkeypatch.context() as patched:
        leave(project, patched)
    left = everything(project) - before
    hidden = {path for path in left if re.search(r"\.tmp$|^\.", path.name)}
    assert any(path.is_dir() for path in hidden)
    assert sweep(project.env) == []
    assert everything(project) - before == left
    grow_old(project)
    sweep(project.env)
    assert not [path for path in hidden if path.exists()]
    assert before <= everything(project)


def everything(project):
    return {path for path in Path(project.env.root).rglob("*") if path.name != "_trash"}


def test_a_link_in_a_leftover_is_not_followed(project):
    project.build()
    staged = project.folder.staged("0123456789abcdef-g0007")
    staged.mkdir(parents=True)
    (staged / "loop").symlink_to(staged)
    (staged / "out").symlink_to(project.version().path)
    (leftover,) = leftovers_of_dataset(Location.parse(str(project.folder.path)))
    assert (leftover.place.name, leftover.size_bytes) == ("0123456789abcdef-g0007", 0)
    grow_old(project)
    sweep(project.env)
    assert not staged.exists()
    project.version().verify()
