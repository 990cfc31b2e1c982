"""One sample that two versions do not have alike, and the counts of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["ChangeKind", "RecordChange", "RecordCounts"]

ChangeKind: TypeAlias = Literal["added", "removed", "changed", "moved"]


@dataclass(frozen=True)
class RecordChange:
    """A sample that two versions do not have alike.

    Attributes:
        kind: ``added`` or ``removed``: only the second or the first version has it. ``changed``:
            a field differs. ``moved``: it is the same, in another split.
        source: Source string of its record.
        offset: Offset of its record.
        ordinal: Its number among the samples of the record.
        splits: Its split in the first and in the second version; None where it is not.
        fields: Names of the fields that differ, of a changed sample.
        samples: The sample of the first and of the second version, field → value; None where it is
            not.
        fate: What became of its record in the version that lacks it; None for other kinds.
    """

    kind: ChangeKind
    source: str
    offset: int
    ordinal: int
    splits: tuple[str | None, str | None]
    fields: tuple[str, ...]
    samples: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    fate: str | None


@dataclass
class RecordCounts:
    """Numbers of samples, which grow while two versions are compared.

    Attributes:
        equal: Samples that both versions have, with equal fields, in the same split.
        kinds: Kind of a change → samples.
        changed_and_moved: Those of ``changed`` that are in another split, too.
        fields: Field → changed samples in which it differs.
        moves: ``train → eval`` → samples that moved so, changed ones included.
        removed_fates: What became of the records of removed samples → samples.
        added_fates: What the records of added samples were in the first version → samples.
    """

    equal: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    changed_and_moved: int = 0
    fields: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    removed_fates: Counter[str] = field(default_factory=Counter)
    added_fates: Counter[str] = field(default_factory=Counter)

    @property
    def has_changes(self) -> bool:
        """Whether any sample is not alike in both versions."""
        return self.kinds.total() > 0

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        names: tuple[ChangeKind, ...] = ("added", "removed", "changed", "moved")
        return {
            "equal": self.equal,
            **{name: self.kinds[name] for name in names},
            "changed_and_moved": self.changed_and_moved,
            "fields": dict(self.fields),
            "moves": dict(self.moves),
            "removed_fates": dict(self.removed_fates),
            "added_fates": dict(self.added_fates),
        }
