"""Compares the contents of two trees, or a folder with the list of digests that lies in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from trainfeed.errors import ChecksumError, ConfigError, FormatError, NotFoundError
from trainfeed.files.stores.folder_manifest import TRANSFER_MANIFEST, FolderManifest
from trainfeed.serving.pfs.copy_plan import Place
from trainfeed.serving.pfs.tree import CHUNK_BYTES, Entry, Kind, is_unfinished_name

# --- The differences that a comparison has found


@dataclass(frozen=True)
class Difference:
    """One name at which two contents differ.

    Attributes:
        name: The name below the folder; empty if two files were compared.
        what: What was expected and what was found.
    """

    name: str
    what: str


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        files: Number of files whose bytes were compared.
        num_bytes: Sum of their sizes on one side.
        differences: Where the contents differ; empty if they are equal.
    """

    files: int
    num_bytes: int
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "differences": [asdict(each) for each in self.differences]}


# --- Compares a folder with the list of its files that lies in it

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


# --- Compares two files or two folders by the digests of their chunks


def compare_places(one: Place, other: Place) -> Comparison:
    """Compare the bytes of two files, or of all files in two folders; both sides are read.

    Raises:
        ConfigError: One side is a folder and the other a file, or one is neither.
        StorageError: A tree refused or failed.
    """
    first, second = one.tree.stat(one.parts), other.tree.stat(other.parts)
    if first.kind is not second.kind or first.kind not in (Kind.FILE, Kind.FOLDER):
        raise ConfigError(
            f"expected two files or two folders, got a {first.kind}, {one.shown}, and a"
            f" {second.kind}, {other.shown}; nothing was compared"
        )
    differences: list[Difference] = []
    if first.kind is Kind.FOLDER:
        pairs = list(_pairs("", one, other, differences))
    else:
        pairs = list(_sized("", (one, first), (other, second), differences))
    with ThreadPoolExecutor(_THREADS, "pfs-compare") as threads:
        found = threads.map(lambda pair: _differ(*pair), pairs)
        differences += (each for each in found if each is not None)
    num_bytes = sum(size for *_, size in pairs)
    return Comparison(len(pairs), num_bytes, tuple(sorted(differences, key=lambda d: d.name)))


def _pairs(
    above: str, one: Place, other: Place, differences: list[Difference]
) -> Iterator[tuple[str, Place, Place, int]]:
    """Yield the files that both folders have with one size; note everything else."""
    first, second = _entries(one), _entries(other)
    for name in sorted(first.keys() | second.keys()):
        path, here, there = f"{above}{name}", first.get(name), second.get(name)
        if here is None or there is None:
            place = one if there is None else other
            differences.append(Difference(path, f"only in {place.shown}"))
        elif here.kind is not there.kind:
            differences.append(Difference(path, f"a {here.kind} and a {there.kind}"))
        elif here.kind is Kind.FOLDER:
            yield from _pairs(f"{path}/", one.joined(name), other.joined(name), differences)
        elif here.kind is Kind.FILE:
            sides = (one.joined(name), here), (other.joined(name), there)
            yield from _sized(path, *sides, differences)
        else:
            differences.append(Difference(path, f"a {here.kind} on both sides is not compared"))


def _entries(place: Place) -> dict[str, Entry]:
    entries = place.tree.entries(place.parts)
    return {each.name: each for each in entries if not is_unfinished_name(each.name)}


def _sized(
    path: str,
    one: tuple[Place, Entry],
    other: tuple[Place, Entry],
    differences: list[Difference],
) -> Iterator[tuple[str, Place, Place, int]]:
    sizes = one[1].num_bytes, other[1].num_bytes
    if sizes[0] == sizes[1]:
        yield path, one[0], other[0], sizes[0]
    else:
        differences.append(Difference(path, f"{sizes[0]} and {sizes[1]} bytes"))


def _differ(path: str, one: Place, other: Place, _: int) -> Difference | None:
    first, second = one.tree.digests(one.parts), other.tree.digests(other.parts)
    if first == second:
        return None
    pairs = enumerate(zip(first.chunks, second.chunks, strict=False))
    differing = [index for index, (left, right) in pairs if left != right]
    return Difference(
        path,
        f"{max(1, len(differing))} of {len(first.chunks)} chunks differ, first {differing[:1]}",
    )
