"""Compares a folder with the list of its files that lies in it.

The list of a transferred folder is ``TRANSFER.json``; that of a published version is
``MANIFEST.json``, whose own digest is in ``MANIFEST.sha256``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final, TypeAlias

from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.pfs.comparison._differences import Comparison, Difference
from trainfeed.pfs.transfer import Place
from trainfeed.pfs.trees import CHUNK_BYTES, Kind, is_unfinished_name
from trainfeed.storage.folder_manifest import TRANSFER_MANIFEST, FolderManifest

__all__ = ["compare_with_list"]

_MANIFEST: Final = "MANIFEST.json"
_SUM: Final = "MANIFEST.sha256"
# Files of a version that its manifest does not list.
_UNLISTED: Final = frozenset({_MANIFEST, _SUM, "BUILT.json"})
VersionFiles: TypeAlias = Callable[[bytes], Mapping[str, tuple[int, str]]]

_MAX_BYTES: Final = 64 << 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_THREADS: Final = 4


def compare_with_list(folder: Place, *, version_files: VersionFiles) -> Comparison:
    """Compare a folder with its list: every file is read, and no file may be missing or added.

    Args:
        folder: A transferred folder, or a published version.
        version_files: Returns name → (bytes, SHA-256 in hex) of the bytes of a version's manifest.

    Raises:
        NotFoundError: There is no list in the folder.
        FormatError: The list is damaged.
        StorageError: The tree refused or failed.
    """
    names = {entry.name for entry in folder.tree.entries(folder.parts)}
    if TRANSFER_MANIFEST in names:
        place, unlisted = folder.joined(TRANSFER_MANIFEST), frozenset({TRANSFER_MANIFEST})
        manifest = FolderManifest.from_bytes(_whole(place), path=place.shown)
        listed = {file.name: file.sha256 for file in manifest.files}
    elif _SUM in names:
        place, unlisted = folder.joined(_MANIFEST), _UNLISTED
        data = _published(place, folder.joined(_SUM))
        listed = {name: sha256 for name, (_, sha256) in version_files(data).items()}
    else:
        raise NotFoundError(
            f"{folder.shown}: expected {TRANSFER_MANIFEST} or {_SUM} in the folder, got neither;"
            " nothing was compared; name a second folder to compare with"
        )
    further = sorted(set(_names("", folder)) - listed.keys() - unlisted)
    with ThreadPoolExecutor(_THREADS, "pfs-compare") as threads:
        found = list(threads.map(lambda item: _checked(folder, *item), listed.items()))
    differences = [Difference(name, f"not in {place.shown}") for name in further]
    differences += [each for each in found if isinstance(each, Difference)]
    num_bytes = sum(each for each in found if isinstance(each, int))
    return Comparison(len(found), num_bytes, tuple(differences))


def _published(manifest: Place, sum_file: Place) -> bytes:
    """Return the bytes of a version's manifest, which have the digest that lies beside it."""
    data, promised = _whole(manifest), _whole(sum_file).strip().decode(errors="replace")
    if not _DIGEST.fullmatch(promised):
        raise FormatError(f"expected 64 hex digits, got {promised[:80]!r}", path=sum_file.shown)
    if (actual := hashlib.sha256(data).hexdigest()) != promised:
        raise ChecksumError(
            f"expected a manifest with SHA-256 {promised}, got {actual}", path=manifest.shown
        )
    return data


def _checked(folder: Place, name: str, sha256: str) -> int | Difference:
    """Return the size of a file with the listed digest, or how it differs."""
    place = folder.joined(*name.split("/"))
    digest, offset, buffer = hashlib.sha256(), 0, memoryview(bytearray(CHUNK_BYTES))
    try:
        with closing(place.tree.open_source(place.parts)) as source:
            while count := source.read_into(offset, buffer):
                digest.update(buffer[:count])
                offset += count
            source.require_same()
    except NotFoundError:
        return Difference(name, "listed, and not there")
    except FormatError as error:
        return Difference(name, str(error))
    if digest.hexdigest() != sha256:
        return Difference(name, f"expected SHA-256 {sha256[:12]}…, got {digest.hexdigest()[:12]}…")
    return offset


def _whole(place: Place) -> bytes:
    with closing(place.tree.open_source(place.parts)) as source:
        size = source.state.num_bytes
        if size > _MAX_BYTES:
            raise FormatError(f"expected at most {_MAX_BYTES} bytes, got {size}", path=place.shown)
        buffer = bytearray(size)
        count = source.read_into(0, memoryview(buffer))
        source.require_same()
    return bytes(buffer[:count])


def _names(above: str, folder: Place) -> Iterator[str]:
    for entry in folder.tree.entries(folder.parts):
        if entry.kind is Kind.FOLDER:
            yield from _names(f"{above}{entry.name}/", folder.joined(entry.name))
        elif not is_unfinished_name(entry.name):
            yield f"{above}{entry.name}"
