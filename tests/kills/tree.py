"""Two trees of files compared: what a killed command and its repetition left, and what they should.

No two runs have the same times, numbers of attempts and the like: ``_same_name`` and ``_canonical``
leave them out. A command that was killed and given again has done its work in two parts, and two
kinds of files say so. They may, and nothing else:

* the history has another entry for the second part. The first one names all that was to be done,
  as that of a run that nobody disturbed; the second names no more than that, or what is left in
  the trash; and a repair that had no space says that it failed, before the one that did not;
* the note that landing files were removed has the number of those that its removal found.

A pointer for which there is no space is taken away, and readers find the newest generation without
it, which ``look`` compares; the next build of the interval writes it again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Tree", "differences", "tree_of"]

# Name → mode and content.
Tree = dict[str, tuple[int, bytes]]
# Folders that a first removal, failure, attempt and lease make, and that stay. A build goes on
# without a note of its attempt, or a lease, if there is no space, and then has no such folder.
_OFTEN_EMPTY = ("_trash", "unpublished", "attempts", "_leases")

# A time, also in a name; the clock in milliseconds; how long something took; the number of a
# process, of a file; the seal of a file with a time in it.
_TIME = re.compile(rb"\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d:?\d\d(\.\d+)?(Z|\+00:00)?")
_CLOCK = re.compile(rb'"(clock_ms|seconds|pid|inode)": ?[0-9.]+')
_SEAL = re.compile(rb'"digest": "[0-9a-f]{64}"\n}\n$')
_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_HISTORY = re.compile(r"history/\d{6}/\d{8}T\d{6}\.\d{6}Z-([\w-]+)-[0-9a-f]{8}\.json")
_POINTER = re.compile(r"versions/[^/]+/CURRENT$")
_VERSION = re.compile(r"versions/[^/]+/g\d{4}$")
_NEW_S = 86_400
_NOTE = re.compile(rb'"files":(\d+)')
# What an entry of the history says of how much there was to do.
_AMOUNTS = frozenset({"bytes", "items", "files", "num_files"})
_BEGUN = "a removal that was begun"


def tree_of(folders: Sequence[Path], root: Path) -> Tree:
    """Return everything below some folders.

    Args:
        folders: The folders.
        root: The publication root, whose place is no part of a content.
    """
    return {
        f"{folder.name}/{name}": entry
        for folder in folders
        for name, entry in _entries(folder, os.fsencode(root))
    }


def differences(plain: Tree, found: Tree) -> list[str]:
    """Return what is lost, what is there besides, and what is other than in an undisturbed run."""
    lost = [f"lost {name}" for name in plain.keys() - found.keys() if not _POINTER.search(name)]
    more = [f"also {name}" for name in found.keys() - plain.keys()]
    other = [
        f"other {name}: {_shown(plain[name])} became {_shown(found[name])}"
        for name in plain.keys() & found.keys()
        if plain[name] != found[name] and not _is_note_of_the_rest(name, plain[name], found[name])
    ]
    return sorted(lost + more + other)


def _entries(folder: Path, root: bytes) -> Iterator[tuple[str, tuple[int, bytes]]]:
    history: list[tuple[str, tuple[int, bytes]]] = []
    for path in sorted(folder.rglob("*")):
        name, found = path.relative_to(folder).as_posix(), path.lstat()
        if path.name in _OFTEN_EMPTY and not any(path.iterdir()):
            continue
        data = _age(name, found) if path.is_dir() else path.read_bytes().replace(root, b"ROOT")
        entry = (found.st_mode, _canonical(data))
        if (match := _HISTORY.search(name)) is not None:
            history.append((match[1], entry))
        else:
            yield _same_name(name), entry
    # Names begin with the time, so these are in the order in which they were written.
    actions = [json.loads(data.replace(b"SEAL", b'"digest": ""}')) for _, (_, data) in history]
    counts: Counter[str] = Counter()
    for number, (name, entry) in enumerate(history):
        if not _is_of_the_parts(actions[number], actions[:number], actions[number + 1 :]):
            counts[name] += 1
            yield f"history/{name}-{counts[name]}", entry


def _age(name: str, found: os.stat_result) -> bytes:
    """Return which age a version has for retention, which goes by the time of its folder."""
    if not _VERSION.search(name):
        return b""
    return b"new" if found.st_mtime > time.time() - _NEW_S else b"of before"


def _is_of_the_parts(
    action: dict[str, Any], earlier: Sequence[dict[str, Any]], later: Sequence[dict[str, Any]]
) -> bool:
    """Return whether an entry of the history is there because the work had two parts.

    Args:
        action: The entry, without its time.
        earlier: Those before it.
        later: Those after it.
    """
    left = _amounts(action)
    if action["action"] in {"prune", "retire"} and left and all(map(_is_in_trash, left)):
        return True
    if action["action"] == "repair-failed":
        ends = [each for each in later if each["target"] == action["target"]]
        return any(each["action"] == "repaired" for each in ends)
    return any(
        all(_is_rest(item, _amounts(each).get(name)) for name, item in left.items())
        for each in earlier
        if _without_amounts(each) == _without_amounts(action)
    )


def _is_rest(left: tuple[str, str], whole: tuple[str, str] | None) -> bool:
    """Return whether something goes that was to go: as such, or because that has begun."""
    return whole is not None and left in (whole, (whole[0], _BEGUN))


def _without_amounts(action: dict[str, Any]) -> dict[str, Any]:
    details = {k: each for k, each in action["details"].items() if k not in _AMOUNTS}
    # With items, the reason is made of theirs.
    why = None if "items" in action["details"] else action["why"]
    return {**action, "why": why, "details": details}


def _amounts(action: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the items of an entry by name: the kind of each, and the reason."""
    details = action["details"]
    if isinstance(files := details.get("files"), dict):
        return {name: (kind, "") for name, kind in files.items()}
    return {each["name"]: (each["kind"], each["why"]) for each in details.get("items", ())}


def _is_in_trash(name: str) -> bool:
    return name.startswith("_trash/")


def _is_note_of_the_rest(name: str, plain: tuple[int, bytes], found: tuple[int, bytes]) -> bool:
    """Return whether a note of removed landing files tells of a part of them."""
    if not name.endswith("/LANDING_REMOVED.json") or plain[0] != found[0]:
        return False
    whole, part = (_NOTE.search(each[1]) for each in (plain, found))
    return (
        whole is not None
        and part is not None
        and 0 < int(part[1]) < int(whole[1])
        and _NOTE.sub(b"", plain[1]) == _NOTE.sub(b"", found[1])
    )


def _same_name(name: str) -> str:
    """Return a name without the number of the attempt that made it."""
    return _UUID.sub("UUID", name)


def _canonical(data: bytes) -> bytes:
    """Return a file without what no two runs have in common."""
    timeless = _CLOCK.sub(rb"\1", _TIME.sub(b"TIME", data))
    return data if timeless == data else _SEAL.sub(b"SEAL", timeless)


def _shown(entry: tuple[int, bytes]) -> str:
    return f"{entry[0]:o} {entry[1][:600]!r}"
