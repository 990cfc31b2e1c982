"""A fault at every call to a store, and a kill at every point: absent or complete, nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.fault_points import points_in
from tests.unit.files.stores.folders.conftest import FILES, contents, put
from tests.unit.files.stores.folders.faulty import (
    ACTIONS,
    Faults,
    FaultyFileSystem,
    KilledHereError,
)
from tests.unit.forks import in_a_fork
from trainfeed.core import faults, process_ties
from trainfeed.core.patience import Patience
from trainfeed.errors import AccessDeniedError, CommitUnknownError, StorageError, TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.files.stores import folder_transfer as _temporary_folder
from trainfeed.files.stores import folder_transfer as transfer
from trainfeed.files.stores import location as _store_clock
from trainfeed.files.stores.folder_manifest import TRANSFER_MANIFEST
from trainfeed.files.stores.folder_transfer import (
    TransferReport,
    download,
    require_writable,
    upload,
)
from trainfeed.files.stores.local import LocalFileSystem

POINTS = (
    "transfer.after_temporary",
    "transfer.after_file",
    "transfer.after_files",
    "transfer.after_manifest",
    "transfer.before_rename",
    "transfer.after_rename",
)
# Fewer than the calls of a transfer, and more than a fault may repeat.
PATIENCE = Patience(calls=3, pause=lambda _: None)

Run = Callable[[Faults], TransferReport]


@pytest.fixture(params=["upload", "download from", "download to"])
def run(request: pytest.FixtureRequest, model: Path, store: Path) -> Run:
    """A transfer of the model to ``store/v1`` with a faulty file system on one side."""

    def transferred(account: Faults) -> TransferReport:
        faulty = FaultyFileSystem(account)
        target = Location(faulty, str(store / "v1")).renaming("a test")
        if request.param == "upload":
            return upload(model, target, patience=PATIENCE)
        source = store.parent / "published"
        if not source.exists():
            upload(model, Location.parse(str(source)))
        if request.param == "download from":
            return download(Location(faulty, str(source)), store / "v1", patience=PATIENCE)
        place = Location.parse(str(source))
        renaming = target.renaming("a test")
        return transfer._downloaded(place, renaming, lambda _: renaming, PATIENCE)

    return transferred


def is_temporary(name: str) -> bool:
    top = name.partition("/")[0]
    return top.startswith(".v1.") and top.endswith((".transfer", ".removed"))


def published(store: Path) -> dict[str, bytes | None]:
    """Everything in the store but the temporary folders."""
    return {name: data for name, data in contents(store).items() if not is_temporary(name)}


def wanted(model: Path, before: dict[str, bytes | None]) -> dict[str, bytes | None]:
    files = {f"v1/{name}": data for name, data in contents(model).items()}
    return {**before, "v1": None, **files}


def left_over(store: Path) -> list[str]:
    return [path.name for path in store.iterdir() if is_temporary(path.name)]


def starts_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be another one than before: its number stays, its start is another."""
    monkeypatch.setattr(process_ties, "start_ticks", lambda _: number)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_fault_at_any_call_leaves_the_folder_absent_or_complete(
    run: Run, action: str, model: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thousand transfers: what a crash of the machine leaves is not asked here.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    before = published(store)
    counted = Faults()
    starts_at(1, monkeypatch)
    run(counted)
    complete = {
        name: data for name, data in published(store).items() if name != f"v1/{TRANSFER_MANIFEST}"
    }
    assert complete == wanted(model, before)
    assert len(counted.calls) > 10
    for number in range(len(counted.calls)):
        Location.parse(str(store / "v1")).delete(recursive=True)
        starts_at(2 * number + 2, monkeypatch)
        place = f"{action} at call {number}, {counted.calls[number]}"
        ended = ended_with(run, Faults(number, action))
        found = published(store)
        found.pop(f"v1/{TRANSFER_MANIFEST}", None)
        # A report is the promise that the folder is there; an error that is no question, that the
        # call did not make one that is half.
        assert found in ([complete] if ended is None else [before, complete]), place
        if isinstance(ended, TrainFeedError) and not isinstance(ended, CommitUnknownError):
            assert action in {"refused", "outage", "denied", "full"}, (place, ended)
        if action == "refused" and counted.calls[number] != "delete":
            assert left_over(store) == [], place
        if ended is None:
            assert not left_over(store) or action in {"outage", "denied", "full"}, place
        starts_at(2 * number + 3, monkeypatch)
        assert run(Faults()).verdict == ("adopted" if found == complete else "copied"), place
        assert published(store).keys() - {f"v1/{TRANSFER_MANIFEST}"} == complete.keys(), place
        assert left_over(store) == [], place


def ended_with(run: Run, account: Faults) -> BaseException | None:
    try:
        run(account)
    except (KilledHereError, TrainFeedError) as error:
        return error
    return None


@pytest.mark.parametrize("point", POINTS)
def test_after_a_real_kill_the_next_transfer_completes_and_cleans(
    point: str, model: Path, store: Path, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(store)
    monkeypatch.setenv(faults.VARIABLE, f"{point}:kill")
    faults._plan.cache_clear()
    try:
        assert in_a_fork(lambda: upload(model, place)) == -9
    finally:
        monkeypatch.delenv(faults.VARIABLE)
        faults._plan.cache_clear()
    is_named = point == "transfer.after_rename"
    assert ("v1" in published(store)) == is_named
    assert len(left_over(store)) == (0 if is_named else 1)
    report = upload(model, place)
    assert (report.verdict, report.leftovers) == ("adopted" if is_named else "copied", ())
    assert left_over(store) == []
    now = {n: d for n, d in published(store).items() if n != f"v1/{TRANSFER_MANIFEST}"}
    assert now == wanted(model, before)


def test_every_point_of_a_transfer_is_killed_at() -> None:
    assert points_in("files/stores") == set(POINTS)


def test_a_transfer_that_still_runs_keeps_its_temporary_folder(
    model: Path, store: Path, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = os.getpid()
    mark = f"{process_ties._machine()}-{pid}-{process_ties.start_ticks(pid)}"
    alive = f".v1.{mark}-{'0' * 12}.transfer"
    elsewhere = f".v1.{'e' * 12}-1-1-{'0' * 12}.transfer"
    for name in (alive, elsewhere):
        put(store / name, {"sub/file": b"live"})
    report = upload(model, place)
    assert sorted(report.leftovers) == sorted(left_over(store)) == sorted([alive, elsewhere])


def test_a_temporary_folder_of_another_machine_goes_after_three_days_without_a_change(
    model: Path, store: Path, place: Location
) -> None:
    old, touched = (store / f".v1.{'e' * 12}-{pid}-1-{'0' * 12}.transfer" for pid in (1, 2))
    for folder in (old, touched):
        put(folder, {"sub/file": b"left"})
        for path in [folder, *folder.rglob("*")]:
            os.utime(path, (0, 0))
    (touched / "sub/file").touch()
    assert upload(model, place).leftovers == (touched.name,)
    assert left_over(store) == [touched.name]


def test_a_clock_that_jumped_ahead_takes_no_transfer_of_another_machine_for_a_dead_one(
    model: Path, store: Path, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = store / f".v1.{'e' * 12}-1-1-{'0' * 12}.transfer"
    put(elsewhere, {"sub/file": b"live"})
    ahead = timedelta(days=1500)
    times = SimpleNamespace(time=lambda: time.time() + ahead.total_seconds())
    monkeypatch.setattr(_temporary_folder, "time", times)
    monkeypatch.setattr(_store_clock, "present", lambda: datetime.now(UTC) + ahead)
    assert upload(model, place).leftovers == (elsewhere.name,)
    assert (elsewhere / "sub/file").read_bytes() == b"live"


@pytest.mark.parametrize(
    "name",
    [
        ".v1.transfer",
        ".v1.eeeeeeeeeeee-1-1-000000000000.transfer.bak",
        ".v11.eeeeeeeeeeee-1-1-000000000000.transfer",
        "v1.eeeeeeeeeeee-1-1-000000000000.transfer",
        ".v1.000000000000.removed.txt",
    ],
)
def test_only_names_of_this_target_count_as_left_over(
    name: str, model: Path, store: Path, place: Location
) -> None:
    put(store / name, {"file": b"mine"})
    os.utime(store / name / "file", (0, 0))
    os.utime(store / name, (0, 0))
    upload(model, place)
    assert (store / name / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("call", ["make_dir", "delete"])
def test_a_store_is_writable_only_if_it_makes_and_deletes_folders(
    call: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Location(FaultyFileSystem(Faults()), str(store / "v1"))
    before = contents(store)
    require_writable(target, patience=PATIENCE)
    assert contents(store) == before

    def denied(*_: object, **__: object) -> None:
        raise AccessDeniedError("denied")

    monkeypatch.setattr(LocalFileSystem, call, denied)
    with pytest.raises(AccessDeniedError):
        require_writable(target, patience=PATIENCE)


@pytest.mark.parametrize("action", ["once", "lost"])
def test_a_call_that_fails_once_is_repeated_by_the_proof(action: str, store: Path) -> None:
    before, counted = contents(store), Faults()
    require_writable(Location(FaultyFileSystem(counted), str(store / "v1")), patience=PATIENCE)
    for number in range(len(counted.calls)):
        target = Location(FaultyFileSystem(Faults(number, action)), str(store / "v1"))
        require_writable(target, patience=PATIENCE)
        assert contents(store) == before


def test_a_store_that_returns_other_bytes_than_it_got_is_an_error(
    model: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lossy(Faults):
        def call(self, name: str, act: Callable[[], object]) -> object:
            found = super().call(name, act)
            return b"?" * len(found) if name == "read" and isinstance(found, bytes) else found

    before = contents(store)
    target = Location(FaultyFileSystem(Lossy()), str(store / "v1"))
    with pytest.raises(StorageError, match=r"to be read back, got"):
        upload(model, target, patience=PATIENCE)
    assert contents(store) == before


def test_a_commit_of_unknown_outcome_says_what_becomes_of_the_copy(
    model: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(store)

    def fails(*_: object) -> None:
        raise StorageError("away")

    def away(name: str) -> None:
        if name == "transfer.before_rename":
            monkeypatch.setattr(FaultyFileSystem, "rename", fails)
            monkeypatch.setattr(FaultyFileSystem, "stat", fails)

    monkeypatch.setattr(faults, "point", away)
    target = Location(FaultyFileSystem(Faults()), str(store / "v1"))
    said = "what has the name stays; only the temporary folder of this copy is deleted"
    with pytest.raises(CommitUnknownError, match=said):
        upload(model, target, patience=PATIENCE)
    assert contents(store) == before


def test_two_uploads_of_one_content_end_with_one_folder(
    model: Path, store: Path, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[TransferReport] = []

    def meanwhile(name: str) -> None:
        if name == "transfer.before_rename" and not inner:
            monkeypatch.setattr(faults, "point", lambda _: None)
            inner.append(upload(model, place))

    monkeypatch.setattr(faults, "point", meanwhile)
    assert (upload(model, place).verdict, inner[0].verdict) == ("adopted", "copied")
    assert left_over(store) == []


def test_a_name_that_is_taken_in_the_last_moment_is_kept(
    model: Path, store: Path, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = put(store.parent / "other", {**FILES, "weights.bin": b"other"})

    def meanwhile(name: str) -> None:
        if name == "transfer.before_rename":
            monkeypatch.setattr(faults, "point", lambda _: None)
            upload(other, place)

    monkeypatch.setattr(faults, "point", meanwhile)
    with pytest.raises(StorageError, match="nothing was changed"):
        upload(model, place)
    assert (store / "v1" / "weights.bin").read_bytes() == b"other"
    assert left_over(store) == []
