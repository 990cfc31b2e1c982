"""HDFS settings, and the transfers around a training: whole, by rank 0, without secrets."""

import logging
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.forks import in_a_fork
from trainfeed.compat.plsc.entry import Entry, check_store, download_model
from trainfeed.compat.plsc.setters import EntrySetters
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    FormatError,
    StorageError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_manifest import TRANSFER_MANIFEST
from trainfeed.files.stores.folder_transfer import upload
from trainfeed.files.stores.local import LocalFileSystem

ROOT = Path(__file__).parents[4]
CANARY = "c4n4ry-p4ssw0rd"
UGI = f"name,{CANARY}"


@pytest.fixture
def store(tmp_path):
    """A folder that stands for a file system, with a model in it."""
    model = tmp_path / "model"
    (model / "3").mkdir(parents=True)
    (model / "3" / "network.npz").write_bytes(b"first")
    (tmp_path / "store").mkdir()
    upload(model, Location.parse(str(tmp_path / "store" / "first")))
    return tmp_path / "store"


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("fs_name", "directory", "uri"),
    [
        ("namenode:8020", "some_dir", "hdfs://namenode:8020/user/name/some_dir"),
        ("hdfs://namenode:8020", "/models/a", "hdfs://namenode:8020/models/a"),
        ("hdfs://service/", "/models", "hdfs://service/models"),
        ("webhdfs://namenode:9870", "/m", "webhdfs://name@namenode:9870/m"),
        ("file://", "/m", "file:///m"),
    ],
)
def test_folders_are_in_the_file_system_of_fs_name(fs_name, directory, uri):
    entry = Entry()
    entry.set_hdfs_info(fs_name, UGI, directory)
    assert entry.settings.hdfs.save == uri
    assert entry.settings.hdfs.checkpoint is None


REFUSED = {
    "no folder": ("h:1", UGI),
    "no file system": ("", UGI, "d"),
    "no text": (None, UGI, "d"),
    "a user in the name": ("hdfs://me@h:1", UGI, "d"),
    "another scheme": ("s3://h", UGI, "d"),
    "no port for webhdfs": ("webhdfs://h", UGI, "d"),
    "no comma": ("h:1", CANARY, "d"),
    "no password": ("h:1", "name,", "d"),
    "no user": ("h:1", f",{CANARY}", "d"),
    "a user with a slash": ("h:1", f"a/b,{CANARY}", "d"),
    "no text as account": ("h:1", ("name", CANARY), "d"),
    "a path outside": ("h:1", UGI, "../x"),
    "a URI as folder": ("h:1", UGI, "hdfs://h:1/x"),
    "an empty folder": ("h:1", UGI, ""),
    "a wrong second folder": ("h:1", UGI, "d", 7),
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_refused_settings_change_nothing_and_do_not_show_the_password(arguments):
    entry = Entry()
    with pytest.raises(ValueError, match="expected") as raised:
        entry.set_hdfs_info(*arguments)
    assert entry.settings.hdfs is None
    assert CANARY not in str(raised.value)
    assert raised.value.__cause__ is None or CANARY not in str(raised.value.__cause__)


def test_the_password_is_in_no_form_of_the_settings():
    entry = Entry()
    entry.set_hdfs_info("h:1", UGI, "d", "e")
    settings = entry.settings
    assert CANARY not in repr(settings)
    assert CANARY.encode() not in pickle.dumps(settings)
    assert CANARY not in str(vars(settings.hdfs))


def test_a_training_uploads_its_models_when_it_has_ended(entry, calls, store):
    entry.set_hdfs_info("file://", UGI, str(store / "new"))
    entry.train()
    assert files(store / "new") == ["0/network.npz", TRANSFER_MANIFEST]
    assert len(calls) == 1


def test_a_training_starts_from_the_downloaded_model(entry, calls, store, tmp_path):
    entry.set_model_save_dir(None)
    entry.set_checkpoint_dir(tmp_path / "start")
    entry.set_hdfs_info("file://", UGI, fs_checkpoint_dir=str(store / "first"))
    entry.train()
    assert calls[0][3] == ["3", TRANSFER_MANIFEST]


def test_an_empty_checkpoint_dir_is_replaced_an_equal_one_kept_and_another_refused(
    entry, calls, store, tmp_path
):
    (tmp_path / "start").mkdir()
    entry.set_model_save_dir(None)
    entry.set_checkpoint_dir(tmp_path / "start")
    entry.set_hdfs_info("file://", UGI, fs_checkpoint_dir=str(store / "first"))
    entry.train()
    before = (tmp_path / "start").stat().st_ino
    entry.train()
    assert (tmp_path / "start").stat().st_ino == before
    (tmp_path / "start" / "mine").write_bytes(b"")
    with pytest.raises((ConflictError, FormatError)):
        entry.train()
    assert "mine" in files(tmp_path / "start")
    assert len(calls) == 2


def taken(entry, store):
    entry.set_hdfs_info("file://", UGI, str(store / "first"))


def no_parent(entry, store):
    entry.set_hdfs_info("file://", UGI, str(store / "no" / "parent"))


def no_save(entry, store):
    entry.set_checkpoint_dir(store / "local")
    entry.set_hdfs_info("file://", UGI, fs_checkpoint_dir=str(store / "first"))


def no_checkpoint(entry, store):
    entry.set_checkpoint_dir(store / "local")
    entry.set_hdfs_info("file://", UGI, str(store / "new"))


def nowhere_to_download(entry, store):
    entry.set_hdfs_info("file://", UGI, str(store / "new"), str(store / "first"))


def nothing_to_upload(entry, store):
    entry.set_model_save_dir(None)
    entry.set_hdfs_info("file://", UGI, str(store / "new"))


def nothing_to_download(entry, store):
    entry.set_checkpoint_dir(store / "local")
    entry.set_hdfs_info("file://", UGI, str(store / "new"), str(store / "missing"))


def one_folder_for_both(entry, store):
    entry.set_checkpoint_dir(entry.settings.model_save_dir)
    entry.set_hdfs_info("file://", UGI, str(store / "new"), str(store / "first"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (taken, "is taken; nothing was trained"),
        (no_parent, "for the upload, there is none"),
        (no_save, r"fs_dir_for_save=…\) beside model_save_dir.*set_model_save_dir\(None\)"),
        (no_checkpoint, "expected a checkpoint in .*local, found none"),
        (nowhere_to_download, r"set_checkpoint_dir\(\) beside fs_checkpoint_dir"),
        (nothing_to_upload, r"set_model_save_dir\(\) beside fs_dir_for_save"),
        (nothing_to_download, "there is none; nothing was trained"),
        (one_folder_for_both, "two folders"),
    ],
)
def test_a_transfer_that_cannot_succeed_is_refused_before_the_training(
    entry, calls, store, change, message
):
    change(entry, store)
    with pytest.raises(ConfigError, match=message):
        entry.train()
    assert not calls
    assert files(store / "first") == ["3/network.npz", TRANSFER_MANIFEST]


def test_a_store_that_refuses_writing_is_found_before_the_training(
    entry, calls, store, monkeypatch
):
    entry.set_hdfs_info("file://", UGI, str(store / "new"))

    def refuses(*_):
        raise AccessDeniedError("no")

    with monkeypatch.context() as patched:
        patched.setattr(Location, "make_dir", refuses)
        with pytest.raises(AccessDeniedError):
            entry.train()
    assert not calls
    entry.train()
    assert sorted(path.name for path in store.iterdir()) == ["first", "new"]


def test_a_check_of_the_store_that_was_killed_leaves_nothing_after_the_next(
    entry, calls, store, monkeypatch
):
    entry.set_hdfs_info("file://", UGI, str(store / "new"))
    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "delete", lambda *_, **__: os.kill(os.getpid(), 9))
        assert in_a_fork(lambda: check_store(entry.settings, uploads=True)) == -9
    assert len(list(store.iterdir())) == 2
    check_store(entry.settings, uploads=True)
    assert [path.name for path in store.iterdir()] == ["first"]


def test_an_upload_that_fails_keeps_the_model_here(entry, calls, store, monkeypatch):
    entry.set_hdfs_info("file://", UGI, str(store / "new"))

    def fails(*_):
        raise StorageError("the store is away")

    monkeypatch.setattr("trainfeed.compat.plsc.entry.upload", fails)
    with pytest.raises(StorageError, match="away"):
        entry.train()
    assert files(entry.settings.model_save_dir) == ["0/network.npz"]


def test_a_training_that_uploads_goes_on_from_its_own_checkpoints(entry, calls, store, monkeypatch):
    entry.set_hdfs_info("file://", UGI, str(store / "new"))
    saved = entry.settings.model_save_dir

    def fails(*_):
        raise StorageError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr("trainfeed.compat.plsc.entry.upload", fails)
        with pytest.raises(StorageError, match="away"):
            entry.train()
    entry.set_checkpoint_dir(saved)
    entry.train()
    assert calls[1][3] == ["0"]
    assert files(store / "new") == ["0/network.npz", TRANSFER_MANIFEST]


def ranked(monkeypatch, rank, store, folder):
    monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    made = EntrySetters()
    made.set_checkpoint_dir(folder)
    made.set_hdfs_info("file://", UGI, fs_checkpoint_dir=str(store / "first"))
    return made.settings


def test_other_ranks_wait_until_rank_0_has_the_whole_folder(monkeypatch, store, tmp_path):
    folder = tmp_path / "start"
    folder.mkdir()
    first, second = (ranked(monkeypatch, rank, store, folder) for rank in (0, 1))
    seen = []
    waiting = threading.Thread(
        target=lambda: (download_model(second, timeout_s=60), seen.append(files(folder)))
    )
    waiting.start()
    download_model(first)
    waiting.join()
    assert seen == [["3/network.npz", TRANSFER_MANIFEST]]


def test_the_wait_for_rank_0_has_an_end(monkeypatch, store, tmp_path):
    settings = ranked(monkeypatch, 1, store, tmp_path / "start")
    with pytest.raises(StorageError, match=r"within 0\.1 s.*rank 0"):
        download_model(settings, timeout_s=0.1)


def test_a_folder_of_an_earlier_download_is_not_taken_for_the_model(monkeypatch, store, tmp_path):
    settings = ranked(monkeypatch, 1, store, tmp_path / "start")
    (tmp_path / "model" / "3" / "network.npz").write_bytes(b"older")
    upload(tmp_path / "model", Location.parse(str(tmp_path / "start")))
    with pytest.raises(ConflictError, match="manifest"):
        download_model(settings, timeout_s=60)


def test_the_other_ranks_upload_nothing(monkeypatch, calls, store, tmp_path):
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    second = Entry()
    second.set_with_test(False)
    second.set_model_save_dir(tmp_path / "output")
    second.set_hdfs_info("file://", UGI, str(store / "new"))
    second.set_train_reader(sample_reader=lambda: iter(()))
    second.train()
    assert len(calls) == 1
    assert not (store / "new").exists()


def test_a_user_other_than_that_of_the_environment_is_refused(entry, calls, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "other")
    entry.set_hdfs_info("127.0.0.1:1", UGI, "some_dir", "other_dir")
    entry.set_checkpoint_dir("downloaded")
    entry.test_reader = entry.predict_reader = entry.train_reader
    for method in (entry.train, entry.test, entry.predict, entry.convert_for_prediction):
        with pytest.raises(ConfigError, match="HADOOP_USER_NAME to be 'name'"):
            method()
    assert not calls


def test_tests_and_predictions_download_their_model_and_upload_nothing(
    entry, calls, store, tmp_path
):
    entry.set_checkpoint_dir(tmp_path / "start")
    entry.set_hdfs_info("file://", UGI, str(store / "first"), str(store / "first"))
    entry.test_reader = entry.predict_reader = entry.train_reader
    entry.test()
    entry.predict()
    entry.convert_for_prediction()
    assert [start for *_, start in calls] == [["3", TRANSFER_MANIFEST]] * 3
    assert [path.name for path in store.iterdir()] == ["first"]


PROGRAM = """
import glob, logging, pathlib, sys
logging.basicConfig(level=logging.DEBUG)
from trainfeed.compat.plsc import Entry, Report, engine
ugi, store = sys.stdin.read().split("|")

def train(settings, readers):
    (settings.model_save_dir / "network.npz").write_bytes(b"model")
    print(settings, settings.hdfs, readers)
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            print(pathlib.Path(path).read_bytes())
        except OSError:
            pass
    return Report()

engine.train = train
entry = Entry()
entry.set_with_test(False)
entry.set_loss_type("softmax")
entry.set_model_save_dir(store + "/output")
entry.set_train_reader(sample_reader=lambda: iter(()))
entry.set_hdfs_info("file://", ugi, store + "/new")
print(entry.train())
entry.train()
"""


def test_no_log_no_message_and_no_command_line_has_the_password(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=f"{UGI}|{tmp_path}",
        env={"PYTHONPATH": str(ROOT / "include")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the password of fs_ugi is not used" in done.stderr
    assert "is taken; nothing was trained" in done.stderr  # the traceback of the second training
    assert (tmp_path / "new" / "network.npz").read_bytes() == b"model"
    assert CANARY not in done.stdout + done.stderr
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert not any(CANARY.encode() in data for data in written)


def test_that_the_password_is_not_used_is_said(entry, calls, store, caplog):
    entry.set_hdfs_info("file://", UGI, str(store / "new"))
    with caplog.at_level(logging.INFO):
        entry.train()
    assert "the password of fs_ugi is not used" in caplog.text
