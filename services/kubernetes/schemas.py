"""Schemas and resource definitions of other projects, read from one archive with their digests.

``README.md`` beside the archive names module, version, folder and digest of every file. ``python -m
services.kubernetes.schemas`` downloads these modules with go, and makes the archive again: equal
files give an equal archive.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import lzma
import re
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from services._process import ServiceError, run_tool

FOLDER: Final = Path(__file__).parents[1] / "config" / "kubernetes" / "third_party"
ARCHIVE: Final = FOLDER / "schemas.tar.xz"
_ROW: Final = re.compile(
    r"^\| `(?P<name>[^`]+)` \| (?P<module>\S+)@(?P<version>\S+) \| `(?P<folder>[^`]+)` \|"
    r" [^|]+ \| `(?P<digest>[0-9a-f]{64})` \|$",
    re.MULTILINE,
)
_DOWNLOAD_S: Final = 600.0


class Published(NamedTuple):
    """A file as its project publishes it.

    Attributes:
        name: Name of the file.
        module: The Go module that contains it.
        version: Version of the module.
        folder: Folder of the file in the module.
        digest: SHA-256 of the file, hexadecimal.
    """

    name: str
    module: str
    version: str
    folder: str
    digest: str


def published() -> list[Published]:
    """Return the rows of the table beside the archive; ``LICENSE`` is no part of the archive."""
    return [
        Published(**row.groupdict()) for row in _ROW.finditer((FOLDER / "README.md").read_text())
    ]


def names() -> list[str]:
    """Return the names of the files in the archive, sorted."""
    return sorted(each.name for each in published() if each.name != "LICENSE")


def read_schema(name: str) -> bytes:
    """Return a file of the archive.

    Raises:
        ServiceError: The archive does not have the file, or not with the digest of the table.
    """
    digests = {each.name: each.digest for each in published()}
    data = _contents(ARCHIVE.read_bytes()).get(name)
    if data is None or hashlib.sha256(data).hexdigest() != digests.get(name):
        raise ServiceError(
            f"expected {name} in {ARCHIVE} with the digest of README.md beside it, got"
            f" {'another one' if data is not None else 'no such file'}; check the repository out"
            " again, or make the archive again: python -m services.kubernetes.schemas"
        )
    return data


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files by name, without times, owners and order of its own."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))
    return lzma.compress(data.getvalue(), preset=6)


@functools.cache
def _contents(archive: bytes) -> Mapping[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(archive))) as files:
        for entry in files:
            file = files.extractfile(entry)
            if file is not None:
                found[entry.name] = file.read()
    return found


def main() -> None:
    """Make the archive and ``LICENSE`` again from the modules of the table.

    Raises:
        ServiceError: A module could not be downloaded, or a file has another digest.
    """
    files = {each.name: _downloaded(each) for each in published()}
    (FOLDER / "LICENSE").write_bytes(files.pop("LICENSE"))
    ARCHIVE.write_bytes(archive_of(files))
    print(f"{ARCHIVE}: {len(files)} files")


def _downloaded(each: Published) -> bytes:
    command = ["go", "mod", "download", "-json", f"{each.module}@{each.version}"]
    said = run_tool(command, what=f"downloading {each.module}", timeout_s=_DOWNLOAD_S)
    data = (Path(json.loads(said)["Dir"]) / each.folder / each.name).read_bytes()
    if (found := hashlib.sha256(data).hexdigest()) != each.digest:
        raise ServiceError(
            f"expected {each.name} of {each.module}@{each.version} with SHA-256 {each.digest},"
            f" got {found}; nothing was written; write the new digest into README.md if it is right"
        )
    return data


if __name__ == "__main__":
    try:
        main()
    except ServiceError as error:
        sys.exit(str(error))
