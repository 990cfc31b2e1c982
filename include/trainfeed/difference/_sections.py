"""The parts of a difference, apart from samples: each compares one kind of facts of two versions.

Generation, plan id and the reason of a rebuild differ between any two generations. They identify a
version and are no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from trainfeed.dataset import Manifest
from trainfeed.dataset.version import STATISTICS
from trainfeed.dataset.waive import gate_facts
from trainfeed.difference._side import Side
from trainfeed.difference._text_changes import TextChange, code_changes, lookup_changes
from trainfeed.difference._value_changes import ValueChange, value_changes
from trainfeed.pipeline.plans import Plan

__all__ = ["Section", "iter_sections"]

_Facts: TypeAlias = Mapping[str, Any]
_REMOVED: Final = "{} was removed by retention"
_NO_PLAN: Final = "the plan of {} is gone"


@dataclass(frozen=True)
class Section:
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

    def to_json(self) -> dict[str, Any]:
        """Return the section as JSON values."""
        return {
            "differs": self.differs,
            "changes": [change.to_json() for change in self.changes],
            "texts": [text.to_json() for text in self.texts],
            "left_out": self.left_out,
        }


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


def _counts(side: Side) -> _Facts | str:
    def facts(manifest: Manifest) -> _Facts:
        return {
            "read": sum(leaf["read"]["records"] for leaf in manifest.ledger.values()),
            "valid": sum(leaf["valid"]["records"] for leaf in manifest.ledger.values()),
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
