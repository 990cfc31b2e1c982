"""Retention, leases and the sweep on a root in a bucket: nothing that is used goes."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.s3.bucket_projects import DAY, NEXT_DAY, BucketProject, make_bucket_project
from tests.unit.fault_points import points_in
from trainfeed.core import faults
from trainfeed.core.accounts import Decision
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.files.stores import Location
from trainfeed.pipeline.leftovers import sweep
from trainfeed.readers import open_dataset
from trainfeed.upkeep.retention import Context, prune, retire
from trainfeed.versions import lease as _lease
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.lease import hold_versions, leased_versions, leases
from trainfeed.versions.state_folder import follow
from trainfeed.versions.tag import apply_change, propose_tag
from trainfeed.versions.tag_files import current_tag

RULE = "seed: 7\nretention: {keep_generations: 1}"


@pytest.fixture
def project(tmp_path, folder: Location) -> BucketProject:
    """Two generations of a day, of which the rule keeps one, and the next day."""
    project = make_bucket_project(tmp_path / "project", folder / "root")
    project.build()
    project.edit('"value": row["value"]', '"value": row["value"] + 1', "preprocess.py")
    project.build(rebuild="the values are others")
    project.build(NEXT_DAY)
    project.edit("seed: 7", RULE)
    return project


@pytest.fixture
def other(project: BucketProject) -> BucketProject:
    found = project.at(project.path / "cache" / "other", is_private=True)
    follow(found.folder)
    return found


def pruned(project: BucketProject) -> list[str]:
    """Apply the rules; return the versions that went."""
    done = prune(Context.of(project.spec, project.env))
    return [each.item.name for each in done.expired if each.item.kind == "generations"]


def is_there(project: BucketProject, generation: int, day: str = DAY) -> bool:
    version = BucketVersion.at(project.bucket, "clicks", day, generation)
    try:
        assert list(version.problems()) == []
    except NotFoundError:
        assert not version.folder.exists()
        return False
    return True


# --- retention


def test_a_superseded_generation_goes_from_bucket_and_folder(project, other) -> None:
    before = project.version(generation=1).manifest.file_digests()
    done = prune(Context.of(project.spec, project.env))
    (gone,) = [each for each in done.expired if each.item.kind == "generations"]
    assert gone.item.num_bytes == sum(size for size, _ in before.values())
    assert [is_there(project, number) for number in (1, 2)] == [False, True]
    project.require_followed()
    follow(other.folder)
    assert other.folder.generations(DAY) == [2]
    assert not other.folder.has_folder(DAY, 1)
    assert pruned(project) == []


def test_a_tag_of_another_account_keeps_a_generation(project, other) -> None:
    apply_change(
        other.folder, propose_tag(other.folder, f"{DAY}/g0001", "prod", Decision.now("to see"))
    )
    assert pruned(project) == []
    assert is_there(project, 1)


def test_a_tag_that_comes_between_mark_and_second_look_keeps_it(
    project, other, monkeypatch
) -> None:
    """It was made before the mark counted: in the one order of the log."""
    change = propose_tag(other.folder, f"{DAY}/g0001", "prod", Decision.now("to see"))

    def meanwhile(point: str) -> None:
        if point == "decide.begun":
            monkeypatch.setattr(faults, "point", lambda _: None)
            apply_change(other.folder, change)

    context = Context.of(project.spec, project.env)
    monkeypatch.setattr(faults, "point", meanwhile)
    done = prune(context)
    assert [each.item.name for each in done.kept] == [f"{DAY}/g0001"]
    assert is_there(project, 1)
    assert not project.folder.is_removed(DAY, 1)
    project.require_followed()


def test_a_tag_behind_the_mark_and_the_removal_see_each_other(project, other, monkeypatch) -> None:
    change = propose_tag(other.folder, f"{DAY}/g0001", "prod", Decision.now("to see"))
    said: list[str] = []

    def meanwhile(point: str) -> None:
        if point == "prune.after_mark":
            with pytest.raises(ConflictError) as told:
                apply_change(other.folder, change)
            said.append(str(told.value))

    monkeypatch.setattr(faults, "point", meanwhile)
    assert pruned(project) == []
    assert "removed by retention" in said[0]
    assert is_there(project, 1)
    assert current_tag(project.folder, "prod").number == 1
    project.require_followed()


@pytest.mark.parametrize(
    "point", ["prune.after_mark", "discard.after_rename", "prune.before_objects", "log.after_entry"]
)
def test_a_killed_removal_is_completed(project, other, point) -> None:
    killed = project.command("prune", "clicks", fault=f"{point}:kill", status=None)
    assert killed.returncode == -signal.SIGKILL
    project.command("prune", "clicks")
    swept(project)
    assert [is_there(project, number) for number in (1, 2)] == [False, True]
    follow(other.folder)
    assert other.folder.generations(DAY) == [2]
    project.require_followed()


def test_a_retired_interval_goes_everywhere(project, other) -> None:
    retire(Context.of(project.spec, project.env), DAY, "not wanted any more")
    assert [is_there(project, number) for number in (1, 2)] == [False, False]
    assert is_there(project, 1, NEXT_DAY)
    follow(other.folder)
    assert other.folder.generations(DAY) == []
    project.require_followed()


# --- leases


def test_a_reader_from_afar_keeps_its_version_until_it_closes(project, monkeypatch) -> None:
    monkeypatch.setenv("TRAINFEED_CACHE", str(project.path / "cache"))
    options = {"interval": DAY, "generation": "g0001", "split": "train"}
    reader = open_dataset("clicks", root=project.bucket.uri, lease=True, **options)
    (found,) = leases(project.folder)
    assert found.lease.versions == ((DAY, 1),)
    assert pruned(project) == []
    reader.lease.renew()
    (renewed,) = leases(project.folder)
    assert renewed.path == found.path
    assert renewed.renewed >= found.renewed
    samples = len(list(reader.reader()()))
    assert samples == reader.num_samples
    reader.close()
    assert leases(project.folder) == []
    assert pruned(project) == [f"{DAY}/g0001"]
    with pytest.raises(NotFoundError, match="removed by retention"):
        hold_versions(project.folder, [(DAY, 1)], "too late")
    assert leases(project.folder) == []


def test_of_a_lease_and_a_removal_that_meet_one_gives_way(project, monkeypatch) -> None:
    """The lease comes between the mark and the second look: the removal is taken back."""

    def meanwhile(point: str) -> None:
        if point == "prune.after_mark":
            monkeypatch.setattr(faults, "point", lambda _: None)
            with pytest.raises(NotFoundError, match="removed by retention"):
                hold_versions(project.folder, [(DAY, 1)], "to read")

    monkeypatch.setattr(faults, "point", meanwhile)
    assert pruned(project) == [f"{DAY}/g0001"]
    assert not is_there(project, 1)


def test_a_lease_before_the_mark_takes_the_removal_back(project, monkeypatch) -> None:
    held = []

    def meanwhile(point: str) -> None:
        if point == "decide.begun":
            monkeypatch.setattr(faults, "point", lambda _: None)
            held.append(hold_versions(project.folder, [(DAY, 1)], "to read"))

    context = Context.of(project.spec, project.env)
    monkeypatch.setattr(faults, "point", meanwhile)
    assert prune(context).expired == ()
    assert is_there(project, 1)
    project.require_followed()
    held[0].release()


def test_a_lease_of_a_killed_reader_ends_by_the_time_of_the_store(project, monkeypatch) -> None:
    held = hold_versions(project.folder, [(DAY, 1)], "to read", length=timedelta(minutes=1))
    now = datetime.now(UTC)
    assert (DAY, 1) in leased_versions(project.folder, now)
    later = now + timedelta(minutes=12)
    assert (DAY, 1) not in leased_versions(project.folder, later)
    (swept,) = _lease.remove_ended(project.folder, later)
    assert swept.lease.what == "to read"
    assert leases(project.folder) == []
    # The holder was only slow: it takes the lease again.
    held.renew()
    assert len(leases(project.folder)) == 1
    held.release()


# --- what belongs to no version


def left_by_a_killed_build(project: BucketProject) -> BucketVersion:
    """Files of a third generation that no manifest names."""
    words = ("build", "clicks", "--interval", DAY, "--rebuild", "again")
    killed = project.command(*words, fault="bucket.before_manifest:kill", status=None)
    assert killed.returncode == -signal.SIGKILL
    return BucketVersion.at(project.bucket, "clicks", DAY, 3)


def swept(project: BucketProject) -> list[str]:
    """Sweep as if everything were old."""
    return [each.place for each in sweep(project.env, older_than=timedelta(seconds=-60))]


def test_files_of_a_build_that_may_go_on_stay(project) -> None:
    version = left_by_a_killed_build(project)
    assert version.folder.uri not in swept(project)
    project.build(rebuild="again")
    assert is_there(project, 3)


def test_files_that_no_plan_names_go_and_their_number_is_given_up(project, other) -> None:
    version = left_by_a_killed_build(project)
    for plan in project.folder.plans(DAY).glob("*-g0003.json"):
        plan.unlink()
    assert [each.place for each in sweep(project.env, dry_run=True)] == []  # they are young
    assert version.folder.uri in swept(project)
    assert not version.folder.exists()
    project.require_followed()
    follow(other.folder)
    assert other.folder.is_removed(DAY, 3)
    assert project.build(rebuild="again")["generation"] == "g0004"
    assert is_there(project, 4)


@pytest.mark.parametrize("point", ["sweep.after_mark", "log.after_entry"])
def test_a_killed_sweep_is_completed(project, point, monkeypatch) -> None:
    version = left_by_a_killed_build(project)
    for plan in project.folder.plans(DAY).glob("*-g0003.json"):
        plan.unlink()

    class StopError(Exception):
        pass

    def stop(name: str) -> None:
        if name == point:
            raise StopError

    with monkeypatch.context() as patched:
        patched.setattr(faults, "point", stop)
        with pytest.raises(StopError):
            swept(project)
    assert version.folder.exists()
    assert version.folder.uri in swept(project)
    assert not version.folder.exists()
    project.require_followed()


def test_every_point_of_the_sweep_is_stopped_at() -> None:
    assert points_in("versions/bucket_sweep.py") == {"sweep.after_mark"}


def test_what_a_loser_has_sent_goes_and_the_version_stays(project) -> None:
    version = BucketVersion.at(project.bucket, "clicks", DAY, 2)
    strange = version.file("train-00000.recordio", "0" * 64)
    strange.write_atomic(lambda file: file.write(b"of another content"))
    assert (version.folder / "+files").uri in swept(project)
    assert not strange.exists()
    assert is_there(project, 2)


def test_a_version_is_never_swept(project) -> None:
    swept(project)
    assert [is_there(project, number) for number in (1, 2)] == [True, True]


# --- repair


def damaged(project: BucketProject, number: int = 2) -> tuple[BucketVersion, str, Location]:
    """A shard whose object has other bytes."""
    version = BucketVersion.at(project.bucket, "clicks", DAY, number)
    shard = version.read()[0].splits["train"].shards[0]
    place = version.file(shard.name, shard.sha256)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_atomic(lambda file: file.write(data))
    return version, shard.name, place


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_damaged_object_becomes_what_it_was(project, is_gone) -> None:
    version, name, place = damaged(project)
    if is_gone:
        place.delete()
    with pytest.raises((FormatError, NotFoundError)):
        project.version().verify()
    dry = project.command("repair", f"clicks/{DAY}/g0002", "--dry-run", status=3)
    assert name in dry.stdout
    assert len(list(version.problems())) == 1
    project.command("repair", f"clicks/{DAY}/g0002")
    assert is_there(project, 2)
    project.version().verify()
    project.require_followed()
    assert not (project.version().path / name).exists()
    project.command("repair", f"clicks/{DAY}/g0002")


def test_an_intact_object_is_not_written_by_a_repair(project) -> None:
    version, name, _ = damaged(project)
    times = {
        other: version.file(other, digest).stat().modified_ms
        for other, (_, digest) in version.read()[0].file_digests().items()
        if other != name
    }
    project.command("repair", f"clicks/{DAY}/g0002")
    for other, modified_ms in times.items():
        digest = version.read()[0].file_digests()[other][1]
        assert version.file(other, digest).stat().modified_ms == modified_ms


@pytest.mark.parametrize("point", ["repair.after_bringing", "repair.after_sending"])
def test_a_killed_repair_is_tried_again(project, point) -> None:
    _, name, _ = damaged(project)
    words = ("repair", f"clicks/{DAY}/g0002")
    killed = project.command(*words, fault=f"{point}:kill", status=None)
    assert killed.returncode == -signal.SIGKILL
    project.command(*words)
    assert is_there(project, 2)
    assert not (project.version().path / name).exists()


def test_a_manifest_that_was_overwritten_comes_back(project) -> None:
    version = BucketVersion.at(project.bucket, "clicks", DAY, 2)
    place = version.folder / "MANIFEST.json"
    data = place.read_bytes()
    place.write_atomic(lambda file: file.write(data.replace(b"clicks", b"clocks")))
    with pytest.raises(FormatError):
        version.read()
    project.command("repair", f"clicks/{DAY}/g0002")
    assert is_there(project, 2)
    assert version.built()["host"]
