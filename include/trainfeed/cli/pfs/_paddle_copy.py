"""``trainfeed paddle cp``: ``trainfeed pfs cp`` that copies sets of shards with their manifests.

PaddlePaddle's documents copy converted files as ``random_images-*-of-*``, and promise that a reader
gives the samples that were converted. The manifest beside the files says what their records are,
and the pattern does not match it: a reader of the copies alone would give bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import wraps
from typing import Any

from trainfeed.cli._printing import print_message
from trainfeed.cli.pfs._copy_command import copy
from trainfeed.errors import NotFoundError
from trainfeed.paths import ShardName, manifest_name
from trainfeed.pfs.copy_plan import Place, expanded, is_there
from trainfeed.pfs.places import Places

__all__ = ["copy_with_manifests"]


# The arguments and options are those of ``copy``.
@wraps(copy, assigned=("__annotations__",))
def copy_with_manifests(paths: list[str], **options: Any) -> None:
    """Copy files and folders; a whole set of shards with the manifest beside it."""
    manifests = _missing_manifests(paths[:-1])
    for each in manifests:
        print_message(f"{each} is copied too: it says what the records of these files are")
    copy([*paths[:-1], *manifests, *paths[-1:]], **options)


def _missing_manifests(sources: list[str]) -> list[str]:
    """Return the manifests of whole sets among the sources that are not sources themselves."""
    with Places() as places:
        found = {each.address: each for text in sources for each in _expanded(places, text)}
        wanted = (each for each in _manifests(found.values()) if each.address not in found)
        return [each.shown for each in wanted if is_there(each)]


def _expanded(places: Places, text: str) -> list[Place]:
    try:
        return expanded(places.place(text))
    except NotFoundError:
        return []  # the copy names the source that is not there


def _manifests(files: Iterable[Place]) -> Iterator[Place]:
    numbers: defaultdict[tuple[str, ShardName], set[int]] = defaultdict(set)
    folders: dict[tuple[str, ShardName], Place] = {}
    for place in files:
        name = ShardName.parse(place.parts[-1]) if place.parts else None
        if name is not None:
            above = Place(place.tree, place.parts[:-1])
            one_set = (above.address, name._replace(number=0))
            numbers[one_set].add(name.number)
            folders[one_set] = above
    for one_set, above in folders.items():
        # A part of a set stays without a manifest, which would call the other shards missing.
        if len(numbers[one_set]) == one_set[1].num_shards:
            yield above.joined(manifest_name(one_set[1].prefix))
