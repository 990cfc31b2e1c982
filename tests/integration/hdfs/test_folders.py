"""Folders to and from a real HDFS over both protocols: absent or complete, whatever happens."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from services.hdfs import Hdfs
from tests.unit.files.stores.folders.conftest import FILES, contents, put
from tests.unit.processes import until
from trainfeed.core import faults
from trainfeed.core.patience import Patience
from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores import folder_transfer as transfer
from trainfeed.files.stores import hdfs as _hdfs
from trainfeed.files.stores.folder_manifest import (
    TRANSFER_MANIFEST,
    read_manifest,
    verify,
)
from trainfeed.files.stores.folder_transfer import download, upload

MIB = 1 << 20
POINTS = (
    "transfer.after_temporary",
    "transfer.after_file",
    "transfer.after_files",
    "transfer.after_manifest",
    "transfer.before_rename",
    "transfer.after_rename",
)
HASTY = Patience(calls=2, first_pause_s=0.05)


@pytest.fixture(autouse=True)
def superuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    _hdfs._connect.cache_clear()
    yield
    _hdfs._connect.cache_clear()


@pytest.fixture(params=["TEST_HDFS_URI", "TEST_WEBHDFS_URI"])
def store(request: pytest.FixtureRequest) -> Iterator[Location]:
    """A folder of models with a neighbour that no transfer may touch."""
    folder = Location.parse(os.environ[request.param]) / "trainfeed-test" / str(uuid.uuid4())
    (folder / "v1-neighbour").make_dir()
    (folder / "v1-neighbour" / "file").create_exclusive(b"mine")
    yield folder
    as_user("hdfs", folder).delete(recursive=True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = put(tmp_path / "model", {**FILES, "large.bin": os.urandom(5 * MIB + 7)})
    (folder / "assets").mkdir()
    return folder


def tree(folder: Location) -> dict[str, int | None]:
    """Every name below a folder, with the sizes of the files."""
    found: dict[str, int | None] = {}
    for info in folder.list():
        found[info.name] = None if info.is_dir else info.size_bytes
        if info.is_dir:
            below = tree(folder / info.name)
            found.update({f"{info.name}/{name}": size for name, size in below.items()})
    return found


def left_over(store: Location) -> list[str]:
    return [name for name in names(store) if name.endswith(".transfer")]


def names(folder: Location) -> list[str]:
    return [info.name for info in folder.list()]


def web(folder: Location, operation: str, **parameters: str) -> None:
    """Ask the NameNode for something that no file system of ours offers."""
    uri = urlsplit(os.environ["TEST_WEBHDFS_URI"])
    requests.put(
        f"http://{uri.hostname}:{uri.port}/webhdfs/v1{folder.path}",
        params={"op": operation, "user.name": "hdfs", **parameters},
        timeout=10,
    ).raise_for_status()


def as_user(user: str, folder: Location) -> Location:
    """The same place, seen by another user."""
    os.environ["HADOOP_USER_NAME"] = user
    _hdfs._connect.cache_clear()
    uri = folder.uri
    if uri.startswith("webhdfs://"):
        uri = f"webhdfs://{user}@{uri.rpartition('@')[2]}"
    return Location.parse(uri)


def is_whole(folder: Location) -> bool:
    manifest = read_manifest(folder)
    assert manifest is not None
    verify(folder, manifest)
    return True


UPLOAD = """
import sys
from pathlib import Path
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_transfer import download, upload
way, folder, uri = sys.argv[1:]
if way == "upload":
    upload(Path(folder), Location.parse(uri))
else:
    download(Location.parse(uri), Path(folder))
"""


def elsewhere(way: str, folder: Path, store: Location, **variables: str) -> int:
    """Run a transfer in another process, and return how it ended.

    Not in a fork: threads of the client of ``hdfs://`` do not survive one.
    """
    command = [sys.executable, "-c", UPLOAD, way, str(folder), store.uri]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), **variables}
    return subprocess.run(command, env=environment, timeout=240, check=False).returncode


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Do something once, when a transfer comes to a point."""

    def arranged(point: str, act: Callable[[], object]) -> None:
        done: list[str] = []

        def reached(name: str) -> None:
            if name == point and not done:
                done.append(name)
                act()

        monkeypatch.setattr(faults, "point", reached)

    return arranged


def test_a_model_goes_up_and_comes_back(store: Location, model: Path, tmp_path: Path) -> None:
    before = contents(model)
    report = upload(model, store / "v1")
    assert (report.verdict, upload(model, store / "v1").verdict) == ("copied", "adopted")
    assert download(store / "v1", tmp_path / "back").manifest_sha256 == report.manifest_sha256
    found = contents(tmp_path / "back")
    assert found.pop(TRANSFER_MANIFEST) is not None
    assert found == before
    assert names(store) == ["v1", "v1-neighbour"]


def test_a_folder_that_was_put_there_by_another_program_is_copied_by_its_sizes(
    store: Location, model: Path, tmp_path: Path
) -> None:
    for name, data in FILES.items():
        (store / "put" / name).create_exclusive(data)
    report = download(store / "put", tmp_path / "back")
    assert not report.is_proven
    assert {name: (tmp_path / "back" / name).read_bytes() for name in FILES} == FILES
    (store / "put" / "half._COPYING_").create_exclusive(b"half")
    with pytest.raises(StorageError, match="a writer is still at work"):
        download(store / "put", tmp_path / "again", patience=HASTY)


def test_a_file_that_is_still_open_is_refused(store: Location, tmp_path: Path) -> None:
    with (store / "put" / "file").open_write() as file:
        file.write(b"x" * (2 * MIB + 5))
        file.flush()
        with pytest.raises(StorageError, match=r"a writer is still at work|expected .* bytes"):
            download(store / "put", tmp_path / "back", patience=HASTY)
    assert download(store / "put", tmp_path / "back").num_bytes == 2 * MIB + 5


@pytest.mark.parametrize("point", POINTS)
def test_an_upload_that_is_killed_is_absent_or_complete(
    store: Location, model: Path, point: str
) -> None:
    """HD-12."""
    before = tree(store)
    fault = {faults.VARIABLE: f"{point}:kill"}
    assert elsewhere("upload", model, store / "v1", **fault) == -signal.SIGKILL
    is_named = (store / "v1").exists()
    assert is_named == (point == "transfer.after_rename")
    assert not is_named or is_whole(store / "v1")
    assert upload(model, store / "v1").verdict == ("adopted" if is_named else "copied")
    after = tree(store)
    assert {name: size for name, size in after.items() if not name.startswith("v1/")} == {
        **before,
        "v1": None,
    }
    assert is_whole(store / "v1")


@pytest.mark.parametrize("point", POINTS)
def test_a_download_that_is_killed_is_absent_or_complete(
    store: Location, model: Path, tmp_path: Path, point: str
) -> None:
    upload(model, store / "v1")
    before, back = tree(store), tmp_path / "kept" / "back"
    back.parent.mkdir()
    fault = {faults.VARIABLE: f"{point}:kill"}
    assert elsewhere("download", back, store / "v1", **fault) == -signal.SIGKILL
    assert back.exists() == (point == "transfer.after_rename")
    download(store / "v1", back)
    assert [path.name for path in back.parent.iterdir()] == ["back"]
    assert is_whole(Location.parse(str(back)))
    assert tree(store) == before


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file"])
def test_a_name_that_is_taken_is_kept_and_nothing_is_nested(
    store: Location, model: Path, kind: str
) -> None:
    """HD-13: a rename of HDFS moves a folder INTO one that is there."""
    if kind == "file":
        (store / "v1").create_exclusive(b"mine")
    else:
        (store / "v1").make_dir()
    if kind == "folder":
        (store / "v1" / "mine").create_exclusive(b"mine")
    before = tree(store)
    with pytest.raises(ConflictError, match="nothing was changed"):
        upload(model, store / "v1")
    assert tree(store) == before


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file"])
def test_a_name_that_is_taken_in_the_last_moment_is_kept(
    store: Location, model: Path, kind: str, at_point: Callable[..., None]
) -> None:
    """HD-13."""

    def take() -> None:
        if kind == "file":
            (store / "v1").create_exclusive(b"mine")
            return
        (store / "v1").make_dir()
        if kind == "folder":
            (store / "v1" / "mine").create_exclusive(b"mine")

    at_point("transfer.before_rename", take)
    with pytest.raises(ConflictError):
        upload(model, store / "v1")
    expected = {"folder": {"mine": 4}, "empty folder": {}}
    if kind == "file":
        assert (store / "v1").read_bytes() == b"mine"
    else:
        assert tree(store / "v1") == expected[kind]
    assert names(store) == ["v1", "v1-neighbour"]


def test_a_missing_folder_above_is_named(store: Location, model: Path) -> None:
    """HD-13."""
    before = tree(store)
    with pytest.raises(NotFoundError):
        upload(model, store / "missing" / "v1")
    with pytest.raises((NotFoundError, AccessDeniedError)):
        upload(model, store / "v1-neighbour" / "file" / "v1")
    assert tree(store) == before


@pytest.mark.parametrize(
    "quota",
    [
        {"namespacequota": "-1", "storagespacequota": str(MIB)},
        {"namespacequota": "6", "storagespacequota": "-1"},
    ],
    ids=["space", "names"],
)
def test_a_full_quota_is_told_and_the_temporary_folder_goes(
    store: Location, model: Path, quota: dict[str, str]
) -> None:
    """HD-14."""
    before = tree(store)
    web(store, "SETQUOTA", **quota)
    with pytest.raises(QuotaExceededError, match="free space or raise the quota"):
        upload(model, store / "v1", patience=HASTY)
    assert tree(store) == before
    web(store, "SETQUOTA", namespacequota="-1", storagespacequota="-1")
    assert upload(model, store / "v1").verdict == "copied"


LIMITED = """
import faulthandler
import resource
import sys
from pathlib import Path
from trainfeed.core import faults
from trainfeed.core.patience import Patience
from trainfeed.errors import StorageError
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_transfer import upload

faulthandler.dump_traceback_later(200, exit=True)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)


def tighten(name):
    if name == "transfer.after_file":
        # Fewer than are open: every new one fails.
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, hard))


faults.point = tighten
try:
    upload(Path(sys.argv[1]), Location.parse(sys.argv[2]), patience=Patience(2, 0.05))
except StorageError as error:
    print("failed:", error)
else:
    print("succeeded")
"""


def test_too_many_open_files_delete_nothing_but_the_temporary_folder(
    store: Location, model: Path
) -> None:
    """HD-15."""
    before = tree(store)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(model), (store / "v1").uri],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "too many open files" in done.stdout
    assert tree(store) == before
    upload(model, store / "v1")
    assert names(store) == ["v1", "v1-neighbour"]
    assert is_whole(store / "v1")


def test_a_user_without_the_right_is_denied_and_changes_nothing(
    store: Location, model: Path
) -> None:
    """HD-16."""
    web(store, "SETPERMISSION", permission="755")
    before = tree(store)
    with pytest.raises(AccessDeniedError, match="mallory"):
        upload(model, as_user("mallory", store) / "v1", patience=HASTY)
    assert tree(as_user("hdfs", store)) == before


@pytest.mark.parametrize("point", ["transfer.after_temporary", "transfer.after_manifest"])
def test_a_right_that_is_taken_away_midway_is_told_and_the_next_upload_cleans(
    store: Location, model: Path, point: str, at_point: Callable[..., None]
) -> None:
    """HD-16."""
    web(store, "SETPERMISSION", permission="777")
    other = as_user("mallory", store)
    at_point(point, lambda: web(store, "SETPERMISSION", permission="700"))
    with pytest.raises((AccessDeniedError, StorageError), match="mallory"):
        upload(model, other / "v1", patience=HASTY)
    store = as_user("hdfs", store)
    assert not (store / "v1").exists()
    web(store, "SETPERMISSION", permission="777")
    # The owner of the temporary folder is this process, which still runs.
    report = upload(model, store / "v1")
    assert report.verdict == "copied"
    assert all(name.endswith(".transfer") for name in report.leftovers)


def replacing_loop(store: Location, folders: list[Path], stop: threading.Event) -> None:
    """Replace ``v1`` as a person does it: remove the old folder, rename the new one."""
    number = 0
    while not stop.is_set():
        number += 1
        new = store / f"new-{number}"
        upload(folders[number % len(folders)], new)
        (store / "v1").delete(recursive=True)
        new.renaming("a test").rename(store / "v1")


def downloads_during_replacement(store: Location, tmp_path: Path, times: int) -> dict[str, int]:
    folders = [
        put(tmp_path / f"model-{number}", {f"part-{part}": os.urandom(MIB) for part in range(4)})
        for number in range(3)
    ]
    known = {upload(folder, store / f"known-{folder.name}").manifest_sha256: contents(folder)
             for folder in folders}  # fmt: skip
    upload(folders[0], store / "v1")
    stop = threading.Event()
    replacer = threading.Thread(target=replacing_loop, args=(store, folders, stop))
    replacer.start()
    outcomes = {"whole": 0, "refused": 0}
    try:
        for number in range(times):
            back = tmp_path / f"back-{number}"
            try:
                report = download(store / "v1", back, patience=HASTY)
            except (FileReplacedError, NotFoundError, FormatError):
                outcomes["refused"] += 1
                assert not back.exists()
                continue
            outcomes["whole"] += 1
            found = contents(back)
            found.pop(TRANSFER_MANIFEST)
            assert found == known[report.manifest_sha256]
    finally:
        stop.set()
        replacer.join()
    return outcomes


def test_a_model_that_is_replaced_again_and_again_is_old_or_new(
    store: Location, tmp_path: Path
) -> None:
    """HD-17."""
    assert downloads_during_replacement(store, tmp_path, 8)["whole"] > 0


@pytest.mark.nightly
def test_a_hundred_downloads_of_a_model_that_is_replaced_are_old_or_new(
    store: Location, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """HD-17."""
    outcomes = downloads_during_replacement(store, tmp_path, 100)
    print(outcomes)  # noqa: T201 - a figure of docs/authors
    assert outcomes["whole"] > 0


@pytest.mark.nightly
def test_a_hundred_uploads_that_are_killed_at_any_time_are_absent_or_complete(
    store: Location, model: Path
) -> None:
    """HD-12: kills by the clock and not at points."""
    draw, before = random.Random(12), tree(store)
    outcomes = {"absent": 0, "complete": 0}
    command = [sys.executable, "-c", UPLOAD, "upload", str(model), (store / "v1").uri]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    longest_s = 0.0
    for number in range(101):
        known = set(left_over(store))
        killed = subprocess.Popen(command, env=environment)
        # A new temporary folder shows that the upload has begun.
        until(lambda: killed.poll() is not None or set(left_over(store)) - known)  # noqa: B023
        if not number:
            # Undisturbed: the time that the kills are spread over.
            started_s = time.monotonic()
            assert killed.wait() == 0
            longest_s = 3 * (time.monotonic() - started_s)
            (store / "v1").delete(recursive=True)
            continue
        threading.Event().wait(draw.uniform(0, longest_s))
        killed.kill()
        killed.wait()
        if (store / "v1").exists():
            outcomes["complete"] += 1
            assert is_whole(store / "v1")
            (store / "v1").delete(recursive=True)
        else:
            outcomes["absent"] += 1
    upload(model, store / "v1")
    found = {name: size for name, size in tree(store).items() if not name.startswith("v1/")}
    assert found == {**before, "v1": None}
    print(outcomes)  # noqa: T201 - a figure of docs/authors
    assert min(outcomes.values()) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("variable", ["TEST_HDFS_URI", "TEST_WEBHDFS_URI"])
def test_a_full_datanode_is_told_and_the_upload_succeeds_when_it_has_room(
    own_cluster: Hdfs, model: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HD-14."""
    store = Location.parse(own_cluster.exports()[variable]) / "models"
    store.make_dir()
    site = Hdfs._write_site

    def full(cluster: Hdfs) -> Path:
        path = site(cluster)
        text = path.read_text()
        full_text = text.replace(
            "du.reserved</name><value>0<", f"du.reserved</name><value>{1 << 60}<"
        )
        assert full_text != text
        path.write_text(full_text)
        return path

    own_cluster.kill("datanode")
    with monkeypatch.context() as patched:
        patched.setattr(Hdfs, "_write_site", full)
        own_cluster._spawn()
        until(lambda: _remaining(own_cluster) == 0)
        with pytest.raises(StorageError, match=f"{model.name}|v1"):
            upload(model, store / "v1", patience=HASTY)
    assert names(store) == []
    own_cluster.kill("datanode")
    own_cluster.start()
    own_cluster.wait()
    assert upload(model, store / "v1").verdict == "copied"
    store.delete(recursive=True)


def _remaining(cluster: Hdfs) -> int | None:
    try:
        state = cluster._bean("namenode_http", "NameNode", "FSNamesystemState")
        return state["CapacityRemaining"] if state["NumLiveDataNodes"] else None
    except (OSError, ValueError, LookupError):
        return None


def test_a_password_in_a_uri_is_refused_and_shown_nowhere(model: Path) -> None:
    canary = "canary-7f3a9"
    code = (
        "import sys; from pathlib import Path; from trainfeed.files.stores import Location;"
        "from trainfeed.files.stores.folder_transfer import upload;"
        "upload(Path(sys.argv[1]), Location.parse(sys.stdin.read()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model)],
        input=f"webhdfs://hdfs:{canary}@127.0.0.1:9870/models/v1",
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "expected file:///" in done.stderr
    assert canary not in done.stderr + done.stdout


def test_transfers_run_no_program(store: Location, model: Path, tmp_path: Path) -> None:
    """No command line exists on which a secret could stand."""
    started: list[object] = []
    sys.addaudithook(
        lambda event, arguments: (
            started.append(arguments)
            if event in {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
            else None
        )
    )
    upload(model, store / "v1")
    download(store / "v1", tmp_path / "back")
    assert started == []
    assert transfer.upload is upload
