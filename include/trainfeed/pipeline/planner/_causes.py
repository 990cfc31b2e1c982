"""The causes that make a published version outdated: values that differ from those of now.

The plan file of the version has the values of its fingerprint. They count only if their digest is
the fingerprint in the manifest. Without the plan file, the manifest has some of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import read_plain
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.planner._interval_uploads import told_uploads
from trainfeed.pipeline.planner._recipe import Recipe
from trainfeed.pipeline.plans import first_few, kept_code
from trainfeed.uploads import AppliedUpload

__all__ = ["Cause", "PublishedVersion", "causes_of", "is_given_in", "reason_of"]

_DIGEST_CHARS: Final = 64
_SHOWN_DIGEST_CHARS: Final = 12
_SHOWN_CHARS: Final = 60
_REASON_CHARS: Final = 500
_PREFIX: Final = "outdated: "
_UNKNOWN: Final = "unknown"


class Cause(NamedTuple):
    """A value of the fingerprint that is not the same any more.

    Attributes:
        place: Where the value stands: ``code.preprocess.py``, ``lookups.airports``, ``spec.seed``;
            ``code`` if the text of the earlier code was not kept; ``unknown`` if nothing kept tells
            which value it is.
        old: The value in the version, as a short text; None if it had none.
        new: The value now, likewise.
    """

    place: str
    old: str | None
    new: str | None

    @property
    def text(self) -> str:
        """The cause as one line."""
        if self.place == _UNKNOWN:
            return "a value of the fingerprint that no kept file shows"
        return f"{self.place}: {self.old or 'none'} → {self.new or 'none'}"

    def to_json(self) -> dict[str, str | None]:
        """Return the cause as commands print it."""
        return {"place": self.place, "old": self.old, "new": self.new}


class PublishedVersion(NamedTuple):
    """The published version of an interval.

    Attributes:
        folder: The data set below the publication root.
        interval: Name of the interval.
        manifest: The manifest.
    """

    folder: DatasetFolder
    interval: str
    manifest: Manifest

    @property
    def name(self) -> str:
        """The version, as in ``clicks/2024-03-01/g0001``."""
        generation = generation_name(self.manifest.generation)
        return f"{self.folder.name}/{self.interval}/{generation}"


def causes_of(
    version: PublishedVersion, recipe: Recipe, now: JsonObject, uploads: Sequence[AppliedUpload]
) -> tuple[Cause, ...]:
    """Return what differs between a published version and the values of now, in order of place.

    Args:
        version: The version.
        recipe: The recipe of now.
        now: The values of a fingerprint of now, which differs from that of the version.
        uploads: The uploads of now.

    Raises:
        StorageError: The publication root refused or failed.
    """
    published = _published_values(version)
    if published is None:
        published = _values_of_manifest(version.manifest)
        spec: Any = now["spec"]
        now = {key: now.get(key) for key in published} | {"spec": {"schema": spec["schema"]}}
    if published["code"] != now["code"]:
        kept = kept_code(version.folder, str(published["code"])).texts
        if kept is not None:
            published = {**published, "code": {name: _digest(kept[name]) for name in kept}}
            now = {**now, "code": recipe.code_files}
    then = told_uploads(published, version.manifest.uploads.get("files", []))
    today = told_uploads(_as_json(now), [asdict(upload) for upload in uploads])
    return tuple(_differences(then, today, "")) or (Cause(_UNKNOWN, None, None),)


def reason_of(causes: Sequence[Cause], why: str | None) -> str:
    """Return the reason that the next generation records: equal causes give an equal text.

    Args:
        causes: Why the version is outdated.
        why: The reason that a person gave, or None.
    """
    text = f"{_PREFIX}{first_few([cause.text for cause in causes])}"
    return _cut(text if why is None else f"{why} ({text})", _REASON_CHARS)


def is_given_in(why: str, recorded: str) -> bool:
    """Return whether a recorded reason is the one that a person gave, alone or before causes."""
    begin = f"{why} ({_PREFIX}"
    # A long text was cut; what is left of it decides, rather once too often than once too seldom.
    is_cut = len(recorded) == _REASON_CHARS and begin.startswith(recorded[:-1])
    return recorded == why or recorded.startswith(begin) or is_cut


def _published_values(version: PublishedVersion) -> JsonObject | None:
    """Return the values of the version's fingerprint; None if no file has them."""
    folder, interval, current = version
    try:
        path = folder.plan(interval, current.plan)
        data = read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES)
        values = canonical_json.loads(data, path=str(path))["fingerprint_of"]
        is_proved = canonical_json.sha256_of(values) == current.fingerprint
    except (FormatError, NotFoundError, KeyError, TypeError):
        return None
    return values if is_proved else None


def _values_of_manifest(current: Manifest) -> JsonObject:
    return {
        "format": current.format,
        "dataset": current.dataset,
        "interval": current.interval.model_dump(),
        "spec": {"schema": current.fields},
        "code": current.code["digest"],
        "lookups": current.lookups,
    }


def _as_json(values: JsonObject) -> JsonObject:
    """Return values as they are after a way through a file, where tuples become lists."""
    read: JsonObject = canonical_json.loads(canonical_json.dumps(values))
    return read


def _differences(old: object, new: object, place: str) -> Iterator[Cause]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{place}.{key}" if place else key)
    elif _is_table(old) and _is_table(new):
        yield from _differences(_by_name(old), _by_name(new), place)
    elif old != new:
        yield Cause(place, _shown(old), _shown(new))


def _is_table(value: Any) -> bool:
    """Return whether a value is a list of entries with names, as a schema is."""
    return isinstance(value, list) and all(
        isinstance(each, Mapping) and isinstance(each.get("name"), str) for each in value
    )


def _by_name(value: Any) -> JsonObject:
    """Return the entries by name, each with its place, because their order counts."""
    return {each["name"]: {**each, "place": place} for place, each in enumerate(value)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _shown(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and len(value) == _DIGEST_CHARS:
        return value[:_SHOWN_DIGEST_CHARS]
    text = value if isinstance(value, str) else canonical_json.dumps(value).decode()
    return _cut(text, _SHOWN_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
