"""``python -m benchmarks.services.hdfs_logs LINES…``: log files on HDFS, read as records.

Method: the files are copied to HDFS once. In turns: ``hdfs dfs -cat`` of all of them, its output
digested here; the same bytes through ``webhdfs://`` and ``hdfs://``; and their lines as records, as
a build reads them. All digests are of the same bytes and must be equal. The first row has the start
of Java, which is timed alone (``-cat`` of an empty file), too.

    python -m services run hdfs -- python -m benchmarks.services.hdfs_logs FOLDER/x10/lines/*.json
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.compute as pc
import xxhash

from benchmarks.services._turns import take_turns
from services._java import JavaProgram
from services.hdfs import Hdfs
from trainfeed.files.stores import Location
from trainfeed.sources.log_lines import LineRange, iter_lines

_BLOCK: Final = 1 << 20
_FOLDER: Final = "benchmark-logs"
_EMPTY: Final = "empty"


def main() -> None:
    """Copy the files, and print the medians."""
    files = [Path(each) for each in sys.argv[1:]]
    roots = {
        kind: Location.parse(f"{os.environ[kind]}/{_FOLDER}")
        for kind in ("TEST_WEBHDFS_URI", "TEST_HDFS_URI")
    }
    for file in files:
        target = roots["TEST_WEBHDFS_URI"] / file.name
        if not target.exists():
            with file.open("rb") as source, target.open_write() as copy:
                while block := source.read(_BLOCK):
                    copy.write(block)
    names = [file.name for file in files]
    take_turns(
        {
            "hdfs dfs -cat": lambda: _cat(names),
            "webhdfs, bytes": lambda: _bytes(roots["TEST_WEBHDFS_URI"], names),
            "native, bytes": lambda: _bytes(roots["TEST_HDFS_URI"], names),
            "webhdfs, records": lambda: _records(roots["TEST_WEBHDFS_URI"], names),
            "native, records": lambda: _records(roots["TEST_HDFS_URI"], names),
        },
        rounds=3,
    )
    (roots["TEST_WEBHDFS_URI"] / _EMPTY).write_atomic(lambda _: None)
    take_turns({"hdfs dfs -cat of an empty file": lambda: _cat([_EMPTY])}, rounds=3)


def _cat(names: list[str]) -> str:
    java = JavaProgram("hdfs", Hdfs._POM, resources=None)  # noqa: SLF001 - its own class path
    uri = os.environ["TEST_HDFS_URI"]
    paths = [f"{uri}/{_FOLDER}/{name}" for name in names]
    digest = xxhash.xxh3_128()
    with tempfile.TemporaryDirectory() as settings:
        # The shell wants the files to be there; its defaults are those of Hadoop.
        for name in ("core-site.xml", "hdfs-site.xml"):
            (Path(settings) / name).write_text("<configuration/>")
        # Not the flags of our test services: they make Java start faster, and run slower.
        jars = ":".join([settings, *map(str, java.jars())])
        command = ["java", "-Xmx512m", "-cp", jars, "org.apache.hadoop.fs.FsShell", "-cat", *paths]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            while process.stdout is not None and (block := process.stdout.read(_BLOCK)):
                digest.update(block)
    if process.returncode:
        raise ChildProcessError(f"hdfs dfs -cat ended with status {process.returncode}")
    return digest.hexdigest()


def _records(root: Location, names: list[str]) -> str:
    """Digest the lines, each with the line end that its record has not."""
    digest = xxhash.xxh3_128()
    for name in names:
        size = (root / name).stat().size_bytes
        span = LineRange(root / name, "none", size, 0, size, 0, 1 << 20)
        for batch in iter_lines(span):
            values = pc.binary_join_element_wise(batch.column("value"), b"\n", b"")
            _, _, data = values.buffers()
            ends = np.frombuffer(values.buffers()[1], "<i4", len(values) + 1, values.offset * 4)
            digest.update(memoryview(data)[ends[0] : ends[-1]])
    return digest.hexdigest()


def _bytes(root: Location, names: list[str]) -> str:
    digest = xxhash.xxh3_128()
    for name in names:
        with (root / name).open_read() as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


if __name__ == "__main__":
    main()
