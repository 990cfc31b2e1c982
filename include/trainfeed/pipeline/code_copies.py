"""Copies of the code and the lookup files of every plan, and what differs from those of today."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.core import canonical_json, faults
from trainfeed.core.canonical_json import JsonFields
from trainfeed.errors import AccessDeniedError, FormatError, NotFoundError, StorageError
from trainfeed.files import open_plain, read_plain
from trainfeed.files.stores import posix
from trainfeed.functions import code_texts, digest_of_texts
from trainfeed.pipeline.plans import first_few
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder

# --- The code of every plan, kept below the publication root, and its difference from today's code

_MAX_BYTES: Final = 4 << 20
_MAX_LINES: Final = 60
_MAX_CHARS: Final = 200
_MODE: Final = 0o600


@dataclass(frozen=True)
class KeptCode:
    """What is known of the text of the code of a digest.

    Attributes:
        texts: File → text; None where they are not at hand.
        why_not: Why they are not; empty where they are.
    """

    texts: dict[str, str] | None
    why_not: str = ""


def keep_code(folder: DatasetFolder, spec: DatasetSpec) -> None:
    """Keep the text of a data set's code, unless it is kept or larger than 4 MiB.

    Raises:
        StorageError: The publication root refused or failed.
    """
    texts = code_texts(spec)
    path = folder.code(digest_of_texts(texts))
    with posix.map_errors(path):
        if path.exists():
            return
    posix.make_public_dir(path.parent)
    kept = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
    data = canonical_json.dumps(kept)
    if len(data) <= _MAX_BYTES:
        posix.create_exclusive(path, data, mode=_MODE)


def _code_difference(folder: DatasetFolder, old: str, texts: Mapping[str, bytes]) -> str:
    """Describe how the code differs from the code with digest ``old``.

    Returns:
        The names of changed files, then a unified diff of at most 60 lines; one sentence if the
        old text was not kept.
    """
    new = {name: data.decode("utf-8", "replace") for name, data in texts.items()}
    found = kept_code(folder, old)
    if (kept := found.texts) is None:
        return f"the code ({', '.join(new)}) differs from the code of that time: {found.why_not}"
    changed = sorted(name for name in kept.keys() | new.keys() if kept.get(name) != new.get(name))
    lines = [line for name in changed for line in _diff(name, kept, new)]
    more = [f"… and {len(lines) - _MAX_LINES} more lines"] if len(lines) > _MAX_LINES else []
    return "\n".join([f"{', '.join(changed)} changed", *lines[:_MAX_LINES], *more])


def told_changes(
    folder: DatasetFolder,
    texts: Mapping[str, bytes],
    old: Mapping[str, object],
    new: Mapping[str, object],
) -> tuple[str, str]:
    """Describe how the fingerprint of a published version differs from that of now.

    Args:
        folder: The data set.
        texts: The code of now, as ``code_texts`` has read it.
        old: The values of the version's fingerprint; ``code`` is the digest of its code.
        new: The same values of now.

    Returns:
        One line with the values that differ, as ``place: old → new``; and the difference of the
        code, which begins with a line break, or is empty.
    """
    changes = [
        f"{each.place}: {each.old!r} → {each.new!r}"
        for each in value_changes(old, {**new, "code": old["code"]})
    ]
    if old["code"] == new["code"]:
        return first_few(changes), ""
    difference = _code_difference(folder, str(old["code"]), texts)
    return first_few([*changes, "the code"]), f"\n{difference}"


def _diff(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    before, after = (texts.get(name, "").splitlines() for texts in (old, new))
    labels = f"{name} as published", f"{name} now"
    for line in difflib.unified_diff(before, after, *labels, n=1, lineterm=""):
        yield line[:_MAX_CHARS]


def kept_code(folder: DatasetFolder, digest: str) -> KeptCode:
    """Return the kept text of a code digest; never an error."""
    path = folder.code(digest)
    try:
        found = canonical_json.loads(
            read_plain(path, follow=False, max_bytes=_MAX_BYTES), path=str(path)
        )
    except NotFoundError:
        return KeptCode(None, f"its text was not kept in {path}")
    except AccessDeniedError:
        return KeptCode(None, "only the account that builds may read its kept text")
    except StorageError as error:
        return KeptCode(None, f"its kept text cannot be read: {error}")
    except FormatError as error:
        return KeptCode(None, f"its kept text is damaged; remove {path}: {error}")
    is_text = isinstance(found, dict) and all(isinstance(text, str) for text in found.values())
    if (
        not is_text
        or digest_of_texts({name: text.encode() for name, text in found.items()}) != digest
    ):
        why = f"its kept text is damaged: expected the digest of its name; remove {path}"
        return KeptCode(None, why)
    return KeptCode(dict(found))


# --- Values that differ between two JSON documents, each with its place


@dataclass(frozen=True)
class ValueChange(JsonFields, also=("place",), without=("path",)):
    """A value that differs.

    Attributes:
        path: Names of the keys that lead to it.
        old: JSON value in the first document; None where it has none.
        new: The same of the second.
    """

    path: tuple[str, ...]
    old: Any
    new: Any

    @property
    def place(self) -> str:
        """The names of the path, joined by dots."""
        return ".".join(self.path)


def value_changes(
    old: Any,
    new: Any,
    path: tuple[str, ...] = (),
    *,
    only_shared: bool = False,
    named: bool = False,
) -> Iterator[ValueChange]:
    """Yield every value that differs, in order of places; lists are compared as a whole.

    Args:
        old: JSON value in the first document.
        new: The same of the second.
        path: Names of the keys that lead to both.
        only_shared: Whether keys that only one of them has are passed over.
        named: Whether lists of entries with names, as a schema is, are compared by these names; the
            place of an entry is then one of its values, because their order counts.
    """
    if named and _is_table(old) and _is_table(new):
        old, new = (
            {each["name"]: {**each, "place": place} for place, each in enumerate(value)}
            for value in (old, new)
        )
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old} & {*new} if only_shared else {*old, *new}):
            yield from value_changes(
                old.get(key), new.get(key), (*path, key), only_shared=only_shared, named=named
            )
    elif old != new:
        yield ValueChange(path, old, new)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, Mapping) and isinstance(each.get("name"), str) for each in value
    )


# --- The lookup files of every plan, kept below the publication root, to show what changed in them

_MAX_LOOKUP_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class KeptLookup:
    """What is known of the content of a lookup file.

    Attributes:
        data: Its bytes; None where they are not at hand.
        why_not: Why they are not; empty where they are.
    """

    data: bytes | None
    why_not: str = ""


def keep_lookups(folder: DatasetFolder, spec: DatasetSpec) -> None:
    """Keep the lookup files of a data set, each unless it is kept, or larger than 1 MiB.

    Raises:
        StorageError: A file cannot be read, or the publication root refused or failed.
    """
    if not spec.keep_lookups:
        return
    for name in sorted(spec.lookups):
        with open_plain(spec.folder / spec.lookups[name], follow=True) as file:
            data = file.read(_MAX_LOOKUP_BYTES + 1)
        if len(data) <= _MAX_LOOKUP_BYTES:
            _keep(folder, data)


def kept_lookup(folder: DatasetFolder, digest: str) -> KeptLookup:
    """Return the kept bytes of a lookup file, which have this SHA-256; never an error."""
    path = folder.lookup(digest)
    try:
        data = read_plain(path, follow=False, max_bytes=_MAX_LOOKUP_BYTES)
    except NotFoundError:
        why = "its content was not kept: it is larger than 1 MiB, or not to be kept"
    except AccessDeniedError:
        why = "only the account that builds may read its kept content"
    except (FormatError, StorageError) as error:
        why = f"its kept content cannot be read: {error}"
    else:
        if hashlib.sha256(data).hexdigest() == digest:
            return KeptLookup(data)
        why = f"its kept content is damaged: another SHA-256 than its name; remove {path}"
    return KeptLookup(None, why)


def _keep(folder: DatasetFolder, data: bytes) -> None:
    # Named by its own digest: a file that changed since the plan has another one.
    path = folder.lookup(hashlib.sha256(data).hexdigest())
    with posix.map_errors(path):
        if path.exists():
            return
    posix.make_public_dir(path.parent)
    faults.point("plan.before_kept_lookup")
    posix.create_exclusive(path, data, mode=_MODE)
    faults.point("plan.after_kept_lookup")
