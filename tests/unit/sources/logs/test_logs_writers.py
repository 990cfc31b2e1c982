"""Every name that common writers leave in a folder of logs is read, passed over, or refused.

Each row lies in a folder of its own, with ``app.log`` and the marker beside it. A file has a line
in it, so that nothing is harmless because it is empty.
"""

import os
import socket

import pytest

from trainfeed.errors import FormatError
from trainfeed.files.stores import Location
from trainfeed.sources import FolderTree, list_entries

READ, STOPS = "read", "stops"
MARKER = "_SUCCESS"

# (writer, name, what becomes of it); a name with a last "/" is a folder.
LEFT = [
    ("Flume", "FlumeData.1700000000000", READ),
    ("Flume", "FlumeData.1700000000000.tmp", "unfinished"),
    ("Flume", "_FlumeData.1700000000000.tmp", "hidden"),
    ("Flume", ".flumespool/", "hidden"),
    ("Hadoop put", "other.log._COPYING_", "unfinished"),
    ("Hadoop put", "other.log.gz._COPYING_", "unfinished"),
    ("Hadoop put", ".other.log.crc", "hidden"),
    ("Hadoop distcp", ".distcp.tmp.attempt_1700000000000_0001_m_000000_0", "hidden"),
    ("Hadoop distcp", "other.log.____distcpSplit____0.1073741824", "unfinished"),
    ("Hadoop distcp", "._WIP_1700000000", "hidden"),
    ("Hadoop on object stores", "hour=05_$folder$", "marker"),
    ("rsync", ".other.log.Ab12Cd", "hidden"),
    ("rsync", ".rsync-partial/", "hidden"),
    ("rsync", ".~tmp~/", "hidden"),
    ("rsync", "app.log~", "backup"),
    ("rsync", "app.log.bak", "backup"),
    ("Spark", "part-00000-5b7c-c000.txt", READ),
    ("Spark", "part-00000-5b7c-c000.txt.gz", READ),
    ("Spark", "part-00000-5b7c-c000.snappy.parquet", STOPS),
    ("Spark", "_temporary/", "hidden"),
    ("Spark", "_started_4711", "hidden"),
    ("Spark", "_committed_4711", "hidden"),
    ("Spark", "_spark_metadata/", "hidden"),
    ("Spark", "._SUCCESS.crc", "hidden"),
    ("Spark", ".spark-staging-8a0d/", "hidden"),
    ("Flink", "part-3f2a-0", READ),
    ("Flink", ".part-3f2a-0.inprogress.9f2d8c61-77a3", "hidden"),
    ("Flink", "part-3f2a-0.inprogress.9f2d8c61-77a3", "unfinished"),
    ("Flink", "part-3f2a-0.inprogress", "unfinished"),
    ("Flink", "_part-0-0.in-progress", "hidden"),
    ("Flink", "part-0-0.in-progress", "unfinished"),
    ("Flink", "_part-0-0.pending", "hidden"),
    ("Flink", "part-0-0.pending", STOPS),
    ("logrotate", "app.log.1", READ),
    ("logrotate", "app.log.2.gz", READ),
    ("logrotate", "app.log-20260101", READ),
    ("logrotate", "app.log.20260101", READ),
    ("logrotate", "app.log-20260101.gz", READ),
    ("logrotate", "app.log.gz", STOPS),
    ("logrotate", "app.log.1.gz-2026010112.backup", "backup"),
    ("logrotate", "app.log.old", READ),
    ("vector", "vector-2026-01-01.log", READ),
    ("vector", "vector-2026-01-01.log.gz", READ),
    ("vector", "vector-2026-01-01.log.zst", READ),
    ("vector", "vector.lock", "lock"),
    ("emacs", "app.log~", "backup"),
    ("emacs", "app.log.~3~", "backup"),
    ("emacs", "#app.log#", "backup"),
    ("vim", ".app.log.swp", "hidden"),
    ("vim", "app.log.swp", "unfinished"),
    ("vim", "app.log.orig", "backup"),
    ("nano", "app.log.save", "backup"),
    ("sed -i", "sedAb12Cd", STOPS),
    ("sed -i.bak", "app.log.bak", "backup"),
    ("JetBrains", "app.log___jb_tmp___", "unfinished"),
    ("JetBrains", "app.log___jb_old___", "backup"),
    ("Office", "~$book.csv", "lock"),
    ("macOS", ".DS_Store", "hidden"),
    ("macOS", "._app.log", "hidden"),
    ("macOS", "__MACOSX/", "hidden"),
    ("macOS", ".fseventsd/", "hidden"),
    ("macOS", "Icon\r", "system"),
    ("macOS", "other.log.download/", STOPS),
    ("Windows", "Thumbs.db", "system"),
    ("Windows", "desktop.ini", "system"),
    ("gzip -k", "app.log.gz", STOPS),
    ("gzip -S .z", "app.log.z", STOPS),
    ("zstd", "app.log.zst", STOPS),
    ("bzip2 -k", "app.log.bz2", STOPS),
    ("xz -k", "app.log.xz", STOPS),
    ("lzop", "app.log.lzo", STOPS),
    ("bgzip", "app.log.gzi", "index"),
    ("lzop", "app.log.index", "index"),
    ("NFS", ".nfs00000000038c2a1e00000004", "hidden"),
    ("NFS", ".snapshot/", "hidden"),
    ("NFS", ".afs1234", "hidden"),
    ("FUSE", ".fuse_hidden0000001200000001", "hidden"),
    ("Kafka Connect", "+tmp/", "unfinished"),
    ("rclone", "other.log.3f2a9c1d.partial", "unfinished"),
    ("WinSCP", "other.log.filepart", "unfinished"),
    ("gsutil", "other.log_.gstmp", "unfinished"),
    ("mc", "other.log.8d1e.part.minio", "unfinished"),
    ("curl, wget, Firefox", "other.log.part", STOPS),
    ("Chrome", "other.log.crdownload", "unfinished"),
    ("Java", "app.log.lck", "lock"),
    ("a daemon", "app.pid", "lock"),
    ("md5sum", "app.log.md5", "checksum"),
    ("sha256sum", "SHA256SUMS", "checksum"),
    ("md5sum", "md5sums.txt", "checksum"),
    ("gpg", "app.log.asc", "checksum"),
    ("gpg", "app.log.gpg", STOPS),
    ("a script", "DONE", "marker"),
    ("a script", "READY", "marker"),
    ("a script", "success.txt", "marker"),
    ("a script", "app.log.done", "marker"),
    ("a script", "app.done", STOPS),
    ("a script", "app.ok", "marker"),
    ("a script", "2026-01-01.flag", "marker"),
    ("a script", ".done", "hidden"),
    ("a script", "hour=05/", STOPS),
    ("tar", "app.tar", STOPS),
    ("tar", "app.tar.gz", STOPS),
    ("tar", "app.tgz", STOPS),
    ("Avro", "part-0.avro", STOPS),
    ("ORC", "part-0.orc", STOPS),
    ("TensorFlow", "part-0.tfrecord", STOPS),
]  # fmt: skip


def entries_of(folder, marker=MARKER):
    return list_entries(FolderTree(Location.parse(str(folder))), marker)


def put(folder, name, data=b"a line\n"):
    path = folder / name.rstrip("/")
    path.mkdir() if name.endswith("/") else path.write_bytes(data)
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "day"
    path.mkdir()
    put(path, "app.log")
    put(path, MARKER, b"")
    return path


@pytest.mark.parametrize(("writer", "name", "becomes"), LEFT, ids=lambda each: repr(each)[1:-1])
def test_what_a_writer_leaves_is_read_or_named_or_refused(folder, writer, name, becomes):
    put(folder, name)
    entries = entries_of(folder)
    logs = [info.name for info in entries.logs]
    if becomes == STOPS:
        assert any(name.rstrip("/") in each.names for each in entries.refused)
        with pytest.raises(FormatError, match="nothing was read or published"):
            entries.require()
        return
    entries.require()
    told = {ascii(each)[1:-1] if not each.isprintable() else each for each in [name.rstrip("/")]}
    if becomes == READ:
        assert logs == sorted(["app.log", name])
        assert entries.passed_over == {MARKER: "marker"}
    else:
        assert logs == ["app.log"]
        assert entries.passed_over == {MARKER: "marker", **dict.fromkeys(told, becomes)}


@pytest.mark.parametrize("marker", ["READY", "a.log", ".done", "part.gz", "x.parquet"])
def test_the_marker_of_the_specification_is_never_read(folder, marker):
    put(folder, marker, b"lines=1\n")
    entries = entries_of(folder, marker).require()
    assert [info.name for info in entries.logs] == ["app.log"]
    assert entries.passed_over == {marker: "marker", MARKER: "hidden"}


def test_a_marker_may_be_a_folder(folder):
    put(folder, "READY/")
    assert entries_of(folder, "READY").require().passed_over["READY"] == "marker"


def test_files_that_all_end_like_markers_are_logs(tmp_path):
    """Flume, and others, rename a log once they have read it."""
    for name in ("a.log.COMPLETED", "b.log.COMPLETED"):
        put(tmp_path, name)
    entries = entries_of(tmp_path).require()
    assert [info.name for info in entries.logs] == ["a.log.COMPLETED", "b.log.COMPLETED"]


@pytest.mark.parametrize(
    "names",
    [("a.log", "a.log.gz"), ("a.log", "a.log.zst"), ("a.gz", "a.zst"), ("a", "a.gz", "a.zst")],
    ids=str,
)
def test_twins_stop_the_build_and_are_named(tmp_path, names):
    for name in names:
        put(tmp_path, name)
    with pytest.raises(FormatError, match="count twice") as caught:
        entries_of(tmp_path).require()
    assert all(repr(name) in str(caught.value) for name in names)


def test_an_empty_file_is_no_twin(tmp_path):
    """A writer begins anew where a compressor has taken the file away."""
    put(tmp_path, "a.log", b"")
    put(tmp_path, "a.log.gz")
    assert len(entries_of(tmp_path).require().logs) == 2


@pytest.mark.parametrize("name", ["a.log.bak", "a.log.orig", "a.log.done", "a.log.index"])
def test_a_companion_without_its_file_is_a_log(tmp_path, name):
    put(tmp_path, name)
    assert [info.name for info in entries_of(tmp_path).require().logs] == [name]


def test_a_companion_of_a_compressed_file_is_one(tmp_path):
    put(tmp_path, "a.log.gz")
    put(tmp_path, "a.log.bak")
    put(tmp_path, "a.log.gz.done")
    assert entries_of(tmp_path).require().passed_over == {
        "a.log.bak": "backup",
        "a.log.gz.done": "marker",
    }


def test_a_file_of_which_only_the_start_is_valid_stops_the_build(folder):
    put(folder, "part-0-0")
    put(folder, "_part-0-0.valid-length")
    with pytest.raises(FormatError, match="only its first bytes are valid"):
        entries_of(folder).require()


def make_odd(path, kind):
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(os.path.relpath(path))
        case "loop":
            path.symlink_to(path)
        case "broken":
            path.symlink_to("nowhere")
        case "through a file":
            path.symlink_to("app.log/x")
        case "device":
            path.symlink_to("/dev/null")
        case "folder":
            path.symlink_to(path.parent.parent)


ODD = ["pipe", "socket", "loop", "broken", "through a file", "device", "folder"]


@pytest.mark.parametrize("kind", ODD)
def test_an_entry_that_is_no_file_stops_the_build(folder, kind, monkeypatch):
    monkeypatch.chdir(folder)
    make_odd(folder / "odd.log", kind)
    with pytest.raises(FormatError, match=r"expected only files, got .*odd\.log") as caught:
        entries_of(folder).require()
    assert caught.value.path.endswith("odd.log") or kind == "folder"


@pytest.mark.parametrize("kind", ODD)
def test_a_hidden_entry_that_is_no_file_is_named(folder, kind, monkeypatch):
    """Emacs locks a file by a link that leads nowhere."""
    monkeypatch.chdir(folder)
    make_odd(folder / ".#app.log", kind)
    assert entries_of(folder).require().passed_over[".#app.log"] == "hidden"


def test_a_link_to_a_log_beside_it_is_named_and_its_log_read_once(folder):
    (folder / "current").symlink_to("app.log")
    entries = entries_of(folder).require()
    assert [info.name for info in entries.logs] == ["app.log"]
    assert entries.passed_over["current"] == "link"


def test_a_link_to_an_unfinished_file_beside_it_is_not_read(folder):
    put(folder, "new.log.tmp")
    (folder / "current").symlink_to("new.log.tmp")
    assert entries_of(folder).require().passed_over["current"] == "link"


def test_a_link_out_of_the_folder_or_to_a_hidden_file_is_a_log(folder):
    put(folder.parent, "elsewhere")
    put(folder, ".data")
    (folder / "a").symlink_to("../elsewhere")
    (folder / "b").symlink_to(".data")
    assert [info.name for info in entries_of(folder).require().logs] == ["a", "app.log", "b"]


@pytest.mark.parametrize(
    "make", [os.link, lambda old, new: new.symlink_to(old)], ids=["hard", "soft"]
)
def test_two_names_of_one_file_stop_the_build(folder, make):
    original = put(folder.parent, "elsewhere")
    make(original, folder / "a.log")
    make(original, folder / "b.log")
    with pytest.raises(FormatError, match=r"'a\.log' and 'b\.log', which are names of one file"):
        entries_of(folder).require()


def test_the_first_of_several_faults_is_told_with_their_number(folder):
    put(folder, "x.parquet")
    put(folder, "y.orc")
    put(folder, "hour=05/")
    with pytest.raises(FormatError, match=r"hour=05.*\(and 2 more such entries\)"):
        entries_of(folder).require()


def test_names_that_cannot_be_written_are_told_with_escapes(folder):
    for name in (b"_a\xff", b"_a\nb"):
        (folder / os.fsdecode(name)).touch()
    assert {r"_a\udcff", r"_a\nb"} <= entries_of(folder).require().passed_over.keys()
