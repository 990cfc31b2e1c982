"""A finished job becomes a version of its model: whole or not at all, and once."""

import pytest

from tests.unit.fault_points import points_in
from tests.unit.forks import in_a_fork
from trainfeed.core import faults
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
)
from trainfeed.training.models import (
    PROD,
    Model,
    ModelsFolder,
    current,
    find,
    history,
    promote,
    register,
)

POINTS = (
    "model.after_stage",
    "staging.before_rename",
    "model.after_files",
    "model.after_manifest",
    "model.before_rename",
    "model.after_rename",
)
ALIAS_POINTS = ("alias.before_change", "alias.after_change")


def killed_at(monkeypatch, point, act):
    monkeypatch.setenv(faults.VARIABLE, f"{point}:kill")
    faults._plan.cache_clear()
    try:
        assert in_a_fork(act) == -9
    finally:
        monkeypatch.delenv(faults.VARIABLE)
        faults._plan.cache_clear()


def test_a_version_has_the_files_of_the_job_and_says_what_made_it(folder, finished):
    model, is_new = register(folder, finished())
    assert (model.name, is_new) == ("clicks/v0001", True)
    model.verify()
    assert (model.path / "layers/0/w.bin").read_bytes() == b"\0" * 1000
    manifest = Model.open(folder, 1).manifest
    assert (manifest.metrics, manifest.job.code) == ({"auc": 0.7}, "c" * 64)
    assert [each.fingerprint for each in manifest.data] == ["f" * 64]
    assert {f"{path.stat().st_mode & 0o777:o}" for path in model.path.rglob("*.*")} == {"444"}
    assert list(folder.staging.iterdir()) == [folder.staging / "tmp"]


def test_a_job_is_made_a_version_of_once_and_another_job_gets_the_next_number(folder, finished):
    first, _ = register(folder, finished(1))
    again, is_new = register(folder, finished(1))
    assert (again, is_new) == (first, False)
    assert register(folder, finished(2))[0].name == "clicks/v0002"
    assert find(folder, finished(2).job.identity).name == "clicks/v0002"
    assert find(folder, "9" * 64) is None


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_there_is_no_version_or_a_whole_one_and_the_next_try_ends_with_one(
    folder, finished, monkeypatch, point
):
    candidate = finished()
    killed_at(monkeypatch, point, lambda: register(folder, candidate))
    for number in folder.versions():
        Model.open(folder, number).verify()
    assert folder.versions() == ([1] if point == "model.after_rename" else [])
    model, _ = register(folder, candidate)
    model.verify()
    assert folder.versions() == [1]


@pytest.mark.parametrize("point", ALIAS_POINTS)
def test_after_a_kill_an_alias_leads_where_it_did_or_where_it_should_and_changes_once(
    folder, finished, monkeypatch, point
):
    register(folder, finished(1))
    register(folder, finished(2))
    promote(folder, PROD, 1, "first", request="job 1")
    killed_at(monkeypatch, point, lambda: promote(folder, PROD, 2, "better", request="job 2"))
    assert current(folder, PROD).name in {"clicks/v0001", "clicks/v0002"}
    promote(folder, PROD, 2, "better", request="job 2")
    assert [each.version for each in history(folder, PROD)] == ["v0001", "v0002"]


def test_every_point_of_the_room_is_killed_at():
    assert points_in("training/models", "versions/publication.py") == {*POINTS, *ALIAS_POINTS}


def test_a_file_that_the_result_does_not_list_so_is_not_promoted(folder, finished):
    candidate = finished()
    (candidate.output / "model.npz").write_bytes(b"other")
    with pytest.raises(ChecksumError, match=r"as the job's result says.*no version was made"):
        register(folder, candidate)
    assert folder.versions() == []


@pytest.mark.parametrize("name", ["MANIFEST.json", "a" * 201, "x\ny"])
def test_a_file_that_no_model_may_have_is_refused(folder, finished, name):
    with pytest.raises(ConfigError, match="no version was made"):
        register(folder, finished(files={name: b""} if len(name) < 200 else {}))


def test_a_job_that_left_no_file_makes_no_model(folder, finished):
    with pytest.raises(ConfigError, match=r"to leave a model in .*found no file"):
        register(folder, finished(files={}))


def test_a_link_in_the_output_is_not_followed(folder, finished, tmp_path):
    candidate = finished()
    (tmp_path / "secret").write_bytes(b"weights")
    (candidate.output / "model.npz").unlink()
    (candidate.output / "model.npz").symlink_to(tmp_path / "secret")
    with pytest.raises((FormatError, NotFoundError)):
        register(folder, candidate)
    assert folder.versions() == []


def test_a_folder_in_the_place_of_the_next_version_is_a_conflict(folder, finished, monkeypatch):
    (folder.path / "v0001").mkdir(parents=True)
    (folder.path / "v0001" / "x").touch()
    assert register(folder, finished())[0].name == "clicks/v0002"
    monkeypatch.setattr("trainfeed.training.models.model.ModelFolder.next_number", lambda _: 1)
    with pytest.raises(ConflictError, match="no version was made"):
        register(folder, finished(2))


def damage(model, name="MANIFEST.json"):
    path = model.path / name
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("name", ["MANIFEST.json", "MANIFEST.sha256", "both"])
def test_a_damaged_manifest_of_one_version_is_named_and_stops_no_other_job(
    folder, finished, caplog, name
):
    register(folder, finished(1))
    model, _ = register(folder, finished(2))
    if name == "both":
        model.path.rename(model.path.with_name("away"))
        model.path.mkdir()
    else:
        damage(model, name)
    made, is_new = register(folder, finished(3))
    assert (made.name, is_new) == ("clicks/v0003", True)
    assert "clicks/v0002 is passed over, its manifest is damaged" in caplog.text
    # Versions that can be read are still found, so their jobs make no second one.
    for number in (1, 3):
        assert register(folder, finished(number))[1] is False


def test_a_version_that_the_file_system_does_not_show_is_not_passed_over(
    folder, finished, monkeypatch
):
    register(folder, finished(1))

    def fail(*_):
        raise StorageError("the file system is away")

    monkeypatch.setattr(Model, "read", fail)
    with pytest.raises(StorageError, match="is away"):
        register(folder, finished(2))
    assert folder.versions() == [1]


def test_a_model_in_the_place_of_another_is_not_read(folder, finished):
    register(folder, finished())
    folder.path.rename(folder.path.with_name("other"))
    with pytest.raises(FormatError, match="expected model other/v0001, the manifest says clicks"):
        Model.open(ModelsFolder(folder.models.parent).known("other"), 1)


def test_a_changed_byte_of_a_file_or_manifest_is_found(folder, finished):
    model, _ = register(folder, finished())
    path = model.path / "model.npz"
    path.chmod(0o644)
    path.write_bytes(b"weightz")
    with pytest.raises(ChecksumError, match=r"model.npz"):
        promote(folder, PROD, 1, "why")
    assert history(folder, PROD) == []
    (model.path / "MANIFEST.json").chmod(0o644)
    (model.path / "MANIFEST.json").write_bytes(b"{}")
    with pytest.raises(ChecksumError, match=r"MANIFEST.json"):
        Model.open(folder, 1)
