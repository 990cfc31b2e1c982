"""``python -m benchmarks.services.publication FOLDER [MIB]``: a version of 1 GiB, published.

Method: eight files with the same random bytes in all ways, in turns. The baseline is ``cp`` of them
into a new folder, ``sync`` of that file system, and ``cmp`` of every file. Ours is what ``publish``
and the stage before do: every file written and digested as a ``StagedFile``, sealed, verified from
new descriptors, committed by one rename, confirmed. The baseline compares with what is in the page
cache, ours does, too. ``cmp`` proves equal bytes; ours proves equal SHA-256.

    python -m services run cephfs -- python -m benchmarks.services.publication FOLDER
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.services._turns import take_turns
from trainfeed.versions.publication import (
    StagedFile,
    commit_folder,
    compare_file,
    confirm_folder,
    seal_folder,
)

_BLOCK: Final = 1 << 20
_FILES: Final = 8
Way = Callable[[list[Path], Path], None]


def main() -> None:
    """Make the files, and print the medians."""
    target = Path(os.environ["TEST_CEPHFS_PATH"]) / "benchmark-publication"
    mebibytes = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
        sources = [Path(folder) / f"{number:05d}.recordio" for number in range(_FILES)]
        for source in sources:
            with source.open("wb") as file:
                for _ in range(mebibytes // _FILES):
                    file.write(os.urandom(_BLOCK))
        ways = {"cp, sync, cmp": _copy, "trainfeed": _publish}
        take_turns(
            {name: lambda way=way: _clean(way, sources, target) for name, way in ways.items()},
            rounds=3,
        )


def _clean(way: Way, sources: list[Path], target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    way(sources, target)


def _copy(sources: list[Path], target: Path) -> None:
    subprocess.run(["cp", *map(str, sources), str(target)], check=True)  # noqa: S607
    subprocess.run(["sync", "-f", str(target)], check=True)  # noqa: S607
    for source in sources:
        subprocess.run(["cmp", str(source), str(target / source.name)], check=True)  # noqa: S607


def _publish(sources: list[Path], target: Path) -> None:
    staging, version = target / "_staging", target / "versions" / "g0001"
    staged = staging / "plan"
    staged.mkdir(parents=True)
    digests = {}
    for source in sources:
        with source.open("rb") as read, StagedFile(staged, source.name, mode=0o444) as file:
            while block := read.read(_BLOCK):
                file.write(block)
        digests[source.name] = (file.num_bytes, file.sha256)
    seal_folder(staged)
    for name, (num_bytes, sha256) in digests.items():
        for problem in compare_file(staged / name, num_bytes, sha256):
            raise problem
    if not commit_folder(staged, version):
        raise FileExistsError(version)
    confirm_folder(version, staging)


if __name__ == "__main__":
    main()
