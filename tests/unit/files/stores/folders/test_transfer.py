"""Folders arrive whole under their name or not at all, and nothing else is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.files.stores.folders.conftest import FILES, contents, put
from trainfeed.core.patience import Patience
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores import folder_transfer as transfer
from trainfeed.files.stores.file_system import FileInfo
from trainfeed.files.stores.folder_manifest import (
    TRANSFER_MANIFEST,
    FolderManifest,
    read_manifest,
    verify,
)
from trainfeed.files.stores.folder_transfer import download, download_below, upload, wait_for
from trainfeed.files.stores.local import LocalFileSystem


def without_manifest(folder: Path) -> dict[str, bytes | None]:
    return {name: data for name, data in contents(folder).items() if name != TRANSFER_MANIFEST}


def test_a_folder_goes_up_and_comes_back_with_every_byte_and_every_empty_folder(
    model: Path, place: Location, tmp_path: Path
) -> None:
    before = contents(model)
    report = upload(model, place)
    assert (report.verdict, report.files, report.is_proven) == ("copied", len(FILES), True)
    assert report.num_bytes == sum(map(len, FILES.values()))
    back = download(place, tmp_path / "back")
    assert (back.verdict, back.manifest_sha256) == ("copied", report.manifest_sha256)
    assert without_manifest(tmp_path / "back") == before == contents(model)


def test_nothing_beside_the_folder_changes(model: Path, place: Location, store: Path) -> None:
    before = contents(store)
    upload(model, place)
    after = {n: d for n, d in contents(store).items() if n != "v1" and not n.startswith("v1/")}
    assert after == before


def test_the_manifest_is_canonical_json_with_sizes_and_digests(
    model: Path, place: Location
) -> None:
    upload(model, place)
    data = (place / TRANSFER_MANIFEST).read_bytes()
    found = json.loads(data)
    assert data == json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
    assert found["folders"] == ["assets"]
    assert [(file["name"], file["bytes"]) for file in found["files"]] == sorted(
        (name, len(data)) for name, data in FILES.items()
    )


def test_an_equal_folder_is_adopted_and_not_copied_again(model: Path, place: Location) -> None:
    upload(model, place)
    first = (place / TRANSFER_MANIFEST).stat()
    again = upload(model, place)
    assert again.verdict == "adopted"
    assert (place / TRANSFER_MANIFEST).stat() == first


def test_a_folder_of_another_content_is_kept_and_nothing_is_nested(
    model: Path, place: Location, store: Path
) -> None:
    upload(model, place)
    before = contents(store)
    put(model, {"weights.bin": b"other"})
    with pytest.raises(ConflictError, match=r"nothing was changed"):
        upload(model, place)
    assert contents(store) == before


@pytest.mark.parametrize("taken", ["file", "empty folder", "folder without manifest"])
def test_whatever_has_the_name_is_kept(
    model: Path, place: Location, store: Path, taken: str, hasty: Patience
) -> None:
    if taken == "file":
        put(store, {"v1": b"mine"})
    else:
        put(store / "v1", {"mine": b"mine"} if taken != "empty folder" else {})
        (store / "v1").mkdir(exist_ok=True)
    before = contents(store)
    with pytest.raises(ConflictError, match="got a f"):
        upload(model, place)
    with pytest.raises(ConflictError):
        download(Location.parse(str(model)), store / "v1", patience=hasty)
    assert contents(store) == before


def test_a_missing_folder_above_is_named_before_anything_is_made(
    model: Path, store: Path, tmp_path: Path, hasty: Patience
) -> None:
    before = contents(tmp_path)
    with pytest.raises(NotFoundError, match="missing"):
        upload(model, Location.parse(str(store / "missing" / "v1")))
    with pytest.raises(NotFoundError, match=r"expected a folder, got a file|not a directory"):
        upload(model, Location.parse(str(store / "other" / "v1")))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["link", "broken link", "folder link", "pipe"])
def test_links_and_pipes_are_refused(
    model: Path, place: Location, store: Path, kind: str, hasty: Patience
) -> None:
    odd = model / "sub" / "odd"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to({"link": "/etc/hosts", "folder link": "/etc"}.get(kind, "/nowhere"))
    before = contents(store)
    with pytest.raises(FormatError, match="link or a special file"):
        upload(model, place)
    with pytest.raises(FormatError, match="link or a special file"):
        download(Location.parse(str(model)), store / "v1", patience=hasty)
    assert contents(store) == before


def test_a_folder_without_files_is_refused(place: Location, tmp_path: Path) -> None:
    (tmp_path / "nothing" / "in").mkdir(parents=True)
    with pytest.raises(ConfigError, match="found none"):
        upload(tmp_path / "nothing", place)
    with pytest.raises(NotFoundError):
        upload(tmp_path / "absent", place)
    with pytest.raises(ConfigError, match="below the root"):
        upload(Path("/"), place)


def test_a_name_that_no_transfer_may_have_is_refused(model: Path, place: Location) -> None:
    put(model, {"new\nline": b""})
    with pytest.raises(UnsuitableStoreError, match="rename it"):
        upload(model, place)


@pytest.mark.parametrize("data", [b"mine", b'{"files":[],"format":1}'])
def test_a_file_of_the_user_with_the_name_of_the_manifest_is_refused(
    model: Path, place: Location, data: bytes
) -> None:
    put(model, {TRANSFER_MANIFEST: data})
    with pytest.raises(FormatError):
        upload(model, place)


def test_a_downloaded_folder_that_was_changed_is_not_uploaded_with_its_old_manifest(
    model: Path, place: Location, tmp_path: Path
) -> None:
    upload(model, place)
    download(place, tmp_path / "back")
    assert upload(tmp_path / "back", place).verdict == "adopted"
    put(tmp_path / "back", {"weights.bin": b"tuned"})
    with pytest.raises(ConflictError, match="changed on purpose"):
        upload(tmp_path / "back", place.parent / "v2")


def test_a_partial_folder_is_refused(
    model: Path, place: Location, tmp_path: Path, hasty: Patience
) -> None:
    upload(model, place)
    Path(place.path, "weights.bin").unlink()
    with pytest.raises(FormatError, match=r"1 are missing, such as 'weights.bin'"):
        download(place, tmp_path / "back", patience=hasty)
    put(Path(place.path), {"weights.bin": FILES["weights.bin"][:-1]})
    with pytest.raises(FormatError, match="expected 100000 bytes, got 99999"):
        download(place, tmp_path / "back", patience=hasty)
    assert not (tmp_path / "back").exists()


def test_one_changed_byte_is_found(
    model: Path, place: Location, tmp_path: Path, hasty: Patience
) -> None:
    upload(model, place)
    put(Path(place.path), {"weights.bin": b"v" + FILES["weights.bin"][1:]})
    with pytest.raises(ChecksumError, match="SHA-256"):
        download(place, tmp_path / "back", patience=hasty)
    with pytest.raises(ChecksumError, match="SHA-256"):
        upload(model, place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "store"]


@pytest.mark.parametrize(
    "name", ["../out", "/out", "a/../../out", "a//b", "", ".", "TRANSFER.json", "a\0b", 7, None]
)
def test_a_hostile_manifest_names_nothing_outside(
    model: Path, place: Location, tmp_path: Path, name: object, hasty: Patience
) -> None:
    upload(model, place)
    found = json.loads((place / TRANSFER_MANIFEST).read_bytes())
    found["files"][0]["name"] = name
    data = json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
    put(Path(place.path), {TRANSFER_MANIFEST: data})
    with pytest.raises(FormatError):
        download(place, tmp_path / "back", patience=hasty)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "store"]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b"null", b'{"files":[],"format":1}', b'{"files":[{}],"format":1}',
        b'{"files":[{"bytes":-1,"name":"a","sha256":"0"}],"format":1}',
        b'{"files":7,"format":1}', b'{"files":[],"format":2}',
    ],
)  # fmt: skip
def test_damaged_manifests_are_one_clear_error(data: bytes) -> None:
    with pytest.raises(FormatError, match="expected"):
        FolderManifest.from_bytes(data, path="x")


@pytest.mark.parametrize("name", ["../out", "/out", "a/../b", "a//b", "./a", "a\n", "a" * 201])
def test_a_name_that_leads_out_is_refused_before_any_listing(name: str) -> None:
    file = {"bytes": 0, "sha256": "0" * 64, "name": name}
    for value in ({"files": [file]}, {"files": [{**file, "name": "b"}], "folders": [name]}):
        data = json.dumps({**value, "format": 1}, sort_keys=True, separators=(",", ":")).encode()
        with pytest.raises(FormatError, match=r"expected (a relative path|names of at most)"):
            FolderManifest.from_bytes(data, path="x")


def test_a_file_that_is_also_a_folder_is_refused_in_a_manifest() -> None:
    file = {"bytes": 0, "sha256": "0" * 64}
    files = [{**file, "name": "a"}, {**file, "name": "a/b"}]
    data = json.dumps({"files": files, "format": 1}, sort_keys=True, separators=(",", ":"))
    with pytest.raises(FormatError, match="'a' is above another one"):
        FolderManifest.from_bytes(data.encode(), path="x")


def test_a_folder_without_manifest_is_copied_and_called_unproven(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = download(Location.parse(str(model)), tmp_path / "back")
    assert not report.is_proven
    assert "no more is known" in caplog.text
    assert without_manifest(tmp_path / "back") == contents(model)
    verify(
        Location.parse(str(tmp_path / "back")),
        read_manifest(Location.parse(str(tmp_path / "back"))),
    )


def test_a_put_that_is_still_at_work_is_refused(
    model: Path, tmp_path: Path, hasty: Patience
) -> None:
    put(model, {"weights.bin._COPYING_": b"half"})
    with pytest.raises(StorageError, match="a writer is still at work"):
        download(Location.parse(str(model)), tmp_path / "back", patience=hasty)


def test_downloads_below_a_folder_are_named_by_their_content(
    model: Path, place: Location, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    digest = upload(model, place).manifest_sha256
    first = download_below(place, tmp_path / "kept")
    again = download_below(place, tmp_path / "kept")
    unproven = download_below(Location.parse(str(model)), tmp_path / "kept")
    assert [each.verdict for each in (first, again, unproven)] == ["copied", "adopted", "adopted"]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [digest]


def test_a_folder_that_changes_during_its_upload_is_not_kept(
    model: Path, place: Location, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(store)

    def changing(name: str) -> None:
        put(model, {"weights.bin": os.urandom(10)})

    monkeypatch.setattr(transfer.faults, "point", changing)
    with pytest.raises(FileReplacedError, match="changed while it was"):
        upload(model, place)
    assert contents(store) == before


@pytest.mark.parametrize("times", [1, 2])
def test_a_model_that_is_replaced_during_its_download_is_the_new_one_or_an_error(
    model: Path, place: Location, tmp_path: Path, hasty: Patience, times: int, monkeypatch
) -> None:
    upload(model, place)
    new = put(tmp_path / "new", {**FILES, "weights.bin": b"n" * 100_000})
    left = [times]

    def replacing(name: str) -> None:
        if name == "transfer.after_temporary" and left[0]:
            left[0] -= 1
            target = Path(place.path)
            target.rename(tmp_path / f"old-{left[0]}")
            put(new, {"weights.bin": os.urandom(100_000)})
            monkeypatch.setattr(transfer.faults, "point", lambda _: None)
            upload(new, place)
            monkeypatch.setattr(transfer.faults, "point", replacing)

    monkeypatch.setattr(transfer.faults, "point", replacing)
    if times == 1:
        download(place, tmp_path / "back", patience=hasty)
        assert without_manifest(tmp_path / "back") == contents(new)
    else:
        with pytest.raises(FileReplacedError, match="replaced twice"):
            download(place, tmp_path / "back", patience=hasty)
        assert not (tmp_path / "back").exists()


def test_too_little_space_is_told_before_anything_is_written(
    model: Path, place: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainfeed.files.stores.local.LocalFileSystem.free_bytes", lambda *_: 1)
    with pytest.raises(QuotaExceededError, match="bytes are needed, 1 are free"):
        upload(model, place)


def test_another_rank_waits_until_the_folder_is_named(
    model: Path, place: Location, tmp_path: Path
) -> None:
    digest = upload(model, place).manifest_sha256
    pauses: list[float] = []

    def meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            download(place, tmp_path / "back")

    found = wait_for(tmp_path / "back", timeout_s=600, manifest_sha256=digest, pause=meanwhile)
    assert (found.sha256, len(pauses)) == (digest, 3)


def test_a_folder_that_is_named_between_two_looks_has_its_manifest(
    model: Path, place: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, folder = upload(model, place).manifest_sha256, tmp_path / "back"
    look = LocalFileSystem.stat

    def stat(self: LocalFileSystem, path: str) -> FileInfo:
        if path == str(folder):
            monkeypatch.setattr(LocalFileSystem, "stat", look)
            download(place, folder)
        return look(self, path)

    monkeypatch.setattr(LocalFileSystem, "stat", stat)
    assert wait_for(folder, timeout_s=60, manifest_sha256=digest).sha256 == digest


def test_the_wait_ends_at_its_deadline_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"downloaded within 0 s.*rank 0"):
        wait_for(tmp_path / "back", timeout_s=0)


def test_a_folder_of_an_earlier_download_does_not_end_the_wait(
    model: Path, place: Location, tmp_path: Path
) -> None:
    upload(model, place)
    download(place, tmp_path / "back")
    with pytest.raises(ConflictError, match="remove the folder"):
        wait_for(tmp_path / "back", timeout_s=600, manifest_sha256="0" * 64)
    (tmp_path / "back" / "weights.bin").unlink()
    with pytest.raises(FormatError, match="missing"):
        wait_for(tmp_path / "back", timeout_s=600)
