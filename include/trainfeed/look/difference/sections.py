"""The parts of a difference, apart from samples: plan, code, lookups, schema, counts, gates."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.datacenters import local_source
from trainfeed.files import FilePath
from trainfeed.pipeline.code_copies import (
    KeptCode,
    KeptLookup,
    ValueChange,
    kept_code,
    kept_lookup,
    value_changes,
)
from trainfeed.pipeline.plans import Plan, plan_of_version
from trainfeed.versions import DatasetFolder, Manifest, Version
from trainfeed.versions.layout import generation_name, is_generation, parse_generation
from trainfeed.versions.retire import generation_for_readers
from trainfeed.versions.version import STATISTICS
from trainfeed.versions.waive import gate_facts
from trainfeed.versions.withdraw import withdrawal_of

# --- One of two versions that are compared: what there is of it, also after its removal


@dataclass(frozen=True)
class Side:
    """A generation of an interval.

    Attributes:
        name: ``<interval>/<generation>``.
        state: ``published``; ``withdrawn``: hidden from readers, its files are there; ``removed``:
            deleted, only its plan may be left.
        version: The version; None if it is removed.
        plan: Its plan; None if the file is gone.
        folder: The data set; None for a version that lies outside of a publication root.
        withdrawn: Who withdrew it, when and why; None if it is not withdrawn.
    """

    name: str
    state: Literal["published", "withdrawn", "removed"]
    version: Version | None
    plan: Plan | None
    folder: DatasetFolder | None
    withdrawn: str | None = None

    @classmethod
    def of(cls, folder: DatasetFolder, interval: str, generation: int | None = None) -> Side:
        """Return a generation of an interval; by default the one for readers.

        Raises:
            NotFoundError: There was never such a generation.
            ChecksumError: Its manifest is not the one that was published.
            FormatError: Its manifest, or its plan, is damaged; the error names the file.
        """
        number = generation_for_readers(folder, interval) if generation is None else generation
        if folder.is_removed(interval, number):
            return cls._removed(folder, interval, number)
        version = Version.resolve(folder, interval, number)
        plan = plan_of_version(folder, interval, version.manifest.plan)
        mark = withdrawal_of(folder, interval, number)
        state: Literal["published", "withdrawn"] = "published" if mark is None else "withdrawn"
        told = None if mark is None else mark.told
        return cls(version.name, state, version, plan, folder, told)

    @classmethod
    def at(cls, path: FilePath) -> Side:
        """Return the version in a folder; raises as ``of`` does."""
        place = Path(local_source(path))
        versions = place.parent.parent
        if versions.name == "versions" and is_generation(place.name):
            folder = DatasetFolder(versions.parent.parent, versions.parent.name)
            return cls.of(folder, place.parent.name, parse_generation(place.name))
        version = Version.open(place)
        return cls(version.name, "published", version, None, None)

    @property
    def manifest(self) -> Manifest | None:
        """The manifest; None if the version is removed."""
        return None if self.version is None else self.version.manifest

    @property
    def seed(self) -> int | None:
        """The seed of the order of samples; None if the plan is gone."""
        seed = None if self.plan is None else self.plan.fingerprint_of["spec"].get("seed")
        return seed if type(seed) is int else None

    def to_json(self) -> dict[str, Any]:
        """Return what identifies the version, and why it was built."""
        known: Manifest | Plan | None = self.manifest or self.plan
        supersedes = None if known is None else known.supersedes
        return {
            "name": self.name,
            "state": self.state,
            "withdrawn": self.withdrawn,
            "path": None if self.version is None else str(self.version.path),
            "rebuild": (supersedes or {}).get("why"),
            "fingerprint": None if known is None else known.fingerprint,
            "content_digest": None if self.manifest is None else self.manifest.content_digest,
        }

    @classmethod
    def _removed(cls, folder: DatasetFolder, interval: str, number: int) -> Side:
        name = generation_name(number)
        plans = [each for each in folder.plan_ids(interval) if each.endswith(f"-{name}")]
        # Several plans of one number: all but one were never published, and no file says which.
        plan = plan_of_version(folder, interval, plans[0]) if len(plans) == 1 else None
        return cls(f"{interval}/{name}", "removed", None, plan, folder)


# --- The lines in which code and lookups differ, from the texts that are kept for each digest

_MOST_LINES: Final = 2_000
_MOST_CHARS: Final = 500
_OUTSIDE: Final = "the version lies outside of a publication root"


@dataclass(frozen=True)
class TextChange(JsonFields):
    """A file that differs.

    Attributes:
        name: Name of the file, or of the lookup.
        lines: Its unified difference, at most 2,000 lines of 500 characters.
        note: Why lines are missing; empty if none is.
    """

    name: str
    lines: tuple[str, ...]
    note: str = ""


def code_changes(
    folders: tuple[DatasetFolder | None, DatasetFolder | None], digests: tuple[str, str]
) -> list[TextChange]:
    """Return the changed files of the code of two digests; one entry with a note if not kept."""
    if digests[0] == digests[1]:
        return []
    first, second = (
        KeptCode(None, _OUTSIDE) if folder is None else kept_code(folder, digest)
        for folder, digest in zip(folders, digests, strict=True)
    )
    old, new = first.texts, second.texts
    if old is None or new is None:
        return [TextChange("code", (), first.why_not or second.why_not)]
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return [_change(name, old.get(name, ""), new.get(name, "")) for name in changed]


def lookup_changes(
    folders: tuple[DatasetFolder | None, DatasetFolder | None],
    old: Mapping[str, str],
    new: Mapping[str, str],
) -> list[TextChange]:
    """Return the changed lookups.

    Args:
        folders: The data sets of both versions.
        old: Name → SHA-256 of the lookups of the first.
        new: The same of the second.
    """
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return [_lookup(folders, name, old.get(name), new.get(name)) for name in names]


def _lookup(
    folders: tuple[DatasetFolder | None, DatasetFolder | None],
    name: str,
    old: str | None,
    new: str | None,
) -> TextChange:
    first, second = (
        _content(folder, digest) for folder, digest in zip(folders, (old, new), strict=True)
    )
    texts = [_text(each.data) for each in (first, second)]
    if first.data is None or second.data is None:
        return TextChange(name, (), first.why_not or second.why_not)
    if texts[0] is None or texts[1] is None:
        note = f"binary: {len(first.data)} → {len(second.data)} bytes"
        return TextChange(name, (), note)
    return _change(name, texts[0], texts[1])


def _content(folder: DatasetFolder | None, digest: str | None) -> KeptLookup:
    if digest is None:
        return KeptLookup(b"")
    if folder is None:
        return KeptLookup(None, _OUTSIDE)
    return kept_lookup(folder, digest)


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None or b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _change(name: str, old: str, new: str) -> TextChange:
    lines = _unified(name, old, new)
    shown = tuple(line[:_MOST_CHARS] for line in islice(lines, _MOST_LINES))
    more = sum(1 for _ in lines)
    return TextChange(name, shown, f"{more} more lines" if more else "")


def _unified(name: str, old: str, new: str) -> Iterator[str]:
    labels = (f"{name} (first)", f"{name} (second)")
    before, after = (text.splitlines() for text in (old, new))
    return difflib.unified_diff(before, after, *labels, n=2, lineterm="")


# --- The parts of a difference, apart from samples: each compares one kind of facts of two versions

_Facts: TypeAlias = Mapping[str, Any]
_REMOVED: Final = "{} was removed by retention"
_NO_PLAN: Final = "the plan of {} is gone"


@dataclass(frozen=True)
class Section(JsonFields, also=("differs",), without=("name",)):
    """One part of a difference.

    Attributes:
        name: ``plan``, ``code``, ``specification``, …
        changes: The values that differ.
        texts: The files that differ, of code and lookups.
        left_out: Why the part could not be compared; empty if it was.
    """

    name: str
    changes: tuple[ValueChange, ...] = ()
    texts: tuple[TextChange, ...] = ()
    left_out: str = ""

    @property
    def differs(self) -> bool:
        """Whether a difference was found."""
        return bool(self.changes or self.texts)


def iter_sections(first: Side, second: Side) -> Iterator[Section]:
    """Yield all parts but the samples.

    Raises:
        ChecksumError: The statistics are not those that were published.
        FormatError: The same, of their form.
        StorageError: They cannot be read.
    """
    yield _compared("plan", first, second, _plan_facts)
    yield _code(first, second)
    yield _compared("specification", first, second, _specification)
    yield _lookups(first, second)
    if any(side.manifest is not None and side.manifest.schemas for side in (first, second)):
        yield _compared("schemas", first, second, _schemas)
    for name, facts in _FACTS.items():
        yield _compared(name, first, second, facts)


def _compared(
    name: str, first: Side, second: Side, facts: Callable[[Side], _Facts | str]
) -> Section:
    """Compare the facts of both sides; a text in their place is the reason why there are none."""
    old, new = facts(first), facts(second)
    if isinstance(old, str) or isinstance(new, str):
        return Section(name, left_out=old if isinstance(old, str) else str(new))
    # Statistics that a later trainfeed has added are missing in earlier versions. A field or split
    # that one version lacks is a change of the schema or of the counts.
    only_shared = name == "statistics"
    return Section(name, tuple(value_changes(old, new, only_shared=only_shared)))


def _code(first: Side, second: Side) -> Section:
    found = _compared("code", first, second, _code_digest)
    if not found.changes:
        return found
    change = found.changes[0]
    texts = code_changes((first.folder, second.folder), (change.old, change.new))
    return Section("code", found.changes, tuple(texts))


def _lookups(first: Side, second: Side) -> Section:
    found = _compared("lookups", first, second, _lookup_digests)
    if not found.changes:
        return found
    old = {change.place: change.old for change in found.changes if change.old is not None}
    new = {change.place: change.new for change in found.changes if change.new is not None}
    texts = lookup_changes((first.folder, second.folder), old, new)
    return Section("lookups", found.changes, tuple(texts))


def _known(side: Side) -> Manifest | Plan | None:
    return side.manifest or side.plan


def _of_either(side: Side, facts: Callable[[Manifest | Plan], _Facts]) -> _Facts | str:
    known = _known(side)
    return f"{_REMOVED.format(side.name)}, and its plan is gone" if known is None else facts(known)


def _of_manifest(side: Side, facts: Callable[[Manifest], _Facts]) -> _Facts | str:
    return _REMOVED.format(side.name) if side.manifest is None else facts(side.manifest)


def _plan_facts(side: Side) -> _Facts | str:
    def facts(known: Manifest | Plan) -> _Facts:
        value = known.to_json() if isinstance(known, Manifest) else known.model_dump()
        names = ("inputs", "gaps", "empty_because", "passed_over")
        return {name: value.get(name) or None for name in names} | {
            "marker": None if side.plan is None else side.plan.marker,
            "uploads": _uploads(known),
        }

    return _of_either(side, facts)


def _uploads(known: Manifest | Plan) -> _Facts:
    if isinstance(known, Manifest):
        files = known.uploads.get("files", [])
    else:
        files = [upload.model_dump() for upload in known.uploads]
    return {each["name"]: {**each, "name": None} for each in files}


def _code_digest(side: Side) -> _Facts | str:
    return _of_either(side, lambda known: {"digest": known.code["digest"]})


def _lookup_digests(side: Side) -> _Facts | str:
    return _of_either(side, lambda known: known.lookups)


def _specification(side: Side) -> _Facts | str:
    if side.plan is None:
        return _NO_PLAN.format(side.name)
    spec = {key: each for key, each in side.plan.fingerprint_of["spec"].items() if key != "schema"}
    rules = int(side.plan.rules)
    return {**spec, "reading_rules": rules, "quality": side.plan.quality}


def _libraries(side: Side) -> _Facts | str:
    return _of_either(side, lambda known: known.libraries)


def _schema(side: Side) -> _Facts | str:
    return _of_either(
        side, lambda known: {each["name"]: {**each, "name": None} for each in known.fields}
    )


def _schemas(side: Side) -> _Facts | str:
    """Return digests of the schemas of values and keys: of readers by part, of writers by id."""

    def facts(manifest: Manifest) -> _Facts:
        readers = manifest.schemas.get("readers", [])
        writers = manifest.schemas.get("writers", [])
        return {
            "readers": {each["part"]: each["sha256"] for each in readers},
            "writers": {f"{e['registry']}/{e['id']}": e["sha256"] or "unknown" for e in writers},
        }

    return _of_manifest(side, facts)


def _counts(side: Side) -> _Facts | str:
    def facts(manifest: Manifest) -> _Facts:
        return {
            "read": manifest.records_read,
            "valid": manifest.records_valid,
            "quarantined": manifest.quarantine["records"],
            "filtered": sum(manifest.filtered.values()),
            "samples": {name: split.samples for name, split in manifest.splits.items()},
            "late": {key: each for key, each in manifest.late.items() if key != "policy"},
        }

    return _of_manifest(side, facts)


def _reasons(side: Side) -> _Facts | str:
    return _of_manifest(
        side,
        lambda manifest: {
            "quarantined": manifest.quarantine["reasons"],
            "filtered": manifest.filtered,
        },
    )


def _gates(side: Side) -> _Facts | str:
    return _of_manifest(
        side,
        lambda manifest: {
            **{
                f"{number}.{gate.get('check', 'gate')}": gate_facts(gate)
                for number, gate in enumerate(manifest.gates, 1)
            },
            "waivers": [
                {**each, "gates": list(map(gate_facts, each["gates"]))} for each in manifest.waivers
            ],
        },
    )


def _statistics(side: Side) -> _Facts | str:
    if side.version is None:
        return _REMOVED.format(side.name)
    if STATISTICS not in side.version.manifest.file_digests():
        return f"{side.name} was published without statistics"
    return side.version.statistics()


_FACTS: Final[Mapping[str, Callable[[Side], _Facts | str]]] = {
    "libraries": _libraries,
    "schema": _schema,
    "counts": _counts,
    "reasons": _reasons,
    "gates": _gates,
    "statistics": _statistics,
}
