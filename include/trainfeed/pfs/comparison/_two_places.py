"""Compares two files or two folders by the digests of their chunks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from trainfeed.errors import ConfigError
from trainfeed.pfs.comparison._differences import Comparison, Difference
from trainfeed.pfs.transfer import Place
from trainfeed.pfs.trees import Entry, Kind, is_unfinished_name

__all__ = ["compare_places"]

_THREADS: Final = 4


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
